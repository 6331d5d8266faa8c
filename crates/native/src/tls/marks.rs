//! `Marks`: the water marks of a TLS transport, as `asyncio.sslproto` has them: from the high mark on it is paused (a plain
//! transport's protocol only above it), at the low mark or below it goes on.

use crate::transport::{Mark, marks};
use pyo3::prelude::*;

/// `asyncio.constants.FLOW_CONTROL_HIGH_WATER_SSL_WRITE`, in bytes.
const WRITES: usize = 512 * 1024;
/// `FLOW_CONTROL_HIGH_WATER_SSL_READ`
const READS: usize = 256 * 1024;

#[derive(Default)]
pub struct Marks {
    low: usize,
    high: usize,
    is_paused: bool,
}

impl Marks {
    pub fn of_writes() -> Self {
        Self { low: WRITES / 4, high: WRITES, is_paused: false }
    }

    pub fn of_reads() -> Self {
        Self { low: READS / 4, high: READS, is_paused: false }
    }

    /// The marks (low, high) that a program asks for; ValueError unless high >= low >= 0.
    pub fn checked_for_writes(high: Option<Mark>, low: Option<Mark>) -> PyResult<(usize, usize)> {
        marks(high, low, WRITES)
    }

    pub fn checked_for_reads(high: Option<Mark>, low: Option<Mark>) -> PyResult<(usize, usize)> {
        marks(high, low, READS)
    }

    pub fn set_limits(&mut self, (low, high): (usize, usize)) {
        (self.low, self.high) = (low, high);
    }

    pub fn limits(&self) -> (usize, usize) {
        (self.low, self.high)
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Some(true): it must be paused now; Some(false): it must go on. An empty buffer never pauses anybody, or, with a
    /// high mark of 0, nobody would be told to go on.
    pub fn turn(&mut self, len: usize) -> Option<bool> {
        if !self.is_paused && len >= self.high && len > 0 {
            self.is_paused = true;
            Some(true)
        } else if self.is_paused && len <= self.low {
            self.is_paused = false;
            Some(false)
        } else {
            None
        }
    }
}
