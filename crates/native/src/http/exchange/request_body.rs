//! `RequestBody`: the part of a request's body that the application has not taken yet.

use crate::ffi::fallible;
use crate::ffi::{Object, bytes};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// When this much of a body is buffered, reading is paused.
const HIGH_BYTES: usize = 64 * 1024;

/// Pieces of a body up to this length are put together, unless they are the first.
const SHORT_PIECE_BYTES: usize = 1024;

#[derive(Default)]
pub struct RequestBody {
    pieces: VecDeque<Object<PyBytes>>,
    /// Short pieces behind them: an object for each would use many times the memory of its data.
    short: Vec<u8>,
    pub len_bytes: usize,
    /// The peer may have to wait until some of it is taken: its window is used up.
    pub is_window_used: bool,
    /// The whole body was received.
    pub is_complete: bool,
    /// The application was told so.
    pub is_told: bool,
}

impl RequestBody {
    pub fn new(is_complete: bool) -> Self {
        Self { is_complete, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// No more is needed before some of it is taken.
    pub fn is_enough(&self) -> bool {
        self.len_bytes > HIGH_BYTES || self.is_window_used
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
        self.short = Vec::new();
        self.len_bytes = 0;
    }

    /// Without memory for it, the body is as it was.
    pub fn push(&mut self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        if data.is_empty() {
            return Ok(());
        }
        if !self.is_empty() && data.len() <= SHORT_PIECE_BYTES {
            self.short.extend_from_slice(data);
        } else {
            self.end_short(py)?;
            self.pieces.push_back(Object::new(fallible::bytes(py, data)?));
        }
        self.len_bytes += data.len();
        Ok(())
    }

    fn end_short(&mut self, py: Python<'_>) -> PyResult<()> {
        if !self.short.is_empty() {
            self.pieces.push_back(Object::new(fallible::bytes(py, &self.short)?));
            self.short = Vec::new();
        }
        Ok(())
    }

    pub fn take(&mut self, py: Python<'_>) -> PyResult<VecDeque<Object<PyBytes>>> {
        self.end_short(py)?;
        self.len_bytes = 0;
        self.is_window_used = false;
        Ok(std::mem::take(&mut self.pieces))
    }
}

/// The pieces as one object.
pub fn joined<'py>(
    py: Python<'py>,
    pieces: &VecDeque<Object<PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    if let [piece] = pieces.as_slices().0
        && pieces.len() == 1
    {
        return Ok(piece.bind(py).clone());
    }
    let parts: Vec<_> =
        pieces.iter().map(|piece| IoSlice::new(piece.bind(py).as_bytes())).collect();
    bytes::joined(py, &parts)
}
