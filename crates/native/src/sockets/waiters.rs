//! `Waiters`: the operations that wait for one socket of the program (`sock_recv` and similar).
//!
//! An operation always tries first, so an edge is enough for it: the registration is made at the first wait and
//! stays, and a waiting operation costs no system call besides its own. Closing the socket ends that registration in
//! the kernel; the next operation on the number notices by the socket object's identity (S4).

use super::Side;
use super::watch::Watch;
use crate::errors;
use crate::event_loop::LoopCore;
use oneloop_engine::sys::socket as kernel;
use oneloop_engine::{Interest, Readiness};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use std::os::fd::RawFd;

/// The socket object whose operations wait.
enum Identity {
    Weak(Py<PyWeakrefReference>),
    /// For an object without weak references (`_socket.socket`, `__slots__`). Another object may have the address
    /// later, so the kernel is called each time to check whether it is still the same file.
    Address(usize),
}

impl Identity {
    fn of(socket: &Bound<'_, PyAny>) -> Self {
        PyWeakrefReference::new(socket).map_or_else(
            |_takes_none| Self::Address(socket.as_ptr().addr()),
            |weak| Self::Weak(weak.unbind()),
        )
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Weak(weak) => Self::Weak(weak.clone_ref(py)),
            Self::Address(address) => Self::Address(*address),
        }
    }

    /// Whether it is this socket; `None` if only the kernel can tell.
    fn is(&self, socket: &Bound<'_, PyAny>) -> Option<bool> {
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

fn wake_future(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        future.call_method1(intern!(py, "set_result"), (py.None(),))?;
    }
    Ok(())
}

#[derive(Default)]
pub struct Waiters {
    read: Vec<Waiting>,
    write: Vec<Waiting>,
    socket: Option<Identity>,
    /// Whether a short read means that the socket is empty; `None`: not determined yet.
    is_stream: Option<bool>,
    /// A read has emptied the socket, and no event has arrived since.
    is_drained: bool,
    /// The kernel has reported an end of file, an error or urgent data: a short read might not be the last.
    is_ending: bool,
    /// An operation has waited for writability: keep the interest until it is no longer needed.
    wants_write: bool,
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

impl Watch {
    /// A future that is resolved when `socket` may be ready on `side`.
    pub fn wait<'py>(
        owner: &Bound<'py, LoopCore>,
        socket: &Bound<'py, PyAny>,
        fd: RawFd,
        side: Side,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, Self>)> {
        let future = owner.call_method0(intern!(owner.py(), "create_future"))?;
        let watch = Self::enlist(owner, socket, fd, side, &future, wake_future)?;
        Ok((future, watch))
    }

    /// Registers a waiter: `wake(waiter)` is called once, when `socket` may be ready on `side`.
    pub fn enlist<'py>(
        owner: &Bound<'py, LoopCore>,
        socket: &Bound<'py, PyAny>,
        fd: RawFd,
        side: Side,
        waiter: &Bound<'py, PyAny>,
        wake: Wake,
    ) -> PyResult<Bound<'py, Self>> {
        let py = owner.py();
        let mut watch = Self::on(owner, fd)?;
        let known =
            watch.get().with(py, |s| s.waiters.socket.as_ref().map(|known| known.clone_ref(py)));
        let same = known.as_ref().and_then(|known| known.is(socket)) == Some(true);
        if !same {
            // Another object, perhaps for the same file, whose operations may wait too. If the file was closed, its
            // number belongs to another file, and so does the watch.
            watch = Self::on_current_file(owner, fd)?;
            let identity = Identity::of(socket);
            let old = watch.get().with(py, |s| {
                s.waiters.is_stream = None;
                s.waiters.is_drained = false;
                s.waiters.socket.replace(identity)
            });
            drop(old);
        }
        let waiting = Waiting { object: waiter.clone().unbind(), wake };
        watch.get().with(py, |s| {
            s.waiters.on(side).push(waiting);
            s.waiters.wants_write |= side == Side::Write;
        });
        if let Err(e) = Self::update(&watch, owner, fd) {
            watch.get().forget(py, side, waiter.as_unbound());
            return Err(errors::os_error("epoll_ctl", &e));
        }
        Ok(watch)
    }

    /// The watch whose operations wait for this same socket, with an edge-triggered registration that covers all data
    /// arriving from now on.
    fn known<'py>(
        owner: &Bound<'py, LoopCore>,
        socket: &Bound<'py, PyAny>,
        fd: RawFd,
    ) -> Option<Bound<'py, Self>> {
        let py = owner.py();
        let watch = Self::existing(owner, fd)?;
        let identity = watch.get().with(py, |s| {
            let by_edge = s.token.is_some() && s.callbacks.interest().is_none();
            s.waiters.socket.as_ref().filter(|_| by_edge).map(|known| known.clone_ref(py))
        })?;
        (identity.is(socket) == Some(true)).then_some(watch)
    }

    /// Whether the last read emptied a stream socket and the loop has received no event since, so that a read would
    /// be futile. The next wait receives the event (epoll(7), edge-triggered).
    pub fn is_drained(owner: &Bound<'_, LoopCore>, socket: &Bound<'_, PyAny>, fd: RawFd) -> bool {
        let watch = Self::known(owner, socket, fd);
        watch.is_some_and(|watch| watch.get().with(owner.py(), |s| s.waiters.is_drained))
    }

    /// Records a read that returned less than requested, but not nothing.
    pub fn note_drained(owner: &Bound<'_, LoopCore>, socket: &Bound<'_, PyAny>, fd: RawFd) {
        let py = owner.py();
        let Some(watch) = Self::known(owner, socket, fd) else { return };
        let is_stream = watch.get().with(py, |s| s.waiters.is_stream);
        let is_stream = is_stream.unwrap_or_else(|| kernel::is_stream(fd));
        watch.get().with(py, |s| {
            s.waiters.is_stream = Some(is_stream);
            s.waiters.is_drained = is_stream && !s.waiters.is_ending;
        });
    }

    /// Called when the socket is closed or detached and no operation waits for it any more: the loop stops watching
    /// it, except for callbacks.
    pub fn abandon(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, fd: RawFd) -> PyResult<()> {
        let old = slf.get().with(owner.py(), |s| {
            s.waiters.is_drained = false;
            s.waiters.socket.take()
        });
        drop(old);
        Self::update(slf, owner, fd).map_err(|e| errors::os_error("epoll_ctl", &e))
    }

    /// The waiters on one side.
    pub fn waiting(&self, py: Python<'_>, side: Side) -> Vec<Py<PyAny>> {
        self.with(py, |s| s.waiters.on(side).iter().map(|w| w.object.clone_ref(py)).collect())
    }

    /// Removes a waiter.
    pub fn forget(&self, py: Python<'_>, side: Side, waiter: &Py<PyAny>) {
        let removed = self.with(py, |s| {
            let waiters = s.waiters.on(side);
            let index = waiters.iter().position(|waiting| waiting.object.is(waiter))?;
            Some(waiters.swap_remove(index))
        });
        drop(removed);
    }
}
