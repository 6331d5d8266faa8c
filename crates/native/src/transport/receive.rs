//! Receives bytes for stream and read pipe transports.
//!
//! Small reads go into a buffer that all transports of the loop share and are copied into a bytes object of the exact
//! size. After a long read the next one goes directly into its bytes object, which saves a copy that would cost more
//! than the larger allocation. What does not fit goes into the shared buffer in the same system call, so that each
//! call takes everything available.

use crate::event_loop::LoopCore;
use crate::ffi::bytes;
use oneloop_engine::sys::memory;
use oneloop_engine::sys::socket::Room;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// The maximum of one receive; asyncio's `max_size`.
pub const READ_MAX: usize = 256 * 1024;
/// A read of at least this length predicts another long one.
const LONG: usize = 8 * 1024;

/// A system call that fills one buffer from its start, and then a second one.
pub type Call = fn(RawFd, &mut Room, &mut Room) -> io::Result<usize>;

/// One receive; `last` is the length of the previous one.
pub fn receive<'py>(
    owner: &Bound<'py, LoopCore>,
    fd: RawFd,
    last: usize,
    call: Call,
) -> PyResult<io::Result<Bound<'py, PyBytes>>> {
    let py = owner.py();
    with_shared(owner, |shared| {
        if let Some(capacity) = room_after(last) {
            let rest = &mut shared[..READ_MAX - capacity];
            return bytes::filled(py, capacity, rest, |room, rest| call(fd, room, rest));
        }
        let received = call(fd, shared, &mut []);
        match received {
            Ok(len) => bytes::received(py, shared, len).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    })
}

/// How much memory to allocate for the next receive, if the previous one was long.
pub fn room_after(last: usize) -> Option<usize> {
    if last < LONG {
        return None;
    }
    memory::keep_large_blocks();
    // Twice the last length: there is room for growth, and little has to be released.
    Some((last * 2).clamp(LONG, READ_MAX))
}

/// The buffer that the loop's transports share, at least `READ_MAX` long. `f` must not run Python code.
pub fn with_shared<R>(owner: &Bound<'_, LoopCore>, f: impl FnOnce(&mut Room) -> R) -> R {
    owner.get().read_buffer.with(owner.py(), |shared| {
        if shared.len() < READ_MAX {
            shared.resize(READ_MAX, MaybeUninit::uninit());
        }
        f(shared)
    })
}

/// Like `with_shared`, for an `f` that may run Python code: the buffer is taken out of the loop meanwhile.
pub fn with_lent<R>(owner: &Bound<'_, LoopCore>, f: impl FnOnce(&mut Room) -> R) -> R {
    let py = owner.py();
    let mut lent = owner.get().read_buffer.take(py);
    if lent.len() < READ_MAX {
        lent.resize(READ_MAX, MaybeUninit::uninit());
    }
    let result = f(&mut lent);
    owner.get().read_buffer.with(py, |shared| *shared = lent);
    result
}
