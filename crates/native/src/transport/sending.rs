//! `Outgoing` and `Sending`: how byte transports send.
//!
//! The first write of a callback is sent immediately, because a peer may be waiting for it while the callback
//! continues. Further writes within the same callback and about 50 µs are gathered and sent when that callback ends,
//! in one vectored call; a later one is sent immediately again. Data that the descriptor does not take waits until it
//! is writable. Gathered data is sent before anything that a program can observe of the transport, and before its end
//! (docs/design/0011).
//!
//! Stream and write pipe transports implement `Sending`. They define what follows an empty queue, and how an error
//! ends them.

use super::ending::{self, Ending};
use super::flow::{self, Flow, Mark};
use super::write_queue::{Channel, WriteQueue};
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::ffi::buffer::View;
use crate::imports;
use oneloop_engine::sys::{clock, fork};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

/// A write of this length is never gathered: copying it, or its loss from the processor's cache, costs more than the
/// system call that gathering saves.
pub const LONG_WRITE: usize = 8 * 1024;
/// When this much is gathered, it is sent without waiting for the end of the callback.
pub const GATHERED: usize = 64 * 1024;
/// Writes are gathered for this long after the last send.
pub const GATHERING_CYCLES: u64 = 50 * clock::CYCLES_PER_US;
/// asyncio warns about writes to a lost connection from this count on.
pub const WARN_AFTER: u32 = 5;

#[derive(Default)]
pub struct Outgoing {
    pub queue: WriteQueue,
    pub flow: Flow,
    /// The descriptor took no more; waiting until it is writable.
    pub blocked: bool,
    /// Every write is sent immediately.
    pub writes_through: bool,
    /// It is on the loop's list of transports to flush at the end of the callback.
    gathering: bool,
    /// The callback in which a write was last sent immediately.
    callback: u64,
    /// When the last send ended, on the cycle counter.
    sent_at: u64,
    /// The fork generation of the process that queued the data: a forked child must not send it again.
    forks: u32,
    /// What was still queued when the connection was lost.
    pub lost_bytes: usize,
    /// Writes after the connection was lost, for asyncio's warning.
    writes_after_loss: u32,
}

/// How a write is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timing {
    Now,
    Gather,
    /// Queued behind data that the descriptor did not take.
    Wait,
}

impl Outgoing {
    pub fn gathering_unless(writes_through: bool) -> Self {
        Self { writes_through, ..Self::default() }
    }

    /// Decides how a write of `len` bytes is handled. `callback`: the number of the running callback, if the loop's
    /// thread writes. `is_shared`: whether the program could send on the descriptor itself or close it; then nothing
    /// is gathered.
    fn timing(
        &mut self,
        callback: Option<u64>,
        len: usize,
        is_shared: impl FnOnce() -> bool,
    ) -> Timing {
        if self.blocked {
            return Timing::Wait;
        }
        let is_close = callback == Some(self.callback)
            && !self.writes_through
            && clock::cycles().wrapping_sub(self.sent_at) < GATHERING_CYCLES;
        let is_short = len < LONG_WRITE && self.queue.len_bytes() + len < GATHERED;
        if is_close && is_short && !is_shared() {
            return Timing::Gather;
        }
        self.callback = callback.unwrap_or(0);
        Timing::Now
    }

    /// The common case of a further write: it is appended to gathered data, and nothing else has to be done.
    #[inline]
    fn gather(
        &mut self,
        callback: Option<u64>,
        object: &Bound<'_, PyBytes>,
        is_shared: impl FnOnce() -> bool,
    ) -> bool {
        let bytes = object.as_bytes();
        let gathers = self.gathering
            && self.has_gathered()
            && !self.flow.wants_pause(self.queue.len_bytes() + bytes.len())
            && self.timing(callback, bytes.len(), is_shared) == Timing::Gather;
        if gathers {
            self.enqueue(&Data { bytes, object: Some(object) }, 0);
        }
        gathers
    }

    /// There is gathered data that was never tried.
    fn has_gathered(&self) -> bool {
        !self.blocked && !self.queue.is_empty()
    }

    /// Sends immediately what may be sent, and queues the rest. Returns how, and the number of bytes sent.
    fn write(
        &mut self,
        timing: Timing,
        fd: io::Result<RawFd>,
        data: &Data<'_, '_>,
        channel: Channel,
    ) -> io::Result<usize> {
        let mut sent = 0;
        if timing == Timing::Now && self.queue.is_empty() {
            sent = match fd.and_then(|fd| channel.send(fd, data.bytes)) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                other => other?,
            };
            self.sent_at = clock::cycles();
            if sent == data.bytes.len() {
                return Ok(sent);
            }
            self.blocked = true;
        }
        self.enqueue(data, sent);
        Ok(sent)
    }

    fn enqueue(&mut self, data: &Data<'_, '_>, from: usize) {
        self.drop_parents_queue();
        match data.object {
            Some(object) => self.queue.push_object(object, from),
            None => self.queue.push_copy(&data.bytes[from..]),
        }
    }

    /// A forked child drops the queue that its parent filled, because the parent sends it (S6).
    fn drop_parents_queue(&mut self) {
        let forks = fork::generation();
        if self.forks != forks {
            self.forks = forks;
            self.queue = WriteQueue::default();
        }
    }

    /// Sends as much of the queue as the descriptor takes.
    fn send(&mut self, py: Python<'_>, fd: RawFd, channel: Channel) -> io::Result<usize> {
        self.drop_parents_queue();
        let sent = self.queue.send(py, fd, channel);
        self.sent_at = clock::cycles();
        sent
    }
}

/// The data of a write, and the object that keeps it if it is immutable.
struct Data<'a, 'py> {
    bytes: &'a [u8],
    object: Option<&'a Bound<'py, PyBytes>>,
}

pub trait Sending: Ending {
    const CHANNEL: Channel;

    fn outgoing<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Outgoing) -> R) -> R;
    /// The queue is empty: does what was waiting for that.
    fn drained(&self, slf: &Bound<'_, Self>) -> PyResult<()>;
    /// Called when sending has failed.
    fn send_failed(&self, slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()>;
}

/// True for the types that `write` accepts: bytes, bytearray, memoryview.
pub fn is_bytes_like(data: &Bound<'_, PyAny>) -> bool {
    data.is_instance_of::<PyBytes>()
        || data.is_instance_of::<PyByteArray>()
        || data.is_instance_of::<PyMemoryView>()
}

/// Sends bytes-like data, or queues it.
pub fn push<T: Sending>(slf: &Bound<'_, T>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let owner = this.body().owner.get();
    let object = data.cast_exact::<PyBytes>().ok();
    let is_shared = || this.body().descriptor.is_shared(py);
    if let Some(object) = object {
        let callback = owner.current_callback();
        if this.outgoing(py, |out| out.gather(callback, object, is_shared)) {
            return Ok(());
        }
    }
    // Getting a view may run Python code, so the state of the transport and its descriptor are read afterwards.
    let view = match object {
        Some(_) => None,
        None => Some(View::of(data)?),
    };
    if view.is_some() && this.life(py).is_ended() {
        return Ok(());
    }
    let bytes = match (&object, &view) {
        (Some(object), _) => object.as_bytes(),
        (None, Some(view)) => view.as_slice(py),
        (None, None) => &[],
    };
    if bytes.is_empty() {
        return Ok(());
    }
    let offered = offer(slf, &Data { bytes, object });
    // The caller may resize the object from here on.
    drop(view);
    follow(slf, offered)
}

/// Sends bytes that belong to no object, or queues a copy.
pub fn push_slice<T: Sending>(slf: &Bound<'_, T>, bytes: &[u8]) -> PyResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    follow(slf, offer(slf, &Data { bytes, object: None }))
}

/// Sends immediately what may be sent, and queues the rest.
fn offer<T: Sending>(slf: &Bound<'_, T>, data: &Data<'_, '_>) -> (Timing, io::Result<usize>) {
    let py = slf.py();
    let this = slf.get();
    let callback = this.body().owner.get().current_callback();
    let fd = this.body().descriptor.fd(py);
    this.outgoing(py, |out| {
        let is_shared = || this.body().descriptor.is_shared(py);
        let timing = out.timing(callback, data.bytes.len(), is_shared);
        (timing, out.write(timing, fd, data, T::CHANNEL))
    })
}

fn follow<T: Sending>(slf: &Bound<'_, T>, offered: (Timing, io::Result<usize>)) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    match offered.1 {
        Ok(0) => {}
        Ok(sent) => this.body().owner.get().note_sent(py, sent),
        Err(e) => {
            let error = errors::os_error_on("send", this.body().descriptor.fd(py), &e);
            return this.send_failed(slf, error);
        }
    }
    settle(slf, offered.0)
}

/// Sends several pieces as one write.
pub fn push_all<T: Sending>(slf: &Bound<'_, T>, pieces: &[Bound<'_, PyBytes>]) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let callback = this.body().owner.get().current_callback();
    let len = pieces.iter().map(|piece| piece.as_bytes().len()).sum();
    if len == 0 {
        return Ok(());
    }
    let timing = this.outgoing(py, |out| {
        for piece in pieces {
            out.enqueue(&Data { bytes: piece.as_bytes(), object: Some(piece) }, 0);
        }
        out.timing(callback, len, || this.body().descriptor.is_shared(py))
    });
    if cfg!(Py_3_12) && timing == Timing::Wait {
        // Since 3.12 asyncio tries immediately, even if data is already waiting.
        send(slf)?;
    }
    settle(slf, timing)
}

/// The step after a write: sends queued data now or at the end of the callback, or leaves it queued.
fn settle<T: Sending>(slf: &Bound<'_, T>, timing: Timing) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let (is_empty, blocked, gathering) =
        this.outgoing(py, |out| (out.queue.is_empty(), out.blocked, out.gathering));
    if is_empty {
        return Ok(());
    }
    match (timing, blocked) {
        (Timing::Now, true) => ending::watch(slf)?,
        (Timing::Now, false) => send(slf)?,
        (Timing::Gather, _) if !gathering => {
            this.outgoing(py, |out| out.gathering = true);
            let object = Object::new(slf.clone().into_any());
            this.body().owner.get().flush_after_callback(py, object, flush::<T>);
        }
        (Timing::Gather | Timing::Wait, _) => {}
    }
    maybe_pause_protocol(slf)
}

/// Sends what the descriptor takes, and handles an empty or a blocked queue.
pub fn send<T: Sending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let sent = match this.body().descriptor.fd(py) {
        Ok(fd) => this.outgoing(py, |out| out.send(py, fd, T::CHANNEL)),
        Err(e) => Err(e),
    };
    match sent {
        Ok(sent) => this.body().owner.get().note_sent(py, sent),
        Err(e) => {
            return this
                .send_failed(slf, errors::os_error_on("send", this.body().descriptor.fd(py), &e));
        }
    }
    let changed = this.outgoing(py, |out| {
        let empty = out.queue.is_empty();
        let changed = out.blocked == empty;
        out.blocked = !empty;
        changed
    });
    if changed {
        ending::watch(slf)?;
    }
    // This may write more: only afterwards is it known whether the queue is empty. As in asyncio, a pipe's protocol
    // is resumed only when nothing is left.
    let may_resume = |out: &mut Outgoing| T::CHANNEL != Channel::Pipe || out.queue.is_empty();
    let mut told = Ok(());
    if this.outgoing(py, |out| may_resume(out) && out.flow.resume(out.queue.len_bytes())) {
        told = tell_protocol(slf, "resume_writing");
    }
    // Also after an exception that leaves the loop: nobody else would end the transport.
    if this.outgoing(py, |out| out.queue.is_empty()) { told.and(this.drained(slf)) } else { told }
}

/// At the end of the callback.
fn flush<T: Sending>(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast::<T>()?;
    let this = slf.get();
    let wanted = this.outgoing(slf.py(), |out| {
        out.gathering = false;
        out.has_gathered()
    });
    if wanted { send(slf) } else { Ok(()) }
}

/// Sends gathered data, so that the next action comes after it, as if each write had been sent immediately.
pub fn send_gathered<T: Sending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let has_gathered = slf.get().outgoing(slf.py(), |out| out.has_gathered());
    if has_gathered { send(slf) } else { Ok(()) }
}

/// The number of bytes that the descriptor has not taken.
pub fn queued_len<T: Sending>(slf: &Bound<'_, T>) -> PyResult<usize> {
    send_gathered(slf)?;
    Ok(slf.get().outgoing(slf.py(), |out| out.queue.len_bytes()))
}

pub fn maybe_pause_protocol<T: Sending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    if !this.outgoing(py, |out| out.flow.wants_pause(out.queue.len_bytes())) {
        return Ok(());
    }
    // Data that can be sent now does not count.
    if !this.outgoing(py, |out| out.blocked) {
        send(slf)?;
    }
    let tell = this.outgoing(py, |out| out.flow.pause(out.queue.len_bytes()));
    if tell { tell_protocol(slf, "pause_writing") } else { Ok(()) }
}

fn tell_protocol<T: Sending>(slf: &Bound<'_, T>, method: &str) -> PyResult<()> {
    let py = slf.py();
    let body = slf.get().body();
    let protocol = slf.get().protocol(py);
    body.context
        .run(py, || flow::tell(body.owner.bind(py), slf.as_any(), protocol.as_ref(), method))
}

/// Tries once to send what was never tried and drops the rest. The end of the transport must follow.
pub fn clear<T: Sending>(this: &T, py: Python<'_>) {
    let fd = this.body().descriptor.fd(py);
    let (sent, queue) = this.outgoing(py, |out| {
        let sent = match fd {
            Ok(fd) if out.has_gathered() => out.send(py, fd, T::CHANNEL),
            _ => Ok(0),
        };
        out.blocked = false;
        out.lost_bytes = out.queue.len_bytes();
        (sent, std::mem::take(&mut out.queue))
    });
    // If the peer takes nothing any more, the connection still ends.
    let sent = sent.unwrap_or(0);
    this.body().owner.get().note_sent(py, sent);
    drop(queue);
}

/// A write after the connection was lost: dropped, and logged when there are many.
pub fn write_after_loss<T: Sending>(slf: &Bound<'_, T>, warning: &str) -> PyResult<()> {
    let py = slf.py();
    let count = slf.get().outgoing(py, |out| {
        out.writes_after_loss += 1;
        out.writes_after_loss
    });
    if count >= WARN_AFTER {
        imports::logger(py)?.call_method1(intern!(py, "warning"), (warning,))?;
    }
    Ok(())
}

/// `set_write_buffer_limits`: ValueError unless high >= low >= 0.
pub fn set_limits<T: Sending>(
    slf: &Bound<'_, T>,
    high: Option<Mark>,
    low: Option<Mark>,
) -> PyResult<()> {
    let marks = flow::marks(high, low, flow::HIGH_WATER)?;
    slf.get().outgoing(slf.py(), |out| out.flow.set_limits(marks));
    maybe_pause_protocol(slf)
}
