//! What the interpreter waits for before it goes: callables that are still running on threads of
//! pools whose loops were closed.

use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, PoisonError};

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// While this lives, the interpreter does not go.
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

/// Waits for what still runs, as `concurrent.futures` does for its threads: a thread that wakes up
/// in a finalised interpreter cannot go on.
#[pyfunction]
pub fn wait_for_file_calls(py: Python<'_>) {
    py.detach(wait);
}
