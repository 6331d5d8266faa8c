//! `Marks`: the water marks of a TLS transport, as in `asyncio.sslproto`: it is paused at the high mark (a plain
//! transport's protocol only above it) and resumed at the low mark or below.

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

    /// The marks (low, high) that a program sets; ValueError unless high >= low >= 0.
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

    /// Whether the protocol is to be paused until the kernel has all that it has written.
    pub fn are_zero(&self) -> bool {
        self.high == 0
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Some(true): pause now; Some(false): resume now. An empty buffer never pauses, because with a high mark of 0
    /// nothing would resume it.
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
