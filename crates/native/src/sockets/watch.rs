//! `Watch`: what a program waits for on one descriptor of its own.
//!
//! Callbacks of `add_reader`/`add_writer` are level-triggered, as asyncio's are. Operations on a
//! socket (`sock_recv` and its kin) always try first, so that an edge is enough for them: the
//! registration is made at the first wait and stays, and a waiting operation costs no system call
//! but its own. Who closes the socket ends that registration in the kernel; the next operation on
//! the number notices by the socket object's identity (S4).

use crate::errors;
use crate::event_loop::{Handle, LoopCore};
use crate::ffi::LoopCell;
use oneloop_engine::{Interest, Readiness, Token};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::os::fd::RawFd;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Read,
    Write,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    reader: Option<Py<Handle>>,
    writer: Option<Py<Handle>>,
    /// Futures of operations that wait.
    read_waiters: Vec<Py<PyAny>>,
    write_waiters: Vec<Py<PyAny>>,
    /// The socket whose operations wait here.
    socket: Option<Py<PyWeakrefReference>>,
    /// An operation has waited for writability: keep hearing of it until it is no longer wanted.
    wants_write: bool,
}

impl State {
    fn interest(&self) -> Option<Interest> {
        if self.reader.is_some() || self.writer.is_some() {
            let mut interest = Interest::NONE;
            if self.reader.is_some() || !self.read_waiters.is_empty() {
                interest = interest | Interest::READ;
            }
            if self.writer.is_some() || !self.write_waiters.is_empty() {
                interest = interest | Interest::WRITE;
            }
            return Some(interest);
        }
        self.socket.as_ref()?;
        let edge = Interest::EDGE | Interest::READ;
        Some(if self.wants_write { edge | Interest::WRITE } else { edge })
    }

    fn waiters(&mut self, side: Side) -> &mut Vec<Py<PyAny>> {
        match side {
            Side::Read => &mut self.read_waiters,
            Side::Write => &mut self.write_waiters,
        }
    }

    fn callback(&mut self, side: Side) -> &mut Option<Py<Handle>> {
        match side {
            Side::Read => &mut self.reader,
            Side::Write => &mut self.writer,
        }
    }
}

/// Everything that waits for one descriptor. Internal: lives in the loop's registry.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Watch(LoopCell<State>);

impl Watch {
    /// The watch on `fd`, a new one if there is none. RuntimeError if a transport owns the number.
    fn on<'py>(owner: &Bound<'py, LoopCore>, fd: RawFd) -> PyResult<Bound<'py, Self>> {
        match owner.get().source_of(owner.py(), fd) {
            None => Bound::new(owner.py(), Self(LoopCell::new(State::default()))),
            Some((object, _)) => match object.cast_into::<Self>() {
                Ok(watch) => Ok(watch),
                Err(other) => {
                    let transport = other.into_inner();
                    if transport
                        .call_method0("is_closing")
                        .is_ok_and(|c| c.is_truthy().unwrap_or(true))
                    {
                        return Bound::new(owner.py(), Self(LoopCell::new(State::default())));
                    }
                    Err(PyRuntimeError::new_err(format!(
                        "File descriptor {fd} is used by transport {}",
                        transport.repr()?
                    )))
                }
            },
        }
    }

    /// The watch on `fd` as the file is that has the number now: one whose file was closed without
    /// a word is left behind with all its callbacks (S4).
    fn on_current_file<'py>(owner: &Bound<'py, LoopCore>, fd: RawFd) -> PyResult<Bound<'py, Self>> {
        let py = owner.py();
        let watch = Self::on(owner, fd)?;
        let (token, interest) = watch.get().0.with(py, |s| (s.token, s.interest()));
        let (Some(token), Some(interest)) = (token, interest) else { return Ok(watch) };
        match owner.get().reaffirm_interest(py, token, interest) {
            Ok(()) => Ok(watch),
            Err(e)
                if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EBADF | libc::EPERM)) =>
            {
                watch.get().0.with(py, |s| s.token = None);
                owner.get().vacate(py, token).map_err(|e| errors::os_error("epoll_ctl", &e))?;
                Bound::new(py, Self(LoopCell::new(State::default())))
            }
            Err(e) => Err(errors::os_error("epoll_ctl", &e)),
        }
    }

    /// The watch on `fd`, if there is one.
    fn existing<'py>(owner: &Bound<'py, LoopCore>, fd: RawFd) -> Option<Bound<'py, Self>> {
        let (object, _) = owner.get().source_of(owner.py(), fd)?;
        object.cast_into::<Self>().ok()
    }

    /// Brings the poller's registration in line with what is wanted.
    fn update(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, fd: RawFd) -> io::Result<()> {
        let py = owner.py();
        let (token, interest) = slf.get().0.with(py, |s| (s.token, s.interest()));
        let core = owner.get();
        match (token, interest) {
            (None, None) => Ok(()),
            (Some(token), None) => {
                slf.get().0.with(py, |s| s.token = None);
                ignore_gone(core.deregister(py, token))
            }
            (Some(token), Some(interest)) => {
                let changed = core.change_interest(py, token, interest);
                if is_gone(&changed) {
                    // Its file was closed without a word: nothing can come of it any more.
                    slf.get().0.with(py, |s| s.token = None);
                    return core.vacate(py, token);
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
        let object = slf.clone().into_any().unbind();
        let token = owner.get().register(py, fd, interest, object, on_ready)?;
        slf.get().0.with(py, |s| s.token = Some(token));
        Ok(())
    }

    /// A future that is resolved when `socket` may be ready on `side`.
    pub fn wait<'py>(
        owner: &Bound<'py, LoopCore>,
        socket: &Bound<'py, PyAny>,
        fd: RawFd,
        side: Side,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, Self>)> {
        let py = owner.py();
        let mut watch = Self::on(owner, fd)?;
        let known = watch.get().0.with(py, |s| s.socket.as_ref().map(|w| w.clone_ref(py)));
        if known.is_none() {
            watch = Self::on_current_file(owner, fd)?;
        }
        let same = known
            .as_ref()
            .is_some_and(|weak| weak.bind(py).upgrade().is_some_and(|s| s.is(socket)));
        if known.is_some() && !same {
            // The socket that these operations waited for is closed: its number is another's.
            if let Some(token) = watch.get().0.with(py, |s| s.token.take()) {
                owner.get().vacate(py, token).map_err(|e| errors::os_error("epoll_ctl", &e))?;
            }
            watch = Bound::new(py, Self(LoopCell::new(State::default())))?;
        }
        if !same {
            let weak = PyWeakrefReference::new(socket)?.unbind();
            watch.get().0.with(py, |s| s.socket = Some(weak));
        }
        let future = owner.call_method0(intern!(py, "create_future"))?;
        let kept = future.clone().unbind();
        watch.get().0.with(py, |s| {
            s.waiters(side).push(kept);
            s.wants_write |= side == Side::Write;
        });
        Self::update(&watch, owner, fd).map_err(|e| errors::os_error("epoll_ctl", &e))?;
        Ok((future, watch))
    }

    /// Forgets a waiting future.
    pub fn forget(&self, py: Python<'_>, side: Side, future: &Py<PyAny>) {
        let removed = self.0.with(py, |s| {
            let waiters = s.waiters(side);
            let index = waiters.iter().position(|waiter| waiter.is(future))?;
            Some(waiters.swap_remove(index))
        });
        drop(removed);
    }

    fn serve(slf: &Bound<'_, Self>, owner: &Bound<'_, LoopCore>, side: Side) -> PyResult<()> {
        let py = owner.py();
        let (waiters, callback) = slf.get().0.with(py, |s| {
            (std::mem::take(s.waiters(side)), s.callback(side).as_ref().map(|c| c.clone_ref(py)))
        });
        for waiter in waiters {
            let waiter = waiter.bind(py);
            if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
                waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
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

/// The kernel has ended a registration by itself, because its file was closed. EPERM: the number is
/// a regular file's by now.
fn is_gone(result: &io::Result<()>) -> bool {
    matches!(result, Err(e) if matches!(
        e.raw_os_error(),
        Some(libc::ENOENT | libc::EBADF | libc::EPERM)
    ))
}

/// A registration that is gone needs no ending.
fn ignore_gone(result: io::Result<()>) -> io::Result<()> {
    if is_gone(&result) { Ok(()) } else { result }
}

fn on_ready(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
    readiness: Readiness,
) -> PyResult<()> {
    let py = owner.py();
    let slf = object.cast::<Watch>()?;
    if readiness.is_readable() {
        Watch::serve(slf, owner, Side::Read)?;
    }
    // The reader may have removed everything, or closed the descriptor.
    if readiness.is_writable() && slf.get().0.with(py, |s| s.token.is_some()) {
        Watch::serve(slf, owner, Side::Write)?;
        let token = slf.get().0.with(py, |s| {
            s.wants_write = !s.write_waiters.is_empty();
            s.token
        });
        if let Some(token) = token {
            Watch::update(slf, owner, token.fd()).map_err(|e| errors::os_error("epoll_ctl", &e))?;
        }
    }
    Ok(())
}

#[pymethods]
impl Watch {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .peek(|s| {
                for handle in [&s.reader, &s.writer].into_iter().flatten() {
                    handle.get().work.visit(&visit)?;
                }
                s.read_waiters.iter().chain(&s.write_waiters).try_for_each(|w| visit.call(w))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.0.take(py));
    }
}

/// The rest of the methods of `oneloop.Loop` on descriptors.
#[pymethods]
impl LoopCore {
    /// Watches `fd` on one side; a callback that was there is replaced and cancelled.
    fn _add_callback_for(
        slf: &Bound<'_, Self>,
        fd: RawFd,
        is_write: bool,
        callback: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let py = slf.py();
        slf.get().check_closed()?;
        let handle = Handle::make(py, callback, args)?;
        let side = if is_write { Side::Write } else { Side::Read };
        let watch = Watch::on_current_file(slf, fd)?;
        let old = watch.get().0.with(py, |s| s.callback(side).replace(handle));
        if let Some(old) = old {
            old.get().work.cancel(py);
        }
        if let Err(e) = Watch::update(&watch, slf, fd) {
            let refused = watch.get().0.with(py, |s| s.callback(side).take());
            drop(refused);
            return Err(errors::os_error("epoll_ctl", &e));
        }
        Ok(())
    }

    /// True if a callback was there.
    fn _remove_callback_for(slf: &Bound<'_, Self>, fd: RawFd, is_write: bool) -> PyResult<bool> {
        let py = slf.py();
        if slf.get().is_closed_now() {
            return Ok(false);
        }
        let side = if is_write { Side::Write } else { Side::Read };
        let Some(watch) = Watch::existing(slf, fd) else { return Ok(false) };
        let Some(old) = watch.get().0.with(py, |s| s.callback(side).take()) else {
            return Ok(false);
        };
        old.get().work.cancel(py);
        ignore_gone(Watch::update(&watch, slf, fd))
            .map_err(|e| errors::os_error("epoll_ctl", &e))?;
        Ok(true)
    }

    /// RuntimeError if a transport owns the descriptor.
    fn _ensure_fd_no_transport(slf: &Bound<'_, Self>, fd: RawFd) -> PyResult<()> {
        Watch::on(slf, fd).map(drop)
    }
}
