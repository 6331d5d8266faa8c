//! ResourceWarning for transports that a program forgot to close.

use super::descriptor::Descriptor;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use std::ffi::CString;

/// Warns of a descriptor that is still open, and closes it. Called while the transport is being
/// freed, so that it can no longer be shown as the source.
pub fn end(kind: &str, descriptor: &Descriptor) {
    if descriptor.is_leaking() {
        warn_and(kind, |py| descriptor.close_while_freed(py));
    }
}

/// Warns of a transport that owns no descriptor.
pub fn warn(kind: &str) {
    warn_and(kind, |_| Ok(()));
}

fn warn_and(kind: &str, then: impl FnOnce(Python<'_>) -> PyResult<()>) {
    Python::attach(|py| {
        // Freeing may happen while an exception is on its way: keep it.
        let pending = PyErr::take(py);
        // Through the C API, which needs no import: an interpreter that goes down has none any more.
        let category = py.get_type::<PyResourceWarning>();
        let text = CString::new(format!("unclosed transport <{kind}>"));
        let warned = match text {
            Ok(text) => PyErr::warn(py, category.as_any(), &text, 1),
            Err(error) => Err(error.into()),
        };
        for outcome in [warned, then(py)] {
            if let Err(error) = outcome {
                // Warnings turned into errors cannot be raised from here: as CPython does in __del__.
                error.write_unraisable(py, None);
            }
        }
        if let Some(error) = pending {
            error.restore(py);
        }
    });
}
