//! `Event`: the result of one request.

use super::request::Request;
use crate::errors;
use crate::ffi::values::Value;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::io;

/// The result of a request. Made by `Context.get_events()`.
#[pyclass(frozen, module = "oneloop.aio")]
pub struct Event {
    request: Py<Request>,
    response: i64,
    second_response: i64,
}

impl Event {
    pub fn new(request: Py<Request>, response: i64, second_response: i64) -> Self {
        Self { request, response, second_response }
    }
}

#[pymethods]
impl Event {
    /// The request.
    #[getter]
    fn request(&self, py: Python<'_>) -> Py<Request> {
        self.request.clone_ref(py)
    }

    /// The system call's return value (bytes, a poll mask, 0), or a negative errno.
    #[getter]
    fn response(&self) -> Value<i64> {
        Value(self.response)
    }

    /// The kernel's second result; 0 for every existing operation.
    #[getter]
    fn response2(&self) -> Value<i64> {
        Value(self.second_response)
    }

    /// Return the response of a successful request.
    ///
    /// Raises:
    ///     OSError: it has failed; of the subclass for the errno.
    fn result(&self, py: Python<'_>) -> PyResult<Value<i64>> {
        if self.response >= 0 {
            return Ok(Value(self.response));
        }
        let errno = i32::try_from(-self.response).unwrap_or(i32::MAX);
        let operation = self.request.bind(py).get().operation_name();
        Err(errors::os_error(operation, &io::Error::from_raw_os_error(errno))).map(Value)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        Ok(Value(format!("<Event {} response={}>", self.request.bind(py).repr()?, self.response)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.request)
    }
}
