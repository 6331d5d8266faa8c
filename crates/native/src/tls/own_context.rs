//! In which context a TLS transport calls the program's protocol, and what it schedules runs: that of the connection,
//! as on plain transports (`transport::OwnContext`).

use super::transport::TlsTransport;
use crate::ffi::{context, fallible};
use crate::transport::Under;
use pyo3::intern;
use pyo3::prelude::*;

impl TlsTransport {
    /// Runs `f`, which calls methods of the program's protocol, in the connection's context.
    pub fn in_context<R>(&self, py: Python<'_>, f: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        let (stream, context) = self.state.with(py, |s| match (&s.under, &s.context) {
            (Some(Under::Stream(stream)), _) => (Some(stream.clone_ref(py)), None),
            (_, context) => (None, context.as_ref().map(|context| context.clone_ref(py))),
        });
        match (stream, context) {
            (Some(stream), _) => stream.get().body.context.run(py, f),
            (None, Some(context)) => context::run_anyway(context.bind(py), f),
            // It has not begun.
            (None, None) => f(),
        }
    }

    /// The connection's context; `None` before it has begun.
    fn context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.state.with(py, |s| match &s.under {
            Some(Under::Stream(stream)) => {
                Some(stream.get().body.context.object(py).clone().unbind())
            }
            _ => s.context.as_ref().map(|context| context.clone_ref(py)),
        })
    }

    /// `loop.call_soon(self.name)`: one tick later, in the connection's context.
    pub fn call_soon(slf: &Bound<'_, Self>, name: &str) -> PyResult<()> {
        let py = slf.py();
        slf.get().schedule(py, "call_soon", (slf.getattr(name)?,)).map(drop)
    }

    /// `loop.call_later(delay_s, self.name)`, in the connection's context.
    pub fn call_later<'py>(
        slf: &Bound<'py, Self>,
        delay_s: f64,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().schedule(py, "call_later", (delay_s, slf.getattr(name)?))
    }

    /// Calls a method of the loop that schedules a call, in the connection's context.
    pub fn schedule<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        arguments: impl pyo3::call::PyCallArgs<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keywords = fallible::dict(py)?;
        if let Some(context) = self.context(py) {
            keywords.set_item(intern!(py, "context"), context)?;
        }
        self.owner.bind(py).call_method(method, arguments, Some(&keywords))
    }
}

/// The context of a connection over this transport, unless the transport has it itself.
pub fn context_over(under: &Under, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    let Under::Other(below) = under else { return Ok(None) };
    let of_tls = below.bind(py).cast::<TlsTransport>().ok();
    match of_tls.and_then(|below| below.get().context(py)) {
        Some(context) => Ok(Some(context)),
        None => context::copy_current(py).map(|current| Some(current.unbind())),
    }
}
