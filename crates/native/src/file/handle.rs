//! `FileHandle`: the native half of `oneloop.files.descriptor.Descriptor`: the turn, the position, and buffered writes.
//!
//! It holds the state that operations in memory need; most waiting is implemented in Python.

mod attributes;

use super::Files;
use super::operations::{LONG, StartOutcome, Strategy};
use super::pending::Conversion;
use super::read_ahead::ReadAhead;
use super::shipment::{Sent, Shipment};
use super::stored;
use crate::errors;
use crate::ffi::LoopCell;
use crate::ffi::buffer::with_bytes;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use oneloop_engine::files::Lane;
use oneloop_engine::files::cached::{self, AtOnce};
use oneloop_engine::sys::{file, transfer};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
struct State {
    /// -1 once closed.
    number: RawFd,
    is_reading: bool,
    is_writing: bool,
    /// The position; -1: use the kernel's.
    offset: i64,
    /// The length of the file when it was opened, in bytes.
    len: u64,
    is_appending: bool,
    /// A regular file or a block device.
    is_file: bool,
    /// It was opened with O_DIRECT.
    is_direct: bool,
    is_owner: bool,
    /// Other code knows the number: the position becomes the kernel's as soon as the file is idle.
    is_shared: bool,
    /// Closing may have to wait.
    was_written: bool,
    /// An operation holds the turn.
    is_taken: bool,
    /// A cancelled operation has left a running transfer.
    has_flight: bool,
    /// The number of users of the descriptor that no task waits for.
    watched: u32,
    /// Written and not yet passed to the kernel.
    pending: Vec<u8>,
    /// The maximum of `pending`.
    capacity: usize,
    /// Waits for the turn, in order.
    waiting: VecDeque<Py<PyAny>>,
    /// Wait until sent data has been written.
    observers: Vec<Py<PyAny>>,
    /// How much the slow half reads at a time, in bytes.
    step_bytes: usize,
}

/// What the slow half has to remember. Each is `None` as long as there is nothing.
#[derive(Default)]
struct Slow {
    /// The operations that use the descriptor and that no call waits for.
    flying: Option<Py<PyAny>>,
    /// The transfer that a cancelled operation has left.
    flight: Option<Py<PyAny>>,
    /// The future of the close that has begun.
    closing: Option<Py<PyAny>>,
}

#[pyclass(subclass, frozen, module = "oneloop._native")]
pub struct FileHandle {
    /// The loop's file operations.
    #[pyo3(get)]
    files: Py<PyAny>,
    /// The properties of the open file.
    #[pyo3(get)]
    opened: Py<PyTuple>,
    /// The loop that the file belongs to.
    #[pyo3(get)]
    r#loop: Py<PyAny>,
    /// The bytes read ahead; made at the first use.
    ahead: OnceLock<Py<ReadAhead>>,
    /// The same object as `files`, except if a test has replaced it: then nothing is done in memory.
    native: Option<Py<Files>>,
    state: LoopCell<State>,
    slow: LoopCell<Slow>,
}

/// The state that an operation in memory may use now.
#[derive(Clone, Copy)]
pub struct Open {
    pub number: RawFd,
    pub is_reading: bool,
    pub is_writing: bool,
    pub pending: usize,
    pub offset: i64,
    pub is_file: bool,
    pub len: u64,
}

/// Writes what is left of the data.
fn write_out(fd: RawFd, offset: i64, is_appending: bool, shipment: &Shipment) -> io::Result<usize> {
    let mut sent = shipment.lock().unwrap_or_else(PoisonError::into_inner);
    while sent.written < sent.data.len() {
        let at = if is_appending || offset < 0 { -1 } else { offset + sent.written as i64 };
        match transfer::write_slice(fd, &sent.data[sent.written..], at) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(n) => sent.written += n,
        }
    }
    Ok(sent.written)
}

/// Like `write_out`, of a file that stays open: an appending write went to the end, wherever that was.
fn write_out_and_tell(
    fd: RawFd,
    offset: i64,
    is_appending: bool,
    shipment: &Shipment,
) -> io::Result<usize> {
    let written = write_out(fd, offset, is_appending, shipment)?;
    if is_appending && offset >= 0 {
        let position = file::position(fd)?;
        shipment.lock().unwrap_or_else(PoisonError::into_inner).position = position;
    }
    Ok(written)
}

/// The result of sending.
pub enum Sending<'py> {
    /// Everything was written immediately.
    Done,
    /// A thread writes. The turn must be kept until then.
    Wait(Bound<'py, PyAny>),
    /// It is not a regular file, and writing may wait forever.
    No,
}

impl FileHandle {
    /// `None` if an operation has to wait or raise: the file is closed or in use.
    #[inline]
    pub(super) fn peek(&self, py: Python<'_>) -> Option<Open> {
        self.state.with(py, |state| {
            let is_free = state.number >= 0 && !state.is_taken && !state.has_flight;
            is_free.then_some(Open {
                number: state.number,
                is_reading: state.is_reading,
                is_writing: state.is_writing,
                pending: state.pending.len(),
                offset: state.offset,
                is_file: state.is_file && !state.is_direct,
                len: state.len,
            })
        })
    }

    /// Whether the file belongs to the running loop, and its tick has time.
    #[inline]
    pub(super) fn may_work(&self, py: Python<'_>) -> bool {
        self.native.as_ref().is_some_and(|files| {
            let files = files.get();
            files.owner.get().current_callback().is_some() && files.may_work_in_memory(py)
        })
    }

    /// The number of operations that may follow without reading the clock.
    pub(super) fn credit(&self, py: Python<'_>) -> u32 {
        let credit = |files: &Py<Files>| files.get().budget.with(py, |budget| budget.allowance());
        self.native.as_ref().map_or(1, credit).max(1)
    }

    /// Whether the file belongs to the running loop.
    pub(super) fn is_ours(&self, py: Python<'_>) -> bool {
        self.native(py).is_some_and(|files| files.get().owner.get().current_callback().is_some())
    }

    pub(super) fn native<'py>(&self, py: Python<'py>) -> Option<&Bound<'py, Files>> {
        self.native.as_ref().map(|files| files.bind(py))
    }

    /// False if it does not fit. Data that fills the buffer is also left to the slow half.
    #[inline]
    pub(super) fn put(&self, py: Python<'_>, data: &[u8]) -> bool {
        self.state.with(py, |state| {
            let fits = data.len() <= state.capacity - state.pending.len().min(state.capacity);
            let is_put = fits && data.len() < state.capacity;
            if is_put {
                state.pending.extend_from_slice(data);
            }
            is_put
        })
    }

    /// Whether `len` bytes fit into an empty buffer without filling it.
    pub(super) fn may_hold(&self, py: Python<'_>, len: usize) -> bool {
        self.state.with(py, |state| len < state.capacity)
    }

    pub(super) fn push(&self, py: Python<'_>, data: &[u8]) {
        self.state.with(py, |state| state.pending.extend_from_slice(data));
    }

    pub(super) fn move_to(&self, py: Python<'_>, offset: i64) {
        self.state.with(py, |state| state.offset = offset);
    }

    pub(super) fn take_now(&self, py: Python<'_>) {
        self.state.with(py, |state| state.is_taken = true);
    }

    /// The bytes read ahead; `None` as long as the slow half has read nothing.
    #[inline]
    pub(super) fn ahead(&self) -> Option<&ReadAhead> {
        self.ahead.get().map(Py::get)
    }

    /// Whether operations that no task waits for use the descriptor.
    pub(super) fn is_watched(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.watched > 0)
    }

    /// Takes the number, to close it, if nothing uses it and the file owns it.
    pub(super) fn give_up(&self, py: Python<'_>) -> Option<RawFd> {
        self.state.with(py, |state| {
            let is_clean = state.watched == 0 && state.is_owner && !state.was_written;
            is_clean.then(|| std::mem::replace(&mut state.number, -1))
        })
    }

    /// Passes pending data to the kernel. The caller has the turn, and keeps it until the future is done.
    pub(super) fn ship<'py>(slf: &Bound<'py, Self>) -> PyResult<Sending<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let Some(files) = this.native(py) else { return Ok(Sending::No) };
        let taken = this.state.with(py, |state| {
            if !state.is_file || state.number < 0 {
                return None;
            }
            state.was_written = true;
            let data = std::mem::take(&mut state.pending);
            Some((state.number, state.offset, state.is_appending, data))
        });
        let Some((fd, offset, is_appending, data)) = taken else { return Ok(Sending::No) };
        let mut sent = Sent { data, written: 0, position: 0 };
        let is_short = sent.data.len() <= LONG;
        if is_short
            && files.get().descriptors.with(py, |descriptors| descriptors.may_write_at_once(fd))
        {
            let at = if is_appending { -1 } else { offset };
            match cached::write_slice(fd, &sent.data, at) {
                Ok(AtOnce::Done(n)) => {
                    sent.written = n;
                    sent.position = if is_appending { file::position(fd).unwrap_or(0) } else { 0 };
                    let is_all = n == sent.data.len();
                    this.has_written(py, &sent, is_appending);
                    if is_all {
                        return Ok(Sending::Done);
                    }
                    return Self::ship(slf);
                }
                Ok(AtOnce::Unknown) => {
                    files.get().descriptors.with(py, |descriptors| descriptors.is_mute(fd));
                }
                // A thread repeats the write and reports the error.
                Ok(AtOnce::WouldBlock | AtOnce::Short | AtOnce::Unbounded) | Err(_) => {}
            }
        }
        this.state.with(py, |state| state.has_flight = true);
        let lane = files.get().descriptors.with(py, |descriptors| {
            descriptors.begin(fd);
            match descriptors.lane(fd) {
                Lane::Local if !is_short => Lane::Bulk,
                lane => lane,
            }
        });
        let shipment = Shipment::new(Mutex::new(sent));
        let theirs = Arc::clone(&shipment);
        let work = move || write_out_and_tell(fd, offset, is_appending, &theirs);
        let sent = Arc::clone(&shipment);
        let conversion = Conversion::Sent { handle: slf.clone().into_any().unbind(), shipment, fd };
        match Files::begin_briefly(files, Strategy::Call(Box::new(work), lane), conversion) {
            Ok(StartOutcome::Finished(done)) => done.map(|_| Sending::Done),
            Ok(StartOutcome::Running(future, _)) => Ok(Sending::Wait(future)),
            Err(error) => {
                // Nobody else holds the shipment, so it was not started: no thread could be started, or the process
                // was forked.
                if Arc::strong_count(&sent) == 1 && this.state.with(py, |state| state.has_flight) {
                    this.landed(py, &sent)?;
                    Files::has_ended(files, fd)?;
                }
                Err(error)
            }
        }
    }

    /// Moves the position past the written data, and keeps the rest.
    fn has_written(&self, py: Python<'_>, sent: &Sent, is_appending: bool) {
        self.state.with(py, |state| {
            if state.offset >= 0 && sent.written > 0 {
                state.offset = if is_appending && sent.position > 0 {
                    sent.position
                } else {
                    state.offset + sent.written as i64
                };
            }
            state.pending.splice(0..0, sent.data[sent.written..].iter().copied());
        });
    }

    /// Called when the thread has finished, or could not be started.
    pub(super) fn landed(&self, py: Python<'_>, shipment: &Shipment) -> PyResult<()> {
        let sent = std::mem::take(&mut *shipment.lock().unwrap_or_else(PoisonError::into_inner));
        let is_appending = self.state.with(py, |state| state.is_appending);
        self.has_written(py, &sent, is_appending);
        let observers = self.state.with(py, |state| {
            state.has_flight = false;
            std::mem::take(&mut state.observers)
        });
        self.give_out(py)?;
        for observer in observers {
            let observer = observer.bind(py);
            if !observer.call_method0(intern!(py, "done"))?.is_truthy()? {
                observer.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
        }
        Ok(())
    }

    /// If other code knows the number, moves the kernel's position there, which from now on is the file's.
    fn give_out(&self, py: Python<'_>) -> PyResult<()> {
        let moved = self.state.with(py, |state| {
            let must_move = state.is_shared && state.offset >= 0 && state.number >= 0;
            must_move.then(|| (state.number, std::mem::replace(&mut state.offset, -1)))
        });
        let Some((number, offset)) = moved else { return Ok(()) };
        file::move_position(number, offset).map_err(|e| errors::file_error(&e))
    }

    /// Passes the turn to the waiter that has waited longest, if there is one.
    pub(super) fn pass_on(&self, py: Python<'_>) -> PyResult<()> {
        if !self.state.with(py, |state| state.has_flight) {
            self.give_out(py)?;
        }
        loop {
            let next = self.state.with(py, |state| {
                let next = state.waiting.pop_front();
                state.is_taken = next.is_some();
                next
            });
            let Some(waiter) = next else { return Ok(()) };
            let waiter = waiter.bind(py);
            if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
                return waiter.call_method1(intern!(py, "set_result"), (py.None(),)).map(drop);
            }
        }
    }
}

#[pymethods]
impl FileHandle {
    /// Make a handle for an open descriptor with the properties `opened`, of a file of `loop`.
    #[new]
    #[pyo3(signature = (files, number, opened, r#loop, /))]
    fn new(
        files: &Bound<'_, PyAny>,
        number: RawFd,
        opened: &Bound<'_, PyTuple>,
        r#loop: Py<PyAny>,
    ) -> PyResult<Self> {
        let field = |index: usize| opened.get_borrowed_item(index);
        let is = |index: usize| field(index)?.is_truthy();
        // The fields of `Opened` and of its `Mode`, in their order.
        let mode = field(1)?;
        let mode = mode.cast::<PyTuple>()?;
        let buffer_bytes = field(10)?.extract()?;
        let state = State {
            number,
            is_reading: mode.get_borrowed_item(1)?.is_truthy()?,
            is_writing: mode.get_borrowed_item(2)?.is_truthy()?,
            offset: field(2)?.extract()?,
            len: field(3)?.extract()?,
            is_file: is(4)?,
            is_appending: is(7)?,
            is_direct: is(8)?,
            is_owner: is(9)?,
            is_shared: false,
            was_written: false,
            is_taken: false,
            has_flight: false,
            watched: 0,
            pending: Vec::new(),
            capacity: buffer_bytes,
            waiting: VecDeque::new(),
            observers: Vec::new(),
            step_bytes: buffer_bytes,
        };
        let native = files.cast::<Files>().ok().map(|files| files.clone().unbind());
        Ok(Self {
            files: files.clone().unbind(),
            opened: opened.clone().unbind(),
            r#loop,
            ahead: OnceLock::new(),
            native,
            state: LoopCell::new(state),
            slow: LoopCell::default(),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.files)?;
        visit.call(&self.opened)?;
        visit.call(&self.r#loop)?;
        visit.call(self.ahead.get())?;
        visit.call(&self.native)?;
        let visited = self.state.peek(|state| {
            state.waiting.iter().chain(&state.observers).try_for_each(|waiter| visit.call(waiter))
        });
        visited.unwrap_or(Ok(()))?;
        let visited = self.slow.peek(|slow| {
            [&slow.flying, &slow.flight, &slow.closing]
                .into_iter()
                .try_for_each(|object| visit.call(object))
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.slow.with(py, std::mem::take));
    }

    /// Take the turn. Returns False, without any change, if the caller has to wait for it or for a later tick.
    fn take_turn(&self, py: Python<'_>) -> bool {
        if self.native.as_ref().is_some_and(|files| !files.get().may_work_in_memory(py)) {
            return false;
        }
        self.state.with(py, |state| {
            let is_free = !state.is_taken && !state.has_flight;
            state.is_taken |= is_free;
            is_free
        })
    }

    /// Append a future that waits for the turn.
    fn enqueue(&self, py: Python<'_>, waiter: Py<PyAny>) {
        self.state.with(py, |state| state.waiting.push_back(waiter));
    }

    /// Remove a future that no longer waits.
    fn dequeue(&self, waiter: &Bound<'_, PyAny>) {
        let removed = self.state.with(waiter.py(), |state| {
            let index = state.waiting.iter().position(|waiting| waiting.is(waiter))?;
            state.waiting.remove(index)
        });
        drop(removed);
    }

    /// Other code knows the number from now on: the position becomes the kernel's, once running operations
    /// have ended.
    fn share(&self, py: Python<'_>) -> PyResult<()> {
        let is_free = self.state.with(py, |state| {
            state.is_shared = true;
            !state.is_taken && !state.has_flight
        });
        if is_free { self.give_out(py) } else { Ok(()) }
    }

    /// Pass the turn to the waiter that has waited longest, if there is one.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.pass_on(py)
    }

    /// The number of pending bytes.
    #[getter]
    fn pending(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |state| state.pending.len()))
    }

    /// Buffer `data`. Returns False if it does not fit.
    fn buffer(&self, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = data.py();
        with_bytes(data, |bytes| self.put(py, bytes))
    }

    /// Buffer `data`, whatever its length.
    fn append(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        with_bytes(data, |bytes| self.push(py, bytes))
    }

    /// Take the pending data out of the buffer.
    fn take_pending<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.state.with(py, |state| {
            // Without memory for it, the data stays where it is.
            let pending = fallible::bytes(py, &state.pending)?;
            state.pending = Vec::new();
            Ok(pending)
        })
    }

    /// Put back data that could not be written, before the pending data.
    fn put_back(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        with_bytes(data, |bytes| {
            self.state.with(py, |state| {
                state.pending.splice(0..0, bytes.iter().copied());
            });
        })
    }

    /// Pass pending data to the kernel. Returns None if that is done, a future, or False if this file needs the slow
    /// way. Data that could not be written becomes pending again.
    fn send<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        Ok(match Self::ship(slf)? {
            Sending::Done => py.None().into_bound(py),
            Sending::Wait(future) => future,
            Sending::No => PyBool::new(py, false).to_owned().into_any(),
        })
    }

    /// Write pending data and close the file, in one round trip to a thread; the close happens even if the write
    /// fails. Returns None if that is done, a future, or False if nothing was done, because an operation is running
    /// or it is not a file of this loop.
    ///
    /// Raises:
    ///     OSError: pending data could not be written, or the close failed; the file is closed nevertheless.
    pub(super) fn close_written<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let refused = || Ok(PyBool::new(py, false).to_owned().into_any());
        let Some(files) = this.native(py) else { return refused() };
        let is_busy = |fd| files.get().descriptors.with(py, |descriptors| descriptors.is_busy(fd));
        let number = this.state.with(py, |state| state.number);
        if number < 0 || is_busy(number) {
            return refused();
        }
        files.get().owner.get().check_closed()?;
        let taken = this.state.with(py, |state| {
            if !state.is_owner || !state.is_file {
                return None;
            }
            state.number = -1;
            Some((state.offset, state.is_appending, std::mem::take(&mut state.pending)))
        });
        let Some((offset, is_appending, data)) = taken else { return refused() };
        let lane = files.get().descriptors.with(py, |descriptors| descriptors.forget(number));
        let lane = if lane == Lane::Local && data.len() > LONG { Lane::Bulk } else { lane };
        let shipment = Shipment::new(Mutex::new(Sent { data, ..Sent::default() }));
        let theirs = Arc::clone(&shipment);
        let work = move || {
            let written = write_out(number, offset, is_appending, &theirs);
            stored::closed(number, written).map(|_| 0)
        };
        match Files::begin_briefly(
            files,
            Strategy::UncancellableCall(Box::new(work), lane),
            Conversion::Nothing,
        ) {
            Ok(StartOutcome::Finished(done)) => done,
            Ok(StartOutcome::Running(future, _)) => Ok(future),
            Err(error) => {
                // The file keeps the number and the pending data.
                this.state.with(py, |state| state.number = number);
                this.landed(py, &shipment)?;
                Err(error)
            }
        }
    }

    /// Resolve a future once the sent data has been written, or could not be.
    fn observe(&self, py: Python<'_>, observer: Py<PyAny>) {
        self.state.with(py, |state| state.observers.push(observer));
    }
}
