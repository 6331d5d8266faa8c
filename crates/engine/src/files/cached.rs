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
    /// A FIFO: opening it may wait for ever.
    Fifo,
}

/// Bytes that may be read at once: copying them takes some 100 microseconds.
pub const LONGEST: usize = 1 << 20;

/// Flags with which openat2(2) never answers from the cache: they change something.
const CHANGING: libc::c_int =
    libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// openat2(2) or its RESOLVE_CACHED is missing (Linux before 5.12), or a sandbox forbids it.
static MISSING: AtomicBool = AtomicBool::new(false);

fn open_cached(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<AtOnce<OwnedFd>> {
    if MISSING.load(Ordering::Relaxed) {
        return Ok(AtOnce::WouldBlock);
    }
    match file::open_cached(dir_fd, path, flags) {
        Ok(fd) => Ok(AtOnce::Done(fd)),
        Err(e) => match e.raw_os_error() {
            // A FIFO that nobody reads, or a socket: open(2) tells them apart.
            Some(libc::ENXIO) => Ok(AtOnce::Fifo),
            Some(libc::ENOSYS) => {
                MISSING.store(true, Ordering::Relaxed);
                Ok(AtOnce::WouldBlock)
            }
            // Not cached. Or flags that only open(2) forgives, a kernel without RESOLVE_CACHED, a
            // sandbox's answer to an unknown call: open(2) gives the answer that counts.
            Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::EPERM) => Ok(AtOnce::WouldBlock),
            _ => Err(e),
        },
    }
}

/// Opens a path that is in the kernel's cache.
///
/// Never blocks, whatever the path is: FIFOs and devices are opened with O_NONBLOCK, which is
/// taken off again unless it was asked for.
pub fn open(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<AtOnce<OwnedFd>> {
    if flags & CHANGING != 0 {
        // Only to find out what must not be waited for in a shared thread.
        return Ok(match open_cached(dir_fd, path, libc::O_PATH) {
            Ok(AtOnce::Done(fd)) if kind(&fd)?.is_fifo() => AtOnce::Fifo,
            _ => AtOnce::WouldBlock,
        });
    }
    if flags & (libc::O_PATH | libc::O_NONBLOCK) != 0 {
        return open_cached(dir_fd, path, flags);
    }
    let opened = open_cached(dir_fd, path, flags | libc::O_NONBLOCK)?;
    if let AtOnce::Done(fd) = &opened {
        if kind(fd)?.is_fifo() {
            return Ok(AtOnce::Fifo);
        }
        file::make_blocking(fd, flags)?;
    }
    Ok(opened)
}

/// Opens a regular file that is in the kernel's cache for one reading: O_NONBLOCK stays on.
pub fn open_for_reading(path: &CStr) -> io::Result<AtOnce<(OwnedFd, Kind)>> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK;
    let fd = match open_cached(libc::AT_FDCWD, path, flags)? {
        AtOnce::Done(fd) => fd,
        AtOnce::WouldBlock => return Ok(AtOnce::WouldBlock),
        AtOnce::Fifo => return Ok(AtOnce::Fifo),
    };
    let kind = kind(&fd)?;
    Ok(if kind.is_regular() { AtOnce::Done((fd, kind)) } else { AtOnce::WouldBlock })
}

fn kind(fd: &OwnedFd) -> io::Result<Kind> {
    file::kind(fd.as_raw_fd())
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
