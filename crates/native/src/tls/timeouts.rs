//! `Timeouts`: the limits for handshake and shutdown, in seconds.

use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

#[derive(Clone, Copy)]
pub struct Timeouts {
    pub handshake_s: f64,
    pub shutdown_s: f64,
}

impl Timeouts {
    /// asyncio's defaults for `None`; ValueError for anything not positive.
    pub fn new(
        py: Python<'_>,
        handshake_s: Option<f64>,
        shutdown_s: Option<f64>,
    ) -> PyResult<Self> {
        let checked = |name: &str, default: &str, given: Option<f64>| match given {
            None => imports::asyncio_constants(py)?.getattr(default)?.extract(),
            Some(seconds) if seconds <= 0.0 => Err(PyValueError::new_err(format!(
                "{name} should be a positive number, got {seconds}"
            ))),
            Some(seconds) => Ok(seconds),
        };
        Ok(Self {
            handshake_s: checked("ssl_handshake_timeout", "SSL_HANDSHAKE_TIMEOUT", handshake_s)?,
            shutdown_s: checked("ssl_shutdown_timeout", "SSL_SHUTDOWN_TIMEOUT", shutdown_s)?,
        })
    }
}
