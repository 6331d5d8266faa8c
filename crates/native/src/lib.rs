//! The extension module `oneloop._native`: exports only.

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
