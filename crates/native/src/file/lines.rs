//! `Lines`: iterates over the lines of a file, most of them straight out of what was read ahead.

use super::fast::FastFile;
use crate::ffi::awaitable::{Iterate, Ready};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object, call};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// A line that was there: awaiting it does not wait.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Line(LoopCell<Option<Object>>);

impl Recycled for Line {
    const IS_COLLECTED: bool = false;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl Ready for Line {
    fn take(slf: Borrowed<'_, '_, Self>) -> PyResult<Object> {
        let line = slf.get().0.take(slf.py());
        line.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited line"))
    }
}

#[pymethods]
impl Line {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let line = Self::take(slf.as_borrowed())?;
        Err(call::stop_iteration(line.bind(slf.py()))?)
    }
}

/// The lines of a file.
///
/// It is the awaitable of its next line itself, unless that of the line before was not awaited yet.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Lines {
    /// Called when there is no line: an awaitable of the next, or of StopAsyncIteration.
    more: Py<PyAny>,
    file: Py<FastFile>,
    /// Lines that may be given before the time is looked at again.
    credit: LoopCell<u32>,
    /// What awaiting this object gives.
    next: LoopCell<Option<Object>>,
}

impl Iterate for Lines {
    #[inline]
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let mut credit = this.credit.get(py);
        let line = this.file.get().next_line(py, &mut credit);
        this.credit.set(py, credit);
        let Some(line) = line? else {
            return this.more.bind(py).call0();
        };
        let crossed = this.next.with(py, |next| match next {
            None => {
                *next = Some(line);
                None
            }
            Some(_) => Some(line),
        });
        match crossed {
            None => Ok(slf.to_owned().into_any()),
            Some(line) => Ok(recycled::make(py, Line(LoopCell::new(Some(line))))?.into_any()),
        }
    }
}

impl Ready for Lines {
    #[inline]
    fn take(slf: Borrowed<'_, '_, Self>) -> PyResult<Object> {
        let line = slf.get().next.take(slf.py());
        line.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited line"))
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new(more: Py<PyAny>, file: Py<FastFile>) -> Self {
        Self { more, file, credit: LoopCell::default(), next: LoopCell::new(None) }
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
        let line = Self::take(slf.as_borrowed())?;
        Err(call::stop_iteration(line.bind(slf.py()))?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.more)?;
        visit.call(&self.file)
    }
}
