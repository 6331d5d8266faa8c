//! `Outgoing` and `Sending`: how transports of bytes send.
//!
//! The first write of a callback goes to the kernel at once: a peer may be waiting for it while the callback computes on.
//! Writes that follow within the same callback and some 50 µs are gathered, and leave when that callback ends, in one
//! vectored send; a later one goes at once again. What the descriptor does not take waits for its writability. Nothing
//! that a program can see of the transport, and nothing that ends it, comes before what was gathered
//! (docs/design/0011).
//!
//! Stream and write pipe transports are `Sending`; what follows from an empty queue, and how an
//! error ends them, is theirs.

use super::ending::{self, Ending};
use super::flow::{self, Flow, Mark};
use super::write_queue::{Channel, WriteQueue};
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::buffer::View;
use crate::ffi::{Object, context};
use crate::imports;
use oneloop_engine::sys::{clock, fork};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;

/// A write of this length is never gathered: copying it or keeping it out of the processor's cache costs more than the
/// system call that gathering saves.
pub const LONG_WRITE: usize = 8 * 1024;
/// So much gathered is sent without waiting for the end of the callback.
pub const GATHERED: usize = 64 * 1024;
/// Writes are gathered for so long after the last send.
pub const GATHERING_CYCLES: u64 = 50 * clock::CYCLES_PER_US;
/// asyncio warns about writes to a lost connection from this many on.
pub const WARN_AFTER: u32 = 5;

#[derive(Default)]
pub struct Outgoing {
    pub queue: WriteQueue,
    pub flow: Flow,
    /// The descriptor took no more; waiting for writability.
    pub blocked: bool,
    /// Every write goes at once.
    pub writes_through: bool,
    /// On the loop's list of what leaves at the end of the callback.
    gathering: bool,
    /// The callback in which a write last went at once.
    callback: u64,
    /// When the last send ended, on the cycle counter.
    sent_at: u64,
    /// Of the process that has queued what is in the queue: a forked child must not send it a second time.
    forks: u32,
    /// Writes after the connection was lost, for asyncio's warning.
    writes_after_loss: u32,
}

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Now,
    Gather,
    /// Behind what the descriptor did not take.
    Wait,
}

impl Outgoing {
    pub fn gathering_unless(writes_through: bool) -> Self {
        Self { writes_through, ..Self::default() }
    }

    /// How a write of `len` bytes goes. `callback`: the one that the loop's thread is in, if it is that which writes.
    /// `is_shared`: whether the program could send on the descriptor itself, or close it; nothing waits then.
    fn way(&mut self, callback: Option<u64>, len: usize, is_shared: impl FnOnce() -> bool) -> Way {
        if self.blocked {
            return Way::Wait;
        }
        let is_close = callback == Some(self.callback)
            && !self.writes_through
            && clock::cycles().wrapping_sub(self.sent_at) < GATHERING_CYCLES;
        let is_short = len < LONG_WRITE && self.queue.len_bytes() + len < GATHERED;
        if is_close && is_short && !is_shared() {
            return Way::Gather;
        }
        self.callback = callback.unwrap_or(0);
        Way::Now
    }

    /// The common case of a further write: it joins what is gathered already, and nothing else follows from it.
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
            && self.way(callback, bytes.len(), is_shared) == Way::Gather;
        if gathers {
            self.enqueue(&Data { bytes, object: Some(object) }, 0);
        }
        gathers
    }

    /// Something was gathered and never tried.
    fn has_gathered(&self) -> bool {
        !self.blocked && !self.queue.is_empty()
    }

    /// Sends at once what may go at once, and queues the rest; how, and how many bytes have been sent.
    fn write(
        &mut self,
        way: Way,
        fd: io::Result<RawFd>,
        data: &Data<'_, '_>,
        channel: Channel,
    ) -> io::Result<usize> {
        let mut sent = 0;
        if way == Way::Now && self.queue.is_empty() {
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

    /// The child of a fork drops what its parent has queued, for the parent sends that (S6).
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

/// What is written, and the object that it can be kept by if it never changes.
struct Data<'a, 'py> {
    bytes: &'a [u8],
    object: Option<&'a Bound<'py, PyBytes>>,
}

pub trait Sending: Ending {
    const CHANNEL: Channel;

    fn outgoing<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Outgoing) -> R) -> R;
    /// The queue is empty: what waited for that happens now.
    fn drained(&self, slf: &Bound<'_, Self>) -> PyResult<()>;
    /// The kernel refused to send.
    fn send_failed(&self, slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()>;
}

/// True for what `write` takes: bytes, bytearray, memoryview.
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
    // Getting a view may run Python code: only then is it asked what the transport and its descriptor are.
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
    // Whoever gave it may resize it from here on.
    drop(view);
    follow(slf, offered)
}

/// Sends bytes that are nobody's object, or queues a copy.
pub fn push_slice<T: Sending>(slf: &Bound<'_, T>, bytes: &[u8]) -> PyResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    follow(slf, offer(slf, &Data { bytes, object: None }))
}

/// Sends what may go at once, and queues the rest.
fn offer<T: Sending>(slf: &Bound<'_, T>, data: &Data<'_, '_>) -> (Way, io::Result<usize>) {
    let py = slf.py();
    let this = slf.get();
    let callback = this.body().owner.get().current_callback();
    let fd = this.body().descriptor.fd(py);
    this.outgoing(py, |out| {
        let is_shared = || this.body().descriptor.is_shared(py);
        let way = out.way(callback, data.bytes.len(), is_shared);
        (way, out.write(way, fd, data, T::CHANNEL))
    })
}

fn follow<T: Sending>(slf: &Bound<'_, T>, offered: (Way, io::Result<usize>)) -> PyResult<()> {
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
    let way = this.outgoing(py, |out| {
        for piece in pieces {
            out.enqueue(&Data { bytes: piece.as_bytes(), object: Some(piece) }, 0);
        }
        out.way(callback, len, || this.body().descriptor.is_shared(py))
    });
    if cfg!(Py_3_12) && way == Way::Wait {
        // asyncio tries at once from 3.12 on, also behind what waits already.
        send(slf)?;
    }
    settle(slf, way)
}

/// What follows a write: what is queued and may go goes, now or at the end of the callback; the rest waits.
fn settle<T: Sending>(slf: &Bound<'_, T>, way: Way) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let (is_empty, blocked, gathering) =
        this.outgoing(py, |out| (out.queue.is_empty(), out.blocked, out.gathering));
    if is_empty {
        return Ok(());
    }
    match (way, blocked) {
        (Way::Now, true) => {
            this.body().write_in_current_context(py)?;
            ending::watch(slf)?;
        }
        (Way::Now, false) => send(slf)?,
        (Way::Gather, _) if !gathering => {
            this.body().write_in_current_context(py)?;
            this.outgoing(py, |out| out.gathering = true);
            let object = Object::new(slf.clone().into_any());
            this.body().owner.get().flush_after_callback(py, object, flush::<T>);
        }
        (Way::Gather | Way::Wait, _) => {}
    }
    maybe_pause_protocol(slf)
}

/// Sends what the descriptor takes, and does what follows from an empty or a blocked queue.
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
        if this.outgoing(py, |out| out.blocked) {
            this.body().write_in_current_context(py)?;
        }
        ending::watch(slf)?;
    }
    // May write more: only then is it known whether the queue has ended.
    // A pipe's protocol, as asyncio's, when nothing is left.
    let may_resume = |out: &mut Outgoing| T::CHANNEL != Channel::Pipe || out.queue.is_empty();
    if this.outgoing(py, |out| may_resume(out) && out.flow.resume(out.queue.len_bytes())) {
        tell_protocol(slf, "resume_writing")?;
    }
    if this.outgoing(py, |out| out.queue.is_empty()) { this.drained(slf) } else { Ok(()) }
}

/// The end of the callback, in the context that it had.
fn flush<T: Sending>(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast::<T>()?;
    let this = slf.get();
    let wanted = this.outgoing(slf.py(), |out| {
        out.gathering = false;
        out.has_gathered()
    });
    if !wanted {
        return Ok(());
    }
    context::run_or_stay(&this.body().write_context(slf.py()), || send(slf))
}

/// Sends what was gathered: whatever comes next comes after it, as if each write had gone at once.
pub fn send_gathered<T: Sending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let has_gathered = slf.get().outgoing(slf.py(), |out| out.has_gathered());
    if has_gathered { send(slf) } else { Ok(()) }
}

/// Bytes that the descriptor has not taken.
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
    // What can go out now does not count against the program.
    if !this.outgoing(py, |out| out.blocked) {
        send(slf)?;
    }
    let tell = this.outgoing(py, |out| out.flow.pause(out.queue.len_bytes()));
    if tell { tell_protocol(slf, "pause_writing") } else { Ok(()) }
}

fn tell_protocol<T: Sending>(slf: &Bound<'_, T>, method: &str) -> PyResult<()> {
    let protocol = slf.get().protocol(slf.py());
    flow::tell(slf.get().body().owner.bind(slf.py()), slf.as_any(), protocol.as_ref(), method)
}

/// Tries once what was never tried and drops the rest; to be followed by the end of the transport.
pub fn clear<T: Sending>(this: &T, py: Python<'_>) {
    let fd = this.body().descriptor.fd(py);
    let (sent, queue) = this.outgoing(py, |out| {
        let sent = match fd {
            Ok(fd) if out.has_gathered() => out.send(py, fd, T::CHANNEL),
            _ => Ok(0),
        };
        out.blocked = false;
        (sent, std::mem::take(&mut out.queue))
    });
    // A peer that takes nothing any more: the connection ends all the same.
    let sent = sent.unwrap_or(0);
    this.body().owner.get().note_sent(py, sent);
    drop(queue);
}

/// A write that nobody will get: dropped, and logged when there are many.
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
