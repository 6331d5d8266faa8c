//! `Lines`: iterates over the lines of a file, mostly from the read-ahead data.

use super::fast::FastFile;
use crate::ffi::awaitable::{self, Iterate, Step, Steps};
use crate::ffi::{LoopCell, Object, call};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit, intern};

/// The lines of a file.
///
/// This object is also the awaitable of its next line. A line is taken when it is awaited, so that no line is lost if
/// an awaitable is never awaited. Awaiting it again takes the next line. While one await is pending, other callers
/// get separate awaitables.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Lines {
    /// Called when no line is available: returns an awaitable of the next one, or of StopAsyncIteration.
    more: Py<PyAny>,
    file: Py<FastFile>,
    /// Lines that may be returned before the clock is read again.
    credit: LoopCell<u32>,
    /// Returned as an awaitable that has not started.
    is_given: LoopCell<bool>,
    /// The coroutine that this object's await waits for.
    waiting: LoopCell<Option<Object>>,
}

impl Lines {
    fn line(&self, py: Python<'_>) -> PyResult<Option<Object>> {
        let mut credit = self.credit.get(py);
        let line = self.file.get().next_line(py, &mut credit);
        self.credit.set(py, credit);
        line
    }

    /// Keeps the coroutine of an await that is not finished.
    fn after(&self, py: Python<'_>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        if let Ok(Step::Yielded(_)) = step {
            self.waiting.with(py, |waiting| *waiting = Some(steps));
        }
        step
    }

    fn more<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.more.bind(py).call0()
    }
}

impl Iterate for Lines {
    #[inline]
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let is_free = !this.is_given.get(py) && this.waiting.with(py, |waiting| waiting.is_none());
        if !is_free {
            return this.more(py);
        }
        this.is_given.set(py, true);
        Ok(slf.to_owned().into_any())
    }
}

impl Steps for Lines {
    #[inline]
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let (py, this) = (slf.py(), slf.get());
        this.is_given.set(py, false);
        let steps = match this.waiting.take(py) {
            Some(steps) => steps,
            None => match this.line(py)? {
                Some(line) => return Ok(Step::Returned(line)),
                None => Object::new(this.more(py)?.call_method0(intern!(py, "__await__"))?),
            },
        };
        let step = call::send(steps.bind(py), value);
        this.after(py, steps, step)
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new(more: Py<PyAny>, file: Py<FastFile>) -> Self {
        Self {
            more,
            file,
            credit: LoopCell::default(),
            is_given: LoopCell::default(),
            waiting: LoopCell::new(None),
        }
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::next(slf.as_borrowed())
    }

    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::sent(slf, &slf.py().None().into_bound(slf.py()))
    }

    /// Like a coroutine's `send`.
    #[pyo3(name = "send", signature = (value, /))]
    fn sent(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    /// Like a coroutine's `throw`: passed to what the await waits for.
    #[pyo3(signature = (*args))]
    fn throw<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.is_given.set(py, false);
        let Some(steps) = self.waiting.take(py) else {
            return Err(call::raised(args)?);
        };
        let thrown = steps.bind(py).call_method1(intern!(py, "throw"), args.clone());
        let step = thrown.map(|object| Step::Yielded(Object::new(object)));
        match self.after(py, steps, step)? {
            Step::Yielded(object) | Step::Returned(object) => Ok(object.bind(py).clone()),
        }
    }

    /// Like a coroutine's `close`: ends the pending await.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.is_given.set(py, false);
        match self.waiting.take(py) {
            Some(steps) => steps.bind(py).call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.more)?;
        visit.call(&self.file)?;
        let visited = self.waiting.peek(|waiting| match waiting {
            Some(steps) => steps.visit(&visit),
            None => Ok(()),
        });
        visited.unwrap_or(Ok(()))
    }
}
