//! `Library`: the session of a TLS transport, and the guard around its calls.
//!
//! OpenSSL's connections are not thread-safe, and some calls release the GIL. A second call meanwhile is refused
//! (S5); it can only come from a program that uses the transport in another thread.

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

impl Kind {
    fn session(&self) -> &dyn Session {
        match self {
            Self::OpenSsl(session) => session,
            Self::Rustls(session) => session,
        }
    }

    fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        match self {
            Self::OpenSsl(session) => session.object(py),
            Self::Rustls(session) => session.object(py),
        }
    }

    fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::OpenSsl(session) => session.visit(visit),
            Self::Rustls(session) => session.visit(visit),
        }
    }
}

enum Slot {
    Free(Box<Kind>),
    /// A call is using it.
    Busy,
    /// The transport has ended, and its program does not need `ssl_object` any more.
    Released,
}

pub struct Library {
    slot: LoopCell<Slot>,
    /// The `ssl_object` for programs, kept even while a call uses the session.
    object: LoopCell<Option<Py<PyAny>>>,
    /// The handshake's results are read when it ends, because another thread may be using the session later.
    tells_at_once: bool,
}

impl Library {
    pub fn new(
        context: &Bound<'_, PyAny>,
        server_side: bool,
        server_hostname: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let kind = if let Ok(context) = context.cast_exact::<TlsContext>() {
            let hostname = server_hostname.map(PyAnyMethods::extract).transpose()?;
            Kind::Rustls(RustlsSession::new(context, server_side, hostname)?)
        } else {
            let none = context.py().None().into_bound(context.py());
            let hostname = server_hostname.unwrap_or(&none);
            Kind::OpenSsl(OpenSsl::new(context, server_side, hostname)?)
        };
        let object = kind.object(context.py()).unbind();
        Ok(Self {
            tells_at_once: matches!(kind, Kind::OpenSsl(_)),
            slot: LoopCell::new(Slot::Free(Box::new(kind))),
            object: LoopCell::new(Some(object)),
        })
    }

    /// A call is in progress.
    pub fn is_busy(&self, py: Python<'_>) -> bool {
        self.slot.with(py, |slot| matches!(slot, Slot::Busy))
    }

    /// Drops the session, unless a call is using it.
    pub fn release(&self, py: Python<'_>) {
        let released = self.slot.with(py, |slot| match slot {
            Slot::Free(_) => Some(std::mem::replace(slot, Slot::Released)),
            Slot::Busy | Slot::Released => None,
        });
        drop((released, self.object.take(py)));
    }

    /// The `ssl_object` for programs; `None` after `release`.
    pub fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.object.with(py, |object| object.as_ref().map(|object| object.bind(py).clone()))
    }

    /// The same object, if the handshake's results must be read when it ends.
    pub fn told_at_once<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        if self.tells_at_once { self.object(py) } else { None }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.object.peek(|object| visit.call(object)).unwrap_or(Ok(()))?;
        self.slot
            .peek(|slot| match slot {
                Slot::Free(kind) => kind.visit(visit),
                Slot::Busy | Slot::Released => Ok(()),
            })
            .unwrap_or(Ok(()))
    }

    #[inline]
    fn call<R>(&self, py: Python<'_>, f: impl FnOnce(&dyn Session) -> PyResult<R>) -> PyResult<R> {
        let kind = match self.slot.with(py, |slot| std::mem::replace(slot, Slot::Busy)) {
            Slot::Free(kind) => kind,
            Slot::Busy => {
                let text = "a TLS transport is used in two threads at the same time; use loop.call_soon_threadsafe()";
                return Err(PyRuntimeError::new_err(text));
            }
            Slot::Released => {
                self.slot.with(py, |slot| *slot = Slot::Released);
                return Err(PyRuntimeError::new_err("the TLS connection has ended"));
            }
        };
        let result = f(kind.session());
        let busy = self.slot.with(py, |slot| std::mem::replace(slot, Slot::Free(kind)));
        drop(busy);
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

    fn waiting(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |session| session.waiting(py))
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
