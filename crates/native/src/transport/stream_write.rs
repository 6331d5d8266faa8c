//! What a stream transport adds to `Sending`: end of file, and the futures for `sendfile`.

use super::ending::{self, Ending};
use super::life::{self, Life, resolve};
use super::sending::{self, Outgoing, Sending};
use super::stream::{State, StreamTransport};
use super::write_queue::Channel;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::buffer;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::values::Value;
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CStr;

impl Sending for StreamTransport {
    const CHANNEL: Channel = Channel::Socket;

    fn outgoing<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Outgoing) -> R) -> R {
        self.state.with(py, |s| f(&mut s.out))
    }

    fn drained(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (life, eof, waiter) = self
            .state
            .with(py, |s| (s.life, s.write_eof, s.empty_waiter.as_ref().map(|w| w.clone_ref(py))));
        if let Some(waiter) = waiter {
            resolve(waiter.bind(py))?;
        }
        if life == Life::Closing {
            return ending::end_now(slf);
        }
        if eof && !life.is_ended() {
            // Not fatal, as in asyncio, because there is no caller: reading finds out that the peer is gone.
            return self.shut_down(slf).or_else(|error| {
                let text = "Exception in callback: shutdown after write_eof() failed.";
                let (owner, protocol) = (self.body.owner.bind(py), self.protocol(py));
                self.body
                    .context
                    .run(py, || life::report_failure(owner, slf, protocol.as_ref(), text, error))
            });
        }
        Ok(())
    }

    fn send_failed(&self, slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let raised = error.clone_ref(py);
        let ended = ending::fatal(slf, error, "Fatal write error on socket transport");
        // `sendfile`, which waits for the queue, raises what has ended it, as in asyncio.
        match self.state.with(py, |s| s.empty_waiter.as_ref().map(|waiter| waiter.clone_ref(py))) {
            Some(waiter) => ended.and(life::fail(waiter.bind(py), raised)),
            None => ended,
        }
    }
}

impl StreamTransport {
    pub fn write_bytes_like(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !sending::is_bytes_like(data) {
            return Err(PyTypeError::new_err(format!(
                "data argument must be a bytes-like object, not '{}'",
                data.get_type().name()?
            )));
        }
        let (refuses, is_ended) =
            this.state.with(py, |s| (s.write_eof || s.empty_waiter.is_some(), s.life.is_ended()));
        if refuses {
            this.refuse_writes(py, "write")?;
        }
        if is_ended {
            if data.len()? == 0 {
                return Ok(());
            }
            return sending::write_after_loss(slf, "socket.send() raised exception.");
        }
        sending::push(slf, data)
    }

    /// The connection has ended: what is written is lost.
    pub fn is_over(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life.is_ended())
    }

    /// `connection_lost` has been called.
    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life == Life::Closed)
    }

    /// What was still queued when the connection was lost.
    pub fn lost_bytes(&self, py: Python<'_>) -> usize {
        self.state.with(py, |s| s.out.lost_bytes)
    }

    /// Sends bytes that belong to no object, or queues a copy. Does nothing on a connection that has ended.
    pub fn write_slice(slf: &Bound<'_, Self>, bytes: &[u8]) -> PyResult<()> {
        let refuses = |s: &mut State| s.write_eof || s.life.is_ended();
        if slf.get().state.with(slf.py(), refuses) {
            return Ok(());
        }
        sending::push_slice(slf, bytes)
    }

    /// Sends several pieces as one write. Does nothing behind the end of what is sent.
    pub fn write_pieces(slf: &Bound<'_, Self>, pieces: &[Bound<'_, PyBytes>]) -> PyResult<()> {
        let (has_eof, is_ended) =
            slf.get().state.with(slf.py(), |s| (s.write_eof, s.life.is_ended()));
        if has_eof {
            return Ok(());
        }
        if !pieces.is_empty() && is_ended {
            return sending::write_after_loss(slf, "socket.send() raised exception.");
        }
        sending::push_all(slf, pieces)
    }

    /// Raises RuntimeError while writing is not allowed.
    fn refuse_writes(&self, py: Python<'_>, method: &str) -> PyResult<()> {
        let (eof, busy) = self.state.with(py, |s| (s.write_eof, s.empty_waiter.is_some()));
        if eof {
            let text = format!("Cannot call {method}() after write_eof()");
            return Err(PyRuntimeError::new_err(text));
        }
        if busy {
            let text = format!("unable to {method}; sendfile is in progress");
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(())
    }

    fn shut_down(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let fd = self.body.descriptor.fd(slf.py());
        let ended = fd.and_then(socket::shutdown_write);
        ended.map_err(|e| errors::os_error_on("shutdown", self.body.descriptor.fd(slf.py()), &e))
    }

    pub(super) fn write_ready(
        &self,
        owner: &Bound<'_, LoopCore>,
        slf: &Bound<'_, Self>,
    ) -> PyResult<()> {
        let py = owner.py();
        let waiters = self.state.with(py, |s| std::mem::take(&mut s.writable_waiters));
        for waiter in &waiters {
            resolve(waiter.bind(py))?;
        }
        if self.state.with(py, |s| s.out.blocked) { sending::send(slf) } else { ending::watch(slf) }
    }
}

#[pymethods]
impl StreamTransport {
    /// Send several bytes-like objects, in order, as one write. Raises TypeError if one of them is not bytes-like;
    /// then none is sent.
    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if cfg!(not(Py_3_12)) {
            // As asyncio does it before 3.12, with the same error messages.
            let joined =
                fallible::bytes(py, b"")?.call_method1(intern!(py, "join"), (list_of_data,))?;
            return Self::write_bytes_like(slf, &joined);
        }
        this.refuse_writes(py, "writelines")?;
        // Convert all of them first: if one is invalid nothing is sent.
        let pieces = list_of_data
            .try_iter()?
            .map(|piece| buffer::to_bytes(&piece?))
            .collect::<PyResult<Vec<_>>>()?;
        // The iterator's own code may have closed the transport.
        Self::write_pieces(slf, &pieces)
    }

    /// End the writing side after the queued data is sent; reading continues. Raises OSError if the connection is
    /// already gone.
    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        sending::send_gathered(slf)?;
        let (first, empty) = this.state.with(slf.py(), |s| {
            let open = s.life.is_live() && !s.write_eof;
            s.write_eof |= open;
            (open, s.out.queue.is_empty())
        });
        if first && empty { this.shut_down(slf) } else { Ok(()) }
    }

    /// Return True: sockets support an end of file.
    fn can_write_eof(&self) -> bool {
        true
    }

    /// Stop calling `data_received()`. Does nothing if paused, closing or closed.
    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.pauses += 1);
        Self::set_reading_paused(slf, true)
    }

    /// Resume calling `data_received()`. Does nothing if not paused, closing or closed.
    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, false)
    }

    /// True while data is being received.
    fn is_reading(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life.is_live() && !s.reading_paused)
    }

    /// Return the number of bytes that are queued and not sent.
    fn get_write_buffer_size(slf: &Bound<'_, Self>) -> PyResult<Value<usize>> {
        sending::queued_len(slf).map(Value)
    }

    /// Return the water marks as `(low, high)`, in bytes.
    fn get_write_buffer_limits(&self, py: Python<'_>) -> Value<(usize, usize)> {
        Value(self.state.with(py, |s| s.out.flow.limits()))
    }

    /// Set the water marks, in bytes: `pause_writing()` is called above `high`, `resume_writing()` at `low` or below.
    /// Raises ValueError unless high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<super::flow::Mark>,
        low: Option<super::flow::Mark>,
    ) -> PyResult<()> {
        sending::set_limits(slf, high, low)
    }

    /// asyncio's name, which programs read: True between `pause_reading()` and `resume_reading()`.
    #[getter]
    fn _paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.reading_paused)
    }

    /// How often `pause_reading()` was called. Who has paused it for a while can see whether somebody else did, too.
    #[getter]
    fn _pauses(&self, py: Python<'_>) -> u64 {
        self.state.with(py, |s| s.pauses)
    }

    /// asyncio's `sendfile()` fallback reads this attribute.
    #[getter]
    fn _protocol_paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.out.flow.is_paused())
    }

    /// A future that is done when the queue is empty. Writes raise an error until it is reset.
    fn _make_empty_waiter<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.state.with(py, |s| s.empty_waiter.is_some()) {
            return Err(PyRuntimeError::new_err("Empty waiter is already set"));
        }
        sending::send_gathered(slf)?;
        let waiter = this.body.owner.bind(py).call_method0(intern!(py, "create_future"))?;
        let kept = waiter.clone().unbind();
        let empty = this.state.with(py, |s| {
            s.empty_waiter = Some(kept);
            s.out.queue.is_empty()
        });
        if empty {
            resolve(&waiter)?;
        }
        Ok(waiter)
    }

    fn _reset_empty_waiter(&self, py: Python<'_>) {
        let waiter = self.state.with(py, |s| s.empty_waiter.take());
        drop(waiter);
    }

    /// A future that is done when the socket takes more data; ConnectionError if it closes first.
    fn _wait_writable<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let waiter = this.body.owner.bind(py).call_method0(intern!(py, "create_future"))?;
        if this.life(py).is_ended() {
            // Nothing would resolve the future any more.
            return Err(PyConnectionError::new_err("Connection is closed by peer"));
        }
        let kept = waiter.clone().unbind();
        this.state.with(py, |s| s.writable_waiters.push(kept));
        ending::watch(slf)?;
        Ok(waiter)
    }
}

impl StreamTransport {
    fn set_reading_paused(slf: &Bound<'_, Self>, paused: bool) -> PyResult<()> {
        let this = slf.get();
        let changed = this.state.with(slf.py(), |s| {
            let changed = s.life.is_live() && s.reading_paused != paused;
            if changed {
                s.reading_paused = paused;
                // Resuming reports the end of file again.
                s.read_eof &= paused;
            }
            changed
        });
        if !changed || (paused && this.body.owner.get().is_closed_now()) {
            return Ok(());
        }
        if !paused {
            this.body.resume_reading(slf.py());
        }
        ending::watch(slf)
    }
}

/// `StreamTransport.write`
struct Write;

impl FastMethod for Write {
    type Class = StreamTransport;
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr = c"write($self, /, data)\n--\n\nSend bytes-like data, or queue what the socket does not take.\n\nThe first write of a callback is sent immediately; writes soon after it are sent together when the callback ends.\n\nTypeError for anything but bytes, bytearray and memoryview; RuntimeError after write_eof().\nData written after the connection was lost is dropped.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, StreamTransport>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let data = arguments.one("write", intern!(py, "data"))?;
        StreamTransport::write_bytes_like(&slf, &data)?;
        Ok(py.None().into_bound(py))
    }
}

/// Adds the methods that run for each message.
pub(super) fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Write>(py)
}
