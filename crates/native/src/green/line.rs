//! `LineCore`: a line of green threads and coroutines.

use super::limit::{Limit, timed_out, wait};
use super::places::{Places, wake};
use super::{HubCore, Waiter};
use crate::ffi::{LoopCell, Object, call};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// Waiters, first come, first served. Any thread may wake them.
#[pyclass(frozen, subclass, module = "oneloop._native")]
pub struct LineCore {
    places: LoopCell<Places>,
}

impl LineCore {
    /// Wakes the waiter that has waited longest. Returns false if there is none.
    pub fn wake_with(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut failure: Option<PyErr> = None;
        while let Some(place) = self.places.with(py, Places::next) {
            match wake(place.bind(py), value) {
                // The value has its receiver, so this must not look as if it had failed.
                Ok(true) => {
                    if let Some(error) = failure {
                        error.write_unraisable(py, None);
                    }
                    return Ok(true);
                }
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(false), Err)
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
        self.places.with(py, |places| places.last().map(|place| place.as_ref().clone_ref(py)))
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
        self.places.with(py, |places| places.enter(place));
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
        drop(self.places.with(place.py(), |places| places.remove(place)));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.places.peek(|places| places.visit(&visit)).unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.places.take(py));
    }
}
