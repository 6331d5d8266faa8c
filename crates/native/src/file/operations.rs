//! The life of an operation (started with a future, queued, sent, resolved) and of a close, which waits for running
//! operations on its descriptor.
//!
//! No cell is borrowed while Python code runs (S2).

use super::Files;
use super::budget::Budget;
use super::cancel::{Abandoned, Canceller};
use super::descriptors::Closing;
use super::pending::{Conversion, Pending};
use super::reaping;
use crate::errors;
use crate::ffi::Object;
use crate::imports;
use oneloop_engine::files::mount::Place;
use oneloop_engine::files::threads::Work;
use oneloop_engine::files::{
    AT_FDCWD, Brief, Call, Completion, Engines, Lane, Request, Ticket, cached,
};
use oneloop_engine::sys::file;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use std::ffi::CString;
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
pub enum Strategy {
    Engine(Request),
    /// By a separate thread: it may wait forever.
    Unbounded(Request),
    Call(Call, Lane),
    /// Like `Call`, even if nobody waits: a file is being closed.
    UncancellableCall(Call, Lane),
}

/// The result of waiting for a short operation.
pub enum StartOutcome<'py> {
    /// It has succeeded or failed.
    Finished(PyResult<Bound<'py, PyAny>>),
    /// It takes longer.
    Running(Bound<'py, PyAny>, Ticket),
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
        strategy: Strategy,
        conversion: Conversion,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, _) = Self::begin_ticketed(slf, strategy, conversion)?;
        Ok(future)
    }

    /// Starts an operation that may wait forever; cancelling its future ends it.
    pub(super) fn begin_cancellable<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = Self::begin_ticketed(slf, strategy, conversion)?;
        Canceller::watch(slf, &future, ticket, None)?;
        Ok(future)
    }

    /// Starts an operation that checks whether it was abandoned.
    pub(super) fn begin_abandonable<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
        abandoned: Abandoned,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (future, ticket) = Self::begin_ticketed(slf, strategy, conversion)?;
        Canceller::watch(slf, &future, ticket, Some(abandoned))?;
        Ok(future)
    }

    /// Starts an operation that usually takes a few microseconds, and waits that long: a round trip through the
    /// poller and a task's wake-up would cost more than the operation (design 0014). If it returns an error, nothing
    /// was started.
    pub(super) fn begin_briefly<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
    ) -> PyResult<StartOutcome<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let (work, lane, is_uncancellable) = match strategy {
            _ if !this.budget.with(py, Budget::may_wait) || !this.may_work(py) => {
                return Self::begin_late(slf, strategy, conversion);
            }
            Strategy::Call(call, Lane::Local) => (Work::Call(call), Lane::Local, false),
            Strategy::UncancellableCall(call, Lane::Local) => (Work::Call(call), Lane::Local, true),
            strategy => return Self::begin_late(slf, strategy, conversion),
        };
        // The same checks as for making a future: on an error nothing is started.
        this.owner.get().check_closed()?;
        this.owner.get()._check_process()?;
        let pending = Pending { future: None, conversion };
        let submitted = this.engines.with(py, |engines| match engines {
            Some(engines) => {
                Ok(engines.work_and_wait(work, lane, is_uncancellable, pending, PATIENCE))
            }
            None => Err(pending),
        });
        match submitted {
            Ok(Ok(Brief::Done(completion))) => {
                Ok(StartOutcome::Finished(Pending::finish(completion, slf)))
            }
            Ok(Ok(late @ (Brief::Later(key) | Brief::Late(key)))) => {
                if matches!(late, Brief::Late(_)) {
                    this.budget.with(py, Budget::has_waited_in_vain);
                }
                // The operation was started, so this is not an error of starting it.
                let future = match this.make_future(py) {
                    Ok(future) => future,
                    Err(error) => return Ok(StartOutcome::Finished(Err(error))),
                };
                let waiter = future.clone().unbind();
                this.engines.with(py, |engines| {
                    if let Some(owner) = engines.as_mut().and_then(|engines| engines.owner(key)) {
                        owner.future = Some(waiter);
                    }
                });
                Ok(StartOutcome::Running(future, Ticket::Threads(key)))
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

    fn begin_late<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
    ) -> PyResult<StartOutcome<'py>> {
        let (future, ticket) = Self::begin_ticketed(slf, strategy, conversion)?;
        Ok(StartOutcome::Running(future, ticket))
    }

    /// Starts an operation on memory of the program: its future does not end before the kernel has finished with that
    /// memory. Cancelling it only asks the operation to end early.
    pub(super) fn begin_borrowing<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
        abandoned: Option<Abandoned>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let owner = this.owner.bind(py);
        owner.get().check_closed()?;
        owner.get()._check_process()?;
        let future = imports::borrowing_future(py)?.call1((owner,))?;
        let ticket = Self::submit(slf, strategy, conversion, &future)?;
        Canceller::lend(slf, &future, ticket, abandoned)?;
        Ok(future)
    }

    fn begin_ticketed<'py>(
        slf: &Bound<'py, Self>,
        strategy: Strategy,
        conversion: Conversion,
    ) -> PyResult<(Bound<'py, PyAny>, Ticket)> {
        let py = slf.py();
        let this = slf.get();
        let future = this.make_future(py)?;
        let ticket = Self::submit(slf, strategy, conversion, &future)?;
        Ok((future, ticket))
    }

    pub(super) fn is_shut(&self, py: Python<'_>) -> bool {
        self.engines.with(py, |engines| engines.is_none())
    }

    pub(super) fn make_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let owner = self.owner.bind(py);
        owner.get().check_closed()?;
        owner.get()._check_process()?;
        owner.call_method0(intern!(py, "create_future"))
    }

    pub(super) fn submit(
        slf: &Bound<'_, Self>,
        strategy: Strategy,
        conversion: Conversion,
        future: &Bound<'_, PyAny>,
    ) -> PyResult<Ticket> {
        let py = slf.py();
        let this = slf.get();
        Self::drive(slf, Engines::follow_thread)?;
        let fd = match &strategy {
            Strategy::Engine(request) | Strategy::Unbounded(request) => request.fd(),
            Strategy::Call(..) | Strategy::UncancellableCall(..) => None,
        };
        let lane = match fd {
            Some(fd) => this.descriptors.with(py, |descriptors| descriptors.lane(fd)),
            None => Lane::Remote(Self::place_of(&strategy)),
        };
        let lane = match &strategy {
            Strategy::Engine(request) if lane == Lane::Local && request.bytes() > LONG => {
                Lane::Bulk
            }
            _ => lane,
        };
        let pending = Pending { future: Some(future.clone().unbind()), conversion };
        Self::take(slf, strategy, lane, fd, pending)
    }

    /// The place of a request without an open file.
    fn place_of(strategy: &Strategy) -> Place {
        let (Strategy::Engine(request) | Strategy::Unbounded(request)) = strategy else {
            return Place::Unknown;
        };
        Place::first_remote(request.names().iter().map(|at| cached::place_of(at.dir_fd, &at.path)))
    }

    /// Closes a descriptor on a thread, without a future.
    fn close_for_nobody(slf: &Bound<'_, Self>, fd: RawFd, lane: Lane) -> PyResult<()> {
        let pending = Pending { future: None, conversion: Conversion::Nothing };
        let strategy =
            Strategy::UncancellableCall(Box::new(move || file::close(fd).map(|()| 0)), lane);
        Self::take(slf, strategy, lane, None, pending).map(drop)
    }

    /// Removes a file on a thread, without a future. That it does not exist any more is no error.
    pub(super) fn remove_for_nobody(slf: &Bound<'_, Self>, path: CString) -> PyResult<()> {
        let lane = Lane::Remote(cached::place_of(AT_FDCWD, &path));
        let pending = Pending { future: None, conversion: Conversion::Nothing };
        let call: Call = Box::new(move || match file::unlink((AT_FDCWD, &path), 0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            result => result.map(|()| 0),
        });
        Self::take(slf, Strategy::UncancellableCall(call, lane), lane, None, pending).map(drop)
    }

    fn take(
        slf: &Bound<'_, Self>,
        strategy: Strategy,
        lane: Lane,
        fd: Option<RawFd>,
        pending: Pending,
    ) -> PyResult<Ticket> {
        let py = slf.py();
        let this = slf.get();
        let submitted = this.engines.with(py, |engines| match engines {
            Some(engines) => Ok(match strategy {
                Strategy::Engine(request) => engines.submit(request, lane, pending),
                Strategy::Unbounded(request) => engines.submit_unbounded(request, pending),
                Strategy::Call(call, lane) => engines.call(call, lane, pending),
                Strategy::UncancellableCall(call, lane) => {
                    engines.call_uncancellable(call, lane, pending)
                }
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
        if !self.is_flush_scheduled.with(py, |scheduled| std::mem::replace(scheduled, true)) {
            let object = Object::new(slf.clone().into_any());
            self.owner.get().flush_later(py, object, reaping::flush);
        }
    }

    /// Runs `f` on the engines, and resolves the futures of completed operations.
    pub(super) fn drive(
        slf: &Bound<'_, Self>,
        f: impl FnOnce(&mut Engines<Pending>, &mut Vec<Completion<Pending>>),
    ) -> PyResult<()> {
        let mut completions = Vec::new();
        let lost = slf.get().engines.with(slf.py(), |engines| {
            let engines = engines.as_mut()?;
            f(engines, &mut completions);
            engines.take_lost()
        });
        let settled = Self::settle_all(slf, completions);
        settled.and(lost.map_or(Ok(()), |lost| reaping::leave(slf, &lost)))
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
            Ok(Some((strategy, conversion))) => {
                Self::submit(slf, strategy, conversion, future).map(drop)
            }
            Err(e) => future
                .call_method1(intern!(slf.py(), "set_exception"), (errors::file_error(&e),))
                .map(drop),
        }
    }

    /// Whether a clean descriptor can be closed without waiting.
    pub(super) fn closes_at_once(slf: &Bound<'_, Self>, fd: RawFd) -> bool {
        let this = slf.get();
        let (is_quick, is_small) = this.descriptors.with(slf.py(), |descriptors| {
            let is_quick = !descriptors.is_busy(fd) && descriptors.lane(fd) == Lane::Local;
            (is_quick, descriptors.is_still_small(fd))
        });
        is_quick && (is_small || !cached::is_long_to_close(fd))
    }

    /// Forgets a descriptor and returns the lane for its close; `Local` ones may be closed immediately.
    fn closing_lane(slf: &Bound<'_, Self>, fd: RawFd) -> Lane {
        match slf.get().descriptors.with(slf.py(), |descriptors| descriptors.forget(fd)) {
            Lane::Local if cached::is_long_to_close(fd) => Lane::Bulk,
            lane => lane,
        }
    }

    /// Closes a descriptor without running operations. If that might block, returns how to do it instead.
    pub(super) fn close_now(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        clean: bool,
    ) -> io::Result<Option<(Strategy, Conversion)>> {
        let lane = Self::closing_lane(slf, fd);
        if lane == Lane::Local && clean {
            return file::close(fd).map(|()| None);
        }
        let call: Call = Box::new(move || file::close(fd).map(|()| 0));
        Ok(Some((Strategy::UncancellableCall(call, lane), Conversion::Nothing)))
    }

    /// Like `close_now`, without a future. From any thread that holds the GIL.
    pub(super) fn forsake_now(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        let lane = Self::closing_lane(slf, fd);
        if lane == Lane::Local || slf.get().is_shut(slf.py()) {
            return file::close(fd).map_err(|e| errors::file_error(&e));
        }
        Self::close_for_nobody(slf, fd, lane)
    }
}
