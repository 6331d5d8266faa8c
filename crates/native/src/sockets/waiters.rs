//! `Waiters`: the operations that wait for one socket of the program's (`sock_recv` and its kin).
//!
//! An operation always tries first, so that an edge is enough for it: the registration is made at the first wait and
//! stays, and a waiting operation costs no system call but its own. Who closes the socket ends that registration in the
//! kernel; the next operation on the number notices by the socket object's identity (S4).

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
    /// Of an object that takes no weak references (`_socket.socket`, `__slots__`). Another object may have the address
    /// later: the kernel is asked each time whether it is still the same file.
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

/// What tells a waiter that its descriptor may be ready.
pub type Wake = fn(&Bound<'_, PyAny>) -> PyResult<()>;

/// Somebody who waits.
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
    /// Whether a read that gives less than was asked for has emptied the socket; None: it was not asked for yet.
    is_stream: Option<bool>,
    /// A read has emptied the socket, and the kernel has told nothing since.
    is_drained: bool,
    /// The kernel has told of an end, an error or urgent data: a short read may not be the last.
    is_ending: bool,
    /// An operation has waited for writability: keep hearing of it until it is no longer wanted.
    wants_write: bool,
}

impl Waiters {
    pub fn on(&mut self, side: Side) -> &mut Vec<Waiting> {
        match side {
            Side::Read => &mut self.read,
            Side::Write => &mut self.write,
        }
    }

    /// What they want on their own. None before the first wait.
    pub fn edge_interest(&self) -> Option<Interest> {
        self.socket.as_ref()?;
        let edge = Interest::EDGE | Interest::READ | Interest::ENDS;
        Some(if self.wants_write { edge | Interest::WRITE } else { edge })
    }

    /// What they want beside callbacks, whose levels come again and again: only what is waited for now.
    pub fn level_interest(&self) -> Interest {
        let read = if self.read.is_empty() { Interest::NONE } else { Interest::READ };
        let write = if self.write.is_empty() { Interest::NONE } else { Interest::WRITE };
        read | write
    }

    /// The kernel tells of the socket.
    pub fn heard(&mut self, readiness: Readiness) {
        self.is_drained &= !readiness.is_readable();
        self.is_ending |= readiness.is_last();
    }

    /// Writability has been served: nobody needs to hear of it before the next wait.
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

    /// Has `wake(waiter)` called, once, when `socket` may be ready on `side`.
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
            // Another object, of the same file perhaps, whose operations may wait too. If the file is closed, its number
            // is another's, and so is the watch.
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

    /// The watch whose operations wait for this very socket, by an edge that comes for all that arrives from now on.
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

    /// Whether there was nothing left in a stream socket when it was last read from, and nothing has come since, as far as
    /// the loop has heard: reading it would be in vain. It is heard of by who waits (epoll(7), edge-triggered).
    pub fn is_drained(owner: &Bound<'_, LoopCore>, socket: &Bound<'_, PyAny>, fd: RawFd) -> bool {
        let watch = Self::known(owner, socket, fd);
        watch.is_some_and(|watch| watch.get().with(owner.py(), |s| s.waiters.is_drained))
    }

    /// A read has given less than was asked for, and more than nothing.
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

    /// Nobody waits for the socket any more, which is being closed, or leaves the program's hands: the loop does not listen
    /// to it, unless for callbacks.
    pub fn abandon(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, fd: RawFd) -> PyResult<()> {
        let old = slf.get().with(owner.py(), |s| {
            s.waiters.is_drained = false;
            s.waiters.socket.take()
        });
        drop(old);
        Self::update(slf, owner, fd).map_err(|e| errors::os_error("epoll_ctl", &e))
    }

    /// Those who wait.
    pub fn waiting(&self, py: Python<'_>, side: Side) -> Vec<Py<PyAny>> {
        self.with(py, |s| s.waiters.on(side).iter().map(|w| w.object.clone_ref(py)).collect())
    }

    /// Forgets who waits.
    pub fn forget(&self, py: Python<'_>, side: Side, waiter: &Py<PyAny>) {
        let removed = self.with(py, |s| {
            let waiters = s.waiters.on(side);
            let index = waiters.iter().position(|waiting| waiting.object.is(waiter))?;
            Some(waiters.swap_remove(index))
        });
        drop(removed);
    }
}
