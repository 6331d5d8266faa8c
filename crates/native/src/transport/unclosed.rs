//! ResourceWarning for transports that a program forgot to close.

use super::descriptor::Descriptor;
use crate::imports;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;

/// Warns of a descriptor that is still open, and closes it. Called while the transport is being
/// freed, so that it can no longer be shown as the source.
pub fn end(kind: &str, descriptor: &Descriptor) {
    if !descriptor.is_leaking() {
        return;
    }
    Python::attach(|py| {
        // Freeing may happen while an exception is on its way: keep it.
        let pending = PyErr::take(py);
        let category = py.get_type::<PyResourceWarning>();
        let warned = imports::warn(py)
            .and_then(|warn| warn.call1((format!("unclosed transport <{kind}>"), category)));
        for outcome in [warned.map(drop), descriptor.close(py)] {
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
