//! `Deferred`: operations for which their tick had no time left. Later ticks do them, in order, also from the cache.
//!
//! Handing them to an engine instead would cost a round trip each and keep hundreds of files open at the same time.
//! One native callback per tick handles the queue: waking thousands of tasks only to find that there is no time yet
//! would cost more than their operations. `deferring` is that callback.

use pyo3::prelude::*;
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::RawFd;

#[derive(Default)]
pub struct Deferred {
    pub queue: VecDeque<(Py<PyAny>, Work)>,
    /// A callback for it is queued.
    pub is_scheduled: bool,
}

pub enum Work {
    /// A read at an offset. An engine does it if the data is not in the cache.
    Read { fd: RawFd, size: usize, offset: i64 },
    /// A whole file; the result is None if reading it might block.
    Whole(CString),
    /// Only waits for a later tick.
    Tick,
}

impl Deferred {
    /// Takes everything, at the loop's end.
    pub fn take_all(&mut self) -> VecDeque<(Py<PyAny>, Work)> {
        std::mem::take(&mut self.queue)
    }
}
