//! `Files`: the file operations of one loop: its engines, their place in the poller and the tick.
//!
//! An operation is begun by `begin`, which gives it a future; what it needs is queued, and sent at
//! the end of the tick with everything else. Completions come by the poller, or right with the
//! sending. Belongs to the loop's thread (S5). No cell is borrowed while Python code runs (S2).

use super::budget::Budget;
use super::busy::{Busy, Closing};
use super::cancel::Canceller;
use super::pending::{Pending, Want};
use super::scratch::Scratch;
use crate::errors;
use crate::event_loop::{LoopCore, OnReady};
use crate::ffi::{LoopCell, Object};
use oneloop_engine::files::{Choice, Completion, Engines, Outcome, Request, Ticket, probe, ring};
use oneloop_engine::sys::file;
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// O_DIRECT transfers that are sent together; all other requests wait for the end of the tick.
const BATCH: usize = 4;
/// How long `shut` waits for what is under way.
const PATIENCE: Duration = Duration::from_secs(2);

/// All file operations of one loop.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Files {
    pub(super) owner: Py<LoopCore>,
    /// None once shut.
    engines: LoopCell<Option<Engines<Pending>>>,
    budget: LoopCell<Budget>,
    pub(super) busy: LoopCell<Busy>,
    pub(super) scratch: LoopCell<Scratch>,
    is_flush_due: LoopCell<bool>,
    ring_token: LoopCell<Option<Token>>,
    direct_token: LoopCell<Option<Token>>,
    pool_token: LoopCell<Option<Token>>,
    /// Engines that do not work here, and why.
    refused: Vec<(Choice, String)>,
    choice: Choice,
}

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

    fn ask_for_flush(&self, slf: &Bound<'_, Self>) {
        let py = slf.py();
        if !self.is_flush_due.with(py, |due| std::mem::replace(due, true)) {
            let object = Object::new(slf.clone().into_any());
            self.owner.get().flush_later(py, object, flush);
        }
    }

    /// Runs `f` on the engines and settles what has completed.
    fn drive(
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
    fn has_ended(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
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

    /// The loop may run in another thread than before, where its ring is of no use.
    fn follow_thread(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let old = self
            .engines
            .with(py, |engines| engines.as_mut().map_or(Ok(None), Engines::follow_thread));
        let old = old.map_err(|e| errors::os_error("io_uring_setup", &e))?;
        let Some(old) = old else { return Ok(()) };
        if let Some(token) = self.ring_token.take(py) {
            let result = self.owner.get().deregister(py, token);
            result.map_err(|e| errors::os_error("epoll_ctl", &e))?;
        }
        give_up(slf, &old)?;
        drop(old);
        self.register(slf)
    }

    /// Puts the engines' descriptors into the poller.
    fn register(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
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
            (Some(pool_fd), &self.pool_token, Interest::READ, reap_pool),
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

/// Fails what waits for a ring that only another thread could reap; its records stay (S1).
fn give_up(slf: &Bound<'_, Files>, ring: &ring::Ring<Pending>) -> PyResult<()> {
    let py = slf.py();
    for (request, pending) in ring.operations() {
        let future = pending.future.bind(py);
        if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
            let error = PyRuntimeError::new_err(
                "the event loop has moved to another thread while this file operation was under \
                 way: whether it has happened is unknown",
            );
            future.call_method1(intern!(py, "set_exception"), (error,))?;
        }
        if let Some(fd) = request.fd() {
            Files::has_ended(slf, fd)?;
        }
    }
    Ok(())
}

fn files_of<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, Files>> {
    Ok(object.cast::<Files>()?)
}

/// At the end of the tick: sends what was queued.
fn flush(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let slf = files_of(object)?;
    let this = slf.get();
    this.is_flush_due.set(py, false);
    Files::drive(slf, Engines::flush)?;
    let is_more =
        this.engines.with(py, |engines| engines.as_ref().is_some_and(Engines::has_unsent));
    if is_more {
        // In the next tick, which must not sleep before.
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
    slf.get().follow_thread(slf)?;
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

/// Why an engine that was asked for by name cannot be had, and what to do.
fn forbidden(choice: Choice, error: &io::Error) -> PyErr {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel, or a sandbox, has none",
        Some(libc::EPERM | libc::EACCES) => {
            "forbidden by a sandbox (as Docker's seccomp profile does) or by \
             kernel.io_uring_disabled"
        }
        Some(libc::ENOMEM) => "no memory for it (RLIMIT_MEMLOCK on older kernels)",
        _ => "it does not work here",
    };
    let name = choice.name();
    let text = format!(
        "the file engine {name:?} was asked for, but {why}: {error}. Leave the choice to oneloop, \
         or ask for \"threads\" (ONELOOP_FILES=threads)"
    );
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, text)),
        None => PyRuntimeError::new_err(text),
    }
}

fn chosen(engine: Option<&str>) -> PyResult<(Choice, Vec<(Choice, io::Error)>)> {
    let choice = match engine {
        None => return Ok(probe::best()),
        Some("ring") => Choice::Ring,
        Some("aio") => Choice::Aio,
        Some("threads") => Choice::Threads,
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "unknown file engine {other:?}: known are \"ring\", \"aio\" and \"threads\""
            )));
        }
    };
    probe::trial(choice).map_err(|e| forbidden(choice, &e))?;
    Ok((choice, Vec::new()))
}

#[pymethods]
impl Files {
    /// Operations of `loop`, on the named engine or the best one that works.
    #[new]
    #[pyo3(signature = (r#loop, engine = None))]
    fn new(r#loop: &Bound<'_, LoopCore>, engine: Option<&str>) -> PyResult<Py<Self>> {
        let py = r#loop.py();
        let (choice, refused) = chosen(engine)?;
        let engines = Engines::new(choice).map_err(|e| forbidden(choice, &e))?;
        let files = Self {
            owner: r#loop.clone().unbind(),
            engines: LoopCell::new(Some(engines)),
            budget: LoopCell::default(),
            busy: LoopCell::default(),
            scratch: LoopCell::default(),
            is_flush_due: LoopCell::new(false),
            ring_token: LoopCell::default(),
            direct_token: LoopCell::default(),
            pool_token: LoopCell::default(),
            refused: refused.into_iter().map(|(c, e)| (c, e.to_string())).collect(),
            choice,
        };
        let files = Bound::new(py, files)?;
        files.get().register(&files)?;
        Ok(files.unbind())
    }

    /// Name of the engine: ring, aio or threads.
    #[getter]
    fn engine(&self) -> &'static str {
        self.choice.name()
    }

    /// What `oneloop.files.engine_info()` tells.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        let (under_way, threads) = self
            .engines
            .with(py, |engines| engines.as_ref().map_or((0, 0), |e| (e.under_way(), e.threads())));
        let refused = PyDict::new(py);
        for (choice, why) in &self.refused {
            refused.set_item(choice.name(), why)?;
        }
        info.set_item("engine", self.choice.name())?;
        info.set_item("refused", refused)?;
        info.set_item("operations", under_way)?;
        info.set_item("threads", threads)?;
        Ok(info)
    }

    /// Ends the engines: called when the loop is closed. Waits a moment for what is under way.
    fn shut(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner.get();
        let tokens = [&this.ring_token, &this.direct_token, &this.pool_token];
        for token in tokens.into_iter().filter_map(|token| token.take(py)) {
            owner.deregister(py, token).map_err(|e| errors::os_error("epoll_ctl", &e))?;
        }
        let Some(engines) = this.engines.take(py) else { return Ok(()) };
        let mut completions = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        // Threads may need the GIL to end what they do.
        let result = py.detach(|| engines.shut(deadline, &mut completions));
        let settled = completions.into_iter().map(Pending::abandon).fold(Ok(()), PyResult::and);
        result.map_err(|e| errors::os_error("io_uring_enter", &e))?;
        let closings = this.busy.with(py, Busy::take_closings);
        let closed = closings.iter().map(|(fd, _)| file::close(*fd)).fold(Ok(()), io::Result::and);
        closed.map_err(|e| errors::file_error(&e))?;
        settled
    }
}
