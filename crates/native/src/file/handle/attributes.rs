//! The attributes of a `FileHandle` that its slow half reads and sets.

use super::super::read_ahead::ReadAhead;
use super::FileHandle;
use crate::ffi::values::Value;
use pyo3::prelude::*;
use std::os::fd::RawFd;

#[pymethods]
impl FileHandle {
    /// The bytes read ahead.
    #[getter(ahead)]
    fn made_ahead(&self, py: Python<'_>) -> PyResult<Py<ReadAhead>> {
        if let Some(ahead) = self.ahead.get() {
            return Ok(ahead.clone_ref(py));
        }
        let made = Bound::new(py, ReadAhead::of_bytes(py)?)?.unbind();
        Ok(self.ahead.get_or_init(|| made).clone_ref(py))
    }

    #[getter]
    fn _flying(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.slow.with(py, |slow| slow.flying.as_ref().map(|object| object.clone_ref(py)))
    }

    #[setter(_flying)]
    fn set_flying(&self, py: Python<'_>, operations: Option<Py<PyAny>>) {
        drop(self.slow.with(py, |slow| std::mem::replace(&mut slow.flying, operations)));
    }

    #[getter]
    fn _flight(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.slow.with(py, |slow| slow.flight.as_ref().map(|object| object.clone_ref(py)))
    }

    #[setter(_flight)]
    fn set_flight(&self, py: Python<'_>, flight: Option<Py<PyAny>>) {
        drop(self.slow.with(py, |slow| std::mem::replace(&mut slow.flight, flight)));
    }

    #[getter]
    fn closing(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.slow.with(py, |slow| slow.closing.as_ref().map(|object| object.clone_ref(py)))
    }

    #[setter]
    fn set_closing(&self, py: Python<'_>, closing: Option<Py<PyAny>>) {
        drop(self.slow.with(py, |slow| std::mem::replace(&mut slow.closing, closing)));
    }

    /// How much the slow half reads at a time, in bytes.
    #[getter]
    fn _step_bytes(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |state| state.step_bytes))
    }

    #[setter(_step_bytes)]
    fn set_step_bytes(&self, py: Python<'_>, step_bytes: usize) {
        self.state.with(py, |state| state.step_bytes = step_bytes);
    }

    /// The descriptor; -1 once it is released.
    #[getter]
    fn number(&self, py: Python<'_>) -> Value<RawFd> {
        Value(self.state.with(py, |state| state.number))
    }

    #[setter]
    fn set_number(&self, py: Python<'_>, number: RawFd) {
        self.state.with(py, |state| state.number = number);
    }

    /// The position; -1: the kernel's.
    #[getter]
    fn offset(&self, py: Python<'_>) -> Value<i64> {
        Value(self.state.with(py, |state| state.offset))
    }

    #[setter]
    fn set_offset(&self, py: Python<'_>, offset: i64) {
        self.state.with(py, |state| state.offset = offset);
    }

    /// Whether closing may have to wait.
    #[getter]
    fn was_written(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.was_written)
    }

    #[setter]
    fn set_was_written(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.was_written = value);
    }

    /// The number of users of the descriptor that no task waits for.
    #[getter]
    fn watched(&self, py: Python<'_>) -> Value<u32> {
        Value(self.state.with(py, |state| state.watched))
    }

    #[setter]
    fn set_watched(&self, py: Python<'_>, count: u32) {
        self.state.with(py, |state| state.watched = count);
    }

    /// Whether an operation holds the turn.
    #[getter]
    fn is_taken(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_taken)
    }

    #[setter]
    fn set_is_taken(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.is_taken = value);
    }

    /// Whether a cancelled operation has left a running transfer.
    #[getter]
    fn has_flight(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.has_flight)
    }

    #[setter]
    fn set_has_flight(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.has_flight = value);
    }
}
