//! `Root`: a folder whose files are served to strangers: what lies in it can be opened, and nothing else.
//!
//! The kernel sees to that (openat2(2), RESOLVE_BENEATH). Where it refuses because a symbolic link is absolute, or is too
//! old, the file is opened first and then asked for its place, so that nobody can exchange it in between. What is neither
//! file nor folder is never opened, only looked at. Upholds the rule of `cached`: what may wait is for threads.

use super::cached::AtOnce;
use super::mount::{self, Nearness};
use super::served::{self, Opened, proc_path};
use crate::sys::file;
use crate::sys::statx::{self, Status};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A folder as it was when it was opened.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// What lies at a path.
#[derive(Debug)]
pub enum Found {
    File(Opened),
    Folder,
    /// Nothing, or nothing that is served.
    Nothing,
    /// Its owner does not let us read it.
    Forbidden,
}

const LOOK: libc::c_int = libc::O_PATH;
/// Not blocking: a lease of somebody's would be waited for.
const READ: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
/// Openings that a rename elsewhere has disturbed.
const MOST_TRIES: u32 = 16;

impl Root {
    /// The folder at a path. May wait.
    pub fn open(path: &CStr) -> io::Result<Self> {
        file::open_owned(libc::AT_FDCWD, path, LOOK | libc::O_DIRECTORY, 0).map(Self)
    }

    /// The same at once; None if the path is not in the kernel's cache.
    pub fn open_cached(path: &CStr) -> io::Result<Option<Self>> {
        let opened = file::open_cached(libc::AT_FDCWD, path, LOOK | libc::O_DIRECTORY);
        cached(opened).map(|opened| opened.map(Self))
    }

    /// What lies at a path below the folder, at once if the kernel has it in its cache. `is_known_file`: it was a file when
    /// it was looked at last, so that it is opened without a look.
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
        match mount::verdict(status.mount).map(Nearness::is_near) {
            Some(true) => {
                Ok(AtOnce::Done(Found::File(Opened { fd: opened, status, is_near: true })))
            }
            Some(false) => Ok(AtOnce::WouldBlock),
            None => Ok(AtOnce::Unknown),
        }
    }

    /// None: a file that may be opened at once.
    fn look_cached(&self, path: &CStr) -> io::Result<Option<AtOnce<Found>>> {
        let looked = match cached(file::open_beneath(self.0.as_raw_fd(), path, LOOK, true)) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(Some(AtOnce::WouldBlock)),
            Err(error) => return unopened(error).map(Some),
        };
        let status = statx::at_hand(looked.as_raw_fd())?;
        match mount::verdict(status.mount).map(Nearness::is_near) {
            Some(true) if status.is_regular() => Ok(None),
            Some(true) => Ok(Some(AtOnce::Done(kind_of(&status)))),
            Some(false) => Ok(Some(AtOnce::WouldBlock)),
            None => Ok(Some(AtOnce::Unknown)),
        }
    }

    /// What lies at a path below the folder. May wait; never for a FIFO's other end.
    pub fn find(&self, path: &CStr) -> io::Result<Found> {
        let looked = match self.look(path) {
            Ok(Some(fd)) => fd,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) => return refused(error),
        };
        let status = statx::asked(looked.as_raw_fd())?;
        let is_near = mount::learn(looked.as_raw_fd(), &status)?.is_near();
        if !status.is_regular() {
            return Ok(kind_of(&status));
        }
        served::reopen(&looked, is_near).map_or_else(refused, |opened| Ok(Found::File(opened)))
    }

    /// A descriptor to look at what lies at a path; None if that is not in the folder.
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

    /// The same without the kernel's help: what was opened is asked for its place.
    fn check(&self, path: &CStr) -> io::Result<Option<OwnedFd>> {
        let looked = file::open_owned(self.0.as_raw_fd(), path, LOOK, 0)?;
        let folder = fs::read_link(proc_path(&self.0))?;
        let place = fs::read_link(proc_path(&looked))?;
        Ok(place.starts_with(&folder).then_some(looked))
    }
}

/// None: not in the kernel's cache, or the kernel cannot say; or it is a lease's, or a link's that `find` has to judge.
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

/// What an error says of a path; an error that is none of the path's stays one.
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
