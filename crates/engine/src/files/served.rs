//! `Opened`: a regular file, opened to be sent, with its status.
//!
//! Other file types are never opened: opening a FIFO would wait for its other end, and its writer would see a reader.

use super::cached::{self, AtOnce};
use super::mount::{self, Locality};
use crate::sys::file;
use crate::sys::statx::{self, Status};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

#[derive(Debug)]
pub struct Opened {
    pub fd: OwnedFd,
    pub status: Status,
    /// Its filesystem answers without blocking.
    pub is_local: bool,
}

/// Opens the file at a path if the kernel has the path in its cache.
pub fn open_cached(path: &CStr) -> io::Result<AtOnce<Opened>> {
    match cached::open(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NONBLOCK)? {
        AtOnce::Done(fd) => {
            let status = statx::at_hand(fd.as_raw_fd())?;
            check(&status)?;
            if mount::verdict(status.mount).is_some_and(Locality::is_local) {
                return Ok(AtOnce::Done(Opened { fd, status, is_local: true }));
            }
            Ok(AtOnce::Unknown)
        }
        AtOnce::Unbounded => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        AtOnce::WouldBlock | AtOnce::Short | AtOnce::Unknown => Ok(AtOnce::Unknown),
    }
}

/// Like `open_cached`, but may block, so only for threads. EISDIR for a folder, EINVAL for other types.
pub fn open(path: &CStr) -> io::Result<Opened> {
    let looked = file::open_owned(libc::AT_FDCWD, path, libc::O_PATH, 0)?;
    let status = statx::asked(looked.as_raw_fd())?;
    check(&status)?;
    let is_local = mount::learn(looked.as_raw_fd(), &status)?.is_local();
    reopen(&looked, is_local)
}

fn check(status: &Status) -> io::Result<()> {
    if status.is_regular() {
        return Ok(());
    }
    let errno = if status.is_file_or_folder() { libc::EISDIR } else { libc::EINVAL };
    Err(io::Error::from_raw_os_error(errno))
}

/// Opens the file behind an O_PATH descriptor, whatever its path names by now: proc(5).
pub fn reopen(looked: &OwnedFd, is_local: bool) -> io::Result<Opened> {
    let place = CString::new(proc_path(looked).into_os_string().as_encoded_bytes())?;
    let fd = file::open_owned(libc::AT_FDCWD, &place, libc::O_RDONLY | libc::O_NOCTTY, 0)?;
    let status = statx::asked(fd.as_raw_fd())?;
    Ok(Opened { fd, status, is_local })
}

/// A descriptor of its own for a file that somebody else has open; `None` if it is not a regular file. `may_block`: the
/// caller may wait for a server to learn how the filesystem behaves.
pub fn share(fd: RawFd, may_block: bool) -> io::Result<Option<Opened>> {
    let fd = file::duplicate(fd)?;
    let status = statx::at_hand(fd.as_raw_fd())?;
    if !status.is_regular() {
        return Ok(None);
    }
    let locality = if may_block {
        Some(mount::learn(fd.as_raw_fd(), &status)?)
    } else {
        mount::verdict(status.mount)
    };
    Ok(Some(Opened { fd, status, is_local: locality.is_some_and(Locality::is_local) }))
}

pub fn proc_path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
