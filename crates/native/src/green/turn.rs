//! `Turn`: what the hub switches to next.

use crate::ffi::{Object, greenlet};
use pyo3::prelude::*;

/// The next turn of a green thread.
pub struct Turn {
    pub target: Object,
    /// Raised in the target.
    pub error: Option<Object>,
    /// The target has not begun, and its parent must be set to the hub first.
    pub starts: bool,
}

impl Turn {
    /// The turn of a greenlet that has not begun and whose parent is already the hub.
    pub fn beginning(target: Object) -> Self {
        Self { target, error: None, starts: false }
    }

    /// The turn of a greenlet that has not begun.
    pub fn unbegun(target: Object) -> Self {
        Self { target, error: None, starts: true }
    }

    /// Switches to the target until another greenlet switches back here.
    pub fn take<'py>(&self, hub: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = hub.py();
        if self.starts {
            greenlet::set_parent(self.target.bind(py), hub)?;
        }
        self.go(py)
    }

    /// Like `take`, for a greenlet that has begun.
    pub fn go<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.error {
            None => greenlet::switch(self.target.bind(py)),
            Some(error) => greenlet::throw(self.target.bind(py), error.bind(py)),
        }
    }
}
