//! `Gathered`: a body that somebody waits for as a whole, in the memory of the bytes object that it becomes.
//!
//! The length is known, so a long body is received there directly: without pieces that are put together afterwards, and
//! without the page faults of a new block for each of them.

use crate::ffi::bytes::{self, BytesRoom};
use oneloop_engine::sys::{memory, socket};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// One receive takes no more, so that other connections have their turn; as in the transports.
pub const RECEIVED_MOST: usize = 256 * 1024;

pub struct Gathered {
    room: BytesRoom,
    /// Its first bytes, which were written.
    len: usize,
}

impl Gathered {
    /// With room for `wanted` bytes, or for `least` if there is no memory for so many.
    pub fn new(py: Python<'_>, wanted: usize, least: usize) -> PyResult<Self> {
        memory::keep_large_blocks();
        let room = match BytesRoom::new(py, wanted) {
            Err(error) if wanted > least && error.is_instance_of::<PyMemoryError>(py) => {
                BytesRoom::new(py, least)
            }
            room => room,
        };
        Ok(Self { room: room?, len: 0 })
    }

    fn rest(&mut self, py: Python<'_>) -> &mut [MaybeUninit<u8>] {
        &mut self.room.as_mut_slice(py)[self.len..]
    }

    pub fn is_full(&mut self, py: Python<'_>) -> bool {
        self.rest(py).is_empty()
    }

    /// Adds as much of `data` as there is room for. Returns the rest.
    pub fn add<'a>(&mut self, py: Python<'_>, data: &'a [u8]) -> &'a [u8] {
        let rest = self.rest(py);
        let (taken, after) = data.split_at(data.len().min(rest.len()));
        rest[..taken.len()].copy_from_slice(bytes::as_uninit(taken));
        self.len += taken.len();
        after
    }

    /// One receive of the `left` bytes that are missing, and of none behind them: those are seen before the connection
    /// is used again. Returns what has been added.
    pub fn receive(&mut self, py: Python<'_>, fd: RawFd, left: u64) -> io::Result<&[u8]> {
        let rest = self.rest(py);
        let most = usize::try_from(left).map_or(RECEIVED_MOST, |left| left.min(RECEIVED_MOST));
        let most = rest.len().min(most);
        let len = socket::recv(fd, &mut rest[..most])?;
        let start = self.len;
        self.len += len;
        Ok(bytes::written(&self.room.as_mut_slice(py)[start..], len))
    }

    pub fn finish(self, py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
        self.room.completed(py, self.len)
    }
}
