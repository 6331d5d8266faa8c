//! The end of transports that a program forgot to close: a ResourceWarning, and everything that a close would have
//! ended.

use super::ending::Body;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use pyo3::exceptions::PyResourceWarning;
use pyo3::intern;
use pyo3::prelude::*;
use std::ffi::CString;

/// Warns about a descriptor that is still open, and closes it. Called while the transport is being freed, when it can
/// no longer be passed as the warning's source. `describe`: the transport's repr.
pub fn end(
    body: &Body,
    server: Option<&LoopCell<Option<Py<PyAny>>>>,
    describe: impl FnOnce(Python<'_>) -> String,
) {
    if !body.descriptor.is_leaking() {
        return;
    }
    warn_and(describe, |py| {
        let owner = body.owner.get();
        // Its number may belong to another connection as soon as it is closed (S4).
        body.registration.end_freed(py, owner, body.descriptor.fd(py).is_ok());
        let closed = body.descriptor.close_while_freed(py);
        if body.has_begun.get(py) {
            owner.meter.with(py, |meter| meter.open_transports -= 1);
        }
        if let Some(server) = server.and_then(|server| server.take(py)) {
            owner.run_soon(py, server, leave_server);
        }
        closed
    });
}

/// Tells a server that it has one connection less, when the transport has been freed: until then the server's set
/// contains it.
fn leave_server(_owner: &Bound<'_, LoopCore>, server: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = server.py();
    if !server.hasattr(intern!(py, "_sockets"))? {
        return Ok(()); // the garbage collector has cleared it together with the transport
    }
    let detach = intern!(py, "_detach");
    // Since 3.13 the argument is removed from a weak set, which the transport has left.
    let told = if cfg!(Py_3_13) {
        server.call_method1(detach, (server,))
    } else {
        server.call_method0(detach)
    };
    told.map(drop)
}

/// Warns about a transport that owns no descriptor.
pub fn warn(text: &str) {
    warn_and(|_| text.to_owned(), |_| Ok(()));
}

fn warn_and(
    describe: impl FnOnce(Python<'_>) -> String,
    then: impl FnOnce(Python<'_>) -> PyResult<()>,
) {
    Python::attach(|py| {
        // Freeing may happen while an exception is propagating: keep it.
        let pending = PyErr::take(py);
        // The C API needs no import, which would fail while the interpreter shuts down.
        let category = py.get_type::<PyResourceWarning>();
        let text = CString::new(format!("unclosed transport {}", describe(py)));
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
