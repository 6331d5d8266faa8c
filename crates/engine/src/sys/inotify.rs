//! inotify(7): the kernel reports changes of a directory or a file on one descriptor.

use super::{checked, libc};
use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// An event queue that is read without blocking. EMFILE: `max_user_instances` is reached.
pub fn create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = checked(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Watches a path, or changes the mask of an inode that is already watched. Returns the watch descriptor. ENOSPC:
/// `max_user_watches` is reached.
pub fn add(queue: RawFd, path: &CStr, mask: u32) -> io::Result<i32> {
    // SAFETY: `path` ends with a NUL and lives through the call. An invalid `queue` is an error from the kernel
    // (EBADF, EINVAL), not a memory error.
    checked(unsafe { libc::inotify_add_watch(queue, path.as_ptr(), mask) })
}

/// Ends a watch; the kernel queues IN_IGNORED for it. EINVAL: there is no such watch.
pub fn remove(queue: RawFd, watch: i32) -> io::Result<()> {
    // SAFETY: no pointers are passed; the kernel rejects an invalid `queue`.
    checked(unsafe { libc::inotify_rm_watch(queue, watch) })?;
    Ok(())
}
