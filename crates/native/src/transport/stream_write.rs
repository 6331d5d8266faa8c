//! How a stream transport sends: small writes wait for the end of the tick and leave together,
//! large ones go at once, and what the socket does not take waits for its writability.

use super::flow;
use super::life::{Life, resolve};
use super::stream::StreamTransport;
use super::write_queue::Channel;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::buffer;
use crate::imports;
use oneloop_engine::sys::socket;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

/// Queued bytes that are sent without waiting for the end of the tick: copying them later would
/// cost more than the system call that gathering saves.
const AT_ONCE: usize = 64 * 1024;
/// asyncio warns about writes to a lost connection from this many on.
const WARN_AFTER: u32 = 5;

impl StreamTransport {
    fn write_bytes_like(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !data.is_exact_instance_of::<PyBytes>()
            && !data.is_instance_of::<PyBytes>()
            && !data.is_instance_of::<PyByteArray>()
            && !data.is_instance_of::<PyMemoryView>()
        {
            return Err(PyTypeError::new_err(format!(
                "data argument must be a bytes-like object, not '{}'",
                data.get_type().name()?
            )));
        }
        this.refuse_writes(py, "write")?;
        if this.state.with(py, |s| s.life.is_ended()) {
            return this.write_after_loss(py);
        }
        let queued = if let Ok(bytes) = data.cast_exact::<PyBytes>() {
            this.state.with(py, |s| {
                s.queue.push_object(bytes, 0);
                s.queue.len_bytes()
            })
        } else {
            buffer::with_bytes(data, |bytes| {
                this.state.with(py, |s| {
                    s.queue.push_copy(bytes);
                    s.queue.len_bytes()
                })
            })?
        };
        this.after_push(slf, queued)
    }

    /// RuntimeError while nothing may be written.
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

    /// Decides whether what was queued goes now or at the end of the tick.
    fn after_push(&self, slf: &Bound<'_, Self>, queued: usize) -> PyResult<()> {
        let py = slf.py();
        if queued == 0 {
            return Ok(());
        }
        let owner = self.owner.get();
        let (blocked, dirty) = self.state.with(py, |s| (s.write_blocked, s.dirty));
        if !blocked && (queued >= AT_ONCE || !owner.is_in_tick()) {
            self.send_queue(slf)?;
        } else if !blocked && !dirty {
            self.state.with(py, |s| s.dirty = true);
            owner.flush_later(py, slf.clone().into_any().unbind(), flush);
        }
        self.maybe_pause_protocol(slf)
    }

    /// Sends what the socket takes, and does what follows from an empty or a blocked queue.
    fn send_queue(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let sent = match self.descriptor.fd(py) {
            Ok(fd) => self.state.with(py, |s| s.queue.send(py, fd, Channel::Socket)),
            Err(e) => Err(e),
        };
        match sent {
            Ok(sent) => {
                self.owner.get().meter.with(py, |meter| meter.bytes_out += sent as u64);
            }
            Err(e) => {
                let error = errors::os_error("send", &e);
                return self.fatal(slf, error, "Fatal write error on socket transport");
            }
        }
        let changed = self.state.with(py, |s| {
            let empty = s.queue.is_empty();
            let changed = s.write_blocked == empty;
            s.write_blocked = !empty;
            changed
        });
        if changed && let Err(e) = self.update_interest(slf) {
            return self.cannot_watch(slf, &e);
        }
        // May write more: only then is it known whether the queue has ended.
        self.maybe_resume_protocol(slf)?;
        if self.state.with(py, |s| s.queue.is_empty()) { self.drained(slf) } else { Ok(()) }
    }

    /// The queue is empty: what waited for that happens now.
    fn drained(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let (life, eof, waiter) = self
            .state
            .with(py, |s| (s.life, s.write_eof, s.empty_waiter.as_ref().map(|w| w.clone_ref(py))));
        if let Some(waiter) = waiter {
            resolve(waiter.bind(py))?;
        }
        if life == Life::Closing {
            return self.lose(slf, None);
        }
        if eof && !life.is_ended() {
            return self.shut_down(slf);
        }
        Ok(())
    }

    fn shut_down(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        match self.descriptor.fd(slf.py()).and_then(socket::shutdown_write) {
            // ENOTCONN: the peer is gone already, which reading finds out.
            Err(e) if e.raw_os_error() != Some(libc::ENOTCONN) => {
                let error = errors::os_error("shutdown", &e);
                self.fatal(slf, error, "Fatal error on transport shutdown")
            }
            _ => Ok(()),
        }
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
        if self.state.with(py, |s| s.write_blocked) {
            self.send_queue(slf)
        } else {
            match self.update_interest(slf) {
                Ok(()) => Ok(()),
                Err(e) => self.cannot_watch(slf, &e),
            }
        }
    }

    fn write_after_loss(&self, py: Python<'_>) -> PyResult<()> {
        let count = self.state.with(py, |s| {
            s.writes_after_loss += 1;
            s.writes_after_loss
        });
        if count >= WARN_AFTER {
            let text = "socket.send() raised exception.";
            imports::logger(py)?.call_method1(intern!(py, "warning"), (text,))?;
        }
        Ok(())
    }

    fn maybe_pause_protocol(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if !self.state.with(py, |s| s.flow.wants_pause(s.queue.len_bytes())) {
            return Ok(());
        }
        // What can go out now does not count against the program.
        if !self.state.with(py, |s| s.write_blocked) {
            self.send_queue(slf)?;
        }
        let tell = self.state.with(py, |s| s.flow.pause(s.queue.len_bytes()));
        if tell { self.tell_protocol(slf, "pause_writing") } else { Ok(()) }
    }

    fn maybe_resume_protocol(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let tell = self.state.with(slf.py(), |s| s.flow.resume(s.queue.len_bytes()));
        if tell { self.tell_protocol(slf, "resume_writing") } else { Ok(()) }
    }

    fn tell_protocol(&self, slf: &Bound<'_, Self>, method: &str) -> PyResult<()> {
        let py = slf.py();
        let protocol = self.protocol(py);
        flow::tell(self.owner.bind(py), slf.as_any(), protocol.as_ref(), method)
    }
}

/// The end of the tick.
fn flush(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast::<StreamTransport>()?;
    let this = slf.get();
    let wanted = this.state.with(slf.py(), |s| {
        s.dirty = false;
        !s.write_blocked && !s.queue.is_empty()
    });
    if wanted { this.send_queue(slf) } else { Ok(()) }
}

#[pymethods]
impl StreamTransport {
    /// Queue bytes-like data to be sent; small writes of one tick leave in one system call.
    ///
    /// TypeError for anything but bytes, bytearray and memoryview; RuntimeError after
    /// `write_eof()`. Data written after the connection was lost is dropped.
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::write_bytes_like(slf, data)
    }

    /// Queue several bytes-like objects, in order.
    fn writelines(slf: &Bound<'_, Self>, list_of_data: &Bound<'_, PyAny>) -> PyResult<()> {
        slf.get().refuse_writes(slf.py(), "writelines")?;
        for data in list_of_data.try_iter()? {
            Self::write_bytes_like(slf, &data?)?;
        }
        Ok(())
    }

    /// End the writing side after what is queued; reading goes on.
    fn write_eof(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let (first, empty) = this.state.with(slf.py(), |s| {
            let open = s.life.is_live() && !s.write_eof;
            s.write_eof |= open;
            (open, s.queue.is_empty())
        });
        if first && empty { this.shut_down(slf) } else { Ok(()) }
    }

    /// True: sockets have an end of file.
    fn can_write_eof(&self) -> bool {
        true
    }

    /// Stop calling `data_received()`. Does nothing if paused, closing or closed.
    fn pause_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, true)
    }

    /// Go on calling `data_received()`. Does nothing if not paused, closing or closed.
    fn resume_reading(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::set_reading_paused(slf, false)
    }

    /// True while data is being received.
    fn is_reading(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.life.is_live() && !s.reading_paused)
    }

    /// Bytes that are queued and not sent.
    fn get_write_buffer_size(&self, py: Python<'_>) -> usize {
        self.state.with(py, |s| s.queue.len_bytes())
    }

    /// The water marks as `(low, high)`, in bytes.
    fn get_write_buffer_limits(&self, py: Python<'_>) -> (usize, usize) {
        self.state.with(py, |s| s.flow.limits())
    }

    /// Above `high` queued bytes `pause_writing()` is called, at `low` or below
    /// `resume_writing()`. ValueError unless high >= low >= 0.
    #[pyo3(signature = (high = None, low = None))]
    fn set_write_buffer_limits(
        slf: &Bound<'_, Self>,
        high: Option<isize>,
        low: Option<isize>,
    ) -> PyResult<()> {
        let marks = flow::marks(high, low)?;
        slf.get().state.with(slf.py(), |s| s.flow.set_limits(marks));
        slf.get().maybe_pause_protocol(slf)
    }

    /// asyncio's name, which its sendfile() fallback reads.
    #[getter]
    fn _protocol_paused(&self, py: Python<'_>) -> bool {
        self.state.with(py, |s| s.flow.is_paused())
    }

    /// A future that is done when the queue is empty; writes are refused until it is reset.
    fn _make_empty_waiter<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if this.state.with(py, |s| s.empty_waiter.is_some()) {
            return Err(PyRuntimeError::new_err("Empty waiter is already set"));
        }
        let waiter = this.owner.bind(py).call_method0(intern!(py, "create_future"))?;
        let kept = waiter.clone().unbind();
        let empty = this.state.with(py, |s| {
            s.empty_waiter = Some(kept);
            s.queue.is_empty()
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
        let waiter = this.owner.bind(py).call_method0(intern!(py, "create_future"))?;
        let kept = waiter.clone().unbind();
        this.state.with(py, |s| s.writable_waiters.push(kept));
        this.update_interest(slf).map_err(|e| errors::os_error("epoll_ctl", &e))?;
        Ok(waiter)
    }
}

impl StreamTransport {
    fn set_reading_paused(slf: &Bound<'_, Self>, paused: bool) -> PyResult<()> {
        let this = slf.get();
        let changed = this.state.with(slf.py(), |s| {
            let live = s.life.is_live() && !s.read_eof;
            let changed = live && s.reading_paused != paused;
            if changed {
                s.reading_paused = paused;
            }
            changed
        });
        if changed && let Err(e) = this.update_interest(slf) {
            return this.cannot_watch(slf, &e);
        }
        Ok(())
    }
}
