//! `EventCore`: a flag, and the line of those who wait until it is set.
//!
//! Native, so that a green thread that waits for one has no Python frame of ours: its first one costs a page of memory.

use super::limit::{Limit, timed_out, wait};
use super::places::{Places, wake};
use super::{HubCore, Waiter};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
struct State {
    is_set: bool,
    places: Places,
    /// The green thread's waiter that `set` woke last. Weak: it refers to the loop, which may end before the event.
    last_woken: Option<Object<PyWeakrefReference>>,
}

/// A flag that green threads and coroutines can wait for. Any thread may set it.
#[pyclass(frozen, subclass, module = "oneloop._native")]
pub struct EventCore {
    state: LoopCell<State>,
}

impl EventCore {
    fn holds(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.is_set)
    }

    /// Returns whether the flag is set. If not, the place is appended to the line: both in one access, so that no `set`
    /// from another thread is lost in between.
    fn holds_or_enter(&self, place: &Bound<'_, PyAny>) -> bool {
        let kept = Object::new(place.clone());
        let unused = self.state.with(place.py(), |s| {
            if s.is_set {
                return Some(kept);
            }
            s.places.enter(kept);
            None
        });
        unused.is_some()
    }

    /// Lets the one that `set` woke last go on first, if it has not run yet.
    #[inline(never)]
    fn let_woken_run(&self, py: Python<'_>) -> PyResult<()> {
        let Some(last) = self.state.with(py, |s| s.last_woken.take()) else { return Ok(()) };
        let last = last.bind(py).upgrade();
        if last.is_some_and(|last| last.cast_exact::<Waiter>().is_ok_and(|w| w.get().is_ended(py)))
        {
            HubCore::pause(&HubCore::here(py)?)?;
        }
        Ok(())
    }

    /// Waits in the line. Returns whether the flag was set within the time.
    #[inline(never)]
    fn wait_in_line(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        let limit = Limit::of(timeout)?;
        if self.holds_or_enter(waiter.as_any()) {
            return Ok(true);
        }
        match wait(&waiter, &limit) {
            Ok(value) if !value.is(&timed_out(py)?) => return Ok(true),
            Ok(_) => self.forget(waiter.as_any()),
            Err(error) => {
                self.forget(waiter.as_any());
                if !limit.has_raised(&error) {
                    return Err(error);
                }
            }
        }
        Ok(self.holds(py))
    }
}

#[pymethods]
impl EventCore {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { state: LoopCell::default() }
    }

    /// Whether the flag is set.
    fn is_set(&self, py: Python<'_>) -> bool {
        self.holds(py)
    }

    /// The number of waiters.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |s| s.places.len()))
    }

    /// Clear the flag: later waits block until it is set again.
    fn clear(&self, py: Python<'_>) {
        self.state.with(py, |s| s.is_set = false);
    }

    /// Wait until the flag is set.
    ///
    /// Args:
    ///     timeout: the maximum time in seconds, or a `Timeout`; None means no limit.
    ///
    /// Returns:
    ///     True, or False if the timeout expired. In a coroutine: an awaitable of that.
    #[pyo3(signature = (timeout = None))]
    fn wait<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !call::call0(&imports::running_loop(py)?)?.is_none() {
            return slf.call_method1(intern!(py, "_waited"), (timeout,));
        }
        let is_set = if this.holds(py) {
            this.let_woken_run(py)?;
            true
        } else {
            this.wait_in_line(py, timeout)?
        };
        Ok(PyBool::new(py, is_set).to_owned().into_any())
    }

    /// Set the flag and wake all who wait now.
    fn _set(&self, py: Python<'_>) -> PyResult<()> {
        let (count, last) = self.state.with(py, |s| {
            s.is_set = true;
            (s.places.len(), s.places.last().map(|place| place.clone_ref(py)))
        });
        // A coroutine does not run before the one that sets the event waits.
        let mut outcome = Ok(());
        let last = match last.map(|last| last.bind(py).clone().cast_into_exact::<Waiter>()) {
            Some(Ok(waiter)) => match PyWeakrefReference::new(waiter.as_any()) {
                Ok(kept) => Some(Object::new(kept)),
                Err(error) => {
                    outcome = Err(error);
                    None
                }
            },
            _ => None,
        };
        drop(self.state.with(py, |s| std::mem::replace(&mut s.last_woken, last)));
        let value = PyBool::new(py, true).to_owned().into_any();
        for _ in 0..count {
            let Some(place) = self.state.with(py, |s| s.places.next()) else { break };
            // One that cannot be woken keeps no other one asleep.
            outcome = outcome.and(wake(place.bind(py), &value).map(drop));
        }
        outcome
    }

    /// Whether the flag is set. If not, append this place to the line.
    fn _is_set_or_enter(&self, place: &Bound<'_, PyAny>) -> bool {
        self.holds_or_enter(place)
    }

    /// Remove a place from the line.
    fn forget(&self, place: &Bound<'_, PyAny>) {
        drop(self.state.with(place.py(), |s| s.places.remove(place)));
    }

    /// In a forked child: forget the parent's waiters.
    fn _forget_all(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| (std::mem::take(&mut s.places), s.last_woken.take()));
        drop(old);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.state.peek(|s| s.places.visit(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        self._forget_all(py);
    }
}
