//! Executes a request by the system call of the same name, which may block. The pool's threads use it, and tests
//! compare the ring with it.

use super::fifo;
use super::request::{Place, Request};
use super::{Segment, Transfer};
use crate::sys::memory::Aligned;
use crate::sys::{file, statx};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of one read of `read_direct`.
const DIRECT_PIECE: usize = 4 << 20;

/// Returns the kernel's result: a descriptor, a number of bytes, or 0. Retries after EINTR.
pub fn execute(request: &Request) -> io::Result<usize> {
    loop {
        match attempt(request) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn entry(place: &Place) -> file::Entry<'_> {
    (place.dir_fd, &place.path)
}

fn attempt(request: &Request) -> io::Result<usize> {
    let nothing = |()| 0;
    match request {
        Request::Open { at, flags, mode } => file::open(at.dir_fd, &at.path, *flags, *mode)
            .map(|fd| usize::try_from(fd).expect("descriptors are not negative")),
        Request::Close { fd } => file::close(*fd).map(nothing),
        Request::Read(transfer) => transfer.read(),
        Request::Write(transfer) => transfer.write(),
        Request::Sync { fd, datasync } => file::sync(*fd, *datasync).map(nothing),
        Request::Truncate { fd, len } => file::truncate(*fd, *len).map(nothing),
        Request::Allocate { fd, mode, offset, len } => {
            file::allocate(*fd, *mode, *offset, *len).map(nothing)
        }
        Request::Rename { from, to, flags } => {
            file::rename(entry(from), entry(to), *flags).map(nothing)
        }
        Request::Unlink { at, flags } => file::unlink(entry(at), *flags).map(nothing),
        Request::Mkdir { at, mode } => file::mkdir(entry(at), *mode).map(nothing),
        Request::Link { from, to, flags } => {
            file::link(entry(from), entry(to), *flags).map(nothing)
        }
        Request::Symlink { target, at } => file::symlink(target, entry(at)).map(nothing),
    }
}

/// Reads a file opened with O_DIRECT into memory that is not aligned, through a block that is. Ends early, with
/// ECANCELED, once it is abandoned.
pub fn read_direct(
    fd: RawFd,
    offset: i64,
    segment: Segment,
    is_abandoned: &AtomicBool,
) -> io::Result<usize> {
    let no_memory = || io::Error::from_raw_os_error(libc::ENOMEM);
    let mut block = Aligned::new(segment.len().min(DIRECT_PIECE)).ok_or_else(no_memory)?;
    let mut rest = segment;
    while !rest.is_empty() {
        if is_abandoned.load(Ordering::Acquire) {
            return Err(io::Error::from_raw_os_error(libc::ECANCELED));
        }
        let done = segment.len() - rest.len();
        let len = rest.len().min(DIRECT_PIECE);
        let from = if offset < 0 { offset } else { offset + done.cast_signed() as i64 };
        match Transfer::new(fd, from, true, &[block.segment(len)]).read() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The kernel would refuse the whole read if its end is not aligned.
            Err(e) if done == 0 || e.raw_os_error() == Some(libc::EINVAL) => return Err(e),
            Err(_) => return Ok(done),
            Ok(n) => {
                rest.fill(block.as_slice(n));
                rest = rest.skip(n);
                if n < len {
                    break;
                }
            }
        }
    }
    Ok(segment.len() - rest.len())
}

/// Like `execute`, for requests that may wait forever. Returns ECANCELED once `stop` is readable, without having
/// moved any data; of a write to a pipe, a part may be written then. Only opening a device cannot be stopped.
pub fn execute_until(request: &Request, stop: RawFd) -> io::Result<usize> {
    let is_ready = match request {
        Request::Read(transfer) => file::wait_ready(transfer.fd, false, stop)?,
        Request::Write(transfer) => file::wait_ready(transfer.fd, true, stop)?,
        Request::Open { at, flags, mode }
            if flags & libc::O_NONBLOCK == 0 && fifo::is_fifo(at, *flags) =>
        {
            return fifo::open_until(at, *flags, *mode, stop);
        }
        _ => true,
    };
    if !is_ready {
        return Err(io::Error::from_raw_os_error(libc::ECANCELED));
    }
    match request {
        Request::Write(transfer) if is_pipe(transfer.fd) => write_until(transfer, stop),
        _ => execute(request),
    }
}

fn is_pipe(fd: RawFd) -> bool {
    statx::asked(fd).is_ok_and(|status| status.is_fifo())
}

/// Writes to a pipe that has room. A pipe that is ready takes `PIPE_BUF` bytes without blocking (pipe(7)); for more, the
/// thread waits each time, and returns what is written by then once `stop` is readable.
fn write_until(transfer: &Transfer, stop: RawFd) -> io::Result<usize> {
    let mut done = 0;
    loop {
        match transfer.piece(done, libc::PIPE_BUF).write() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if done == 0 => return Err(e),
            // The next write tells it.
            Err(_) | Ok(0) => return Ok(done),
            Ok(written) => done += written,
        }
        let is_over = done >= transfer.memory.len();
        if is_over || !matches!(file::wait_ready(transfer.fd, true, stop), Ok(true)) {
            return Ok(done);
        }
    }
}
