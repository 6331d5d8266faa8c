//! `Outbox`: a thread's response data for its connection, which belongs to the loop's thread. `delivery` uses it.
//!
//! The thread that makes the parts frames them. The loop writes them, and is woken once for all parts queued by then.

use crate::ffi::Object;
use crate::http::exchange::reply::FilePart;
use crate::http::exchange::response_state::Framed;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// When this much is queued, the thread waits.
pub const HIGH_BYTES: usize = 64 * 1024;

pub enum Item {
    Part(Framed, Object<PyBytes>),
    /// The rest of the body; the thread waits for its end.
    File(FilePart),
    /// The application has ended.
    End,
}

#[derive(Default)]
pub struct Outbox {
    pub items: VecDeque<Item>,
    pub len_bytes: usize,
    /// A delivery is queued on the loop.
    pub is_queued: bool,
    /// Threads waiting for room.
    pub waiters: Vec<Py<PyAny>>,
    /// The wait for the end of a file, and why it failed.
    pub file_waiter: Option<Py<PyAny>>,
    pub file_error: Option<PyErr>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.is_queued
    }

    pub fn push(
        &mut self,
        framed: Framed,
        body: Object<PyBytes>,
        len_bytes: usize,
    ) -> Option<Object<PyBytes>> {
        self.len_bytes += framed.out.len() + if framed.tail.is_some() { len_bytes } else { 0 };
        if let Some(Item::Part(last, _)) = self.items.back_mut()
            && last.tail.is_none()
            && framed.tail.is_none()
            && !last.out.is_empty()
        {
            last.out.extend_from_slice(&framed.out);
            last.ends = framed.ends;
            last.body_bytes += framed.body_bytes;
            return Some(body);
        }
        self.items.push_back(Item::Part(framed, body));
        None
    }
}
