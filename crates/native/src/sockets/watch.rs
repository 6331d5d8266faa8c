//! `Watch`: one descriptor of the program in the loop's registry, with its callbacks, its waiters, and one
//! registration for both.
//!
//! With callbacks the registration is level-triggered, without them edge-triggered (docs/design/0003). Upholds S2
//! (state is accessed in short closures, callbacks run outside) and S4 (the watch of a file that was closed without
//! notice is abandoned).

use super::Side;
use super::callbacks::Callbacks;
use super::waiters::Waiters;
use crate::errors;
use crate::event_loop::{LoopCore, is_gone};
use crate::ffi::LoopCell;
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::os::fd::RawFd;

#[derive(Default)]
pub struct State {
    pub token: Option<Token>,
    pub callbacks: Callbacks,
    pub waiters: Waiters,
}

impl State {
    fn interest(&self) -> Option<Interest> {
        match self.callbacks.interest() {
            Some(levels) => Some(levels | self.waiters.level_interest()),
            None => self.waiters.edge_interest(),
        }
    }
}

/// Everything that waits for one descriptor. Internal: lives in the loop's registry.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Watch(LoopCell<State>);

impl Watch {
    pub fn new(py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        Bound::new(py, Self(LoopCell::new(State::default())))
    }

    /// Like `LoopCell::with`.
    pub fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut State) -> R) -> R {
        self.0.with(py, f)
    }

    /// The watch on `fd`, a new one if there is none. RuntimeError if a transport owns the number.
    pub fn on<'py>(owner: &Bound<'py, LoopCore>, fd: RawFd) -> PyResult<Bound<'py, Self>> {
        let py = owner.py();
        if let Some(watch) = Self::existing(owner, fd) {
            return Ok(watch);
        }
        if let Some(other) = owner.get().holder_of(py, fd) {
            // A source other than a transport is one of the loop's own descriptors; asyncio replaces its callbacks
            // too.
            let closing = other.call_method0(intern!(py, "is_closing"));
            if closing.is_ok_and(|closing| closing.is_truthy().is_ok_and(|closing| !closing)) {
                let text = format!("File descriptor {fd} is used by transport {}", other.repr()?);
                return Err(PyRuntimeError::new_err(text));
            }
        }
        Self::new(py)
    }

    /// The watch on the file that `fd` names now. If the previous file was closed without notice, its watch is
    /// abandoned with all its callbacks (S4).
    pub fn on_current_file<'py>(
        owner: &Bound<'py, LoopCore>,
        fd: RawFd,
    ) -> PyResult<Bound<'py, Self>> {
        let py = owner.py();
        let watch = Self::on(owner, fd)?;
        let (token, interest) = watch.get().with(py, |s| (s.token, s.interest()));
        let (Some(token), Some(interest)) = (token, interest) else { return Ok(watch) };
        let reaffirmed = owner.get().change_interest(watch.as_any(), token, interest, true);
        if matches!(&reaffirmed, Err(e) if is_gone(e)) {
            watch.get().with(py, |s| s.token = None);
            owner.get().vacate(watch.as_any(), token);
            return Self::new(py);
        }
        reaffirmed.map_err(|e| errors::os_error("epoll_ctl", &e))?;
        Ok(watch)
    }

    /// The watch on `fd`, if there is one.
    pub fn existing<'py>(owner: &Bound<'py, LoopCore>, fd: RawFd) -> Option<Bound<'py, Self>> {
        owner.get().party_of(owner.py(), fd)
    }

    /// Updates the poller's registration to the current interest.
    pub fn update(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, fd: RawFd) -> io::Result<()> {
        let py = owner.py();
        let (token, interest) = slf.get().with(py, |s| (s.token, s.interest()));
        let core = owner.get();
        match (token, interest) {
            (None, None) => Ok(()),
            (Some(token), None) => {
                slf.get().with(py, |s| s.token = None);
                core.deregister(slf.as_any(), token);
                Ok(())
            }
            (Some(token), Some(interest)) => {
                let changed = core.change_interest(slf.as_any(), token, interest, false);
                if matches!(&changed, Err(e) if is_gone(e)) {
                    // Its file was closed without notice, so no event can arrive any more.
                    slf.get().with(py, |s| s.token = None);
                    core.vacate(slf.as_any(), token);
                    return Ok(());
                }
                changed
            }
            (None, Some(interest)) => Self::register(slf, owner, fd, interest),
        }
    }

    fn register(
        slf: &Bound<'_, Self>,
        owner: &Bound<'_, LoopCore>,
        fd: RawFd,
        interest: Interest,
    ) -> io::Result<()> {
        let py = owner.py();
        let core = owner.get();
        // A closing transport continues to send next to us; `on` has refused any other.
        let token = if core.is_transports(py, fd) {
            core.join_or_register(slf.as_any(), fd, interest, on_ready)?
        } else {
            core.register(py, fd, interest, slf.clone().into_any().unbind(), on_ready)?
        };
        slf.get().with(py, |s| s.token = Some(token));
        Ok(())
    }

    fn serve(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, side: Side) -> PyResult<()> {
        let py = owner.py();
        let tick = owner.get().event_tick();
        let (waiters, callback) = slf.get().with(py, |s| {
            let callback = s.callbacks.on(side).as_ref().filter(|c| c.added_in_tick < tick);
            let callback = callback.map(|c| c.handle.clone_ref(py));
            (std::mem::take(s.waiters.on(side)), callback)
        });
        for waiting in waiters {
            (waiting.wake)(waiting.object.bind(py))?;
        }
        if let Some(handle) = callback {
            let handle = handle.bind(py);
            if !handle.get().work.is_cancelled() {
                handle.get().work.run_again(owner, handle.as_any())?;
            }
        }
        Ok(())
    }
}

fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let py = owner.py();
    let slf = object.cast::<Watch>()?;
    slf.get().with(py, |s| s.waiters.heard(readiness));
    let read = if readiness.is_readable() { Watch::serve(slf, owner, Side::Read) } else { Ok(()) };
    // The reader may have removed everything or closed the descriptor. If it raised an exception that leaves the
    // loop, the event is repeated for the writer.
    let goes_on = read.is_ok() && slf.get().with(py, |s| s.token.is_some());
    let wrote = if goes_on && readiness.is_writable() {
        let wrote = Watch::serve(slf, owner, Side::Write);
        slf.get().with(py, |s| s.waiters.settle_writing());
        wrote
    } else {
        Ok(())
    };
    // Without this, a level-triggered event that nobody waits for any more would be reported by every poll.
    let updated = match slf.get().with(py, |s| s.token) {
        Some(token) => Watch::update(slf, owner, token.fd()),
        None => Ok(()),
    };
    read.and(wrote).and(updated.map_err(|e| errors::os_error("epoll_ctl", &e)))
}

#[pymethods]
impl Watch {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .peek(|s| {
                s.callbacks.visit(&visit)?;
                s.waiters.visit(&visit)
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}
