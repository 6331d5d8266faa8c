//! The datagrams that a transport has still to send, in order and with their destinations.

use oneloop_engine::sys::address::Address;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// What asyncio adds to a queued datagram's size (since 3.12).
const HEADER_BYTES: usize = if cfg!(Py_3_12) { 8 } else { 0 };

pub enum Destination {
    /// The peer that the socket is connected to.
    Connected,
    Raw(Address),
    /// An address that the `socket` module must resolve or reject.
    Unresolved(Py<PyAny>),
}

pub struct Datagram {
    pub data: Py<PyBytes>,
    pub to: Destination,
    len_bytes: usize,
}

impl Datagram {
    pub fn new(data: Bound<'_, PyBytes>, to: Destination) -> Self {
        let len_bytes = data.as_bytes().len() + HEADER_BYTES;
        Self { data: data.unbind(), to, len_bytes }
    }
}

#[derive(Default)]
pub struct DatagramQueue {
    queue: VecDeque<Datagram>,
    len_bytes: usize,
}

impl DatagramQueue {
    /// Includes asyncio's extra bytes for each datagram's header.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn push(&mut self, datagram: Datagram) {
        self.len_bytes += datagram.len_bytes;
        self.queue.push_back(datagram);
    }

    /// Puts a datagram back that the socket did not take.
    pub fn push_front(&mut self, datagram: Datagram) {
        self.len_bytes += datagram.len_bytes;
        self.queue.push_front(datagram);
    }

    pub fn pop(&mut self) -> Option<Datagram> {
        let datagram = self.queue.pop_front()?;
        self.len_bytes -= datagram.len_bytes;
        Some(datagram)
    }
}
