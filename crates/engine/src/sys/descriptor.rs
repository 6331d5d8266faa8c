//! What the kernel reports about an open descriptor that other code owns.

use super::{checked, libc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// fcntl(2), F_GETFL: the access mode and the flags that it was opened with. EBADF: not open.
pub fn open_flags(fd: RawFd) -> io::Result<libc::c_int> {
    // SAFETY: no pointers are passed; the kernel rejects an invalid number.
    checked(unsafe { libc::fcntl(fd, libc::F_GETFL, 0) })
}

fn status(fd: RawFd) -> io::Result<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills the structure during the call.
    checked(unsafe { libc::fstat(fd, status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so the structure is filled.
    Ok(unsafe { status.assume_init() })
}

/// Whether it is an eventfd, an epoll instance or similar: a descriptor without a file, and so without a type in its
/// mode, fstat(2).
pub fn is_anonymous(fd: RawFd) -> io::Result<bool> {
    Ok(status(fd)?.st_mode & libc::S_IFMT == 0)
}

/// The file's identity, the same for all its descriptors. `None` if it is neither a regular file nor a block device
/// and so has no positions.
pub fn file_on_disk(fd: RawFd) -> io::Result<Option<(u64, u64)>> {
    let status = status(fd)?;
    let is_on_disk = matches!(status.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK);
    Ok(is_on_disk.then_some((status.st_dev, status.st_ino)))
}
