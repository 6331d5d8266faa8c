//! `SockOperation`: one `sock_recv`, `sock_recv_into` or `sock_sendall`, as an awaitable.
//!
//! It tries first, and yields a future only if the kernel returns EAGAIN; readiness makes it try again. The receive
//! itself happens when the waiting task runs, so that a cancellation in between loses no data: nothing has been taken
//! from the socket yet.

use super::Side;
use super::watch::Watch;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::buffer::View;
use crate::ffi::coroutine;
use crate::ffi::fallible;
use crate::ffi::values::ToPython;
use crate::ffi::{LoopCell, bytes, socket_object};
use oneloop_engine::sys::{memory, socket};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::mem::MaybeUninit;

enum Work {
    Receive {
        capacity: usize,
    },
    ReceiveInto(View),
    SendAll {
        data: View,
        sent: usize,
    },
    /// Waits for readiness only, for the operations implemented in Python.
    Wait {
        side: Side,
        waited: bool,
    },
    Done,
}

impl Work {
    fn name(&self) -> &'static str {
        match self {
            Self::Receive { .. } => "sock_recv",
            Self::ReceiveInto(_) => "sock_recv_into",
            Self::SendAll { .. } => "sock_sendall",
            Self::Wait { .. } | Self::Done => "waiting for a socket",
        }
    }
}

struct Waiting {
    future: Py<PyAny>,
    watch: Py<Watch>,
    side: Side,
}

/// An awaitable operation on a non-blocking socket. It is also a `collections.abc.Coroutine`, so that it can be made
/// a task.
#[pyclass(frozen, module = "oneloop._native")]
pub struct SockOperation {
    owner: Py<LoopCore>,
    sock: Py<PyAny>,
    work: LoopCell<Option<Work>>,
    waiting: LoopCell<Option<Waiting>>,
}

/// The result of one attempt.
enum Attempt<'py> {
    Finished(Bound<'py, PyAny>),
    Blocked(Side),
}

impl SockOperation {
    fn make<'py>(
        owner: &Bound<'py, LoopCore>,
        sock: &Bound<'py, PyAny>,
        work: Work,
    ) -> PyResult<Bound<'py, PyAny>> {
        let operation = Self {
            owner: owner.clone().unbind(),
            sock: sock.clone().unbind(),
            work: LoopCell::new(Some(work)),
            waiting: LoopCell::new(None),
        };
        Bound::new(owner.py(), operation).map(Bound::into_any)
    }

    fn attempt<'py>(
        &self,
        py: Python<'py>,
        fd: i32,
        work: &mut Work,
    ) -> PyResult<io::Result<Attempt<'py>>> {
        match work {
            // Like the socket's own methods, which make no system call for zero bytes.
            Work::Receive { capacity: 0 } => {
                Ok(Ok(Attempt::Finished(fallible::bytes(py, b"")?.into_any())))
            }
            Work::ReceiveInto(view) if view.len() == 0 => {
                Ok(Ok(Attempt::Finished(0_usize.to_python(py)?)))
            }
            Work::Receive { capacity } => Ok(match receive(py, self.owner.get(), fd, *capacity)? {
                Ok(data) => Ok(Attempt::Finished(data.into_any())),
                Err(e) => blocked_or(e, Side::Read),
            }),
            Work::ReceiveInto(view) => Ok(match socket::recv(fd, view.as_mut_slice(py)) {
                Ok(len) => Ok(Attempt::Finished(len.to_python(py)?)),
                Err(e) => blocked_or(e, Side::Read),
            }),
            Work::SendAll { data, sent } => loop {
                // Empty data is sent too: the kernel may report that the peer is gone.
                match socket::send(fd, &data.as_slice(py)[*sent..]) {
                    Ok(more) => {
                        *sent += more;
                        self.owner.get().note_sent(py, 0);
                    }
                    Err(e) => return Ok(blocked_or(e, Side::Write)),
                }
                if *sent == data.len() {
                    return Ok(Ok(Attempt::Finished(py.None().into_bound(py))));
                }
            },
            Work::Wait { side, waited } => Ok(Ok(if *waited {
                Attempt::Finished(py.None().into_bound(py))
            } else {
                *waited = true;
                Attempt::Blocked(*side)
            })),
            Work::Done => {
                Err(PyRuntimeError::new_err("cannot reuse already awaited socket operation"))
            }
        }
    }

    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        drop(self.waiting.take(py));
        let Some(mut work) = self.work.take(py) else {
            return Err(PyRuntimeError::new_err("the socket operation is already being awaited"));
        };
        let owner = self.owner.bind(py);
        let sock = self.sock.bind(py);
        let fd = socket_object::fileno(sock)?;
        let operation = work.name();
        let attempted = loop {
            match self.attempt(py, fd, &mut work) {
                // Waiting would be wrong: the socket may be ready, and only a change of that is reported.
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => py.check_signals()?,
                result => break result,
            }
        };
        let result = match attempted {
            Err(e) => Err(e),
            Ok(Err(e)) => Err(errors::os_error_on(operation, Ok(fd), &e)),
            Ok(Ok(Attempt::Finished(value))) => Err(coroutine::stop_iteration(&value)?),
            Ok(Ok(Attempt::Blocked(side))) => {
                Watch::wait(owner, sock, fd, side).and_then(|(future, watch)| {
                    future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
                    let waiting =
                        Waiting { future: future.clone().unbind(), watch: watch.unbind(), side };
                    self.waiting.with(py, |slot| *slot = Some(waiting));
                    Ok(future)
                })
            }
        };
        // Finished in both cases: a second await is an error, and the buffers are released now.
        let next = if result.is_err() { Work::Done } else { work };
        let old = self.work.with(py, |slot| slot.replace(next));
        drop(old);
        result
    }

    fn abandon(&self, py: Python<'_>) {
        if let Some(waiting) = self.waiting.take(py) {
            waiting.watch.get().forget(py, waiting.side, &waiting.future);
        }
        let old = self.work.with(py, |slot| slot.replace(Work::Done));
        drop(old);
    }
}

/// Like `socket.recv_into`: TypeError if a buffer is read-only or not contiguous.
fn writable(buf: &Bound<'_, PyAny>) -> PyResult<View> {
    View::writable(buf).map_err(|error| {
        let py = buf.py();
        if !error.is_instance_of::<PyBufferError>(py) {
            return error;
        }
        let kind = buf.get_type();
        let refusal = PyTypeError::new_err(format!(
            "sock_recv_into() needs a read-write bytes-like object, not {kind}"
        ));
        refusal.set_cause(py, Some(error));
        refusal
    })
}

/// Receives up to this length use the loop's shared buffer and are copied to their exact size.
const SHARED_MAX: usize = 64 * 1024;

/// Receives what is available, up to the given number of bytes.
pub fn receive<'py>(
    py: Python<'py>,
    owner: &LoopCore,
    fd: i32,
    capacity: usize,
) -> PyResult<io::Result<Bound<'py, PyBytes>>> {
    if capacity > SHARED_MAX {
        memory::keep_large_blocks();
        return bytes::filled(py, capacity, &mut [], |room, _| socket::recv(fd, room));
    }
    receive_shared(py, owner, fd, capacity)
}

fn receive_shared<'py>(
    py: Python<'py>,
    owner: &LoopCore,
    fd: i32,
    capacity: usize,
) -> PyResult<io::Result<Bound<'py, PyBytes>>> {
    owner.read_buffer.with(py, |shared| {
        if shared.len() < SHARED_MAX {
            shared.resize(SHARED_MAX, MaybeUninit::uninit());
        }
        match socket::recv(fd, &mut shared[..capacity]) {
            Ok(len) => bytes::received(py, shared, len).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    })
}

fn blocked_or<'py>(error: io::Error, side: Side) -> io::Result<Attempt<'py>> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(Attempt::Blocked(side)),
        _ => Err(error),
    }
}

#[pymethods]
impl SockOperation {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.step(py)
    }

    fn send<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.step(value.py())
    }

    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw<'py>(
        &self,
        kind: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        traceback: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = kind.py();
        self.abandon(py);
        let error = match value {
            Some(value) if !value.is_none() => value,
            _ if kind.is_instance_of::<pyo3::types::PyType>() => kind.call0()?,
            _ => kind.clone(),
        };
        if let Some(traceback) = traceback {
            error.call_method1(intern!(py, "with_traceback"), (traceback,))?;
        }
        Err(PyErr::from_value(error))
    }

    fn close(&self, py: Python<'_>) {
        self.abandon(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.sock)?;
        self.work
            .peek(|work| match work {
                Some(Work::ReceiveInto(view) | Work::SendAll { data: view, .. }) => {
                    view.visit(&visit)
                }
                _ => Ok(()),
            })
            .unwrap_or(Ok(()))?;
        self.waiting
            .peek(|slot| match slot {
                Some(waiting) => {
                    visit.call(&waiting.future)?;
                    visit.call(&waiting.watch)
                }
                None => Ok(()),
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.waiting.take(py));
        drop(self.work.take(py));
    }
}

/// The same checks as in asyncio: no TLS sockets, and in debug mode no blocking ones.
fn check(owner: &Bound<'_, LoopCore>, sock: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    if crate::imports::is_ssl_socket(sock)? {
        return Err(PyTypeError::new_err("Socket cannot be of type SSLSocket"));
    }
    if owner.get().is_debug() && !sock.call_method0(intern!(py, "gettimeout"))?.eq(0)? {
        return Err(PyValueError::new_err("the socket must be non-blocking"));
    }
    Ok(())
}

/// True for sockets on which system calls can be made directly: `socket.socket` and `_socket.socket`. A subclass may
/// override methods (a proxy's, for instance), which asyncio would call.
fn is_plain(sock: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = sock.py();
    let class = sock.get_type();
    Ok(class.is(crate::imports::socket(py)?) || class.is(crate::imports::raw_socket(py)?))
}

#[pymethods]
impl LoopCore {
    /// Receive up to `nbytes` from a non-blocking stream socket. Awaitable; returns bytes.
    ///
    /// Never blocks, whatever the socket's mode. Cancelling it loses no data.
    fn sock_recv<'py>(
        slf: &Bound<'py, Self>,
        sock: &Bound<'py, PyAny>,
        n: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check(slf, sock)?;
        if !is_plain(sock)? {
            return slf.call_method1(intern!(slf.py(), "_sock_recv_any"), (sock, n));
        }
        let capacity = usize::try_from(n.extract::<isize>()?)
            .map_err(|_| PyValueError::new_err("negative buffersize in recv"))?;
        SockOperation::make(slf, sock, Work::Receive { capacity })
    }

    /// Receive into a writable bytes-like object. Awaitable; returns the number of bytes.
    fn sock_recv_into<'py>(
        slf: &Bound<'py, Self>,
        sock: &Bound<'py, PyAny>,
        buf: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check(slf, sock)?;
        if !is_plain(sock)? {
            return slf.call_method1(intern!(slf.py(), "_sock_recv_into_any"), (sock, buf));
        }
        SockOperation::make(slf, sock, Work::ReceiveInto(writable(buf)?))
    }

    /// Send all of a bytes-like object. Awaitable. After an error or a cancellation it is unknown how much was sent.
    fn sock_sendall<'py>(
        slf: &Bound<'py, Self>,
        sock: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        check(slf, sock)?;
        if !is_plain(sock)? {
            return slf.call_method1(intern!(slf.py(), "_sock_sendall_any"), (sock, data));
        }
        SockOperation::make(slf, sock, Work::SendAll { data: View::of(data)?, sent: 0 })
    }

    /// Wait until the socket may be readable.
    fn _wait_readable<'py>(
        slf: &Bound<'py, Self>,
        sock: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        SockOperation::make(slf, sock, Work::Wait { side: Side::Read, waited: false })
    }

    /// Wait until the socket may be writable.
    fn _wait_writable<'py>(
        slf: &Bound<'py, Self>,
        sock: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        SockOperation::make(slf, sock, Work::Wait { side: Side::Write, waited: false })
    }
}
