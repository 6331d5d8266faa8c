//! Waits of applications: a coroutine awaits a future, a green thread parks, any other thread blocks without the GIL.

use super::error_log::client_gone;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::ffi::detach::detached;
use crate::green::{HubCore, Waiter};
use pyo3::intern;
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A loop that was closed while threads wait wakes nobody, so they check for that at this interval.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// One wait of a thread. Any thread may end it.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Blocked {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Blocked {
    fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Returns whether it has ended by now.
    fn wait_a_while(&self, py: Python<'_>) -> bool {
        detached(py, || {
            let guard = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_timeout_while(guard, LOOK_TIME, |is_over| !*is_over);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        })
    }
}

/// Waits until `end` is called with the waiter that was passed to `register`, unless `register` says that no wait is
/// needed.
///
/// DisconnectedError if nobody is left to call `end`.
pub fn pause(
    owner: &Bound<'_, LoopCore>,
    register: impl FnOnce(Py<PyAny>) -> bool,
) -> PyResult<()> {
    let py = owner.py();
    if is_here(owner) {
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        if register(waiter.clone().into_any().unbind()) {
            Waiter::get(&waiter)?;
        }
        return Ok(());
    }
    let blocked = Bound::new(py, Blocked { is_over: Mutex::new(false), changed: Condvar::new() })?;
    if !register(blocked.clone().into_any().unbind()) {
        return Ok(());
    }
    while !blocked.get().wait_a_while(py) {
        py.check_signals()?;
        if owner.get().is_closed_now() {
            return Err(client_gone(py, "the server has stopped"));
        }
    }
    Ok(())
}

/// Whether this is the loop's own thread, where all its green threads run.
#[inline]
pub fn is_here(owner: &Bound<'_, LoopCore>) -> bool {
    owner.get().current_callback().is_some()
}

/// Resolves pending futures, and ends the waits of threads and green threads.
pub fn wake(py: Python<'_>, waiters: Vec<Py<PyAny>>) -> PyResult<()> {
    let wake = |waiter: Py<PyAny>| -> PyResult<()> {
        let waiter = waiter.bind(py);
        if end(waiter) {
            return Ok(());
        }
        if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
            waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
        }
        Ok(())
    };
    waiters.into_iter().map(wake).fold(Ok(()), PyResult::and)
}

/// Adds a future to the waiters and returns its `__await__()`. Waiters that are done are dropped, because
/// applications that repeatedly check for a disconnect cancel each of their waits.
pub fn with_waiter(
    owner: &Bound<'_, LoopCore>,
    waiters: Vec<Py<PyAny>>,
) -> PyResult<(Vec<Py<PyAny>>, Object)> {
    let py = owner.py();
    let future = owner.call_method0(intern!(py, "create_future"))?;
    let mut waiting = Vec::with_capacity(1);
    for waiter in waiters {
        if !waiter.bind(py).call_method0(intern!(py, "done"))?.is_truthy()? {
            waiting.push(waiter);
        }
    }
    let steps = Object::new(future.call_method0(intern!(py, "__await__"))?);
    waiting.push(future.unbind());
    Ok((waiting, steps))
}

/// Ends a wait. Returns false if it is a wait of another kind. Runs no Python code.
#[inline]
fn end(waiter: &Bound<'_, PyAny>) -> bool {
    if let Ok(waiter) = waiter.cast_exact::<Waiter>() {
        Waiter::resume_soon(waiter);
        return true;
    }
    if let Ok(blocked) = waiter.cast_exact::<Blocked>() {
        blocked.get().end();
        return true;
    }
    false
}
