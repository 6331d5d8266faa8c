//! `SemaphoreCore`: a counter, and the line of those who wait until it is not 0.

use super::limit::{Limit, timed_out, wait};
use super::places::{Places, wake};
use super::{HubCore, Truth, Waiter};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
struct Count {
    value: i64,
    places: Places,
    /// Links are notified when the value is not 0.
    has_links: bool,
}

/// A counter that `acquire` lowers, waiting while it is 0, and `release` raises. First come, first served.
#[pyclass(frozen, subclass, module = "oneloop._native")]
pub struct SemaphoreCore {
    count: LoopCell<Count>,
    /// The maximum value.
    bound: Option<i64>,
}

impl SemaphoreCore {
    /// Lowers the counter if possible.
    pub fn take(&self, py: Python<'_>) -> bool {
        self.count.with(py, |count| {
            let is_free = count.value > 0;
            count.value -= i64::from(is_free);
            is_free
        })
    }

    /// Lowers the counter, or enters the line.
    fn take_or_enter(&self, place: &Bound<'_, PyAny>) -> bool {
        let kept = Object::new(place.clone());
        let unused = self.count.with(place.py(), |count| {
            if count.value > 0 {
                count.value -= 1;
                return Some(kept);
            }
            count.places.enter(kept);
            None
        });
        unused.is_some()
    }

    /// Gives the count directly to the waiter that has waited longest, so that nobody overtakes it; raises the
    /// counter if there is none.
    pub fn pass_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let value = true.into_pyobject(py)?.to_owned().into_any();
        let mut outcome = Ok(());
        loop {
            let (place, has_links) = this.count.with(py, |count| {
                let place = count.places.next();
                count.value += i64::from(place.is_none());
                (place, count.has_links)
            });
            let Some(place) = place else {
                if has_links {
                    slf.call_method0(intern!(py, "_notify_soon"))?;
                }
                return outcome;
            };
            match wake(place.bind(py), &value) {
                Ok(true) => return outcome,
                Ok(false) => {}
                // It is the next one's, or stays with the counter.
                Err(error) => outcome = Err(error),
            }
        }
    }
}

#[pymethods]
impl SemaphoreCore {
    #[new]
    #[pyo3(signature = (value, bound, *_args, **_kwargs))]
    fn new(
        value: i64,
        bound: Option<i64>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        if value < 0 {
            return Err(PyValueError::new_err("semaphore initial value must be >= 0"));
        }
        Ok(Self { count: LoopCell::new(Count { value, ..Count::default() }), bound })
    }

    /// How many calls of `acquire` would succeed without waiting.
    #[getter]
    fn counter(&self, py: Python<'_>) -> Value<i64> {
        Value(self.count.with(py, |count| count.value))
    }

    /// The number of waiters.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> Value<usize> {
        Value(self.count.with(py, |count| count.places.len()))
    }

    /// Whether `acquire` would wait.
    fn locked(&self, py: Python<'_>) -> bool {
        self.counter(py).0 <= 0
    }

    /// Whether `acquire` would not wait.
    fn ready(&self, py: Python<'_>) -> bool {
        self.counter(py).0 > 0
    }

    /// Lower the counter. Returns whether that was possible within `timeout` (seconds, or a `Timeout`); in a coroutine,
    /// an awaitable of that.
    #[pyo3(signature = (blocking = Truth(true), timeout = None), text_signature = "($self, blocking=True, timeout=None)")]
    fn acquire<'py>(
        slf: &Bound<'py, Self>,
        blocking: Truth,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let answer = |is_taken: bool| Ok(is_taken.into_pyobject(py)?.to_owned().into_any());
        if !blocking.0 {
            return answer(this.take(py));
        }
        if !call::call0(&imports::running_loop(py)?)?.is_none() {
            return slf.call_method1(intern!(py, "_acquired"), (timeout,));
        }
        if this.take(py) {
            return answer(true);
        }
        if !HubCore::is_active() {
            let blocked = slf.call_method1(intern!(py, "_block_thread"), (timeout,))?;
            if !blocked.is_none() {
                return Ok(blocked);
            }
        }
        let hub = HubCore::here(py)?;
        let waiter = Bound::new(py, Waiter::make(&hub))?;
        let limit = Limit::of(timeout)?;
        if this.take_or_enter(waiter.as_any()) {
            return answer(true);
        }
        let waited = wait(&waiter, &limit);
        let timed_out = timed_out(py)?;
        match waited {
            Ok(value) if !value.is(&timed_out) => return answer(true),
            Ok(_) => this.forget(waiter.as_any()),
            Err(error) => {
                this.forget(waiter.as_any());
                if waiter.get().taken(py).is_some_and(|value| !value.is(&timed_out)) {
                    Self::pass_on(slf)?;
                }
                if !limit.has_raised(&error) {
                    return Err(error);
                }
            }
        }
        answer(false)
    }

    /// Raise the counter, or wake the waiter that has waited longest. Returns the counter's value. May be called from
    /// any thread.
    ///
    /// Raises:
    ///     ValueError: it is bounded, and was released more often than acquired.
    fn release(slf: &Bound<'_, Self>) -> PyResult<Value<i64>> {
        let (py, this) = (slf.py(), slf.get());
        if this.bound.is_some_and(|bound| this.counter(py).0 >= bound) {
            return Err(PyValueError::new_err("Semaphore released too many times"));
        }
        Self::pass_on(slf)?;
        Ok(this.counter(py))
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if !call::call0(&imports::running_loop(py)?)?.is_none() {
            let text = "in a coroutine, use `async with` to acquire a semaphore";
            return Err(PyRuntimeError::new_err(text));
        }
        Self::acquire(slf, Truth(true), None).map(drop)
    }

    fn __exit__(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        slf.call_method0(intern!(slf.py(), "release")).map(drop)
    }

    /// Lower the counter, or append this place to the line. Returns whether the counter was lowered.
    fn _take_or_enter(&self, place: &Bound<'_, PyAny>) -> bool {
        self.take_or_enter(place)
    }

    /// Release what was acquired by, or given to, a waiter whose wait an exception has ended.
    fn _pass_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::pass_on(slf)
    }

    /// Start or stop calling `_notify_soon` when the counter is raised.
    fn _watch(&self, py: Python<'_>, has_links: bool) {
        self.count.with(py, |count| count.has_links = has_links);
    }

    /// Remove a place from the line.
    fn forget(&self, place: &Bound<'_, PyAny>) {
        drop(self.count.with(place.py(), |count| count.places.remove(place)));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.count.peek(|count| count.places.visit(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.count.take(py));
    }
}
