//! How a TLS transport receives: ciphertext from the transport below, plaintext to the program's protocol.
//!
//! The data of one receive is decrypted immediately and delivered in one piece, like in `asyncio.sslproto`: into the
//! protocol's own buffer, into asyncio's stream reader without a call, or as bytes of the exact size.

use super::session::{Plain, Session};
use super::transport::{Phase, TlsTransport};
use crate::event_loop::LoopCore;
use crate::ffi::buffer::View;
use crate::ffi::bytearray;
use crate::ffi::bytes::{self, BytesRoom};
use crate::transport::{Feeding, Receiver, Under, with_lent};
use oneloop_engine::sys::memory;
use oneloop_engine::sys::socket::{self, Room};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// Ciphertext up to this length is decrypted on the stack.
const SHORT: usize = 16 * 1024;
/// The limit if the plaintext becomes a bytes object: a longer copy costs more than shrinking the object.
const SHORT_OBJECT: usize = 2 * 1024;
/// Longer data is fed to the library in pieces that stay in the processor's cache.
const PIECE: usize = 32 * 1024;

/// Why a read ended.
enum End {
    /// Everything available was read.
    Empty,
    /// The buffer is full.
    Full,
    /// The peer has sent close_notify.
    Closed,
    Failed(PyErr),
}

/// Plaintext for the protocol.
enum Text<'py> {
    Nothing,
    Bytes(Bound<'py, PyBytes>),
    /// In the buffer of asyncio's stream reader.
    Fed(Feeding<'py>),
}

/// How the protocol currently receives plaintext.
enum Taker<'py> {
    Bytes,
    Reader(Feeding<'py>),
    Buffer,
    /// Reading is paused, has not begun, or is over.
    Nobody,
}

#[pymethods]
impl TlsTransport {
    /// Called by a transport below that is not ours.
    fn data_received(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        let (text, end) = slf.get().take_in(slf.py(), data.as_bytes())?;
        Self::go_on(slf, text, end)
    }

    /// Called by the loop after the protocol's buffer was full.
    fn _do_read(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().state.with(slf.py(), |s| s.is_read_due = false);
        match slf.get().phase(slf.py()) {
            Phase::Wrapped => Self::read_on(slf),
            Phase::Flushing => Self::flush_and_shut_down(slf),
            Phase::Unwrapped | Phase::Handshake | Phase::Shutdown => Ok(()),
        }
    }
}

/// One receive, called by the transport below when its socket is readable.
pub fn receive(
    owner: &Bound<'_, LoopCore>,
    protocol: &Bound<'_, PyAny>,
    fd: RawFd,
) -> PyResult<io::Result<usize>> {
    let slf = protocol.cast_exact::<TlsTransport>()?;
    let this = slf.get();
    let py = owner.py();
    if this.library.is_busy(py) {
        // Another thread, against the rules, is writing; the socket stays readable.
        return Ok(Err(io::ErrorKind::WouldBlock.into()));
    }
    let taken = with_lent(owner, |shared| {
        let len = match socket::recv(fd, shared) {
            Ok(len @ 1..) => len,
            nothing => return Ok(Err(nothing)),
        };
        let taken = this.take_in(py, bytes::written(shared, len))?;
        PyResult::Ok(Ok((len, taken)))
    })?;
    let (len, (text, end)) = match taken {
        Ok(taken) => taken,
        Err(nothing) => return Ok(nothing),
    };
    TlsTransport::go_on(slf, text, end)?;
    Ok(Ok(len))
}

/// Continues a read that another thread had delayed.
fn go_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<TlsTransport>()?;
    slf.get().in_context(slf.py(), || TlsTransport::_do_read(slf))
}

impl TlsTransport {
    fn taker<'py>(&self, py: Python<'py>) -> PyResult<Taker<'py>> {
        let known = self.state.with(py, |s| match (&s.protocol, s.phase) {
            (Some(protocol), Phase::Wrapped | Phase::Flushing) if !s.is_reading_paused => {
                Some((protocol.object.bind(py).clone(), protocol.receiver.clone_ref(py)))
            }
            _ => None,
        });
        let Some((protocol, receiver)) = known else { return Ok(Taker::Nobody) };
        match receiver {
            Receiver::Data | Receiver::Native(_) => Ok(Taker::Bytes),
            Receiver::Buffer => Ok(Taker::Buffer),
            Receiver::Stream { vetted } => {
                let keep = |vetted| {
                    self.state.with(py, |s| match &mut s.protocol {
                        Some(protocol) => protocol.vet(vetted),
                        None => Some(vetted),
                    })
                };
                let found = Feeding::find_vetted(self.owner.get(), &protocol, vetted, keep)?;
                Ok(found.map_or(Taker::Bytes, Taker::Reader))
            }
        }
    }

    /// Feeds ciphertext to the library, and decrypts it if the protocol can receive it.
    fn take_in<'py>(&self, py: Python<'py>, ciphertext: &[u8]) -> PyResult<(Text<'py>, End)> {
        if self.phase(py) == Phase::Unwrapped {
            return Ok((Text::Nothing, End::Empty));
        }
        let taker = self.taker(py)?;
        if matches!(taker, Taker::Nobody | Taker::Buffer) {
            self.library.feed(py, ciphertext)?;
            return Ok((Text::Nothing, End::Full));
        }
        self.decrypt(py, ciphertext, taker)
    }

    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &[u8],
        taker: Taker<'py>,
    ) -> PyResult<(Text<'py>, End)> {
        let most = ciphertext.len() + self.library.unread(py)?;
        let short = if matches!(taker, Taker::Reader(_)) { SHORT } else { SHORT_OBJECT };
        if most <= short {
            self.decrypt_short(py, ciphertext, taker)
        } else {
            self.decrypt_long(py, ciphertext, taker, most)
        }
    }

    /// A separate function, because a green thread's switch copies the stack, which should not include this buffer.
    #[inline(never)]
    fn decrypt_short<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &[u8],
        taker: Taker<'py>,
    ) -> PyResult<(Text<'py>, End)> {
        let mut room = [MaybeUninit::uninit(); SHORT];
        if !ciphertext.is_empty() {
            self.library.feed(py, ciphertext)?;
        }
        let (len, end) = self.fill(py, &mut room);
        let text = match taker {
            _ if len == 0 => Text::Nothing,
            Taker::Reader(feeding) => {
                bytearray::append_received(&feeding.buffer, &room, len)?;
                Text::Fed(feeding)
            }
            _ => Text::Bytes(bytes::received(py, &room, len)?),
        };
        Ok((text, end))
    }

    fn decrypt_long<'py>(
        &self,
        py: Python<'py>,
        ciphertext: &[u8],
        taker: Taker<'py>,
        most: usize,
    ) -> PyResult<(Text<'py>, End)> {
        memory::keep_large_blocks();
        let mut made = BytesRoom::new(py, most)?;
        let room = made.as_mut_slice(py);
        let mut len = 0;
        let mut pieces = ciphertext.chunks(PIECE);
        let end = loop {
            let piece = pieces.next();
            if let Some(piece) = piece {
                self.library.feed(py, piece)?;
            }
            let (more, end) = self.fill(py, &mut room[len..]);
            len += more;
            if piece.is_none() || !matches!(end, End::Empty) {
                break end;
            }
        };
        // Unused data is kept, whatever has ended the read.
        for piece in pieces {
            self.library.feed(py, piece)?;
        }
        if len == 0 {
            return Ok((Text::Nothing, end));
        }
        let text = made.completed(py, len)?;
        match taker {
            Taker::Reader(feeding) => {
                bytearray::append_received(
                    &feeding.buffer,
                    bytes::as_uninit(text.as_bytes()),
                    len,
                )?;
                Ok((Text::Fed(feeding), end))
            }
            _ => Ok((Text::Bytes(text), end)),
        }
    }

    /// Reads until everything is read or the buffer is full.
    fn fill(&self, py: Python<'_>, room: &mut Room) -> (usize, End) {
        let mut len = 0;
        loop {
            if len == room.len() {
                return (len, End::Full);
            }
            match self.library.read(py, &mut room[len..]) {
                Ok(Plain::Data(more)) => len += more,
                Ok(Plain::Nothing) => return (len, End::Empty),
                Ok(Plain::Ended) => return (len, End::Closed),
                Err(error) => return (len, End::Failed(error)),
            }
        }
    }

    /// The next step after ciphertext was fed.
    fn go_on<'py>(slf: &Bound<'py, Self>, text: Text<'py>, end: End) -> PyResult<()> {
        match slf.get().phase(slf.py()) {
            Phase::Handshake => Self::shake_hands(slf),
            Phase::Wrapped => Self::deliver(slf, text, end),
            Phase::Flushing => {
                Self::deliver(slf, text, end)?;
                Self::flush_and_shut_down(slf)
            }
            Phase::Shutdown => Self::shut_down(slf),
            Phase::Unwrapped => Ok(()),
        }
    }

    /// Reads data that was fed but not read: after a pause, or together with the end of a handshake.
    pub fn read_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::deliver(slf, Text::Nothing, End::Full)
    }

    /// Delivers what the socket of a connection that has failed still has, if the protocol wants it.
    pub fn take_rest(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !this.state.with(py, |s| s.wants_rest) {
            return Ok(());
        }
        let Some(Under::Stream(stream)) = this.under(py) else { return Ok(()) };
        let Ok(fd) = stream.get().body.descriptor.fd(py) else { return Ok(()) };
        let owner = this.owner.bind(py);
        while this.phase(py) == Phase::Wrapped {
            // A pause holds up a peer, which is gone.
            this.state.with(py, |s| s.is_reading_paused = false);
            match receive(owner, slf.as_any(), fd)? {
                Ok(1..) => {}
                // What was fed during a pause.
                Ok(0) | Err(_) => return Self::read_on(slf),
            }
        }
        Ok(())
    }

    /// Delivers plaintext, and continues reading while the protocol receives it.
    fn deliver<'py>(slf: &Bound<'py, Self>, mut text: Text<'py>, mut end: End) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        loop {
            if let End::Failed(error) = &end {
                let failure = Some(error.clone_ref(py));
                drop(this.state.with(py, |s| std::mem::replace(&mut s.failure, failure)));
            }
            let told = Self::give(slf, text);
            let failure = this.state.with(py, |s| s.failure.take());
            if let Err(error) = told {
                return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
            }
            match end {
                // The protocol has closed it, so the failure only ends the connection.
                End::Failed(_) if failure.is_none() => return Ok(()),
                End::Empty => break,
                End::Full => {}
                End::Closed => {
                    Self::call_eof_received(slf)?;
                    Self::start_shutdown(slf)?;
                    break;
                }
                End::Failed(error) => {
                    // Sends the alert that tells the peer what was wrong.
                    Self::process_outgoing(slf)?;
                    return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
                }
            }
            if Self::is_deferred(slf, go_on) {
                return Ok(());
            }
            let read = match this.taker(py)? {
                Taker::Nobody => break,
                Taker::Buffer => Self::read_into(slf).map(|end| (Text::Nothing, end)),
                _ if !this.library.may_read(py)? => break,
                taker => this.decrypt(py, &[], taker),
            };
            (text, end) = match read {
                Ok(read) => read,
                Err(error) => {
                    return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
                }
            };
        }
        if matches!(this.phase(py), Phase::Wrapped | Phase::Flushing) {
            Self::write_kept(slf)?;
        }
        this.control_reading(py)
    }

    fn give(slf: &Bound<'_, Self>, text: Text<'_>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let Some(protocol) = this.protocol(py) else { return Ok(()) };
        let name = intern!(py, "data_received");
        let outcome = match text {
            Text::Nothing => return Ok(()),
            Text::Bytes(bytes) => protocol.call_method1(name, (bytes,)).map(drop),
            Text::Fed(feeding) => feeding.finish(),
        };
        outcome.and(this.owner.get().lap_method(this.owner.bind(py), &protocol, name))
    }

    /// One read into the buffer of a `BufferedProtocol`.
    fn read_into(slf: &Bound<'_, Self>) -> PyResult<End> {
        let py = slf.py();
        let this = slf.get();
        let Some(protocol) = this.protocol(py) else { return Ok(End::Empty) };
        let hint = this.library.unread(py)?;
        let target = protocol.call_method1(intern!(py, "get_buffer"), (hint,))?;
        if target.len()? == 0 {
            return Err(PyRuntimeError::new_err("get_buffer() returned an empty buffer"));
        }
        let mut view = View::writable(&target)?;
        let (len, end) = this.fill(py, view.as_mut_slice(py));
        // The protocol may resize its buffer in buffer_updated().
        drop(view);
        let is_full = matches!(end, End::Full);
        if is_full {
            // Others run first, as in asyncio.
            Self::call_soon(slf, "_do_read")?;
            this.state.with(py, |s| s.is_read_due = true);
        }
        if len > 0 {
            let protocol = this.new_buffered(py).unwrap_or(protocol);
            let name = intern!(py, "buffer_updated");
            let told = protocol.call_method1(name, (len,)).map(drop);
            told.and(this.owner.get().lap_method(this.owner.bind(py), &protocol, name))?;
        }
        Ok(if is_full { End::Empty } else { end })
    }

    /// The current protocol if it receives into its own buffer: `get_buffer()` may have changed it. As in asyncio, a
    /// new protocol of another kind is not told about the old one's buffer.
    fn new_buffered<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |s| match &s.protocol {
            Some(protocol) if matches!(protocol.receiver, Receiver::Buffer) => {
                Some(protocol.object.bind(py).clone())
            }
            _ => None,
        })
    }

    /// Pauses the transport below while too much ciphertext waits for a program that has paused reading or has small
    /// buffers.
    pub fn control_reading(&self, py: Python<'_>) -> PyResult<()> {
        if self.library.is_busy(py) {
            // Another thread is using it; the next reader calls this again.
            return Ok(());
        }
        let waiting = self.library.waiting(py)?;
        match self.state.with(py, |s| s.unread_marks.turn(waiting)) {
            Some(true) => self.call_under(py, "pause_reading"),
            Some(false) => self.call_under(py, "resume_reading"),
            None => Ok(()),
        }
    }
}
