//! Socket operations of green threads: try, and wait if the kernel returns EAGAIN.
//!
//! The descriptors are non-blocking, whatever timeout the socket objects report. Memory passed to the kernel is in a
//! buffer that stays held (S1), never on the stack (S3).

use super::HubCore;
use super::waiter::{self, Waiter};
use crate::errors;
use crate::ffi::buffer::View;
use crate::ffi::fallible;
use crate::ffi::socket_object;
use crate::ffi::values::Value;
use crate::sockets::{self, Side, Watch};
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyBufferError, PyTimeoutError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The time limit of an operation. `deadline` is `None` without a limit; with `never_waits` the operation only tries.
struct Patience {
    deadline: Option<Instant>,
    never_waits: bool,
}

impl Patience {
    fn of(timeout_s: Option<f64>) -> PyResult<Self> {
        let Some(timeout_s) = timeout_s else {
            return Ok(Self { deadline: None, never_waits: false });
        };
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| PyValueError::new_err("Timeout value out of range"))?;
        // A timeout beyond the clock's range never ends.
        Ok(Self { deadline: Instant::now().checked_add(timeout), never_waits: timeout.is_zero() })
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// With less time left, a read is always tried before waiting: the time might be over before the wait starts, and there
/// may be data.
const WORTH_A_WAIT: Duration = Duration::from_millis(1);

/// What has to be ended after a wait.
struct Pending<'py> {
    waiter: Bound<'py, Waiter>,
    watch: Bound<'py, Watch>,
    timer: Option<Bound<'py, PyAny>>,
}

#[inline(never)]
fn begin_wait<'py>(
    hub: &Bound<'py, HubCore>,
    sock: &Bound<'py, PyAny>,
    fd: RawFd,
    side: Side,
    patience: &Patience,
) -> PyResult<Pending<'py>> {
    let py = hub.py();
    HubCore::check_may_wait(hub)?;
    let owner = hub.get().owner(py);
    let waiter = Bound::new(py, Waiter::make(hub))?;
    let left = patience.left();
    if left.is_some_and(|left| left.is_zero()) {
        return Err(PyTimeoutError::new_err("timed out"));
    }
    let watch = Watch::enlist(owner, sock, fd, side, waiter.as_any(), waiter::wake)?;
    let timer = left.map(|left| {
        let too_late = PyTimeoutError::new_err("timed out").into_value(py);
        let fail = waiter.getattr(intern!(py, "fail"))?;
        owner.call_method1(intern!(py, "call_later"), (left.as_secs_f64(), fail, too_late))
    });
    let timer = timer.transpose().inspect_err(|_| {
        watch.get().forget(py, side, waiter.as_any().as_unbound());
    })?;
    Ok(Pending { waiter, watch, timer })
}

impl Pending<'_> {
    #[inline(never)]
    fn end(self, side: Side, waited: &PyResult<Py<PyAny>>) -> PyResult<()> {
        let py = self.waiter.py();
        if let Some(timer) = self.timer {
            timer.call_method0(intern!(py, "cancel"))?;
        }
        if waited.is_err() {
            self.watch.get().forget(py, side, self.waiter.as_any().as_unbound());
        }
        Ok(())
    }
}

/// Waits until a socket may be ready. Every switch copies the stack frames in use, so this function is kept small.
#[inline(never)]
fn wait<'py>(
    hub: &Bound<'py, HubCore>,
    sock: &Bound<'py, PyAny>,
    fd: RawFd,
    side: Side,
    patience: &Patience,
) -> PyResult<()> {
    let begun = begin_wait(hub, sock, fd, side, patience)?;
    let waited = Waiter::get(&begun.waiter);
    begun.end(side, &waited)?;
    waited.map(drop)
}

/// Tries until the operation is done, waiting in between.
fn persist<'py, T>(
    sock: &Bound<'py, PyAny>,
    operation: &'static str,
    side: Side,
    patience: &Patience,
    mut attempt: impl FnMut(&Bound<'py, HubCore>, RawFd) -> PyResult<io::Result<T>>,
) -> PyResult<T> {
    let hub = HubCore::here(sock.py())?;
    loop {
        // The socket may have been closed meanwhile, so its number is read each time.
        let fd = socket_object::fileno(sock)?;
        match attempt(&hub, fd)? {
            Ok(done) => return Ok(done),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => sock.py().check_signals()?,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !patience.never_waits => {
                wait(&hub, sock, fd, side, patience)?;
            }
            Err(e) => return Err(errors::os_error_on(operation, Ok(fd), &e)),
        }
    }
}

/// Like `persist`, for reads: skips the first attempt if the last read has emptied the socket and no event has
/// arrived since. `attempt` returns how many bytes it has read and how many would have fitted.
fn persist_reading<'py, T>(
    sock: &Bound<'py, PyAny>,
    operation: &'static str,
    patience: &Patience,
    room: usize,
    mut attempt: impl FnMut(&Bound<'py, HubCore>, RawFd) -> PyResult<io::Result<(T, usize)>>,
) -> PyResult<T> {
    let hub = HubCore::here(sock.py())?;
    let owner = hub.get().owner(sock.py());
    let fd = socket_object::fileno(sock)?;
    if room > 0
        && Watch::is_drained(owner, sock, fd)
        && patience.left().is_none_or(|left| left >= WORTH_A_WAIT)
        && HubCore::may_park(&hub)?
    {
        wait(&hub, sock, fd, Side::Read, patience)?;
    }
    let (done, len) = persist(sock, operation, Side::Read, patience, &mut attempt)?;
    if 0 < len && len < room {
        Watch::note_drained(owner, sock, socket_object::fileno(sock)?);
    }
    Ok(done)
}

/// `socket.recv` of a green thread.
#[pyfunction]
#[pyo3(signature = (sock, capacity, timeout, /))]
fn green_recv<'py>(
    sock: &Bound<'py, PyAny>,
    capacity: isize,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let capacity = usize::try_from(capacity)
        .map_err(|_| PyValueError::new_err("negative buffersize in recv"))?;
    let patience = Patience::of(timeout)?;
    if capacity == 0 {
        return Ok(fallible::bytes(sock.py(), b"")?.into_any());
    }
    persist_reading(sock, "recv", &patience, capacity, |hub, fd| {
        let received = sockets::receive(sock.py(), hub.get().owner(sock.py()).get(), fd, capacity)?;
        Ok(received.map(|data| {
            let len = data.as_bytes().len();
            (data.into_any(), len)
        }))
    })
}

/// `socket.recv_into` of a green thread, with the whole buffer.
#[pyfunction]
#[pyo3(signature = (sock, buffer, timeout, /))]
fn green_recv_into(
    sock: &Bound<'_, PyAny>,
    buffer: &Bound<'_, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Value<usize>> {
    let patience = Patience::of(timeout)?;
    let mut view = View::writable(buffer).map_err(|error| {
        if !error.is_instance_of::<PyBufferError>(buffer.py()) {
            return error;
        }
        let kind = buffer.get_type();
        PyTypeError::new_err(format!(
            "recv_into() argument 1 must be read-write bytes-like object, not {kind}"
        ))
    })?;
    if view.len() == 0 {
        return Ok(Value(0));
    }
    let room = view.len();
    persist_reading(sock, "recv_into", &patience, room, |_, fd| {
        Ok(socket::recv(fd, view.as_mut_slice(sock.py())).map(|len| (len, len)))
    })
    .map(Value)
}

/// `socket.send` of a green thread.
#[pyfunction]
#[pyo3(signature = (sock, data, timeout, /))]
fn green_send(
    sock: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    timeout: Option<f64>,
) -> PyResult<Value<usize>> {
    let patience = Patience::of(timeout)?;
    let view = View::of(data)?;
    persist(sock, "send", Side::Write, &patience, |hub, fd| {
        let sent = socket::send(fd, view.as_slice(sock.py()));
        hub.get().owner(sock.py()).get().note_sent(sock.py(), 0);
        Ok(sent)
    })
    .map(Value)
}

/// `socket.sendall` of a green thread; the timeout applies to the whole call.
#[pyfunction]
#[pyo3(signature = (sock, data, timeout, /))]
fn green_send_all(
    sock: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    timeout: Option<f64>,
) -> PyResult<()> {
    let patience = Patience::of(timeout)?;
    let view = View::of(data)?;
    let mut sent = 0;
    loop {
        // Empty data is sent too: the kernel may report that the peer is gone.
        sent += persist(sock, "sendall", Side::Write, &patience, |hub, fd| {
            let more = socket::send(fd, &view.as_slice(sock.py())[sent..]);
            hub.get().owner(sock.py()).get().note_sent(sock.py(), 0);
            Ok(more)
        })?;
        if sent == view.len() {
            return Ok(());
        }
        if patience.left().is_some_and(|left| left.is_zero()) && !patience.never_waits {
            return Err(PyTimeoutError::new_err("timed out"));
        }
    }
}

/// Wait until a socket may be readable or writable.
#[pyfunction]
#[pyo3(signature = (sock, for_writing, timeout, /))]
fn green_wait(sock: &Bound<'_, PyAny>, for_writing: bool, timeout: Option<f64>) -> PyResult<()> {
    let hub = HubCore::here(sock.py())?;
    let side = if for_writing { Side::Write } else { Side::Read };
    wait(&hub, sock, socket_object::fileno(sock)?, side, &Patience::of(timeout)?)
}

/// Raise an exception in all green threads that wait for a socket, because it is being closed.
#[pyfunction]
#[pyo3(signature = (sock, error, /))]
fn green_cancel_wait(sock: &Bound<'_, PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = sock.py();
    let hub = HubCore::here(py)?;
    let (owner, fd) = (hub.get().owner(py), socket_object::fileno(sock)?);
    let Some(watch) = Watch::existing(owner, fd) else { return Ok(()) };
    for side in [Side::Read, Side::Write] {
        for object in watch.get().waiting(py, side) {
            if let Ok(waiter) = object.bind(py).cast::<Waiter>() {
                waiter.call_method1(intern!(py, "fail"), (error,))?;
            }
        }
    }
    Watch::abandon(&watch, owner, fd)
}

pub fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(green_recv, module)?)?;
    module.add_function(wrap_pyfunction!(green_recv_into, module)?)?;
    module.add_function(wrap_pyfunction!(green_send, module)?)?;
    module.add_function(wrap_pyfunction!(green_send_all, module)?)?;
    module.add_function(wrap_pyfunction!(green_wait, module)?)?;
    module.add_function(wrap_pyfunction!(green_cancel_wait, module)?)
}
