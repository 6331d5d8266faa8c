//! Queues of waiters, first come, first served: `LineCore`, and `SemaphoreCore`, which also counts.
//!
//! A place in a line is a green thread's `Waiter`, or a Python object with the same `wake(value)` and `done()` (a
//! coroutine's). The check whether to wait and the entry into the line happen in one access to the cell, so that no
//! wake-up from another thread is lost in between.

use super::{HubCore, Truth, Waiter};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::exceptions::{PyBaseException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;

/// The result of a wait that has timed out.
static TIMED_OUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

pub fn timed_out(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let make = || Ok(py.import("builtins")?.getattr(intern!(py, "object"))?.call0()?.unbind());
    TIMED_OUT.get_or_try_init(py, make).map(|object| object.bind(py).clone())
}

/// Wakes the waiter in a place. Returns false if it does not wait there any more.
pub fn wake(place: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match place.cast_exact::<Waiter>() {
        Ok(waiter) => Ok(Waiter::wake(waiter, Some(value))),
        Err(_) => place.call_method1(intern!(place.py(), "wake"), (value,))?.is_truthy(),
    }
}

/// How long a wait may last.
pub enum Limit<'a, 'py> {
    Never,
    Seconds(f64),
    /// A `Timeout`, which raises itself or its exception in the waiting green thread.
    Timeout(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Limit<'a, 'py> {
    pub fn of(timeout: Option<&'a Bound<'py, PyAny>>) -> PyResult<Self> {
        match timeout {
            None => Ok(Self::Never),
            Some(timeout) if timeout.is_instance_of::<PyBaseException>() => {
                if timeout.hasattr(intern!(timeout.py(), "start_new"))? {
                    return Ok(Self::Timeout(timeout));
                }
                let kind = timeout.get_type();
                let text = format!("a timeout must be a number or a Timeout, not {kind}");
                Err(PyTypeError::new_err(text))
            }
            Some(timeout) => Ok(Self::Seconds(timeout.extract()?)),
        }
    }

    /// Whether the error is the timeout itself.
    pub fn has_raised(&self, error: &PyErr) -> bool {
        matches!(self, Self::Timeout(timeout) if error.value(timeout.py()).is(*timeout))
    }
}

/// Waits for at most the given time. Returns the value of the wait, or `TIMED_OUT`.
pub fn wait<'py>(
    waiter: &Bound<'py, Waiter>,
    limit: &Limit<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = waiter.py();
    let timeout_s = match limit {
        Limit::Timeout(timeout) => {
            timeout.call_method1(intern!(py, "start_new"), (timeout,))?;
            let waited = Waiter::get(waiter);
            timeout.call_method0(intern!(py, "cancel"))?;
            return waited.map(|value| value.into_bound(py));
        }
        Limit::Seconds(timeout_s) if timeout_s.is_finite() => timeout_s,
        Limit::Never | Limit::Seconds(_) => {
            return Waiter::get(waiter).map(|value| value.into_bound(py));
        }
    };
    let wake = waiter.getattr(intern!(py, "wake"))?;
    let owner = waiter.get().hub(py).get().owner(py).clone();
    let late = (timeout_s.max(0.0), wake, timed_out(py)?);
    let timer = owner.call_method1(intern!(py, "call_later"), late)?;
    let waited = Waiter::get(waiter);
    timer.call_method0(intern!(py, "cancel"))?;
    waited.map(|value| value.into_bound(py))
}

pub fn position(places: &VecDeque<Object>, place: &Bound<'_, PyAny>) -> Option<usize> {
    places.iter().position(|other| other.as_ref().is(place))
}

/// Waiters, first come, first served. Any thread may wake them.
#[pyclass(frozen, subclass, module = "oneloop._native")]
pub struct LineCore {
    places: LoopCell<VecDeque<Object>>,
}

impl LineCore {
    /// Wakes the waiter that has waited longest. Returns false if there is none.
    pub fn wake_with(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        while let Some(place) = self.places.with(py, VecDeque::pop_front) {
            if wake(place.bind(py), value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[pymethods]
impl LineCore {
    #[new]
    fn new() -> Self {
        Self { places: LoopCell::default() }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.places.with(py, |places| places.len())
    }

    /// Wake the waiter that has waited longest. Returns False if there is none.
    #[pyo3(signature = (value = None))]
    fn wake<'py>(&self, py: Python<'py>, value: Option<Bound<'py, PyAny>>) -> PyResult<bool> {
        self.wake_with(py, &value.unwrap_or_else(|| py.None().into_bound(py)))
    }

    /// The last place in the line, or None.
    fn last(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.places.with(py, |places| places.back().map(|place| place.as_ref().clone_ref(py)))
    }

    /// Return a place for the calling green thread; call `wait` next.
    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Waiter>> {
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        self.add(waiter.clone().into_any());
        Ok(waiter)
    }

    /// Append a place to the line.
    pub fn add(&self, place: Bound<'_, PyAny>) {
        let py = place.py();
        let place = Object::new(place);
        self.places.with(py, |places| places.push_back(place));
    }

    /// Wait in a place. Returns the value it is woken with, or `TIMED_OUT` after `timeout_s` seconds. If an exception
    /// ends the wait after it was woken, `given_back` is called with that value.
    #[pyo3(signature = (waiter, timeout_s = None, given_back = None))]
    pub fn wait<'py>(
        &self,
        waiter: &Bound<'py, Waiter>,
        timeout_s: Option<&Bound<'py, PyAny>>,
        given_back: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = waiter.py();
        let waited = Limit::of(timeout_s).and_then(|limit| wait(waiter, &limit));
        match &waited {
            Ok(value) if value.is(&timed_out(py)?) => self.forget(waiter.as_any()),
            Ok(_) => {}
            Err(_) => {
                self.forget(waiter.as_any());
                // From here on nobody wakes it.
                if let Some(value) = waiter.get().taken(py)
                    && let Some(given_back) = given_back
                    && !value.is(&timed_out(py)?)
                {
                    call::call1(given_back, &value)?;
                }
            }
        }
        waited
    }

    /// Remove a place from the line.
    fn forget(&self, place: &Bound<'_, PyAny>) {
        let left = self.places.with(place.py(), |places| {
            position(places, place).and_then(|index| places.remove(index))
        });
        drop(left);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visited =
            self.places.peek(|places| places.iter().try_for_each(|one| one.visit(&visit)));
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.places.take(py));
    }
}

#[derive(Default)]
struct Count {
    value: i64,
    places: VecDeque<Object>,
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
            count.places.push_back(kept);
            None
        });
        unused.is_some()
    }

    /// Gives the count directly to the waiter that has waited longest, so that nobody overtakes it; raises the
    /// counter if there is none.
    pub fn pass_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let value = true.into_pyobject(py)?.to_owned().into_any();
        loop {
            let (place, has_links) = this.count.with(py, |count| {
                let place = count.places.pop_front();
                count.value += i64::from(place.is_none());
                (place, count.has_links)
            });
            let Some(place) = place else {
                if has_links {
                    slf.call_method0(intern!(py, "_notify_soon"))?;
                }
                return Ok(());
            };
            if wake(place.bind(py), &value)? {
                return Ok(());
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
        _args: &Bound<'_, pyo3::types::PyTuple>,
        _kwargs: Option<&Bound<'_, pyo3::types::PyDict>>,
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
            return Err(pyo3::exceptions::PyRuntimeError::new_err(text));
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
        let left = self.count.with(place.py(), |count| {
            position(&count.places, place).and_then(|index| count.places.remove(index))
        });
        drop(left);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visited =
            self.count.peek(|count| count.places.iter().try_for_each(|one| one.visit(&visit)));
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.count.take(py));
    }
}

/// Wait for a waiter. Returns its value, or `TIMED_OUT` after `timeout_s` seconds.
///
/// Raises:
///     BaseException: `timeout_s` is a `Timeout`, and it or its exception was raised.
#[pyfunction]
#[pyo3(signature = (waiter, timeout_s, /))]
fn wait_for<'py>(
    waiter: &Bound<'py, Waiter>,
    timeout_s: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    wait(waiter, &Limit::of(timeout_s)?)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(wait_for, module)?)?;
    module.add_class::<LineCore>()?;
    module.add_class::<SemaphoreCore>()?;
    module.add("TIMED_OUT", timed_out(module.py())?)
}
