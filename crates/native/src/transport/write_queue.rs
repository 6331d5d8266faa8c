//! A transport's unsent data: segments in order, where small ones are copied together.
//!
//! A single write of a `bytes` object is kept by reference. Later writes of up to `GATHER` bytes are copied into one
//! segment, because copying 64 bytes costs less than another segment costs the kernel. Mutable sources are always
//! copied, because the caller may change them after `write`.

use oneloop_engine::sys::socket;
use pyo3::Py;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;

/// Writes up to this length are copied into one segment.
const GATHER: usize = 1024;
/// The maximum length of a segment of copies.
const GATHERED_MAX: usize = 64 * 1024;
/// Segments per system call; with more than this the call's fixed cost no longer matters.
const SEGMENTS: usize = 64;

enum Segment {
    Object(Py<PyBytes>),
    Copy(Vec<u8>),
}

impl Segment {
    fn bytes<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Object(object) => object.as_bytes(py),
            Self::Copy(copy) => copy,
        }
    }
}

/// How a descriptor is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    Socket,
    Pipe,
}

impl Channel {
    /// One system call for one segment.
    pub fn send(self, fd: RawFd, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket => socket::send(fd, data),
            Self::Pipe => socket::write_vectored(fd, &[IoSlice::new(data)]),
        }
    }
}

#[derive(Default)]
pub struct WriteQueue {
    /// The first segment is stored separately: most queues never hold a second one, and an empty `VecDeque` owns no
    /// memory.
    head: Option<Segment>,
    tail: VecDeque<Segment>,
    /// Bytes of the head that are already sent.
    sent: usize,
    len_bytes: usize,
}

impl WriteQueue {
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// Queues an immutable object, starting at byte `from`.
    pub fn push_object(&mut self, object: &Bound<'_, PyBytes>, from: usize) {
        let data = &object.as_bytes()[from..];
        if data.is_empty() {
            return;
        }
        if self.head.is_none() && from == 0 {
            self.len_bytes += data.len();
            self.head = Some(Segment::Object(object.clone().unbind()));
        } else if self.head.is_none() {
            self.len_bytes += data.len();
            self.sent = from;
            self.head = Some(Segment::Object(object.clone().unbind()));
        } else if data.len() <= GATHER || from != 0 {
            self.push_copy(data);
        } else {
            self.len_bytes += data.len();
            self.tail.push_back(Segment::Object(object.clone().unbind()));
        }
    }

    /// Queues a copy.
    pub fn push_copy(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.len_bytes += data.len();
        if self.head.is_none() {
            self.head = Some(Segment::Copy(data.to_vec()));
            return;
        }
        let last = match self.tail.back_mut() {
            Some(last) => Some(last),
            None => self.head.as_mut(),
        };
        if let Some(Segment::Copy(gathered)) = last
            && gathered.len() + data.len() <= GATHERED_MAX
        {
            gathered.extend_from_slice(data);
            return;
        }
        let mut gathered = Vec::with_capacity(data.len().max(GATHER));
        gathered.extend_from_slice(data);
        self.tail.push_back(Segment::Copy(gathered));
    }

    /// Removes `sent` more bytes from the front.
    fn advance(&mut self, py: Python<'_>, sent: usize) {
        self.len_bytes -= sent;
        self.sent += sent;
        while let Some(head) = &self.head {
            let len = head.bytes(py).len();
            if self.sent < len {
                return;
            }
            self.sent -= len;
            self.head = self.tail.pop_front();
        }
        debug_assert_eq!((self.sent, self.len_bytes), (0, 0), "an empty queue has nothing sent");
        // An idle connection keeps no memory for its queue.
        self.tail = VecDeque::new();
    }

    /// Sends as much as the descriptor takes. `Ok(sent)` with a non-empty queue means that it takes no more now.
    pub fn send(&mut self, py: Python<'_>, fd: RawFd, channel: Channel) -> io::Result<usize> {
        let mut total = 0;
        while let Some(head) = &self.head {
            let first = &head.bytes(py)[self.sent..];
            let offered;
            let result = if self.tail.is_empty() {
                offered = first.len();
                channel.send(fd, first)
            } else {
                let mut segments = [IoSlice::new(&[]); SEGMENTS];
                segments[0] = IoSlice::new(first);
                let mut count = 1;
                for (slot, segment) in segments[1..].iter_mut().zip(&self.tail) {
                    *slot = IoSlice::new(segment.bytes(py));
                    count += 1;
                }
                offered = segments[..count].iter().map(|s| s.len()).sum();
                match channel {
                    Channel::Socket => socket::send_vectored(fd, &segments[..count]),
                    Channel::Pipe => socket::write_vectored(fd, &segments[..count]),
                }
            };
            match result {
                Ok(sent) => {
                    self.advance(py, sent);
                    total += sent;
                    if sent < offered {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }
}
