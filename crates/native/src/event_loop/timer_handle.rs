//! `TimerHandle`: what `call_later` and `call_at` return.

use super::LoopCore;
use super::work::Work;
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicBool, Ordering};

/// A callback that waits for its time; the object returned by `loop.call_later()` and
/// `loop.call_at()`. Has the interface of `asyncio.TimerHandle`.
#[pyclass(frozen, freelist = 512, module = "oneloop")]
pub struct TimerHandle {
    pub work: Work,
    /// Seconds on the loop's clock.
    when_s: f64,
    owner: Py<LoopCore>,
    /// In the heap; false once it has been popped.
    scheduled: AtomicBool,
}

impl TimerHandle {
    pub fn new(work: Work, when_s: f64, owner: Py<LoopCore>) -> Self {
        Self { work, when_s, owner, scheduled: AtomicBool::new(true) }
    }

    pub fn when_s(&self) -> f64 {
        self.when_s
    }

    pub fn owner(&self) -> &Py<LoopCore> {
        &self.owner
    }

    /// It has left the heap.
    pub fn popped(&self) {
        self.scheduled.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub fn run(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        slf.get().work.run(owner, slf.as_any())
    }
}

#[pymethods]
impl TimerHandle {
    /// Cancel the callback. A second call, or one after the callback has run, does nothing.
    fn cancel(&self, py: Python<'_>) {
        if self.work.cancel(py) && self.scheduled.load(Ordering::Relaxed) {
            self.owner.get().note_cancelled_timer(py);
        }
    }

    /// True if the callback was cancelled.
    fn cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    /// The time at which the callback is due, in seconds on the clock of `loop.time()`.
    fn when(&self) -> f64 {
        self.when_s
    }

    /// The contextvars.Context in which the callback runs.
    fn get_context<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.work.context.bind(py).clone()
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
    fn _context<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.work.context.bind(py).clone()
    }

    #[getter]
    fn _when(&self) -> f64 {
        self.when_s
    }

    #[getter]
    fn _scheduled(&self) -> bool {
        self.scheduled.load(Ordering::Relaxed)
    }

    #[getter]
    fn _cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        pyo3::types::PyFloat::new(py, self.when_s).hash()
    }

    /// Orders by time. Equal means, as in asyncio, the same time, callback, arguments and state.
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return Ok(py.NotImplemented()) };
        let other = other.get();
        let equal = || -> PyResult<bool> {
            if self.when_s != other.when_s
                || self.work.is_cancelled() != other.work.is_cancelled()
            {
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.work.is_cancelled() { " cancelled" } else { "" };
        let when = pyo3::types::PyFloat::new(py, self.when_s).repr()?;
        let what = self.work.describe(py)?;
        let space = if what.is_empty() { "" } else { " " };
        Ok(format!("<TimerHandle{state} when={when}{space}{what}>"))
    }
}
