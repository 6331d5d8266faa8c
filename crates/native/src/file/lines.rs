//! `Lines`: iterates over the lines of a file, mostly from the read-ahead data.

use super::fast::FastFile;
use crate::ffi::awaitable::{self, Iterate, SpareStop, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::{LoopCell, Object, text};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
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
    state: LoopCell<State>,
    spare: SpareStop,
}

#[derive(Default)]
struct State {
    /// Lines that may be returned before the clock is read again.
    credit: u32,
    /// Returned as an awaitable that has not started.
    is_given: bool,
    /// The coroutine that this object's await waits for.
    waiting: Option<Object>,
}

/// The exception that returned a longer line is not kept: it would keep the line.
const LONG: usize = 4096;

impl Lines {
    /// Keeps the coroutine of an await that is not finished.
    fn after(&self, py: Python<'_>, steps: Object, step: PyResult<Step>) -> PyResult<Step> {
        if let Ok(Step::Yielded(_)) = step {
            drop(self.state.with(py, |state| state.waiting.replace(steps)));
        }
        step
    }

    /// The coroutine of the pending await, which ends here.
    fn take_waiting(&self, py: Python<'_>) -> Option<Object> {
        self.state.with(py, |state| {
            state.is_given = false;
            state.waiting.take()
        })
    }

    fn more<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.more.bind(py).call0()
    }
}

impl Iterate for Lines {
    #[inline]
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let is_free = this.state.with(py, |state| {
            let is_free = !state.is_given && state.waiting.is_none();
            state.is_given |= is_free;
            is_free
        });
        if is_free { Ok(slf.to_owned().into_any()) } else { this.more(py) }
    }
}

impl Steps for Lines {
    #[inline]
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let (py, this) = (slf.py(), slf.get());
        let (waiting, mut credit) = this.state.with(py, |state| {
            state.is_given = false;
            (state.waiting.take(), state.credit)
        });
        let steps = if let Some(steps) = waiting {
            steps
        } else {
            let line = this.file.get().next_line(py, &mut credit);
            this.state.with(py, |state| state.credit = credit);
            match line? {
                Some(line) => return Ok(Step::Returned(line)),
                None => Object::new(this.more(py)?.call_method0(intern!(py, "__await__"))?),
            }
        };
        let step = coroutine::send(steps.bind(py), value);
        this.after(py, steps, step)
    }

    #[inline]
    fn spare<'a>(
        slf: &'a Borrowed<'_, '_, Self>,
        line: &Bound<'_, PyAny>,
    ) -> Option<&'a SpareStop> {
        let len = if let Ok(line) = line.cast_exact::<PyBytes>() {
            line.as_bytes().len()
        } else {
            text::length(line.cast_exact::<PyString>().ok()?)
        };
        (len <= LONG).then(|| &slf.get().spare)
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new(more: Py<PyAny>, file: Py<FastFile>) -> Self {
        Self { more, file, state: LoopCell::default(), spare: SpareStop::default() }
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
        let Some(steps) = self.take_waiting(py) else {
            return Err(coroutine::raised(args)?);
        };
        let thrown = steps.bind(py).call_method1(intern!(py, "throw"), args.clone());
        let step = thrown.map(|object| Step::Yielded(Object::new(object)));
        match self.after(py, steps, step)? {
            Step::Yielded(object) | Step::Returned(object) => Ok(object.bind(py).clone()),
        }
    }

    /// Like a coroutine's `close`: ends the pending await.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.take_waiting(py) {
            Some(steps) => steps.bind(py).call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.more)?;
        visit.call(&self.file)?;
        let visited = self
            .state
            .peek(|state| state.waiting.as_ref().map_or(Ok(()), |steps| steps.visit(&visit)));
        visited.unwrap_or(Ok(()))?;
        let visited =
            self.spare.peek(|spare| spare.as_ref().map_or(Ok(()), |error| error.visit(&visit)));
        visited.unwrap_or(Ok(()))
    }
}
