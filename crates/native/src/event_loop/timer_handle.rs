//! `TimerHandle`: what `call_later` and `call_at` return.

use super::work::Work;
use crate::ffi::fallible;
use crate::ffi::method::BareMethod;
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::values::Value;
use crate::ffi::{Link, LoopCell};
use crate::imports;
use oneloop_engine::Key;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A loop, as the timers that wait in it use it. The object is the loop.
pub struct TimerQueue {
    /// Takes a timer out that was cancelled.
    pub remove: fn(&Bound<'_, PyAny>, Key),
    /// Whether it waits.
    pub has: fn(&Bound<'_, PyAny>, Key) -> bool,
}

/// A callback waiting for its deadline. Returned by `loop.call_later()` and `loop.call_at()`; has the interface of
/// `asyncio.TimerHandle`.
#[pyclass(frozen, weakref, module = "oneloop")]
pub struct TimerHandle {
    pub work: Work,
    /// Seconds on the loop's clock.
    when_s: f64,
    /// The bits of its `Key`, which its loop has once it has been pushed.
    key: AtomicU64,
    /// The loop that it waits in; `None` once it has run or was cancelled.
    owner: LoopCell<Option<Link<TimerQueue>>>,
}

impl TimerHandle {
    pub fn new(work: Work, when_s: f64, owner: Link<TimerQueue>) -> Self {
        Self { work, when_s, key: AtomicU64::new(0), owner: LoopCell::new(Some(owner)) }
    }

    pub fn set_key(&self, key: Key) {
        self.key.store(key.to_bits(), Ordering::Relaxed);
    }

    fn key(&self) -> Key {
        Key::from_bits(self.key.load(Ordering::Relaxed))
    }

    /// It does not wait any more. Its loop is alive: this is never the loop's last reference.
    pub fn leave(&self, py: Python<'_>) {
        drop(self.owner.take(py));
    }
}

impl Recycled for TimerHandle {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

#[pymethods]
impl TimerHandle {
    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        imports::stock_timer_handle(py)
    }

    /// True if the callback was cancelled.
    fn cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    /// The time at which the callback is due, in seconds on the clock of `loop.time()`.
    fn when(&self) -> Value<f64> {
        Value(self.when_s)
    }

    /// The contextvars.Context in which the callback will run, or None once it has run.
    fn get_context<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.work.context(py)
    }

    #[getter]
    fn _callback<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.work.parts(py)?.map(|(callback, _)| callback))
    }

    #[getter]
    fn _args<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        Ok(self.work.parts(py)?.map(|(_, args)| args))
    }

    #[getter]
    fn _context<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.work.context(py)
    }

    #[getter]
    fn _when(&self) -> Value<f64> {
        Value(self.when_s)
    }

    #[getter]
    fn _scheduled(&self, py: Python<'_>) -> bool {
        let owner = self.owner.with(py, |owner| owner.as_ref().map(|owner| owner.clone_ref(py)));
        owner.is_some_and(|owner| (owner.calls.has)(owner.object.bind(py), self.key()))
    }

    #[getter]
    fn _cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        fallible::float(py, self.when_s)?.hash()
    }

    /// Orders by time. As in asyncio, two handles are equal if time, callback, arguments and state are equal.
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = || -> PyResult<bool> {
            #[expect(clippy::float_cmp, reason = "the same time, as asyncio compares it")]
            let same_time = self.when_s == other.when_s;
            if !same_time || self.work.is_cancelled() != other.work.is_cancelled() {
                return Ok(false);
            }
            match (self.work.parts(py)?, other.work.parts(py)?) {
                (Some((f, a)), Some((g, b))) => Ok(f.eq(g)? && a.eq(b)?),
                (None, None) => Ok(std::ptr::eq(self, other)),
                _ => Ok(false),
            }
        };
        let result = match op {
            CompareOp::Lt => self.when_s < other.when_s,
            CompareOp::Gt => self.when_s > other.when_s,
            CompareOp::Le => self.when_s < other.when_s || equal()?,
            CompareOp::Ge => self.when_s > other.when_s || equal()?,
            CompareOp::Eq => equal()?,
            CompareOp::Ne => !equal()?,
        };
        Ok(result.into_pyobject(py)?.to_owned().into_any().unbind())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visited =
            self.owner.peek(|owner| owner.iter().try_for_each(|owner| owner.object.visit(&visit)));
        visited.unwrap_or(Ok(()))?;
        self.work.visit(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.owner.take(py));
        self.work.forget(py);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        let state = if self.work.is_cancelled() { " cancelled" } else { "" };
        let when = fallible::float(py, self.when_s)?.repr()?;
        let what = self.work.describe(py)?;
        let space = if what.is_empty() { "" } else { " " };
        Ok(Value(format!("<TimerHandle{state} when={when}{space}{what}>")))
    }
}

/// `TimerHandle.cancel`
pub struct CancelTimer;

impl BareMethod for CancelTimer {
    type Class = TimerHandle;
    const NAME: &'static CStr = c"cancel";
    const DOC: &'static CStr = c"cancel($self, /)\n--\n\nCancel the callback. A second call, or one after the callback has run, does nothing.";

    fn call<'py>(slf: Borrowed<'_, 'py, TimerHandle>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.work.cancel(py)
            && let Some(owner) = this.owner.take(py)
        {
            (owner.calls.remove)(owner.object.bind(py), this.key());
            // The program may keep the handle, with the context.
            recycled::track(py, slf.as_unbound());
        }
        Ok(py.None().into_bound(py))
    }
}
