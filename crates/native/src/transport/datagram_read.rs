//! How a datagram transport receives: through the buffer that all transports of the loop share, into a bytes object
//! of the exact size.
//!
//! As in asyncio, one datagram is received per tick. There is one exception (design 0002): if nothing else is ready,
//! the tick would end here, and the next one would begin with a poll that can only report this socket. Then more
//! datagrams are received without a poll; `Appetite` decides how many.
//!
//! An exception from the protocol is reported and the transport stays open, as in asyncio (S7).

use super::appetite::MOST;
use super::datagram::DatagramTransport;
use super::ending::{self, Ending};
use super::life::{self, Life};
use super::receive::{READ_MAX, with_shared};
use crate::address;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::bytes;
use oneloop_engine::sys::address::Address;
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;

/// The address families that are encoded and decoded natively.
pub fn is_native(family: i32) -> bool {
    matches!(family, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX)
}

/// An exception from a method of the `socket` module.
pub enum Refusal {
    /// EAGAIN or EINTR: try again later.
    Blocked,
    /// An error from the network, for the protocol's `error_received`.
    Network(PyErr),
    /// An error by the program: the transport ends.
    Fatal(PyErr),
}

impl Refusal {
    pub fn of(py: Python<'_>, error: PyErr) -> Self {
        if error.is_instance_of::<PyBlockingIOError>(py)
            || error.is_instance_of::<PyInterruptedError>(py)
        {
            Self::Blocked
        } else if error.is_instance_of::<PyOSError>(py) {
            Self::Network(error)
        } else {
            Self::Fatal(error)
        }
    }

    pub fn of_kernel(operation: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Self::Blocked,
            _ => Self::Network(errors::os_error(operation, error)),
        }
    }
}

type Received<'py> = Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), Refusal>;

impl DatagramTransport {
    pub(super) fn read_ready(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
    ) -> PyResult<()> {
        let py = owner.py();
        let helping = self.state.with(py, |s| s.appetite.helping()).min(MOST);
        for count in 0..helping {
            if count > 0 && !owner.get().is_alone(py) {
                return Ok(());
            }
            // A callback may have closed or paused the transport.
            if self.state.with(py, |s| s.life != Life::Open || s.reading_paused) {
                return Ok(());
            }
            let Ok(fd) = self.body.descriptor.fd(py) else {
                let error = io::Error::from_raw_os_error(libc::EBADF);
                let error = errors::os_error("recvfrom", &error);
                return ending::fatal(slf, error, "Fatal read error on datagram transport");
            };
            match self.receive(owner, fd) {
                Ok((data, sender)) => self.deliver(owner, slf, &data, &sender)?,
                Err(Refusal::Blocked) => {
                    self.state.with(py, |s| s.appetite.emptied(count));
                    return Ok(());
                }
                Err(Refusal::Network(error)) => return self.report_received(owner, slf, error),
                Err(Refusal::Fatal(error)) => {
                    return ending::fatal(slf, error, "Fatal read error on datagram transport");
                }
            }
        }
        Ok(())
    }

    fn receive<'py>(&self, owner: &Bound<'py, LoopCore>, fd: RawFd) -> Received<'py> {
        let py = owner.py();
        if !is_native(self.family) {
            return self.receive_by_module(py).map_err(|error| Refusal::of(py, error));
        }
        let received = with_shared(owner, |shared| {
            let (len, from) = socket::recv_from(fd, shared)?;
            Ok((bytes::received(py, shared, len), from))
        });
        let (data, from) = received.map_err(|e| Refusal::of_kernel("recvfrom", &e))?;
        let data = data.map_err(Refusal::Fatal)?;
        let len = data.as_bytes().len() as u64;
        owner.get().meter.with(py, |meter| meter.bytes_in += len);
        let sender = self.sender(py, from).map_err(Refusal::Fatal)?;
        Ok((data.into_any(), sender))
    }

    fn receive_by_module<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let sock = self.body.descriptor.socket(py)?;
        let sock = sock.ok_or_else(|| {
            errors::os_error("recvfrom", &io::Error::from_raw_os_error(libc::EBADF))
        })?;
        sock.call_method1(intern!(py, "recvfrom"), (READ_MAX,))?.extract()
    }

    /// The Python address of a sender. The same object as last time, if the sender is known.
    fn sender<'py>(&self, py: Python<'py>, from: Address) -> PyResult<Bound<'py, PyAny>> {
        if let Some(known) = self.state.with(py, |s| s.peers.sender(py, &from)) {
            return Ok(known);
        }
        let object = address::to_python(py, &from)?;
        let kept = object.clone().unbind();
        let replaced = self.state.with(py, |s| s.peers.remember_sender(py, from, kept));
        drop(replaced);
        Ok(object)
    }

    fn deliver(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        data: &Bound<'_, PyAny>,
        sender: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = owner.py();
        let Some(protocol) = self.protocol(py) else { return Ok(()) };
        let name = intern!(py, "datagram_received");
        let outcome = protocol.call_method1(name, (data, sender)).map(drop);
        let ended = owner.get().lap_method(owner, &protocol, name);
        let told = outcome.or_else(|error| {
            let text = "Exception in callback: protocol.datagram_received() failed.";
            life::report_failure(owner, slf.as_any(), Some(&protocol), text, error)
        });
        told.and(ended)
    }

    /// Calls `protocol.error_received(error)` from the loop and reports exceptions from it.
    pub(super) fn report_received(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
        error: PyErr,
    ) -> PyResult<()> {
        let py = owner.py();
        self.error_received(py, error).or_else(|error| {
            let text = "Exception in callback: protocol.error_received() failed.";
            let protocol = self.protocol(py);
            self.body.context.run(py, || {
                life::report_failure(owner, slf.as_any(), protocol.as_ref(), text, error)
            })
        })
    }

    /// Calls `protocol.error_received(error)`.
    pub(super) fn error_received(&self, py: Python<'_>, error: PyErr) -> PyResult<()> {
        let Some(protocol) = self.protocol(py) else { return Ok(()) };
        let error = error.into_value(py);
        self.body
            .context
            .run(py, || protocol.call_method1(intern!(py, "error_received"), (error,)).map(drop))
    }
}
