//! `Limit`: how long a green thread waits, in seconds or by a `Timeout`.

use super::Waiter;
use pyo3::exceptions::{PyBaseException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The result of a wait that has timed out.
static TIMED_OUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

pub fn timed_out(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let make = || Ok(py.import("builtins")?.getattr(intern!(py, "object"))?.call0()?.unbind());
    TIMED_OUT.get_or_try_init(py, make).map(|object| object.bind(py).clone())
}

/// How long a wait may last.
pub enum Limit<'a, 'py> {
    Never,
    Seconds(f64),
    /// A `Timeout`, which raises itself or its exception in the waiting green thread.
    Timeout(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Limit<'a, 'py> {
    pub fn of(timeout: Option<&'a Bound<'py, PyAny>>) -> PyResult<Self> {
        match timeout {
            None => Ok(Self::Never),
            Some(timeout) if timeout.is_instance_of::<PyBaseException>() => {
                if timeout.hasattr(intern!(timeout.py(), "start_new"))? {
                    return Ok(Self::Timeout(timeout));
                }
                let kind = timeout.get_type();
                let text = format!("a timeout must be a number or a Timeout, not {kind}");
                Err(PyTypeError::new_err(text))
            }
            Some(timeout) => Ok(Self::Seconds(timeout.extract()?)),
        }
    }

    /// Whether the error is the timeout itself.
    pub fn has_raised(&self, error: &PyErr) -> bool {
        matches!(self, Self::Timeout(timeout) if error.value(timeout.py()).is(*timeout))
    }
}

/// Waits for at most the given time. Returns the value of the wait, or `TIMED_OUT`.
pub fn wait<'py>(
    waiter: &Bound<'py, Waiter>,
    limit: &Limit<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = waiter.py();
    let timeout_s = match limit {
        Limit::Timeout(timeout) => {
            timeout.call_method1(intern!(py, "start_new"), (timeout,))?;
            let waited = Waiter::get(waiter);
            timeout.call_method0(intern!(py, "cancel"))?;
            return waited.map(|value| value.into_bound(py));
        }
        Limit::Seconds(timeout_s) if timeout_s.is_finite() => timeout_s,
        Limit::Never | Limit::Seconds(_) => {
            return Waiter::get(waiter).map(|value| value.into_bound(py));
        }
    };
    let wake = waiter.getattr(intern!(py, "wake"))?;
    let owner = waiter.get().hub(py).get().owner(py).clone();
    let late = (timeout_s.max(0.0), wake, timed_out(py)?);
    let timer = owner.call_method1(intern!(py, "call_later"), late)?;
    let waited = Waiter::get(waiter);
    timer.call_method0(intern!(py, "cancel"))?;
    waited.map(|value| value.into_bound(py))
}

/// Wait for a waiter. Returns its value, or `TIMED_OUT` after `timeout_s` seconds.
///
/// Raises:
///     BaseException: `timeout_s` is a `Timeout`, and it or its exception was raised.
#[pyfunction]
#[pyo3(signature = (waiter, timeout_s, /))]
pub fn wait_for<'py>(
    waiter: &Bound<'py, Waiter>,
    timeout_s: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    wait(waiter, &Limit::of(timeout_s)?)
}
