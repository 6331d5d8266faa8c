//! `OwnContext`: the context of one connection, in which every method of its protocol runs.
//!
//! It is that in which the connection was made, whoever causes the call later: a task that resumes reading, writes or
//! closes has its own variables, which may be another user's. asyncio does so from Python 3.15 on; before, its handles
//! take the caller's. What one method sets in it, the next one sees.

use crate::ffi::context;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, Ordering};

pub struct OwnContext {
    object: Py<PyAny>,
    /// One of the methods is running. A context cannot be entered twice. Changed with the GIL, in the loop's thread.
    is_entered: AtomicBool,
}

impl OwnContext {
    /// `given`: `None` for a copy of the current one.
    pub fn new(py: Python<'_>, given: Option<Py<PyAny>>) -> PyResult<Self> {
        let object = match given {
            Some(object) => object,
            None => context::copy_current(py)?.unbind(),
        };
        Ok(Self { object, is_entered: AtomicBool::new(false) })
    }

    pub fn object<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// Runs `f` in it. A method that is called within another one stays in the current context, if that has the same
    /// variables.
    #[inline]
    pub fn run<R>(&self, py: Python<'_>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        if self.is_entered.load(Ordering::Relaxed) {
            return context::run_entered(self.object(py), f);
        }
        self.is_entered.store(true, Ordering::Relaxed);
        let outcome = context::run_anyway(self.object(py), f);
        self.is_entered.store(false, Ordering::Relaxed);
        outcome
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }
}
