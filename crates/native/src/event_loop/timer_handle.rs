//! `TimerHandle`: what `call_later` and `call_at` return.

use super::LoopCore;
use super::work::Work;
use crate::ffi::LoopCell;
use crate::ffi::method::BareMethod;
use crate::ffi::recycled::{Pool, Recycled};
use crate::imports;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;

/// A callback waiting for its deadline. Returned by `loop.call_later()` and `loop.call_at()`; has the interface of
/// `asyncio.TimerHandle`.
#[pyclass(frozen, weakref, module = "oneloop")]
pub struct TimerHandle {
    pub work: Work,
    /// Seconds on the loop's clock.
    when_s: f64,
    /// The loop whose heap it is in; `None` once it has left the heap.
    owner: LoopCell<Option<Py<LoopCore>>>,
}

impl TimerHandle {
    pub fn new(work: Work, when_s: f64, owner: Py<LoopCore>) -> Self {
        Self { work, when_s, owner: LoopCell::new(Some(owner)) }
    }

    /// Called when it has left the heap, to be run or because it was cancelled.
    pub fn popped(&self, py: Python<'_>) {
        if let Some(owner) = self.owner.take(py) {
            // The loop is alive: this is never its last reference.
            owner.drop_ref(py);
        }
        if self.work.is_cancelled() {
            self.work.forget(py);
        }
    }

    #[inline]
    pub fn run(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        slf.get().work.run(owner, slf.as_any())
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
    fn when(&self) -> f64 {
        self.when_s
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
    fn _when(&self) -> f64 {
        self.when_s
    }

    #[getter]
    fn _scheduled(&self, py: Python<'_>) -> bool {
        self.owner.with(py, |owner| owner.is_some())
    }

    #[getter]
    fn _cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        pyo3::types::PyFloat::new(py, self.when_s).hash()
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
        self.owner.peek(|owner| visit.call(owner)).unwrap_or(Ok(()))?;
        self.work.visit(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.owner.take(py));
        self.work.forget(py);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.work.is_cancelled() { " cancelled" } else { "" };
        let when = pyo3::types::PyFloat::new(py, self.when_s).repr()?;
        let what = self.work.describe(py)?;
        let space = if what.is_empty() { "" } else { " " };
        Ok(format!("<TimerHandle{state} when={when}{space}{what}>"))
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
        if this.work.cancel(py) {
            this.owner.with(py, |owner| {
                if let Some(owner) = owner {
                    owner.get().note_cancelled_timer(py);
                }
            });
        }
        Ok(py.None().into_bound(py))
    }
}
