//! How a datagram transport sends: immediately while the queue is empty, else in order when the socket takes more.

use super::datagram::{Connection, DatagramTransport};
use super::datagram_queue::{Datagram, Destination};
use super::datagram_read::{Refusal, is_native};
use super::ending::{self, Ending};
use super::flow::{self, Mark};
use super::life::Life;
use crate::address;
use crate::event_loop::LoopCore;
use crate::ffi::buffer;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::values::Value;
use crate::imports;
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::ffi::CStr;
use std::io;

/// asyncio warns about sends on a lost transport from this count on.
const WARN_AFTER: u32 = 5;
const FATAL: &str = "Fatal write error on datagram transport";

impl DatagramTransport {
    /// The destination of a datagram sent to `addr`. ValueError if the transport has another destination.
    fn destination(
        &self,
        addr: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<Destination> {
        let mut addr = addr.cloned();
        if let Some(only) = &self.address {
            let only = only.bind(py);
            if let Some(given) = &addr
                && !given.is(only)
                && !given.eq(only)?
            {
                return Err(PyValueError::new_err(format!(
                    "Invalid address: must be None or {}",
                    only.str()?
                )));
            }
            addr = Some(only.clone());
        }
        match (self.connection, addr) {
            (Connection::Named, _) | (Connection::Unnamed, None) => Ok(Destination::Connected),
            // The socket module raises the appropriate exception.
            (Connection::None, None) => Ok(Destination::Unresolved(py.None())),
            (_, Some(addr)) if is_native(self.family) => {
                if let Some(raw) = self.state.with(py, |s| s.peers.raw_of(&addr)) {
                    return Ok(Destination::Raw(raw));
                }
                let Some(raw) = address::from_python(self.family, &addr) else {
                    return Ok(Destination::Unresolved(addr.unbind()));
                };
                let kept = addr.unbind();
                drop(self.state.with(py, |s| s.peers.remember_receiver(raw, kept)));
                Ok(Destination::Raw(raw))
            }
            (_, Some(addr)) => Ok(Destination::Unresolved(addr.unbind())),
        }
    }

    /// Tries to send once.
    fn transmit(&self, data: &Bound<'_, PyAny>, to: &Destination) -> Result<(), Refusal> {
        let py = data.py();
        let kernel = |result: io::Result<usize>| match result {
            Ok(len) => {
                self.body.owner.get().note_sent(py, len);
                Ok(())
            }
            Err(e) => Err(Refusal::of_kernel("sendto", &e)),
        };
        if let Destination::Unresolved(addr) = to {
            return self.transmit_by_module(data, addr).map_err(|e| Refusal::of(py, e));
        }
        // Getting the bytes may run Python code, so the descriptor's number is read afterwards.
        kernel(
            buffer::with_bytes_late(
                data,
                || self.body.descriptor.fd(py),
                |bytes, fd| match to {
                    Destination::Raw(raw) => fd.and_then(|fd| socket::send_to(fd, bytes, raw)),
                    _ => fd.and_then(|fd| socket::send(fd, bytes)),
                },
            )
            .map_err(Refusal::Fatal)?,
        )
    }

    fn transmit_by_module(&self, data: &Bound<'_, PyAny>, addr: &Py<PyAny>) -> PyResult<()> {
        let py = data.py();
        let Some(sock) = self.body.descriptor.socket(py)? else { return Ok(()) };
        let sent: usize = sock.call_method1(intern!(py, "sendto"), (data, addr))?.extract()?;
        self.body.owner.get().note_sent(py, sent);
        Ok(())
    }

    fn enqueue(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>, to: Destination) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        // The program may change its buffer after this call.
        let data = match data.cast_exact::<PyBytes>() {
            Ok(bytes) => bytes.clone(),
            Err(_) => fallible::bytes(py, &buffer::with_bytes(data, <[u8]>::to_vec)?)?,
        };
        let datagram = Datagram::new(data, to);
        let first = this.state.with(py, |s| {
            s.queue.push(datagram);
            s.queue.len() == 1
        });
        if first {
            ending::watch(slf)?;
        }
        this.maybe_pause_protocol(slf)
    }

    fn maybe_pause_protocol(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        if self.state.with(slf.py(), |s| s.flow.pause(s.queue.len_bytes())) {
            return self.tell_protocol(slf, "pause_writing");
        }
        Ok(())
    }

    fn tell_protocol(&self, slf: &Bound<'_, Self>, method: &str) -> PyResult<()> {
        let py = slf.py();
        let protocol = self.protocol(py);
        self.body.context.run(py, || {
            flow::tell(self.body.owner.bind(py), slf.as_any(), protocol.as_ref(), method)
        })
    }

    /// Called when the socket takes more.
    pub(super) fn write_ready(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
    ) -> PyResult<()> {
        let py = owner.py();
        let mut told = Ok(());
        while let Some(datagram) = self.state.with(py, |s| s.queue.pop()) {
            match self.transmit(datagram.data.bind(py).as_any(), &datagram.to) {
                Ok(()) => continue,
                Err(Refusal::Blocked) => self.state.with(py, |s| s.queue.push_front(datagram)),
                Err(Refusal::Network(error)) => told = self.report_received(owner, slf, error),
                Err(Refusal::Fatal(error)) => told = ending::fatal(slf, error, FATAL),
            }
            break;
        }
        if self.state.with(py, |s| s.life.is_ended()) {
            return told;
        }
        if self.state.with(py, |s| s.flow.resume(s.queue.len_bytes())) {
            told = told.and(self.tell_protocol(slf, "resume_writing"));
        }
        // Also after an exception that leaves the loop: nobody would serve the watch, or end the transport.
        let (empty, life) = self.state.with(py, |s| (s.queue.is_empty(), s.life));
        told.and(match (empty, life) {
            (false, _) => Ok(()),
            (true, Life::Closing) => ending::end_now(slf),
            (true, _) => ending::watch(slf),
        })
    }

    fn send_after_loss(&self, py: Python<'_>) -> PyResult<()> {
        let count = self.state.with(py, |s| {
            s.sends_after_loss += 1;
            s.sends_after_loss
        });
        if count >= WARN_AFTER {
            let text = "socket.send() raised exception.";
            imports::logger(py)?.call_method1(intern!(py, "warning"), (text,))?;
        }
        Ok(())
    }
}

impl DatagramTransport {
    fn send(
        slf: &Bound<'_, Self>,
        data: &Bound<'_, PyAny>,
        addr: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if !data.is_instance_of::<PyBytes>()
            && !data.is_instance_of::<PyByteArray>()
            && !data.is_instance_of::<PyMemoryView>()
        {
            return Err(PyTypeError::new_err(format!(
                "data argument must be a bytes-like object, not '{}'",
                data.get_type().name()?
            )));
        }
        if cfg!(not(Py_3_12)) && !data.is_truthy()? {
            return Ok(()); // asyncio sends empty datagrams since 3.12
        }
        let py = slf.py();
        let this = slf.get();
        let to = this.destination(addr, py)?;
        let (life, waiting) = this.state.with(py, |s| (s.life, !s.queue.is_empty()));
        if life == Life::Closed || (life == Life::Lost && this.address.is_some()) {
            return this.send_after_loss(py);
        }
        if waiting {
            return Self::enqueue(slf, data, to);
        }
        match this.transmit(data, &to) {
            Ok(()) => Ok(()),
            // It is not registered any more, so nothing would report when the socket takes more.
            Err(Refusal::Blocked) if life == Life::Lost => Ok(()),
            Err(Refusal::Blocked) => Self::enqueue(slf, data, to),
            Err(Refusal::Network(error)) => this.error_received(py, error),
            Err(Refusal::Fatal(error)) => ending::fatal(slf, error, FATAL),
        }
    }
}

struct SendTo;

impl FastMethod for SendTo {
    type Class = DatagramTransport;
    const NAME: &'static CStr = c"sendto";
    const DOC: &'static CStr = c"sendto($self, /, data, addr=None)\n--\n\nSend bytes-like data to `addr`, or to the transport's only destination.\n\nThe datagram is sent immediately, or queued if the socket takes no more. Network errors are passed to\n`error_received()`. Data sent on a closed transport is dropped.\n\nRaises TypeError if data is not bytes, bytearray or memoryview, and ValueError if addr is not the only\ndestination.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, DatagramTransport>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let names = [intern!(py, "data"), intern!(py, "addr")];
        let (data, addr) = arguments.one_or_two("sendto", names)?;
        DatagramTransport::send(&slf, &data, addr.as_deref().filter(|addr| !addr.is_none()))?;
        Ok(py.None().into_bound(py))
    }
}

/// Adds the methods that run for each datagram.
pub(super) fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<SendTo>(py)
}

#[pymethods]
impl DatagramTransport {
    /// Return the number of queued bytes. Since 3.12 this includes 8 for each datagram's header.
    fn get_write_buffer_size(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |s| s.queue.len_bytes()))
    }

    /// Return the water marks as `(low, high)`, in bytes.
    fn get_write_buffer_limits(&self, py: Python<'_>) -> Value<(usize, usize)> {
        Value(self.state.with(py, |s| s.flow.limits()))
    }

    /// Set the water marks, in bytes: `pause_writing()` is called above `high`, `resume_writing()` at `low` or below.
    /// Raises ValueError unless high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<Mark>,
        low: Option<Mark>,
    ) -> PyResult<()> {
        let marks = flow::marks(high, low, flow::HIGH_WATER)?;
        slf.get().state.with(slf.py(), |s| s.flow.set_limits(marks));
        slf.get().maybe_pause_protocol(slf)
    }
}
