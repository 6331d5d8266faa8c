//! Makes the interpreter's exit wait for callables that still run on pool threads whose loops are closed.

use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// The interpreter's exit waits while this value exists.
pub struct Running;

impl Running {
    pub fn begin() -> Self {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_all();
    }
}

fn wait() {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    while *running > 0 {
        running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Wait for running calls, as `concurrent.futures` does for its threads: a thread that wakes up in a finalised
/// interpreter cannot continue.
#[pyfunction]
pub fn wait_for_file_calls(py: Python<'_>) {
    py.detach(wait);
}
