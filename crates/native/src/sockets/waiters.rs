//! `Waiters`: the operations that wait for one socket of the program (`sock_recv` and similar).
//!
//! An operation always tries first, so an edge is enough for it: the registration is made at the first wait and
//! stays, and a waiting operation costs no system call besides its own. Closing the socket ends that registration in
//! the kernel; the next operation on the number notices by the socket object's identity (S4).

use super::Side;
use oneloop_engine::{Interest, Readiness};
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};

/// The socket object whose operations wait.
pub enum Identity {
    Weak(Py<PyWeakrefReference>),
    /// For an object without weak references (`_socket.socket`, `__slots__`). Another object may have the address
    /// later, so the kernel is called each time to check whether it is still the same file.
    Address(usize),
}

impl Identity {
    pub fn of(socket: &Bound<'_, PyAny>) -> Self {
        PyWeakrefReference::new(socket).map_or_else(
            |_takes_none| Self::Address(socket.as_ptr().addr()),
            |weak| Self::Weak(weak.unbind()),
        )
    }

    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Weak(weak) => Self::Weak(weak.clone_ref(py)),
            Self::Address(address) => Self::Address(*address),
        }
    }

    /// Whether it is this socket; `None` if only the kernel can tell.
    pub fn is(&self, socket: &Bound<'_, PyAny>) -> Option<bool> {
        match self {
            Self::Weak(weak) => {
                Some(weak.bind(socket.py()).upgrade().is_some_and(|known| known.is(socket)))
            }
            Self::Address(address) if *address == socket.as_ptr().addr() => None,
            Self::Address(_) => Some(false),
        }
    }
}

/// Notifies a waiter that its descriptor may be ready.
pub type Wake = fn(&Bound<'_, PyAny>) -> PyResult<()>;

/// An operation that waits.
pub struct Waiting {
    pub object: Py<PyAny>,
    pub wake: Wake,
}

#[derive(Default)]
pub struct Waiters {
    read: Vec<Waiting>,
    write: Vec<Waiting>,
    pub socket: Option<Identity>,
    /// Whether a short read means that the socket is empty; `None`: not determined yet.
    pub is_stream: Option<bool>,
    /// A read has emptied the socket, and no event has arrived since.
    pub is_drained: bool,
    /// The kernel has reported an end of file, an error or urgent data: a short read might not be the last.
    pub is_ending: bool,
    /// An operation has waited for writability: keep the interest until it is no longer needed.
    pub wants_write: bool,
}

impl Waiters {
    pub fn on(&mut self, side: Side) -> &mut Vec<Waiting> {
        match side {
            Side::Read => &mut self.read,
            Side::Write => &mut self.write,
        }
    }

    /// Their interest without callbacks. `None` before the first wait.
    pub fn edge_interest(&self) -> Option<Interest> {
        self.socket.as_ref()?;
        let edge = Interest::EDGE | Interest::READ | Interest::ENDS;
        Some(if self.wants_write { edge | Interest::WRITE } else { edge })
    }

    /// Their interest next to level-triggered callbacks, whose events recur: only what an operation waits for now.
    pub fn level_interest(&self) -> Interest {
        let read = if self.read.is_empty() { Interest::NONE } else { Interest::READ };
        let write = if self.write.is_empty() { Interest::NONE } else { Interest::WRITE };
        read | write
    }

    /// Records an event of the socket.
    pub fn heard(&mut self, readiness: Readiness) {
        self.is_drained &= !readiness.is_readable();
        self.is_ending |= readiness.is_last();
    }

    /// Writability was served: the interest is not needed before the next wait.
    pub fn settle_writing(&mut self) {
        self.wants_write = !self.write.is_empty();
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(Identity::Weak(weak)) = &self.socket {
            visit.call(weak)?;
        }
        self.read.iter().chain(&self.write).try_for_each(|waiting| visit.call(&waiting.object))
    }
}
