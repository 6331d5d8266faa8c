//! TLS: the contract between a transport and the library that does the cryptography, and the libraries.

mod rustls;
#[allow(dead_code, reason = "the transport that drives sessions is not here yet")]
mod session;

use pyo3::prelude::*;

pub fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    self::rustls::add_classes(module)
}
