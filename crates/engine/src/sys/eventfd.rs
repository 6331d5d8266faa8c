//! eventfd(2): a counter that wakes a poll.

use super::{checked, checked_len, libc};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub fn create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn signal(fd: BorrowedFd<'_>) -> io::Result<()> {
    let one = 1u64;
    loop {
        // SAFETY: eight bytes of a live integer are read during the call.
        match checked_len(unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

/// Resets the counter; EAGAIN (it is already zero) is not an error here. After EINTR it may still be set, and the next
/// poll reports it again.
pub fn drain(fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut count = 0u64;
    // SAFETY: eight bytes of a live integer are written during the call.
    match checked_len(unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) }) {
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(())
        }
        result => result.map(drop),
    }
}
