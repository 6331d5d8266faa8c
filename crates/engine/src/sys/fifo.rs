//! Checks a FIFO's reading end without consuming anything from it.

use super::{checked, checked_len, libc};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What poll(2) reported within the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    Nothing,
    /// There is data, or all writers have gone: a writer has been there.
    Traffic,
    Stop,
}

/// Checks `fd`, if given, and `stop`, for at most `wait_ms`: poll(2).
pub fn watch(fd: Option<RawFd>, stop: RawFd, wait_ms: u16) -> io::Result<Seen> {
    let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // poll(2) ignores negative numbers.
    let mut fds = [wanted(stop), wanted(fd.unwrap_or(-1))];
    // SAFETY: two live structures are read and written during the call.
    match checked(unsafe { libc::poll(fds.as_mut_ptr(), 2, i32::from(wait_ms)) }) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Seen::Nothing),
        Err(e) => Err(e),
        Ok(_) if fds[0].revents != 0 => Ok(Seen::Stop),
        Ok(_) if fds[1].revents != 0 => Ok(Seen::Traffic),
        Ok(_) => Ok(Seen::Nothing),
    }
}

/// A pipe into which `has_writer` copies a byte.
pub struct Scratch {
    _reading: OwnedFd,
    writing: OwnedFd,
}

impl Scratch {
    pub fn new() -> io::Result<Self> {
        let mut fds = [-1; 2];
        // SAFETY: room for two numbers, which the call writes.
        checked(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        // SAFETY: the kernel just made these descriptors for us; nobody else owns them.
        let [reading, writing] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Self { _reading: reading, writing })
    }

    /// True if a process has the FIFO open for writing or has written to it. tee(2) copies without consuming, and
    /// returns EAGAIN where a read would wait for a connected writer.
    pub fn has_writer(&self, fifo: RawFd) -> io::Result<bool> {
        // SAFETY: no pointers are passed.
        let copied =
            unsafe { libc::tee(fifo, self.writing.as_raw_fd(), 1, libc::SPLICE_F_NONBLOCK) };
        match checked_len(copied) {
            Ok(copied) => Ok(copied > 0),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(e) => Err(e),
        }
    }
}
