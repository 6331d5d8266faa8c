//! `Pieces`: what was received of a body, and not taken.
//!
//! Short ones are put together: a server that sends a byte at a time costs no more memory than another one. A long body
//! that somebody waits for as a whole is gathered in one.

use super::gathered::{Gathered, RECEIVED_MOST};
use crate::ffi::{Object, bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;

/// Longer ones stay as they are.
const SHORT_BYTES: usize = 1024;
/// Room is made for as much because of an announcement alone.
const MOST_FORETOLD: usize = 64 << 20;

#[derive(Default)]
pub struct Pieces {
    queue: Vec<Object<PyBytes>>,
    /// What follows them.
    gathered: Option<Box<Gathered>>,
    len_bytes: usize,
}

impl Pieces {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.gathered.is_none()
    }

    /// Whether all that comes is gathered.
    pub fn gathers(&self) -> bool {
        self.gathered.is_some()
    }

    /// Takes the last one off if one of `len` bytes, which comes next, is put to it: pieces of about the same length
    /// become one of twice the length, and so on.
    pub fn pop_short(&mut self, py: Python<'_>, len: usize) -> Option<Object<PyBytes>> {
        let last_len = self.queue.last()?.bind(py).as_bytes().len();
        if last_len > len || len > SHORT_BYTES {
            return None;
        }
        self.len_bytes -= last_len;
        self.queue.pop()
    }

    /// Returns the length of all.
    pub fn push(&mut self, py: Python<'_>, piece: Object<PyBytes>) -> usize {
        self.len_bytes += piece.bind(py).as_bytes().len();
        self.queue.push(piece);
        self.len_bytes
    }

    /// Adds `data`, behind which `left` bytes are missing, to one object for all. Returns the length of all.
    pub fn gather(&mut self, py: Python<'_>, data: &[u8], left: u64) -> PyResult<usize> {
        let mut data = data;
        if self.gathered.is_none() {
            let arrived = self.len_bytes + data.len();
            let wanted = foretold(arrived as u64 + left, arrived);
            let mut gathered = Gathered::new(py, wanted, arrived)?;
            for piece in std::mem::take(&mut self.queue) {
                gathered.add(py, piece.bind(py).as_bytes());
            }
            self.gathered = Some(Box::new(gathered));
        }
        while let Some(gathered) = self.make_room(py, data.len() as u64 + left)? {
            let rest = gathered.add(py, data);
            self.len_bytes += data.len() - rest.len();
            data = rest;
            if data.is_empty() {
                break;
            }
        }
        Ok(self.len_bytes)
    }

    /// What is gathered, with room for more of the `missing` bytes; None if nothing is.
    fn make_room(&mut self, py: Python<'_>, missing: u64) -> PyResult<Option<&mut Gathered>> {
        let Some(gathered) = &mut self.gathered else { return Ok(None) };
        if missing > 0 && gathered.is_full(py) {
            let wanted = foretold(missing, self.len_bytes);
            let next = Gathered::new(py, wanted, wanted.min(RECEIVED_MOST))?;
            let full = std::mem::replace(&mut **gathered, next);
            self.queue.push(Object::new(full.finish(py)?));
        }
        Ok(self.gathered.as_deref_mut())
    }

    /// If the body is gathered: one receive of the `left` bytes of it that are missing. Returns those that have come.
    pub fn receive(
        &mut self,
        py: Python<'_>,
        fd: RawFd,
        left: u64,
    ) -> PyResult<Option<io::Result<&[u8]>>> {
        self.make_room(py, left)?;
        let Some(gathered) = &mut self.gathered else { return Ok(None) };
        let received = gathered.receive(py, fd, left);
        if let Ok(data) = &received {
            self.len_bytes += data.len();
        }
        Ok(Some(received))
    }

    pub fn take(&mut self, py: Python<'_>) -> PyResult<Vec<Object<PyBytes>>> {
        self.len_bytes = 0;
        let mut pieces = std::mem::take(&mut self.queue);
        if let Some(gathered) = self.gathered.take() {
            pieces.push(Object::new(gathered.finish(py)?));
        }
        Ok(pieces)
    }
}

/// How many of the bytes that a server has announced to make room for: no more than have arrived, beyond what any server
/// may have for its word.
fn foretold(announced: u64, arrived: usize) -> usize {
    let most = arrived.max(MOST_FORETOLD);
    usize::try_from(announced).map_or(most, |announced| announced.min(most))
}

/// Several pieces as one object.
pub fn joined<'py>(py: Python<'py>, pieces: &[Object<PyBytes>]) -> PyResult<Bound<'py, PyBytes>> {
    if let [piece] = pieces {
        return Ok(piece.bind(py).clone());
    }
    let parts: Vec<_> =
        pieces.iter().map(|piece| IoSlice::new(piece.bind(py).as_bytes())).collect();
    bytes::joined(py, &parts)
}
