//! The fast path of `RLock`: a lock that the greenlet that owns it may acquire again.

use super::Truth;
use super::semaphore::SemaphoreCore;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, greenlet};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
struct State {
    owner: Option<Py<PyAny>>,
    count: usize,
}

/// Base class of `oneloop.green.lock.RLock`; `block` is a semaphore of 1.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct RLockCore {
    block: Py<SemaphoreCore>,
    state: LoopCell<State>,
}

impl RLockCore {
    /// Acquires it once more, if `me` owns it.
    fn again(&self, me: &Bound<'_, PyAny>) -> bool {
        self.state.with(me.py(), |state| {
            let is_mine = state.owner.as_ref().is_some_and(|owner| owner.is(me));
            state.count += usize::from(is_mine);
            is_mine
        })
    }
}

#[pymethods]
impl RLockCore {
    #[new]
    #[pyo3(signature = (block, *_args, **_kwargs))]
    fn new(
        block: Py<SemaphoreCore>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self { block, state: LoopCell::default() }
    }

    /// Acquire the lock. Returns whether that was possible within `timeout` (seconds, or a `Timeout`); None or
    /// less than 0: no limit.
    #[pyo3(signature = (blocking = Truth(true), timeout = None), text_signature = "($self, blocking=True, timeout=None)")]
    fn acquire(
        slf: &Bound<'_, Self>,
        blocking: Truth,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let me = greenlet::current(py)?;
        if this.again(&me) {
            return Ok(true);
        }
        let block = this.block.bind(py);
        if !block.get().take(py) {
            // A `Timeout` is passed on as it is.
            let is_negative = |t: &&Bound<'_, PyAny>| t.extract().is_ok_and(|t: f64| t < 0.0);
            let timeout = timeout.filter(|timeout| !is_negative(timeout));
            let waited = slf.call_method1(intern!(py, "_wait"), (blocking.0, timeout))?;
            if !waited.is_truthy()? {
                return Ok(false);
            }
        }
        slf.get()._set_owner(Some(me), 1);
        Ok(true)
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::acquire(slf, Truth(true), None)
    }

    /// Release the lock once.
    ///
    /// Raises:
    ///     RuntimeError: another green thread owns it, or nobody does.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let me = greenlet::current(py)?;
        let left = self.state.with(py, |state| {
            if !state.owner.as_ref().is_some_and(|owner| owner.is(&me)) {
                return None;
            }
            state.count -= 1;
            Some(if state.count == 0 { Some(state.owner.take()) } else { None })
        });
        match left {
            None => Err(PyRuntimeError::new_err("cannot release un-acquired lock")),
            Some(None) => Ok(()),
            Some(Some(owner)) => {
                drop(owner);
                SemaphoreCore::pass_on(self.block.bind(py))
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

    /// The underlying semaphore.
    #[getter]
    fn _block(&self, py: Python<'_>) -> Py<SemaphoreCore> {
        self.block.clone_ref(py)
    }

    /// The owner, or None.
    #[getter]
    fn _owner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |state| state.owner.as_ref().map(|owner| owner.clone_ref(py)))
    }

    /// How many times its owner has acquired it.
    #[getter]
    fn _count(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |state| state.count))
    }

    fn _set_owner(&self, owner: Option<Bound<'_, PyAny>>, count: usize) {
        let Some(owner) = owner else { return };
        let py = owner.py();
        let owner = owner.unbind();
        let old = self.state.with(py, |state| {
            state.count = count;
            state.owner.replace(owner)
        });
        drop(old);
    }

    /// Release it completely, whoever owns it. Returns the arguments of `_set_owner` to restore it.
    fn _disown(&self, py: Python<'_>) -> Value<(usize, Option<Py<PyAny>>)> {
        let state = self.state.take(py);
        Value((state.count, state.owner))
    }

    /// Whether the calling greenlet owns it.
    fn _is_owned(&self, py: Python<'_>) -> PyResult<bool> {
        let me = greenlet::current(py)?;
        Ok(self.state.with(py, |state| state.owner.as_ref().is_some_and(|owner| owner.is(&me))))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.block)?;
        self.state.peek(|state| visit.call(&state.owner)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.take(py));
    }
}
