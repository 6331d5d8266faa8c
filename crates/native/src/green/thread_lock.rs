//! `LockCore`: `_thread`'s lock for green threads, the part that does not wait; see `oneloop.green.threadlock`.

use super::places::wake;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::sys::thread;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of uncontended acquisitions after which other green threads get a turn. Otherwise code that polls for a
/// result of another green thread (`queue.get(False)` in a loop) would wait forever.
const TURN: u32 = 1000;
static TAKEN: AtomicU32 = AtomicU32::new(0);

#[derive(Default)]
struct State {
    is_held: bool,
    /// The OS thread that holds it, or that it is being handed over to; 0: nobody.
    owner: u64,
    /// Who waits, and in which OS thread, first come, first served. See `places.rs`.
    places: VecDeque<(Object, u64)>,
}

/// Base class of `oneloop.green.threadlock.LockType`.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct LockCore(LoopCell<State>);

impl LockCore {
    fn take(&self, py: Python<'_>) -> bool {
        self.0.with(py, |state| {
            let is_free = !state.is_held;
            if is_free {
                state.is_held = true;
                state.owner = thread::ident();
            }
            is_free
        })
    }

    fn acquire_blocking<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Self::note_turn(slf)?;
        if slf.get().take(py) {
            return Ok(true.into_pyobject(py)?.to_owned().into_any());
        }
        slf.call_method1(intern!(py, "_wait"), (py.None(),))
    }

    fn note_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        if TAKEN.fetch_add(1, Ordering::Relaxed) >= TURN {
            TAKEN.store(0, Ordering::Relaxed);
            slf.call_method0(intern!(slf.py(), "_give_turn"))?;
        }
        Ok(())
    }
}

#[pymethods]
impl LockCore {
    #[new]
    fn new() -> Self {
        Self(LoopCell::default())
    }

    /// Acquire the lock. Returns whether that was possible within `timeout` seconds.
    ///
    /// Raises:
    ///     ValueError: the timeout is negative and not -1, or given without `blocking`.
    ///     OverflowError: the timeout is too large.
    ///     BlockingSwitchOutError: it would wait, in a coroutine that may not block, for a green thread of the same OS
    ///         thread.
    #[pyo3(signature = (blocking = None, timeout = None))]
    fn acquire<'py>(
        slf: &Bound<'py, Self>,
        blocking: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let is_default = |timeout: &Bound<'py, PyAny>| {
            timeout.extract::<f64>().is_ok_and(|t| t.to_bits() == (-1.0_f64).to_bits())
        };
        let blocks = |blocking: &Bound<'py, PyAny>| blocking.is_truthy().unwrap_or(false);
        if timeout.is_none_or(is_default) && blocking.is_none_or(blocks) {
            return Self::acquire_blocking(slf);
        }
        let checked = (blocking, timeout);
        let patience = slf.call_method1(intern!(py, "_checked"), checked)?;
        Self::note_turn(slf)?;
        if slf.get().take(py) {
            return Ok(true.into_pyobject(py)?.to_owned().into_any());
        }
        slf.call_method1(intern!(py, "_wait"), (patience,))
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::acquire_blocking(slf)
    }

    /// Release the lock, and hand it to the waiter that has waited longest, if there is one.
    ///
    /// Raises:
    ///     RuntimeError: nobody holds it.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let value = true.into_pyobject(py)?.to_owned().into_any();
        loop {
            let place = self.0.with(py, |state| {
                if !state.is_held {
                    return None;
                }
                let (place, owner) = state.places.pop_front().unzip();
                state.owner = owner.unwrap_or(0);
                state.is_held = place.is_some();
                Some(place)
            });
            match place {
                None => return Err(PyRuntimeError::new_err("release unlocked lock")),
                Some(None) => return Ok(()),
                Some(Some(place)) if wake(place.bind(py), &value)? => return Ok(()),
                Some(Some(_)) => {}
            }
        }
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.release(py)
    }

    /// Whether somebody holds it.
    fn locked(&self, py: Python<'_>) -> bool {
        self.0.with(py, |state| state.is_held)
    }

    /// The OS thread that holds it, or that it is being handed over to; 0: nobody.
    #[getter]
    fn _owner(&self, py: Python<'_>) -> Value<u64> {
        Value(self.0.with(py, |state| state.owner))
    }

    /// Whether the calling OS thread holds it, is about to get it, or waits for it: what it blocks in would wait for ever.
    fn _waits_for_this_thread(&self, py: Python<'_>) -> bool {
        let me = thread::ident();
        self.0.with(py, |state| {
            state.owner == me || state.places.iter().any(|(_, thread)| *thread == me)
        })
    }

    /// Acquire the lock, or append this place to the line. Returns whether it was acquired. The place is woken with
    /// True.
    fn _take_or_enter(&self, place: Bound<'_, PyAny>) -> bool {
        let py = place.py();
        let place = Object::new(place);
        let unused = self.0.with(py, |state| {
            if state.is_held {
                state.places.push_back((place, thread::ident()));
                return None;
            }
            state.is_held = true;
            state.owner = thread::ident();
            Some(place)
        });
        unused.is_some()
    }

    /// Remove a place from the line. Returns whether it was there.
    fn _forget(&self, place: &Bound<'_, PyAny>) -> bool {
        let removed = self.0.with(place.py(), |state| {
            let index = state.places.iter().position(|(other, _)| other.as_ref().is(place))?;
            state.places.remove(index)
        });
        removed.is_some()
    }

    /// In a forked child: nobody holds it.
    fn _at_fork_reinit(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .peek(|state| state.places.iter().try_for_each(|(place, _)| place.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}
