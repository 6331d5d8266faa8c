//! `Handle`: what `call_soon` returns.

use super::LoopCore;
use super::work::{Args, Call, Work};
use crate::ffi::context;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A callback that waits for its turn; the object returned by `loop.call_soon()` and
/// `loop.call_soon_threadsafe()`. Has the interface of `asyncio.Handle`.
#[pyclass(frozen, freelist = 512, module = "oneloop")]
pub struct Handle {
    pub work: Work,
}

impl Handle {
    /// For a callback that runs in a copy of the current context.
    pub fn make(
        py: Python<'_>,
        callback: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<Self>> {
        let args = if args.is_empty() { Args::None } else { Args::Many(args.clone().unbind()) };
        let work = Work::new(Call { callback, args }, context::copy_current(py)?);
        Py::new(py, Self { work })
    }

    #[inline]
    pub fn run(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        slf.get().work.run(owner, slf.as_any())
    }
}

#[pymethods]
impl Handle {
    /// Cancel the callback. A second call, or one after the callback has run, does nothing.
    fn cancel(&self, py: Python<'_>) {
        self.work.cancel(py);
    }

    /// True if the callback was cancelled.
    fn cancelled(&self) -> bool {
        self.work.is_cancelled()
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
    fn _cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let state = if self.work.is_cancelled() { " cancelled" } else { "" };
        let what = self.work.describe(py)?;
        let space = if what.is_empty() { "" } else { " " };
        Ok(format!("<Handle{state}{space}{what}>"))
    }
}
