//! The life of an operation (started with a future, queued, sent, resolved) and of a close, which waits for running
//! operations on its descriptor.
//!
//! No cell is borrowed while Python code runs (S2).

use super::Files;
use super::budget::Budget;
use super::cancel::Canceller;
use super::descriptors::Closing;
use super::pending::{Pending, Want};
use super::reaping;
use super::stored::Abandoned;
use crate::errors;
use crate::ffi::Object;
use oneloop_engine::files::threads::Work;
use oneloop_engine::files::{Brief, Call, Completion, Engines, Lane, Request, Ticket, cached};
use oneloop_engine::sys::file;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// This many O_DIRECT transfers are sent together; all other requests wait for the end of the tick.
const BATCH: usize = 4;

/// How long to wait for a short write.
const PATIENCE: Duration = Duration::from_micros(50);
/// Longer transfers have separate threads.
pub(super) const LONG: usize = 1 << 20;

/// How an operation is executed.
pub enum Way {
    Engine(Request),
    /// By a separate thread: it may wait forever.
    Alone(Request),
    Call(Call, Lane),
    /// Like `Call`, even if nobody waits: a file is being closed.
    Due(Call, Lane),
}

/// The result of waiting for a short operation.
pub enum Begun<'py> {
    /// It has succeeded or failed.
    Done(PyResult<()>),
    /// It takes longer.
    Later(Bound<'py, PyAny>),
}

impl Files {
    /// Whether this tick has time for an operation that needs no waiting.
    pub(super) fn may_work(&self, py: Python<'_>) -> bool {
        let tick = self.owner.get().tick_number(py);
        self.budget.with(py, |budget| budget.allows(tick))
    }

    /// Like `may_work`, for operations that take almost no time.
    pub(super) fn may_work_in_memory(&self, py: Python<'_>) -> bool {
        let tick = self.owner.get().tick_number(py);
        self.budget.with(py, |budget| budget.allows_in_memory(tick))
    }

    /// Starts an operation and returns its future.
    pub(super) fn begin<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, _) = Self::begin_ticketed(slf, way, want)?;
        Ok(future)
    }

    /// Starts an operation that may wait forever; cancelling its future ends it.
    pub(super) fn begin_cancellable<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = Self::begin_ticketed(slf, way, want)?;
        Canceller::watch(slf, &future, ticket, None)?;
        Ok(future)
    }

    /// Starts an operation that checks whether it was abandoned.
    pub(super) fn begin_abandonable<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
        abandoned: Abandoned,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = Self::begin_ticketed(slf, way, want)?;
        Canceller::watch(slf, &future, ticket, Some(abandoned))?;
        Ok(future)
    }

    /// Starts an operation that usually takes a few microseconds, and waits that long: a round trip through the
    /// poller and a task's wake-up would cost more than the operation (design 0014). If it returns an error, nothing
    /// was started.
    pub(super) fn begin_briefly<'py>(
        slf: &Bound<'py, Self>,
        way: Way,
        want: Want,
    ) -> PyResult<Begun<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let (work, lane, is_due) = match way {
            _ if !this.budget.with(py, Budget::may_wait) || !this.may_work(py) => {
                return Self::begin(slf, way, want).map(Begun::Later);
            }
            Way::Call(call, Lane::Near) => (Work::Call(call), Lane::Near, false),
            Way::Due(call, Lane::Near) => (Work::Call(call), Lane::Near, true),
            way => return Self::begin(slf, way, want).map(Begun::Later),
        };
        // The same checks as for making a future: on an error nothing is started.
        this.owner.get().check_closed()?;
        this.owner.get()._check_process(py)?;
        let pending = Pending { future: None, want };
        let submitted = this.engines.with(py, |engines| match engines {
            Some(engines) => Ok(engines.work_and_wait(work, lane, is_due, pending, PATIENCE)),
            None => Err(pending),
        });
        match submitted {
            Ok(Ok(Brief::Done(completion))) => Ok(Begun::Done(Pending::settle(completion, slf))),
            Ok(Ok(late @ (Brief::Later(key) | Brief::Late(key)))) => {
                if matches!(late, Brief::Late(_)) {
                    this.budget.with(py, Budget::has_waited_in_vain);
                }
                // The operation was started, so this is not an error of starting it.
                let future = match this.make_future(py) {
                    Ok(future) => future,
                    Err(error) => return Ok(Begun::Done(Err(error))),
                };
                let told = future.clone().unbind();
                this.engines.with(py, |engines| {
                    if let Some(owner) = engines.as_mut().and_then(|engines| engines.owner(key)) {
                        owner.future = Some(told);
                    }
                });
                Ok(Begun::Later(future))
            }
            Ok(Err((error, pending))) => {
                drop(pending);
                Err(errors::os_error("starting a thread for file operations", &error))
            }
            Err(pending) => {
                drop(pending);
                Err(PyRuntimeError::new_err("the file operations of this event loop are shut down"))
            }
        }
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

    pub(super) fn submit(
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
            Way::Call(..) | Way::Due(..) => None,
        };
        let lane = match fd {
            Some(fd) => this.descriptors.with(py, |descriptors| descriptors.lane(fd)),
            None => Lane::Far,
        };
        let lane = match &way {
            Way::Engine(request) if lane == Lane::Near && request.bytes() > LONG => Lane::Bulk,
            _ => lane,
        };
        let pending = Pending { future: Some(future.clone().unbind()), want };
        Self::take(slf, way, lane, fd, pending)
    }

    /// Closes a descriptor on a thread, without a future.
    fn close_for_nobody(slf: &Bound<'_, Self>, fd: RawFd, lane: Lane) -> PyResult<()> {
        let pending = Pending { future: None, want: Want::Nothing };
        let way = Way::Due(Box::new(move || file::close(fd).map(|()| 0)), lane);
        Self::take(slf, way, lane, None, pending).map(drop)
    }

    fn take(
        slf: &Bound<'_, Self>,
        way: Way,
        lane: Lane,
        fd: Option<RawFd>,
        pending: Pending,
    ) -> PyResult<Ticket> {
        let py = slf.py();
        let this = slf.get();
        let submitted = this.engines.with(py, |engines| match engines {
            Some(engines) => Ok(match way {
                Way::Engine(request) => engines.submit(request, lane, pending),
                Way::Alone(request) => engines.submit_alone(request, pending),
                Way::Call(call, lane) => engines.call(call, lane, pending),
                Way::Due(call, lane) => engines.call_due(call, lane, pending),
            }),
            None => Err(pending),
        });
        match submitted {
            Ok(Ok(ticket)) => {
                if let Some(fd) = fd {
                    this.descriptors.with(py, |descriptors| descriptors.begin(fd));
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
                Err(PyRuntimeError::new_err("the file operations of this event loop are shut down"))
            }
        }
    }

    /// Asks for an operation to end early.
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

    /// Runs `f` on the engines, and resolves the futures of completed operations.
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

    /// Resolves every future, even if others fail.
    fn settle_all(slf: &Bound<'_, Self>, completions: Vec<Completion<Pending>>) -> PyResult<()> {
        let mut result = Ok(());
        for completion in completions {
            let fd = completion.outcome.request.as_ref().and_then(Request::fd);
            result = result.and(Pending::settle(completion, slf));
            if let Some(fd) = fd {
                result = result.and(Self::has_ended(slf, fd));
            }
        }
        result
    }

    /// An operation on this descriptor has ended: starts a close that has waited for it.
    pub(super) fn has_ended(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        let ended = slf.get().descriptors.with(slf.py(), |descriptors| descriptors.end(fd));
        let Some(Closing { future, clean }) = ended else { return Ok(()) };
        let Some(future) = future else { return Self::forsake_now(slf, fd) };
        let future = future.bind(slf.py());
        match Self::close_now(slf, fd, clean) {
            Ok(None) => {
                future.call_method1(intern!(slf.py(), "set_result"), (slf.py().None(),)).map(drop)
            }
            Ok(Some((way, want))) => Self::submit(slf, way, want, future).map(drop),
            Err(e) => future
                .call_method1(intern!(slf.py(), "set_exception"), (errors::file_error(&e),))
                .map(drop),
        }
    }

    /// Whether a clean descriptor can be closed without waiting.
    pub(super) fn closes_at_once(slf: &Bound<'_, Self>, fd: RawFd) -> bool {
        let this = slf.get();
        let is_quick = this.descriptors.with(slf.py(), |descriptors| {
            !descriptors.is_busy(fd) && descriptors.lane(fd) == Lane::Near
        });
        is_quick && !cached::is_long_to_close(fd)
    }

    /// Forgets a descriptor and returns the lane for its close; `Near` ones may be closed immediately.
    fn closing_lane(slf: &Bound<'_, Self>, fd: RawFd) -> Lane {
        match slf.get().descriptors.with(slf.py(), |descriptors| descriptors.forget(fd)) {
            Lane::Near if cached::is_long_to_close(fd) => Lane::Bulk,
            lane => lane,
        }
    }

    /// Closes a descriptor without running operations. If that might block, returns how to do it instead.
    pub(super) fn close_now(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        clean: bool,
    ) -> io::Result<Option<(Way, Want)>> {
        let lane = Self::closing_lane(slf, fd);
        if lane == Lane::Near && clean {
            return file::close(fd).map(|()| None);
        }
        let call: Call = Box::new(move || file::close(fd).map(|()| 0));
        Ok(Some((Way::Due(call, lane), Want::Nothing)))
    }

    /// Like `close_now`, without a future. From any thread that holds the GIL.
    pub(super) fn forsake_now(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        let lane = Self::closing_lane(slf, fd);
        if lane == Lane::Near || slf.get().is_shut(slf.py()) {
            return file::close(fd).map_err(|e| errors::file_error(&e));
        }
        Self::close_for_nobody(slf, fd, lane)
    }
}
