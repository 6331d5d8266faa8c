//! How operations wait on a watch: registration, the edge that was used up, the end.

use super::Side;
use super::waiters::{Identity, Waiting, Wake};
use super::watch::Watch;
use crate::errors;
use crate::event_loop::LoopCore;
use oneloop_engine::sys::socket as kernel;
use pyo3::intern;
use pyo3::prelude::*;
use std::os::fd::RawFd;

fn wake_future(future: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = future.py();
    if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
        future.call_method1(intern!(py, "set_result"), (py.None(),))?;
    }
    Ok(())
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
