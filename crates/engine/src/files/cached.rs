//! What cannot block is done at once: opening a path that the kernel knows, reading what its page
//! cache has. No engine, no completion.

use crate::sys::file::{self, Kind};
use crate::sys::transfer::read_cached;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// What an attempt to do something at once brought.
#[derive(Debug)]
pub enum AtOnce<T> {
    Done(T),
    /// It may have to wait: an engine's work.
    WouldBlock,
    /// A FIFO or a character device: opening it may wait for ever.
    Alone,
}

/// Bytes that may be read at once: copying them takes some 100 microseconds.
pub const LONGEST: usize = 1 << 20;

/// Flags with which openat2(2) never answers from the cache: they change something.
const CHANGING: libc::c_int =
    libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// openat2(2) or its RESOLVE_CACHED is missing (Linux before 5.12), or a sandbox forbids it.
static MISSING: AtomicBool = AtomicBool::new(false);

/// None: not at once.
fn open_cached(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Option<OwnedFd>> {
    if MISSING.load(Ordering::Relaxed) {
        return Ok(None);
    }
    match file::open_cached(dir_fd, path, flags) {
        Ok(fd) => Ok(Some(fd)),
        Err(e) => match e.raw_os_error() {
            Some(libc::ENOSYS) => {
                MISSING.store(true, Ordering::Relaxed);
                Ok(None)
            }
            // Not cached. Or flags that only open(2) forgives, a kernel without RESOLVE_CACHED, a
            // sandbox's answer to an unknown call: open(2) gives the answer that counts.
            Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::EPERM) => Ok(None),
            _ => Err(e),
        },
    }
}

/// What a path in the kernel's cache is, without opening it. Opening a FIFO and closing it again would kill whoever writes
/// to it, or eat what was written; opening a device may do anything.
fn look(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Option<Kind>> {
    let looked = open_cached(dir_fd, path, libc::O_PATH | flags & libc::O_NOFOLLOW)?;
    looked.map(|fd| file::kind(fd.as_raw_fd())).transpose()
}

/// Opens a file or a folder that is in the kernel's cache. Never blocks, whatever the path is.
pub fn open(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<AtOnce<OwnedFd>> {
    let at_once = |opened: Option<OwnedFd>| opened.map_or(AtOnce::WouldBlock, AtOnce::Done);
    if flags & libc::O_PATH != 0 {
        return open_cached(dir_fd, path, flags).map(at_once);
    }
    let is_changing = flags & CHANGING != 0;
    let kind = match look(dir_fd, path, flags) {
        Ok(Some(kind)) => kind,
        // What is not there may be about to be made.
        Err(e) if !is_changing => return Err(e),
        _ => return Ok(AtOnce::WouldBlock),
    };
    if kind.may_wait_for_ever() {
        return Ok(AtOnce::Alone);
    }
    if is_changing || !kind.is_file_or_folder() {
        return Ok(AtOnce::WouldBlock);
    }
    // Without O_NONBLOCK somebody's lease on the file would be waited for.
    let opened = open_cached(dir_fd, path, flags | libc::O_NONBLOCK)?;
    if let Some(fd) = &opened
        && flags & libc::O_NONBLOCK == 0
    {
        file::make_blocking(fd, flags)?;
    }
    Ok(at_once(opened))
}

/// Opens a regular file that is in the kernel's cache for one reading: O_NONBLOCK stays on. With what it was before it was
/// opened.
pub fn open_for_reading(path: &CStr) -> io::Result<AtOnce<(OwnedFd, Kind)>> {
    let Some(kind) = look(libc::AT_FDCWD, path, 0)?.filter(|kind| kind.is_regular()) else {
        return Ok(AtOnce::WouldBlock);
    };
    let opened = open_cached(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NONBLOCK)?;
    Ok(opened.map_or(AtOnce::WouldBlock, |fd| AtOnce::Done((fd, kind))))
}

/// Reads what the page cache has from an offset on, as much as there is in one piece; `Done(0)` is
/// the end of the file.
#[inline]
pub fn read(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<AtOnce<usize>> {
    match read_cached(fd, room, offset) {
        Ok(n) => Ok(AtOnce::Done(n)),
        Err(e) => match e.raw_os_error() {
            // EOPNOTSUPP, and EINVAL of older kernels: the file cannot say, such as those of /proc;
            // ESPIPE: it has no offsets. The plain call gives the answer that counts.
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINVAL | libc::EINTR | libc::ESPIPE) => {
                Ok(AtOnce::WouldBlock)
            }
            _ => Err(e),
        },
    }
}
