//! `Outgoing` and `Sending`: how transports of bytes send. Small writes wait for the end of the tick
//! and leave together, large ones go at once, and what the descriptor does not take waits for its
//! writability.
//!
//! Stream and write pipe transports are `Sending`; what follows from an empty queue, and how an
//! error ends them, is theirs.

use super::descriptor::Descriptor;
use super::flow::{self, Flow};
use super::write_queue::{Channel, WriteQueue};
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::{Object, buffer};
use crate::imports;
use pyo3::PyClass;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};
use std::io::ErrorKind;

/// A write of this length is sent at once, with what is queued before it: at the end of the tick its
/// bytes would have left the processor's cache, which costs more than the system call that
/// gathering saves.
const LONG_WRITE: usize = 8 * 1024;
/// So much gathered is sent without waiting for the end of the tick.
const GATHERED: usize = 64 * 1024;
/// asyncio warns about writes to a lost connection from this many on.
const WARN_AFTER: u32 = 5;

#[derive(Default)]
pub struct Outgoing {
    pub queue: WriteQueue,
    pub flow: Flow,
    /// The descriptor took no more; waiting for writability.
    pub blocked: bool,
    /// On the loop's list of transports to flush at the end of the tick.
    dirty: bool,
    /// Writes after the connection was lost, for asyncio's warning.
    writes_after_loss: u32,
}

pub trait Sending: PyClass<Frozen = True> + Sync {
    const CHANNEL: Channel;

    fn outgoing<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Outgoing) -> R) -> R;
    fn owner(&self) -> &Py<LoopCore>;
    fn descriptor(&self) -> &Descriptor;
    fn current_protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>>;
    /// `blocked` has changed: tells the poller.
    fn watch_writing(&self, slf: &Bound<'_, Self>) -> PyResult<()>;
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

/// Queues bytes-like data, and decides whether they go now or at the end of the tick.
pub fn push<T: Sending>(slf: &Bound<'_, T>, data: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let (length, queued) = if let Ok(bytes) = data.cast_exact::<PyBytes>() {
        this.outgoing(py, |out| {
            out.queue.push_object(bytes, 0);
            (bytes.as_bytes().len(), out.queue.len_bytes())
        })
    } else {
        // What is left of a long one has been refused already.
        (0, push_mutable(slf, data)?)
    };
    if queued == 0 {
        return Ok(());
    }
    let owner = this.owner().get();
    let (blocked, dirty) = this.outgoing(py, |out| (out.blocked, out.dirty));
    let at_once = length >= LONG_WRITE || queued >= GATHERED || !owner.is_in_tick();
    if !blocked && at_once {
        send(slf)?;
    } else if !blocked && !dirty {
        this.outgoing(py, |out| out.dirty = true);
        owner.flush_later(py, Object::new(slf.clone().into_any()), flush::<T>);
    }
    maybe_pause_protocol(slf)
}

/// Queues what the caller may change after the call, and therefore copies it; of a long one only what
/// the descriptor does not take at once. Returns the length of the queue.
fn push_mutable<T: Sending>(slf: &Bound<'_, T>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
    let py = slf.py();
    let this = slf.get();
    let mut sent = Ok(0);
    let queued = buffer::with_bytes(data, |bytes| {
        let direct = bytes.len() >= LONG_WRITE
            && this.outgoing(py, |out| !out.blocked && out.queue.is_empty());
        if direct {
            sent = this.descriptor().fd(py).and_then(|fd| match T::CHANNEL.send(fd, bytes) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    Ok(0)
                }
                other => other,
            });
        }
        match &sent {
            Ok(sent) => this.outgoing(py, |out| {
                out.queue.push_copy(&bytes[*sent..]);
                out.queue.len_bytes()
            }),
            Err(_) => 0,
        }
    })?;
    match sent {
        Ok(sent) => this.owner().get().meter.with(py, |meter| meter.bytes_out += sent as u64),
        Err(e) => {
            let error = errors::os_error_on("send", this.descriptor().fd(py), &e);
            this.send_failed(slf, error)?;
        }
    }
    Ok(queued)
}

/// Sends what the descriptor takes, and does what follows from an empty or a blocked queue.
pub fn send<T: Sending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    let sent = match this.descriptor().fd(py) {
        Ok(fd) => this.outgoing(py, |out| out.queue.send(py, fd, T::CHANNEL)),
        Err(e) => Err(e),
    };
    match sent {
        Ok(sent) => this.owner().get().meter.with(py, |meter| meter.bytes_out += sent as u64),
        Err(e) => {
            return this
                .send_failed(slf, errors::os_error_on("send", this.descriptor().fd(py), &e));
        }
    }
    let changed = this.outgoing(py, |out| {
        let empty = out.queue.is_empty();
        let changed = out.blocked == empty;
        out.blocked = !empty;
        changed
    });
    if changed {
        this.watch_writing(slf)?;
    }
    // May write more: only then is it known whether the queue has ended.
    if this.outgoing(py, |out| out.flow.resume(out.queue.len_bytes())) {
        tell_protocol(slf, "resume_writing")?;
    }
    if this.outgoing(py, |out| out.queue.is_empty()) { this.drained(slf) } else { Ok(()) }
}

/// The end of the tick.
fn flush<T: Sending>(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast::<T>()?;
    let wanted = slf.get().outgoing(slf.py(), |out| {
        out.dirty = false;
        !out.blocked && !out.queue.is_empty()
    });
    if wanted { send(slf) } else { Ok(()) }
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
    let protocol = slf.get().current_protocol(slf.py());
    flow::tell(slf.get().owner().bind(slf.py()), slf.as_any(), protocol.as_ref(), method)
}

/// Drops what is queued; to be followed by the end of the transport.
pub fn clear<T: Sending>(this: &T, py: Python<'_>) {
    let queue = this.outgoing(py, |out| {
        out.blocked = false;
        std::mem::take(&mut out.queue)
    });
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
    high: Option<isize>,
    low: Option<isize>,
) -> PyResult<()> {
    let marks = flow::marks(high, low)?;
    slf.get().outgoing(slf.py(), |out| out.flow.set_limits(marks));
    maybe_pause_protocol(slf)
}
