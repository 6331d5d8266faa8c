//! Makes the interpreter's exit wait for callables that still run on pool threads whose loops are closed.
//!
//! In the child of a fork these threads do not exist, and a lock that one of them held would stay locked. So the count is
//! an atomic, and belongs to a process.

use oneloop_engine::sys::fork;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The process's `fork::generation` in the upper half, the number of calls in the lower half.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// How often the exit looks again whether a call has ended.
const PAUSE: Duration = Duration::from_millis(1);

fn count(packed: u64, generation: u32) -> u32 {
    if packed >> 32 == u64::from(generation) { packed as u32 } else { 0 }
}

fn change(generation: u32, new: impl Fn(u32) -> Option<u32>) {
    let update = |packed| {
        let count = new(count(packed, generation))?;
        Some(u64::from(generation) << 32 | u64::from(count))
    };
    // `None`: nothing is to be changed.
    _ = RUNNING.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
}

/// The interpreter's exit waits while this value exists.
pub struct Running {
    generation: u32,
}

impl Running {
    pub fn begin() -> Self {
        let generation = fork::generation();
        change(generation, |count| Some(count + 1));
        Self { generation }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            change(self.generation, |count| count.checked_sub(1));
        }
    }
}

/// Wait for running calls, as `concurrent.futures` does for its threads: a thread that wakes up in a finalised
/// interpreter cannot continue.
///
/// Raises:
///     BaseException: that of a signal's handler, which ends the wait.
#[pyfunction]
pub fn wait_for_file_calls(py: Python<'_>) -> PyResult<()> {
    while count(RUNNING.load(Ordering::Acquire), fork::generation()) > 0 {
        py.detach(|| thread::sleep(PAUSE));
        py.check_signals()?;
    }
    Ok(())
}
