//! `RustlsSession`: implements `Session` for rustls.

use super::context::TlsContext;
use super::failure;
use super::object::TlsObject;
use super::wire::Wire;
use crate::tls::session::{Plain, Session, Step};
use oneloop_engine::sys::socket::Room;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

pub struct RustlsSession(Py<TlsObject>);

impl RustlsSession {
    /// A session of a context. ValueError or ssl.SSLError like `ssl` if side or name do not fit it.
    pub fn new(
        context: &Bound<'_, TlsContext>,
        server_side: bool,
        server_hostname: Option<&str>,
    ) -> PyResult<Self> {
        let py = context.py();
        let (connection, hostname) = context.get().connect(py, server_side, server_hostname)?;
        let object = TlsObject::new(context.clone().unbind(), server_side, hostname, connection);
        Ok(Self(Py::new(py, object)?))
    }

    /// The object for `get_extra_info("ssl_object")`.
    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.bind(py).clone().into_any()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    /// Runs no Python code while the connection is borrowed (S2); exceptions are made afterwards.
    fn run<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Wire) -> Result<R, rustls::Error>,
    ) -> PyResult<R> {
        let object = self.0.get();
        object.with(py, f).map_err(|e| object.failure(py, &e))
    }
}

impl Session for RustlsSession {
    fn feed(&self, py: Python<'_>, ciphertext: &[u8]) -> PyResult<()> {
        self.0.get().with(py, |wire| wire.feed(ciphertext));
        Ok(())
    }

    fn unread(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.get().with(py, |wire| wire.unread()))
    }

    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.get().with(py, |wire| wire.waiting()))
    }

    fn shake_hands(&self, py: Python<'_>) -> PyResult<Step> {
        let is_done = self.run(py, Wire::shake_hands)?;
        Ok(if is_done { Step::Done } else { Step::Wanting })
    }

    fn may_read(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.get().with(py, |wire| wire.may_read()))
    }

    fn read(&self, py: Python<'_>, room: &mut Room) -> PyResult<Plain> {
        self.run(py, |wire| wire.read(room))
    }

    fn write(&self, py: Python<'_>, plaintext: &[u8]) -> PyResult<usize> {
        let written = self
            .0
            .get()
            .with(py, |wire| if wire.is_shut() { None } else { Some(wire.write(plaintext)) });
        match written {
            Some(written) => Ok(written?),
            None => Err(failure::named(py, "SSL", "PROTOCOL_IS_SHUTDOWN")),
        }
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.0.get().with(py, |wire| wire.take(py))
    }

    fn shut_down(&self, py: Python<'_>) -> PyResult<Step> {
        match self.run(py, Wire::shut_down)? {
            Some(true) => Ok(Step::Done),
            Some(false) => Ok(Step::Wanting),
            None => Err(failure::named(py, "SSL", "APPLICATION_DATA_AFTER_CLOSE_NOTIFY")),
        }
    }
}
