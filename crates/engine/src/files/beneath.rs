//! `Root`: a folder whose files are served to untrusted clients. Only files inside it can be opened.
//!
//! The kernel enforces this (openat2(2), RESOLVE_BENEATH). If the kernel is too old, or refuses an absolute symbolic
//! link, the file is opened first and its real path is checked afterwards, so that it cannot be swapped between check
//! and open. Only regular files and folders are opened; other types are only inspected. Follows the rule of `cached`:
//! calls that may block run on threads.

use super::cached::AtOnce;
use super::mount::{self, Locality};
use super::served::{self, Opened, proc_path};
use crate::sys::file;
use crate::sys::statx::{self, Status};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A folder, held open: renaming or replacing its path later has no effect.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// What is at a path.
#[derive(Debug)]
pub enum Found {
    File(Opened),
    Folder,
    /// Nothing, or a file type that is not served.
    Nothing,
    /// We lack permission to read it.
    Forbidden,
}

const LOOK: libc::c_int = libc::O_PATH;
/// Non-blocking, because open(2) would otherwise wait for another process to release a lease.
const READ: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
/// Attempts to open a path while concurrent renames disturb the lookup.
const MOST_TRIES: u32 = 16;

impl Root {
    /// Opens the folder at a path. May block.
    pub fn open(path: &CStr) -> io::Result<Self> {
        file::open_owned(libc::AT_FDCWD, path, LOOK | libc::O_DIRECTORY, 0).map(Self)
    }

    /// Opens the folder without blocking. `None` if the path is not in the kernel's cache.
    pub fn open_cached(path: &CStr) -> io::Result<Option<Self>> {
        let opened = file::open_cached(libc::AT_FDCWD, path, LOOK | libc::O_DIRECTORY);
        cached(opened).map(|opened| opened.map(Self))
    }

    /// Returns what is at a path below the folder, without blocking, if the kernel has it cached. With
    /// `is_known_file` the path is opened without checking its type first: it was a file at the last check.
    pub fn find_cached(&self, path: &CStr, is_known_file: bool) -> io::Result<AtOnce<Found>> {
        if !is_known_file && let Some(found) = self.look_cached(path)? {
            return Ok(found);
        }
        let opened = match cached(file::open_beneath(self.0.as_raw_fd(), path, READ, true)) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(AtOnce::WouldBlock),
            Err(error) => return unopened(error),
        };
        let status = statx::at_hand(opened.as_raw_fd())?;
        if !status.is_regular() {
            return Ok(AtOnce::Done(kind_of(&status)));
        }
        match mount::verdict(status.mount).map(Locality::is_local) {
            Some(true) => {
                Ok(AtOnce::Done(Found::File(Opened { fd: opened, status, is_local: true })))
            }
            Some(false) => Ok(AtOnce::WouldBlock),
            None => Ok(AtOnce::Unknown),
        }
    }

    /// `None`: it is a file that can be opened without blocking.
    fn look_cached(&self, path: &CStr) -> io::Result<Option<AtOnce<Found>>> {
        let looked = match cached(file::open_beneath(self.0.as_raw_fd(), path, LOOK, true)) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(Some(AtOnce::WouldBlock)),
            Err(error) => return unopened(error).map(Some),
        };
        let status = statx::at_hand(looked.as_raw_fd())?;
        match mount::verdict(status.mount).map(Locality::is_local) {
            Some(true) if status.is_regular() => Ok(None),
            Some(true) => Ok(Some(AtOnce::Done(kind_of(&status)))),
            Some(false) => Ok(Some(AtOnce::WouldBlock)),
            None => Ok(Some(AtOnce::Unknown)),
        }
    }

    /// Returns what is at a path below the folder. May block, but never waits for the other end of a FIFO.
    pub fn find(&self, path: &CStr) -> io::Result<Found> {
        let looked = match self.look(path) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) => return refused(error),
        };
        let status = statx::asked(looked.as_raw_fd())?;
        let is_local = mount::learn(looked.as_raw_fd(), &status)?.is_local();
        if !status.is_regular() {
            return Ok(kind_of(&status));
        }
        served::reopen(&looked, is_local).map_or_else(refused, |opened| Ok(Found::File(opened)))
    }

    /// Opens an O_PATH descriptor for what is at a path. `None` if that is not inside the folder.
    fn look(&self, path: &CStr) -> io::Result<Option<OwnedFd>> {
        for _ in 0..MOST_TRIES {
            match file::open_beneath(self.0.as_raw_fd(), path, LOOK, false) {
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    Some(libc::EXDEV | libc::ENOSYS | libc::EPERM) => return self.check(path),
                    _ => return Err(e),
                },
                Ok(fd) => return Ok(Some(fd)),
            }
        }
        self.check(path)
    }

    /// Like `look`, without openat2(2): opens the path and compares its real path with the folder's.
    fn check(&self, path: &CStr) -> io::Result<Option<OwnedFd>> {
        let looked = file::open_owned(self.0.as_raw_fd(), path, LOOK, 0)?;
        let folder = fs::read_link(proc_path(&self.0))?;
        let place = fs::read_link(proc_path(&looked))?;
        Ok(place.starts_with(&folder).then_some(looked))
    }
}

/// `None`: the path is not in the kernel's cache, the kernel cannot tell, the file has a lease, or it is a link that
/// `find` must check.
fn cached(opened: io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(fd) => Ok(Some(fd)),
        Err(e) => match e.raw_os_error() {
            Some(
                libc::EAGAIN
                | libc::EINTR
                | libc::EINVAL
                | libc::EPERM
                | libc::ENOSYS
                | libc::EXDEV,
            ) => Ok(None),
            _ => Err(e),
        },
    }
}

fn kind_of(status: &Status) -> Found {
    if status.is_file_or_folder() { Found::Folder } else { Found::Nothing }
}

fn unopened(error: io::Error) -> io::Result<AtOnce<Found>> {
    refused(error).map(AtOnce::Done)
}

/// What an error means for a path. Errors that do not concern the path are returned as errors.
fn refused(error: io::Error) -> io::Result<Found> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP | libc::ENXIO) => {
            Ok(Found::Nothing)
        }
        Some(libc::EACCES) => Ok(Found::Forbidden),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests;
