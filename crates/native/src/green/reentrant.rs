//! `ReentrantCore`: `_thread`'s reentrant lock for green threads; see `oneloop.green.threadlock`.
//!
//! Who owns it is part of its `LockCore` and changes with it, in one step: a signal's handler, which runs between any
//! two steps of Python code, may acquire the lock that the code around it has just got.

use super::owners::{acquire_at_last, owner};
use super::thread_lock::{LockCore, is_unlimited};
use crate::ffi::LoopCell;
use crate::ffi::values::Value;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

/// Base class of `oneloop.green.threadlock.RLock`.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct ReentrantCore {
    block: Py<LockCore>,
    /// How many times its owner has acquired it beside the first time.
    again: LoopCell<usize>,
}

impl ReentrantCore {
    fn is_owner(&self, py: Python<'_>, me: u64) -> bool {
        self.block.get().holder(py) == me
    }

    fn count(&self, py: Python<'_>) -> usize {
        if self.block.get().holder(py) == 0 { 0 } else { self.again.get(py) + 1 }
    }

    fn not_owned() -> PyErr {
        PyRuntimeError::new_err("cannot release un-acquired lock")
    }
}

#[pymethods]
impl ReentrantCore {
    #[new]
    #[pyo3(signature = (block, *_args, **_kwargs))]
    fn new(
        block: Py<LockCore>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self { block, again: LoopCell::default() }
    }

    /// Acquire the lock, or acquire it once more, if the caller owns it. The arguments are those of `LockType.acquire`.
    #[pyo3(signature = (blocking = None, timeout = None))]
    fn acquire(
        slf: &Bound<'_, Self>,
        blocking: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let block = this.block.bind(py);
        let me = owner(py);
        if this.is_owner(py, me) {
            if !is_unlimited(blocking, timeout) {
                block.call_method1(intern!(py, "_checked"), (blocking, timeout))?;
            }
            this.again.with(py, |again| *again += 1);
            return Ok(true);
        }
        LockCore::acquire_as(block, me, blocking, timeout)
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::acquire(slf, None, None)
    }

    /// Release the lock once.
    ///
    /// Raises:
    ///     RuntimeError: the caller does not own the lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_owner(py, owner(py)) {
            return Err(Self::not_owned());
        }
        let is_last = self.again.with(py, |again| {
            let is_last = *again == 0;
            *again = again.saturating_sub(1);
            is_last
        });
        if is_last { self.block.get().release(py) } else { Ok(()) }
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

    /// Whether the lock is held.
    fn locked(&self, py: Python<'_>) -> bool {
        self.block.get().locked(py)
    }

    /// The lock below.
    #[getter]
    fn _block(&self, py: Python<'_>) -> Py<LockCore> {
        self.block.clone_ref(py)
    }

    /// The identity of the greenlet that owns it; 0: nobody.
    #[getter]
    fn _owner(&self, py: Python<'_>) -> Value<u64> {
        Value(self.block.get().holder(py))
    }

    /// How many times its owner has acquired it.
    #[getter]
    fn _count(&self, py: Python<'_>) -> Value<usize> {
        Value(self.count(py))
    }

    /// Release it completely. Returns how often it was acquired, and by whom.
    ///
    /// Raises:
    ///     RuntimeError: nobody owns the lock.
    fn _release_save(&self, py: Python<'_>) -> PyResult<Value<(usize, u64)>> {
        let state = (self.count(py), self.block.get().holder(py));
        if state.0 == 0 {
            return Err(Self::not_owned());
        }
        self.again.set(py, 0);
        self.block.get().release(py)?;
        Ok(Value(state))
    }

    /// Called by `threading.Condition` after a wait: who is killed meanwhile has it nevertheless.
    fn _acquire_restore(slf: &Bound<'_, Self>, state: (usize, u64)) -> PyResult<()> {
        let py = slf.py();
        let ended = acquire_at_last(py, || Self::acquire(slf, None, None).map(drop))?;
        slf.get().again.set(py, state.0.saturating_sub(1));
        ended.map_or(Ok(()), Err)
    }

    /// Whether the calling greenlet owns it.
    fn _is_owned(&self, py: Python<'_>) -> bool {
        self.is_owner(py, owner(py))
    }

    /// How many times the calling greenlet has acquired it.
    fn _recursion_count(&self, py: Python<'_>) -> Value<usize> {
        Value(if self._is_owned(py) { self.count(py) } else { 0 })
    }

    /// In a forked child: nobody holds it.
    fn _at_fork_reinit(&self, py: Python<'_>) {
        self.again.set(py, 0);
        self.block.get()._at_fork_reinit(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.block)
    }
}
