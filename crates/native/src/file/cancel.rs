//! `Canceller`: tells the engine when the future of an operation was cancelled.
//!
//! Only for what may wait for ever: other operations end by themselves, and find their future
//! cancelled then.

use super::Files;
use oneloop_engine::files::Ticket;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// A done callback of a future.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Canceller {
    files: Py<Files>,
    ticket: Ticket,
}

impl Canceller {
    pub fn watch(
        files: &Bound<'_, Files>,
        future: &Bound<'_, PyAny>,
        ticket: Ticket,
    ) -> PyResult<()> {
        let canceller = Self { files: files.clone().unbind(), ticket };
        let py = files.py();
        future.call_method1(intern!(py, "add_done_callback"), (Bound::new(py, canceller)?,))?;
        Ok(())
    }
}

#[pymethods]
impl Canceller {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.files)
    }

    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = future.py();
        if future.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
            Files::cancel(self.files.bind(py), self.ticket);
        }
        Ok(())
    }
}
