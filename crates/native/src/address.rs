//! Socket addresses between the kernel's form and Python's, as the `socket` module writes them.

use crate::imports;
use oneloop_engine::sys::address::{Address, Decoded};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// `(host, port)`, `(host, port, flowinfo, scope_id)`, a path, or the bytes of an abstract name.
pub fn to_python<'py>(py: Python<'py>, address: &Address) -> PyResult<Bound<'py, PyAny>> {
    match address.decode() {
        Decoded::V4 { host, port } => (host, port).into_bound_py_any(py),
        Decoded::V6 { host, port, flow, scope } => (host, port, flow, scope).into_bound_py_any(py),
        Decoded::Unix(name) if name.first() == Some(&0) => Ok(PyBytes::new(py, name).into_any()),
        Decoded::Unix(path) => imports::fsdecode(py)?.call1((PyBytes::new(py, path),)),
        Decoded::Empty | Decoded::Other(_) => Ok(py.None().into_bound(py)),
    }
}
