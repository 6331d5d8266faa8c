//! The engines in the loop: their descriptors in the poller, and sending at the end of the tick.

use super::Files;
use super::pending::Pending;
use crate::errors;
use crate::event_loop::{LoopCore, OnReady};
use oneloop_engine::files::{Choice, Engines, Left, Lost, Why};
use oneloop_engine::{Interest, Readiness};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;

impl Files {
    /// Registers the engines' descriptors in the poller.
    pub(super) fn register(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let fds = self.engines.with(py, |engines| {
            engines.as_ref().map(|e| (e.ring_fd(), e.direct_fd(), e.pool_fd()))
        });
        let Some((ring_fd, direct_fd, pool_fd)) = fds else { return Ok(()) };
        let owner = self.owner.get();
        let edge = Interest::READ | Interest::EDGE;
        let wanted = [
            (ring_fd, &self.ring_token, edge, reap_ring as OnReady),
            (direct_fd, &self.direct_token, Interest::READ, reap_direct),
            (Some(pool_fd), &self.pool_token, edge, reap_pool),
        ];
        for (fd, token, interest, on_ready) in wanted {
            let (Some(fd), None) = (fd, token.get(py)) else { continue };
            let object = slf.clone().into_any().unbind();
            let made = owner.register(py, fd, interest, object, on_ready);
            token.set(py, Some(made.map_err(|e| errors::os_error("epoll_ctl", &e))?));
        }
        Ok(())
    }
}

/// Leaves an engine that this process must not use any more.
pub(super) fn leave(slf: &Bound<'_, Files>, lost: &Lost<Pending>) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let (token, choice) = match &lost.left {
        Left::Ring(_) => (&this.ring_token, Choice::Ring),
        Left::Direct(_) => (&this.direct_token, Choice::Aio),
    };
    if let Some(token) = token.take(py) {
        this.owner.get().deregister(slf.as_any(), token);
    }
    if let Why::Forbidden(error) = &lost.why {
        this.has_lost(py, choice, error);
    }
    let given_up = give_up(slf, lost);
    this.register(slf).and(given_up)
}

/// Fails the futures of operations whose end nobody will see; their records stay (S1).
fn give_up(slf: &Bound<'_, Files>, lost: &Lost<Pending>) -> PyResult<()> {
    let py = slf.py();
    let error = || match &lost.why {
        Why::Moved => PyRuntimeError::new_err(
            "the event loop has moved to another thread while this file operation was in progress: \
             it is unknown whether it has happened",
        ),
        Why::Forbidden(error) => {
            let call = match &lost.left {
                Left::Ring(_) => "io_uring_enter",
                Left::Direct(_) => "io_getevents",
            };
            let note = format!(
                "{call}, which was forbidden while this file operation was in progress: it is \
                 unknown whether it has happened"
            );
            errors::os_error(&note, error)
        }
    };
    let mut result = Ok(());
    for (request, pending) in lost.operations() {
        if let Some(future) = pending.future.as_ref().map(|future| future.bind(py)) {
            result = result.and(fail(future, error()));
        }
        if let Some(fd) = request.fd() {
            result = result.and(Files::has_ended(slf, fd));
        }
    }
    result
}

fn fail(future: &Bound<'_, PyAny>, error: PyErr) -> PyResult<()> {
    let py = future.py();
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    future.call_method1(intern!(py, "set_exception"), (error,)).map(drop)
}

fn files_of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, Files>> {
    Ok(object.cast::<Files>()?)
}

/// At the end of the tick: sends queued requests.
pub(super) fn flush(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let slf = files_of(object)?;
    let this = slf.get();
    this.is_flush_scheduled.set(py, false);
    Files::drive(slf, Engines::flush)?;
    let is_more =
        this.engines.with(py, |engines| engines.as_ref().is_some_and(Engines::has_unsent));
    if is_more {
        // Try again in the next tick, which must not sleep before.
        owner.get().run_soon(py, object.clone().unbind(), ask_again);
    }
    Ok(())
}

fn ask_again(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = files_of(object)?;
    slf.get().ask_for_flush(slf);
    Ok(())
}

fn reap_ring(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    _readiness: Readiness,
) -> PyResult<()> {
    let slf = files_of(object)?;
    Files::drive(slf, Engines::follow_thread)?;
    Files::drive(slf, Engines::reap_ring)?;
    if slf.get().engines.with(owner.py(), |e| e.as_ref().is_some_and(Engines::has_unsent)) {
        slf.get().ask_for_flush(slf);
    }
    Ok(())
}

fn reap_direct(
    _owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    _readiness: Readiness,
) -> PyResult<()> {
    Files::drive(files_of(object)?, Engines::reap_direct)
}

fn reap_pool(
    _owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    _readiness: Readiness,
) -> PyResult<()> {
    Files::drive(files_of(object)?, Engines::reap_pool)
}
