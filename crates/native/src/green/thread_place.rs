//! `ThreadPlace`: a place in a line for an OS thread without green threads, which blocks there.

use super::limit::Limit;
use crate::ffi::LoopCell;
use oneloop_engine::sys::fork;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};

/// More than a century; `_thread.TIMEOUT_MAX` is more.
const LONGEST_S: f64 = 4e9;

/// Has the methods of a `Waiter`. A signal's handler sees it woken or not, and nothing in between.
#[pyclass(frozen, module = "oneloop._native")]
pub struct ThreadPlace {
    /// A lock of `_thread`, held until the wake-up.
    lock: Py<PyAny>,
    is_woken: LoopCell<bool>,
    /// `fork::generation` of the process of the thread.
    born: u32,
}

impl ThreadPlace {
    /// Blocks until it is woken. Returns whether that happened within the limit.
    pub fn wait(&self, py: Python<'_>, limit: &Limit<'_, '_>) -> PyResult<bool> {
        let timeout_s = match limit {
            Limit::Seconds(timeout_s) if *timeout_s < LONGEST_S => timeout_s.max(0.0),
            _ => -1.0,
        };
        self.lock.bind(py).call_method1(intern!(py, "acquire"), (true, timeout_s))?.is_truthy()
    }
}

#[pymethods]
impl ThreadPlace {
    /// `lock`: a free lock of `_thread`.
    #[new]
    fn new(lock: &Bound<'_, PyAny>) -> PyResult<Self> {
        lock.call_method0(intern!(lock.py(), "acquire"))?;
        let born = fork::generation();
        Ok(Self { lock: lock.clone().unbind(), is_woken: LoopCell::new(false), born })
    }

    /// Wake the thread. Returns False if it was woken before, or is a thread of the parent process.
    #[pyo3(signature = (_value = None, /))]
    pub fn wake(&self, py: Python<'_>, _value: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let is_first = !self.is_woken.get(py) && self.born == fork::generation();
        if is_first {
            self.lock.bind(py).call_method0(intern!(py, "release"))?;
            self.is_woken.set(py, true);
        }
        Ok(is_first)
    }

    /// Whether it was woken.
    pub fn done(&self, py: Python<'_>) -> bool {
        self.is_woken.get(py)
    }

    /// Block for at most `timeout_s` seconds; None means no limit. Returns whether it was woken.
    #[pyo3(name = "wait", signature = (timeout_s, /))]
    fn wait_for(&self, py: Python<'_>, timeout_s: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        self.wait(py, &Limit::of(timeout_s)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)
    }
}
