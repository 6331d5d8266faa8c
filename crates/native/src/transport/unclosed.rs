//! ResourceWarning for transports that a program forgot to close.

use crate::imports;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;

/// Called while the object is being freed, so that it can no longer be shown as the source.
pub fn warn(kind: &str) {
    Python::attach(|py| {
        // Freeing may happen while an exception is on its way: keep it.
        let pending = PyErr::take(py);
        let category = py.get_type::<PyResourceWarning>();
        let warned = imports::warn(py)
            .and_then(|warn| warn.call1((format!("unclosed transport <{kind}>"), category)));
        if let Err(error) = warned {
            // Warnings turned into errors cannot be raised from here: as CPython does in __del__.
            error.write_unraisable(py, None);
        }
        if let Some(error) = pending {
            error.restore(py);
        }
    });
}
