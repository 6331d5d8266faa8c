//! ResourceWarning for transports that a program forgot to close.

use super::descriptor::Descriptor;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use std::ffi::CString;

/// Warns about a descriptor that is still open, and closes it. Called while the transport is being freed, when it can
/// no longer be passed as the warning's source.
pub fn end(kind: &str, descriptor: &Descriptor) {
    if descriptor.is_leaking() {
        warn_and(kind, |py| descriptor.close_while_freed(py));
    }
}

/// Warns about a transport that owns no descriptor.
pub fn warn(kind: &str) {
    warn_and(kind, |_| Ok(()));
}

fn warn_and(kind: &str, then: impl FnOnce(Python<'_>) -> PyResult<()>) {
    Python::attach(|py| {
        // Freeing may happen while an exception is propagating: keep it.
        let pending = PyErr::take(py);
        // The C API needs no import, which would fail while the interpreter shuts down.
        let category = py.get_type::<PyResourceWarning>();
        let text = CString::new(format!("unclosed transport <{kind}>"));
        let warned = match text {
            Ok(text) => PyErr::warn(py, category.as_any(), &text, 1),
            Err(error) => Err(error.into()),
        };
        for outcome in [warned, then(py)] {
            if let Err(error) = outcome {
                // If warnings are errors, they cannot be raised from here; CPython does the same in __del__.
                error.write_unraisable(py, None);
            }
        }
        if let Some(error) = pending {
            error.restore(py);
        }
    });
}
