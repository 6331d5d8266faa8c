//! Who owns a lock, and how one is acquired that its owner must have.

use crate::ffi::greenlet;
use crate::imports;
use oneloop_engine::sys::thread;
use pyo3::exceptions::{PyMemoryError, PyRecursionError};
use pyo3::intern;
use pyo3::prelude::*;

/// The identity of an owner: the running greenlet. It is never 0.
pub fn owner(py: Python<'_>) -> u64 {
    match greenlet::current(py) {
        Ok(greenlet) => greenlet.as_ptr().addr() as u64,
        // The interpreter is shutting down, and greenlets are not available any more.
        Err(_) => thread::ident(),
    }
}

/// Acquires a lock that the caller must have, even if the caller is killed while it waits. Returns the error that was
/// raised during the wait, for the caller to raise. The error of the call: it cannot be acquired.
pub fn acquire_at_last(
    py: Python<'_>,
    acquire: impl Fn() -> PyResult<()>,
) -> PyResult<Option<PyErr>> {
    let mut ended = None;
    loop {
        let Err(error) = acquire() else {
            return Ok(ended);
        };
        // Nobody is left who could release it, it would have to wait where it may not, or the next attempt would
        // fail in the same way.
        if error.is_instance(py, &imports::loop_exit(py)?)
            || error.is_instance(py, &imports::blocking_switch_out_error(py)?)
            || error.is_instance_of::<PyRecursionError>(py)
            || error.is_instance_of::<PyMemoryError>(py)
        {
            return Err(error);
        }
        ended = Some(error);
    }
}

/// `acquire_at_last` for any lock. Returns the exception that was raised during the wait, or None.
///
/// Raises:
///     BlockingSwitchOutError: called in a coroutine that may not block, and it would have to wait.
///     LoopExit: nobody is left who could release it.
#[pyfunction]
#[pyo3(name = "acquire_at_last", signature = (lock, /))]
pub fn take_at_last<'py>(lock: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = lock.py();
    let ended = acquire_at_last(py, || lock.call_method0(intern!(py, "acquire")).map(drop))?;
    Ok(ended.map(|error| error.into_value(py).into_bound(py).into_any()))
}
