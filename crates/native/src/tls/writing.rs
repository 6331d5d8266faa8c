//! How a TLS transport sends: plaintext from the program, ciphertext to the transport below.
//!
//! As in plain transports (`transport::sending`), the first write of a callback is sent immediately. Writes soon
//! after it are gathered as plaintext and sent when the callback ends, in as few records as possible. Gathered data
//! is sent before anything that a program can observe of the transport, and before its end.

use super::session::Session;
use super::transport::{Phase, TlsTransport, not_bytes};
use crate::event_loop::LoopCore;
use crate::ffi::buffer::{self, View};
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::{Object, context};
use crate::imports;
use crate::transport::Under;
use crate::transport::{
    GATHERED, GATHERING_CYCLES, LONG_WRITE, StreamTransport, WARN_AFTER, is_bytes_like, tell_flow,
};
use oneloop_engine::sys::{clock, fork};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CStr;

/// The amount to encrypt at a time: it stays in the processor's cache and in the connection's own buffers.
const PIECE: usize = 32 * 1024;
/// A long write is passed on after so much.
const BATCH: usize = 8 * PIECE;

impl TlsTransport {
    pub fn write_bytes_like(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if !is_bytes_like(data) {
            return Err(not_bytes(data));
        }
        if let Ok(object) = data.cast_exact::<PyBytes>() {
            return Self::write(slf, object);
        }
        let view = View::of(data)?;
        // The library may let other threads run, which may change the object, so it gets a copy.
        let copy = fallible::bytes(slf.py(), view.as_slice(slf.py()))?;
        drop(view);
        Self::write(slf, &copy)
    }

    pub fn write_pieces(slf: &Bound<'_, Self>, pieces: &Bound<'_, PyAny>) -> PyResult<()> {
        // Convert all of them first: if one is invalid nothing is sent.
        let pieces = pieces
            .try_iter()?
            .map(|piece| buffer::to_bytes(&piece?))
            .collect::<PyResult<Vec<_>>>()?;
        match pieces.as_slice() {
            [] => Self::write_kept(slf),
            [only] => Self::write(slf, only),
            many => {
                let pieces = many.iter().map(PyBytesMethods::as_bytes).collect::<Vec<_>>();
                Self::write(slf, &fallible::bytes(slf.py(), &pieces.concat())?)
            }
        }
    }

    fn write(slf: &Bound<'_, Self>, object: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let bytes = object.as_bytes();
        let this = slf.get();
        if bytes.is_empty() {
            return Ok(());
        }
        match this.phase(py) {
            Phase::Wrapped => {}
            Phase::Handshake => {
                this.keep(py, object, 0);
                return Self::control_app_writing(slf);
            }
            Phase::Unwrapped | Phase::Flushing | Phase::Shutdown => {
                return this.write_after_end(py);
            }
        }
        if Self::is_deferred(slf, go_on) {
            // Or this is a callback of the library.
            this.keep(py, object, 0);
            return Ok(());
        }
        let callback = this.owner.get().current_callback();
        let (waits, is_close, kept, high) = this.state.with(py, |s| {
            let out = &s.out;
            let is_close = callback == Some(out.callback)
                && clock::cycles().wrapping_sub(out.sent_at) < GATHERING_CYCLES;
            (out.is_blocked, is_close, out.backlog.len_bytes(), out.marks.limits().1)
        });
        if waits {
            this.keep(py, object, 0);
            return Self::control_app_writing(slf);
        }
        let is_short = bytes.len() < LONG_WRITE && kept + bytes.len() < GATHERED.min(high);
        if is_close && is_short && this.gather(slf)? {
            this.keep(py, object, 0);
            return Ok(());
        }
        if kept > 0 {
            this.keep(py, object, 0);
            this.state.with(py, |s| s.out.callback = callback.unwrap_or(0));
            return Self::write_kept(slf);
        }
        let sent = Self::encrypt(slf, bytes);
        this.state.with(py, |s| {
            s.out.callback = callback.unwrap_or(0);
            s.out.sent_at = clock::cycles();
        });
        match sent {
            Ok(len) if len < bytes.len() => this.keep(py, object, len),
            Ok(_) => {}
            Err(error) => {
                return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
            }
        }
        Self::control_app_writing(slf)
    }

    fn write_after_end(&self, py: Python<'_>) -> PyResult<()> {
        let count = self.state.with(py, |s| {
            s.out.writes_after_loss += 1;
            s.out.writes_after_loss
        });
        if count > WARN_AFTER {
            let text = "SSL connection is closed";
            imports::logger(py)?.call_method1(intern!(py, "warning"), (text,))?;
        }
        Ok(())
    }

    /// Queues plaintext. A forked child drops the queue that its parent filled, because the parent sends it (S6).
    fn keep(&self, py: Python<'_>, object: &Bound<'_, PyBytes>, from: usize) {
        self.drop_parents_backlog(py);
        self.state.with(py, |s| s.out.backlog.push(object, from));
    }

    fn drop_parents_backlog(&self, py: Python<'_>) {
        let forks = fork::generation();
        let stale = self.state.with(py, |s| {
            let is_stale = std::mem::replace(&mut s.out.forks, forks) != forks;
            is_stale.then(|| std::mem::take(&mut s.out.backlog))
        });
        drop(stale);
    }

    /// Requests a call of `flush_gathered` at the end of the callback. Returns false if the data must not wait.
    fn gather(&self, slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let Some(Under::Stream(stream)) = self.under(py) else { return Ok(false) };
        let body = &stream.get().body;
        if body.descriptor.is_shared(py) {
            return Ok(false);
        }
        if self.state.with(py, |s| s.out.gathered_in.is_none()) {
            let context = Object::new(context::copy_current(py)?);
            self.state.with(py, |s| s.out.gathered_in = Some(context));
            let object = Object::new(slf.clone().into_any());
            self.owner.get().flush_after_callback(py, object, flush);
        }
        Ok(true)
    }

    /// Sends gathered data, so that the next action comes after it, as if each write had been sent immediately.
    pub fn flush_gathered(slf: &Bound<'_, Self>) -> PyResult<()> {
        let has_gathered = slf.get().state.with(slf.py(), |s| {
            s.phase == Phase::Wrapped && !s.out.is_blocked && !s.out.backlog.is_empty()
        });
        if has_gathered && !slf.get().library.is_busy(slf.py()) {
            return Self::write_kept(slf);
        }
        Ok(())
    }

    /// Encrypts and sends queued data as far as the transport below takes it, and sends the library's own output.
    pub fn write_kept(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if Self::is_deferred(slf, go_on) {
            return Ok(());
        }
        let may_write = slf.get().state.with(py, |s| {
            // The peer has ended its side only, and may read on.
            let is_open = s.phase == Phase::Wrapped || s.phase == Phase::Flushing && s.has_eof;
            is_open && !s.out.is_blocked && !s.out.backlog.is_empty()
        });
        if may_write {
            return Self::write_backlog(slf, true);
        }
        Self::process_outgoing(slf)
    }

    /// Like `write_kept`, even if the transport below is paused: it is about to be closed.
    pub fn write_all(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::write_backlog(slf, false)
    }

    fn write_backlog(slf: &Bound<'_, Self>, stops: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.drop_parents_backlog(py);
        // Otherwise it waits in the library for the transport below.
        let may_send = !this.state.with(py, |s| s.out.is_blocked);
        let mut sent = Vec::new();
        let mut is_stopped = false;
        while let Some(piece) = this.state.with(py, |s| s.out.backlog.pop(py)) {
            let bytes = piece.bytes(py);
            let offered = bytes.len().min(PIECE);
            let written = this.library.write(py, &bytes[..offered]);
            let used = *written.as_ref().unwrap_or(&0);
            this.state.with(py, |s| {
                s.out.backlog.put_back(py, piece, used);
                s.out.encrypted_bytes += if may_send { 0 } else { used };
            });
            if let Err(error) = written {
                return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
            }
            if used == 0 {
                // During a renegotiation: it needs data from the peer first.
                break;
            }
            if may_send && offered == PIECE {
                sent.extend(this.library.take(py)?);
            }
            if may_send && stops && sent.len() * PIECE >= BATCH {
                this.send(py, &std::mem::take(&mut sent))?;
                // A peer that has ended its side may read on: `is_over` would be true.
                is_stopped = this.has_failed_below(py) || this.state.with(py, |s| s.out.is_blocked);
                if is_stopped {
                    break;
                }
            }
        }
        if may_send {
            if !is_stopped {
                sent.extend(this.library.take(py)?);
                this.state.with(py, |s| s.out.encrypted_bytes = 0);
            }
            this.send(py, &sent)?;
            Self::control_app_writing(slf)?;
        }
        this.state.with(py, |s| s.out.sent_at = clock::cycles());
        Ok(())
    }

    /// Encrypts and sends. Returns the number of bytes used.
    fn encrypt(slf: &Bound<'_, Self>, bytes: &[u8]) -> PyResult<usize> {
        let py = slf.py();
        let this = slf.get();
        let mut len = 0;
        let mut sent = Vec::new();
        while len < bytes.len() {
            let piece = &bytes[len..bytes.len().min(len + PIECE)];
            let written = this.library.write(py, piece)?;
            len += written;
            if written == bytes.len() {
                this.send_taken(py)?;
                return Ok(written);
            }
            sent.extend(this.library.take(py)?);
            if written == 0 {
                break;
            }
            // What the transport below does not take is kept as it is: encrypted, it would be there twice, and nobody
            // would be told to pause.
            if sent.len() * PIECE >= BATCH {
                this.send(py, &std::mem::take(&mut sent))?;
                if this.is_over(py) {
                    // The rest is lost, as if it had been sent.
                    return Ok(bytes.len());
                }
                if this.state.with(py, |s| s.out.is_blocked) {
                    return Ok(len);
                }
            }
        }
        this.send(py, &sent)?;
        Ok(len)
    }

    /// Passes the library's output to the transport below.
    fn send_taken(&self, py: Python<'_>) -> PyResult<()> {
        match self.library.take(py)? {
            Some(ciphertext) => self.send(py, &[ciphertext]),
            None => Ok(()),
        }
    }

    /// Passes ciphertext to the transport below, as one write.
    fn send(&self, py: Python<'_>, ciphertext: &[Bound<'_, PyBytes>]) -> PyResult<()> {
        match (self.under(py), ciphertext) {
            (None, _) | (_, []) => Ok(()),
            (Some(Under::Stream(stream)), [only]) => {
                StreamTransport::write_bytes_like(stream.bind(py), only.as_any())
            }
            (Some(Under::Stream(stream)), many) => {
                StreamTransport::write_pieces(stream.bind(py), many)
            }
            (Some(Under::Other(other)), many) => {
                let name = intern!(py, "write");
                many.iter().try_for_each(|one| other.bind(py).call_method1(name, (one,)).map(drop))
            }
        }
    }

    /// Sends the library's output, if the transport below takes it.
    pub fn process_outgoing(slf: &Bound<'_, Self>) -> PyResult<()> {
        if !slf.get().state.with(slf.py(), |s| s.out.is_blocked) && !Self::is_deferred(slf, go_on) {
            slf.get().send_taken(slf.py())?;
            slf.get().state.with(slf.py(), |s| s.out.encrypted_bytes = 0);
        }
        Self::control_app_writing(slf)
    }

    /// Sets the high mark of the transport below; None: that which it has by itself. One that is not ours keeps its own.
    pub fn limit_under(&self, py: Python<'_>, high: Option<usize>) -> PyResult<()> {
        let Some(under) = self.under(py) else { return Ok(()) };
        if matches!(&under, Under::Other(other) if !other.bind(py).is_exact_instance_of::<Self>()) {
            return Ok(());
        }
        let name = intern!(py, "set_write_buffer_limits");
        under.object(py).call_method1(name, (high,)).map(drop)
    }

    /// Calls the protocol's `pause_writing` or `resume_writing`.
    pub fn control_app_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let turned = this.state.with(py, |s| {
            let out = &mut s.out;
            let below = usize::from(out.is_blocked && out.marks.are_zero());
            out.marks.turn(out.backlog.len_bytes().max(below))
        });
        let Some(pauses) = turned else { return Ok(()) };
        let method = if pauses { "pause_writing" } else { "resume_writing" };
        let protocol = this.protocol(py);
        this.in_context(py, || {
            tell_flow(this.owner.bind(py), slf.as_any(), protocol.as_ref(), method)
        })
    }
}

#[pymethods]
impl TlsTransport {
    /// The transport below is paused.
    fn pause_writing(&self, py: Python<'_>) {
        self.state.with(py, |s| s.out.is_blocked = true);
    }

    /// The transport below takes more.
    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.out.is_blocked = false);
        Self::write_kept(slf)
    }
}

/// Continues a write that another thread had delayed.
fn go_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<TlsTransport>()?;
    slf.get().in_context(slf.py(), || TlsTransport::write_kept(slf))
}

/// At the end of the callback, in its context: the library may be a class of the program. The protocol is told in the
/// connection's.
fn flush(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<TlsTransport>()?;
    let this = slf.get();
    let py = slf.py();
    let Some(context) = this.state.with(py, |s| s.out.gathered_in.take()) else { return Ok(()) };
    context::run_anyway(context.bind(py), || TlsTransport::flush_gathered(slf))
}

/// `TlsTransport.write`
struct Write;

impl FastMethod for Write {
    type Class = TlsTransport;
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr = c"write($self, /, data)\n--\n\nEncrypt and send bytes-like data, or keep what the transport below does not take.\n\nThe first write of a callback is sent immediately; writes soon after it are sent together when the callback ends.\n\nTypeError for anything but bytes, bytearray and memoryview. Data written after the end is dropped.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, TlsTransport>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let data = arguments.one("write", intern!(py, "data"))?;
        TlsTransport::write_bytes_like(&slf, &data)?;
        Ok(py.None().into_bound(py))
    }
}

/// Adds the methods that run for each message.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Write>(py)
}
