//! `Canceller`: notifies the engine when the future of an operation is cancelled.
//!
//! Only for operations that may take long. Others complete on their own, and then find their future cancelled.

use super::Files;
use oneloop_engine::files::Ticket;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A done callback of a future.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Canceller {
    files: Py<Files>,
    ticket: Ticket,
    /// A flag that a thread checks after it has started.
    abandoned: Option<Abandoned>,
}

/// Set when nobody waits any more.
pub type Abandoned = Arc<AtomicBool>;

impl Canceller {
    pub fn watch(
        files: &Bound<'_, Files>,
        future: &Bound<'_, PyAny>,
        ticket: Ticket,
        abandoned: Option<Abandoned>,
    ) -> PyResult<()> {
        let canceller = Self { files: files.clone().unbind(), ticket, abandoned };
        let py = files.py();
        future.call_method1(intern!(py, "add_done_callback"), (Bound::new(py, canceller)?,))?;
        Ok(())
    }

    /// For a future that cannot be cancelled: its attribute `withdraw` asks the operation to end early.
    pub fn lend(
        files: &Bound<'_, Files>,
        future: &Bound<'_, PyAny>,
        ticket: Ticket,
        abandoned: Option<Abandoned>,
    ) -> PyResult<()> {
        let canceller = Self { files: files.clone().unbind(), ticket, abandoned };
        let py = files.py();
        future.setattr(
            intern!(py, "withdraw"),
            Bound::new(py, canceller)?.getattr(intern!(py, "withdraw"))?,
        )
    }

    fn end(&self, py: Python<'_>) {
        if let Some(abandoned) = &self.abandoned {
            abandoned.store(true, Ordering::Release);
        }
        Files::cancel(self.files.bind(py), self.ticket);
    }
}

#[pymethods]
impl Canceller {
    fn withdraw(&self, py: Python<'_>) {
        self.end(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.files)
    }

    fn __call__(&self, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = future.py();
        if future.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
            self.end(py);
        }
        Ok(())
    }
}
