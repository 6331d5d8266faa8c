//! `Shipment`: data of a file that a thread writes.

use std::sync::{Arc, Mutex};

/// Data that a thread writes, and its progress. The data belongs to the file until all of it is written.
#[derive(Default)]
pub struct Sent {
    pub data: Vec<u8>,
    pub written: usize,
    /// The kernel's position afterwards.
    pub position: i64,
}

/// Shared with the thread.
pub type Shipment = Arc<Mutex<Sent>>;
