//! `Pieces`: what was received of a body, and not taken.
//!
//! Short ones are put together: a server that sends a byte at a time costs no more memory than another one.

use crate::ffi::{Object, bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io::IoSlice;

/// Longer ones stay as they are.
const SHORT_BYTES: usize = 1024;

#[derive(Default)]
pub struct Pieces {
    queue: Vec<Object<PyBytes>>,
    len_bytes: usize,
}

impl Pieces {
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
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

    pub fn take(&mut self) -> Vec<Object<PyBytes>> {
        self.len_bytes = 0;
        std::mem::take(&mut self.queue)
    }
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
