//! Executes a request by the system call of the same name, which may block. The pool's threads use it, and tests
//! compare the ring with it.

use super::fifo;
use super::request::{Place, Request};
use crate::sys::file;
use std::io;
use std::os::fd::RawFd;

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

/// Like `execute`, for requests that may wait forever. Returns ECANCELED once `stop` is readable, without having
/// moved any data. Only opening a device cannot be stopped.
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
    execute(request)
}
