//! The course of an operation: begun with a future, queued, sent, settled; and of a close, which waits for
//! what is under way on its descriptor.
//!
//! No cell is borrowed while Python code runs (S2).

use super::Files;
use super::busy::Closing;
use super::cancel::Canceller;
use super::pending::{Pending, Want};
use super::reaping;
use crate::errors;
use crate::ffi::Object;
use oneloop_engine::files::{Completion, Engines, Outcome, Request, Ticket};
use oneloop_engine::sys::file;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;

/// O_DIRECT transfers that are sent together; all other requests wait for the end of the tick.
const BATCH: usize = 4;

/// How an operation is to be done.
pub enum Way {
    Engine(Request),
    /// By a thread of its own: it may wait for ever.
    Alone(Request),
    Call(Box<dyn FnOnce() + Send>),
}

impl Files {
    /// Whether `len` bytes may be copied right now.
    pub(super) fn may_copy(&self, py: Python<'_>, len: usize) -> bool {
        let tick = self.owner.get().meter.with(py, |meter| meter.ticks);
        self.budget.with(py, |budget| budget.allows(tick, len))
    }

    /// Begins an operation; its future.
    pub(super) fn begin<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, _) = Self::begin_ticketed(slf, way, want)?;
        Ok(future)
    }

    /// Begins an operation that may wait for ever: cancelling its future ends it.
    pub(super) fn begin_cancellable<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = Self::begin_ticketed(slf, way, want)?;
        Canceller::watch(slf, &future, ticket)?;
        Ok(future)
    }

    fn begin_ticketed<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<(Bound<'py, PyAny>, Ticket)> {
        let py = slf.py();
        let this = slf.get();
        let future = this.make_future(py)?;
        let ticket = Self::submit(slf, way, want, &future)?;
        Ok((future, ticket))
    }

    pub(super) fn is_shut(&self, py: Python<'_>) -> bool {
        self.engines.with(py, |engines| engines.is_none())
    }

    pub(super) fn make_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let owner = self.owner.bind(py);
        owner.get().check_closed()?;
        owner.get()._check_process(py)?;
        owner.call_method0(intern!(py, "create_future"))
    }

    fn submit(
        slf: &Bound<'_, Self>,
        way: Way,
        want: Want,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<Ticket> {
        let py = slf.py();
        let this = slf.get();
        this.follow_thread(slf)?;
        let fd = match &way {
            Way::Engine(request) | Way::Alone(request) => request.fd(),
            Way::Call(_) => None,
        };
        let pending = Pending { future: future.clone().unbind(), want };
        let submitted = this.engines.with(py, |engines| match engines {
            Some(engines) => Ok(match way {
                Way::Engine(request) => engines.submit(request, pending),
                Way::Alone(request) => engines.submit_alone(request, pending),
                Way::Call(call) => engines.call(call, pending),
            }),
            None => Err(pending),
        });
        match submitted {
            Ok(Ok(ticket)) => {
                if let Some(fd) = fd {
                    this.busy.with(py, |busy| busy.begin(fd));
                }
                if matches!(ticket, Ticket::Direct) && this.direct_token.get(py).is_none() {
                    this.register(slf)?;
                }
                if matches!(ticket, Ticket::Ring(_) | Ticket::Direct) {
                    this.ask_for_flush(slf);
                    // A device must not wait for the end of the tick (design 0008).
                    let is_batch = |engines: &Engines<Pending>| engines.unsent_direct() >= BATCH;
                    if this.engines.with(py, |engines| engines.as_ref().is_some_and(is_batch)) {
                        Self::drive(slf, Engines::flush)?;
                    }
                }
                Ok(ticket)
            }
            Ok(Err((error, pending))) => {
                drop(pending);
                Err(errors::os_error("starting a thread for file operations", &error))
            }
            Err(pending) => {
                drop(pending);
                Err(PyRuntimeError::new_err("the file operations of this event loop were shut"))
            }
        }
    }

    /// Asks that an operation end soon.
    pub(super) fn cancel(slf: &Bound<'_, Self>, ticket: Ticket) {
        let this = slf.get();
        this.engines.with(slf.py(), |engines| {
            if let Some(engines) = engines {
                engines.cancel(ticket);
            }
        });
        this.ask_for_flush(slf);
    }

    pub(super) fn ask_for_flush(&self, slf: &Bound<'_, Self>) {
        let py = slf.py();
        if !self.is_flush_due.with(py, |due| std::mem::replace(due, true)) {
            let object = Object::new(slf.clone().into_any());
            self.owner.get().flush_later(py, object, reaping::flush);
        }
    }

    /// Runs `f` on the engines and settles what has completed.
    pub(super) fn drive(
        slf: &Bound<'_, Self>,
        f: impl FnOnce(&mut Engines<Pending>, &mut Vec<Completion<Pending>>) -> io::Result<()>,
    ) -> PyResult<()> {
        let mut completions = Vec::new();
        let result = slf.get().engines.with(slf.py(), |engines| match engines {
            Some(engines) => f(engines, &mut completions),
            None => Ok(()),
        });
        let settled = Self::settle_all(slf, completions);
        result.map_err(|e| errors::os_error("io_uring_enter", &e))?;
        settled
    }

    /// Every future hears of its operation, whatever becomes of the others.
    fn settle_all(slf: &Bound<'_, Self>, completions: Vec<Completion<Pending>>) -> PyResult<()> {
        let py = slf.py();
        let mut result = Ok(());
        for completion in completions {
            let fd = completion.outcome.request.as_ref().and_then(Request::fd);
            result = result.and(Pending::settle(completion, slf.get(), py));
            if let Some(fd) = fd {
                result = result.and(Self::has_ended(slf, fd));
            }
        }
        result
    }

    /// An operation on this descriptor has ended: a close may have waited for it.
    pub(super) fn has_ended(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        match slf.get().busy.with(slf.py(), |busy| busy.end(fd)) {
            Some(Closing { future: Some(future), clean }) => {
                Self::close_now(slf, fd, clean, future.bind(slf.py()))
            }
            Some(Closing { future: None, .. }) => {
                file::close(fd).map_err(|e| errors::file_error(&e))
            }
            None => Ok(()),
        }
    }

    /// Closes a descriptor that nothing is under way on, for a future that waits.
    fn close_now(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        clean: bool,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !clean {
            return Self::submit(slf, Way::Engine(Request::Close { fd }), Want::Nothing, future)
                .map(drop);
        }
        let result = file::close(fd);
        let request = Some(Request::Close { fd });
        let owner = Pending { future: future.clone().unbind(), want: Want::Nothing };
        let outcome = Outcome { request, result: result.map(|()| 0) };
        Pending::settle(Completion { owner, outcome }, slf.get(), slf.py())
    }
}
