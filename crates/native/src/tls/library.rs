//! `Library`: which session a TLS transport has, and the guard around its calls.
//!
//! OpenSSL's connections know no threads, and some calls release the GIL: a second call meanwhile, which only a program
//! that uses the transport in another thread can make, is refused (S5).

use super::openssl::OpenSsl;
use super::rustls::{RustlsSession, TlsContext};
use super::session::{Plain, Session, Step};
use crate::ffi::LoopCell;
use oneloop_engine::sys::socket::Room;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

enum Kind {
    OpenSsl(OpenSsl),
    Rustls(RustlsSession),
}

pub struct Library {
    kind: Kind,
    is_busy: LoopCell<bool>,
}

impl Library {
    pub fn new(
        context: &Bound<'_, PyAny>,
        server_side: bool,
        server_hostname: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let kind = if let Ok(context) = context.cast_exact::<TlsContext>() {
            let hostname = server_hostname.map(PyAnyMethods::extract).transpose()?;
            Kind::Rustls(TlsContext::session(context, server_side, hostname)?)
        } else {
            let none = context.py().None().into_bound(context.py());
            let hostname = server_hostname.unwrap_or(&none);
            Kind::OpenSsl(OpenSsl::new(context, server_side, hostname)?)
        };
        Ok(Self { kind, is_busy: LoopCell::new(false) })
    }

    /// A call is under way.
    pub fn is_busy(&self, py: Python<'_>) -> bool {
        self.is_busy.get(py)
    }

    /// What programs see as `ssl_object`.
    pub fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match &self.kind {
            Kind::OpenSsl(session) => session.object(py),
            Kind::Rustls(session) => session.object().bind(py).clone().into_any(),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.kind {
            Kind::OpenSsl(session) => session.visit(visit),
            Kind::Rustls(session) => session.visit(visit),
        }
    }

    #[inline]
    fn call<R>(&self, py: Python<'_>, f: impl FnOnce(&dyn Session) -> PyResult<R>) -> PyResult<R> {
        if self.is_busy.with(py, |busy| std::mem::replace(busy, true)) {
            let text =
                "a TLS transport is used in two threads at once; use loop.call_soon_threadsafe()";
            return Err(PyRuntimeError::new_err(text));
        }
        let result = match &self.kind {
            Kind::OpenSsl(session) => f(session),
            Kind::Rustls(session) => f(session),
        };
        self.is_busy.set(py, false);
        result
    }
}

impl Session for Library {
    fn feed(&self, py: Python<'_>, ciphertext: &[u8]) -> PyResult<()> {
        self.call(py, |session| session.feed(py, ciphertext))
    }

    fn unread(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |session| session.unread(py))
    }

    fn shake_hands(&self, py: Python<'_>) -> PyResult<Step> {
        self.call(py, |session| session.shake_hands(py))
    }

    fn may_read(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, |session| session.may_read(py))
    }

    fn read(&self, py: Python<'_>, room: &mut Room) -> PyResult<Plain> {
        self.call(py, |session| session.read(py, room))
    }

    fn write(&self, py: Python<'_>, plaintext: &[u8]) -> PyResult<usize> {
        self.call(py, |session| session.write(py, plaintext))
    }

    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.call(py, |session| session.take(py))
    }

    fn shut_down(&self, py: Python<'_>) -> PyResult<Step> {
        self.call(py, |session| session.shut_down(py))
    }
}
