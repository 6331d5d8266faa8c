//! File operations that cannot block and need no engine: opening a path in the kernel's cache, reading data in its
//! page cache, and writing where the filesystem can report that a write would block.

use super::mount::{self, Locality, Place};
use crate::sys::file;
use crate::sys::statx::{self, FullStatus, Status};
use crate::sys::transfer::{self, Transfer, read_cached, read_slice, write_slice_at_once};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of an attempt to do something without blocking.
#[derive(Debug)]
pub enum AtOnce<T> {
    Done(T),
    /// It might block: an engine has to do it.
    WouldBlock,
    /// It might block, but not for long: a thread does it in some microseconds.
    Short,
    /// A FIFO or a character device: opening it may wait forever.
    Unbounded,
    /// Nothing is known about the path: a thread must look it up first.
    Unknown,
}

/// The most bytes to read on the loop's thread: copying them takes about 100 microseconds.
pub const LONGEST: usize = 1 << 20;

/// Freeing a file's blocks takes about 100 microseconds per GiB, or much longer if the file is fragmented.
const LONG_TO_FREE: u64 = 4 << 20;

/// A file that has allocated no more bytes than this is small.
const SMALL: u64 = 1 << 20;

/// Any close of a file that was truncated and rewritten makes ext4 start writing it to disk (auto_da_alloc).
const LONG_TO_FLUSH: u64 = 16 << 20;

/// Flags that modify something. With these openat2(2) never answers from the cache.
const CHANGING: libc::c_int =
    libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// What `open` may have been asked for besides opening an existing file.
const ENSURING: libc::c_int = libc::O_TRUNC | libc::O_EXCL | libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Set when openat2(2) or RESOLVE_CACHED is missing (Linux before 5.12) or a sandbox forbids it.
static MISSING: AtomicBool = AtomicBool::new(false);

/// `None`: it cannot be opened without blocking.
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
            // Not cached. Or flags that only open(2) accepts, a kernel without RESOLVE_CACHED, or a sandbox that
            // rejects the call: then a plain open(2) on a thread gives the authoritative answer.
            Some(libc::EAGAIN | libc::EINTR | libc::EINVAL | libc::EPERM) => Ok(None),
            _ => Err(e),
        },
    }
}

/// Returns what a path in the kernel's cache is, without opening it. Opening and closing a FIFO would kill its writer
/// or lose written data; opening a device may have any effect; opening a network file contacts the server.
fn status_of_path(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Option<Status>> {
    let found = open_cached(dir_fd, path, libc::O_PATH | flags & libc::O_NOFOLLOW)?;
    found.map(|fd| statx::at_hand(fd.as_raw_fd())).transpose()
}

/// Returns what a path is. Afterwards the path is in the kernel's cache and its filesystem is known. May block: only
/// for threads.
pub fn look_up(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Status> {
    let fd = file::open_owned(dir_fd, path, libc::O_PATH | flags & libc::O_NOFOLLOW, 0)?;
    let status = statx::asked(fd.as_raw_fd())?;
    mount::learn(fd.as_raw_fd(), &status)?;
    Ok(status)
}

/// Returns what an open file is, if that needs no waiting.
pub fn status(fd: RawFd) -> io::Result<AtOnce<Status>> {
    let status = statx::at_hand(fd)?;
    Ok(match mount::verdict(status.mount) {
        Some(locality) if locality.is_local() => AtOnce::Done(status),
        Some(_) => AtOnce::WouldBlock,
        None => AtOnce::Unknown,
    })
}

/// Like `status`, but may block, so only for threads. Also returns whether the filesystem answers without blocking.
pub fn ask(fd: RawFd) -> io::Result<(Status, bool)> {
    let status = statx::asked(fd)?;
    let locality = mount::learn(fd, &status)?;
    Ok((status, locality.is_local()))
}

/// The flags that open an existing file without changing anything; `None` if opening has to change something.
///
/// O_CREAT on an existing file does nothing, except that the kernel refuses it for files of other users in
/// world-writable folders (fs.protected_regular).
fn unchanging(flags: libc::c_int, status: &Status) -> Option<libc::c_int> {
    match flags & CHANGING {
        0 => Some(flags),
        libc::O_CREAT if flags & libc::O_EXCL == 0 && status.uid == file::effective_user() => {
            Some(flags & !libc::O_CREAT)
        }
        _ => None,
    }
}

/// Opens a file or folder that is in the kernel's cache. Never blocks, whatever the path is.
pub fn open(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<AtOnce<OwnedFd>> {
    let at_once = |opened: Option<OwnedFd>| opened.map_or(AtOnce::WouldBlock, AtOnce::Done);
    if flags & libc::O_PATH != 0 {
        return open_cached(dir_fd, path, flags).map(at_once);
    }
    let status = match status_of_path(dir_fd, path, flags) {
        Ok(Some(status)) => status,
        Ok(None) => return Ok(AtOnce::Unknown),
        // The path does not exist, but the flags may ask to create it.
        Err(e) if flags & CHANGING == 0 => return Err(e),
        Err(_) => return Ok(AtOnce::WouldBlock),
    };
    if status.may_wait_for_ever() {
        return Ok(AtOnce::Unbounded);
    }
    let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY;
    match mount::verdict(status.mount) {
        Some(Locality::Local | Locality::Memory) => {}
        Some(Locality::LocalToRead) if is_read => {}
        Some(_) => return Ok(AtOnce::WouldBlock),
        None => return Ok(AtOnce::Unknown),
    }
    let Some(flags) = unchanging(flags, &status).filter(|_| status.is_file_or_folder()) else {
        let is_short = is_small(&status) && flags & ENSURING == libc::O_TRUNC;
        return Ok(if is_short { AtOnce::Short } else { AtOnce::WouldBlock });
    };
    // Without O_NONBLOCK, open would wait for another process to release a lease on the file.
    let opened = match open_cached(dir_fd, path, flags | libc::O_NONBLOCK) {
        // The file was removed after the check. An engine repeats the open, which creates it or reports the error.
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(AtOnce::WouldBlock),
        opened => opened?,
    };
    if let Some(fd) = &opened
        && flags & libc::O_NONBLOCK == 0
    {
        file::make_blocking(fd, flags)?;
    }
    Ok(at_once(opened))
}

/// Whether it is a file that takes not long to truncate or to close.
pub fn is_small(status: &Status) -> bool {
    status.is_regular() && status.allocated_bytes <= SMALL
}

/// Truncates and opens a file for which `open` has returned `Short`, on a thread. Also returns its status. `None`: it is
/// not such a file any more, or another process has a lease on it, so that it may take long.
pub fn open_short(
    dir_fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<Option<(OwnedFd, Status)>> {
    let fd = match file::open_owned(dir_fd, path, flags | libc::O_NONBLOCK, mode) {
        Ok(fd) => fd,
        // A lease; a FIFO that nobody reads.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENXIO)) => return Ok(None),
        Err(e) => return Err(e),
    };
    let status = statx::at_hand(fd.as_raw_fd())?;
    if !status.is_regular() {
        return Ok(None);
    }
    if flags & libc::O_NONBLOCK == 0 {
        file::make_blocking(&fd, flags)?;
    }
    Ok(Some((fd, status)))
}

/// Whether a path is in the kernel's cache and that of a small regular file on a local filesystem: a thread overwrites
/// it in some microseconds.
pub fn is_short_to_replace(path: &CStr) -> bool {
    status_of_path(libc::AT_FDCWD, path, 0).is_ok_and(|status| {
        status.is_some_and(|status| {
            is_small(&status)
                && matches!(mount::verdict(status.mount), Some(Locality::Local | Locality::Memory))
        })
    })
}

/// Opens a regular file in the kernel's cache for a single read; O_NONBLOCK stays set. Also returns its status from
/// before the open.
pub fn open_for_reading(path: &CStr) -> io::Result<AtOnce<(OwnedFd, Status)>> {
    let Some(status) = status_of_path(libc::AT_FDCWD, path, 0)? else { return Ok(AtOnce::Unknown) };
    if !status.is_regular() || !mount::verdict(status.mount).is_some_and(Locality::is_local) {
        return Ok(AtOnce::WouldBlock);
    }
    let opened = open_cached(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NONBLOCK)?;
    Ok(opened.map_or(AtOnce::WouldBlock, |fd| AtOnce::Done((fd, status))))
}

/// The status of a path, if the kernel's cache has the path and its filesystem answers without blocking.
pub fn status_of(
    dir_fd: RawFd,
    path: &CStr,
    follow_symlinks: bool,
) -> io::Result<Option<FullStatus>> {
    let flags = if follow_symlinks { libc::O_PATH } else { libc::O_PATH | libc::O_NOFOLLOW };
    let status = match open_cached(dir_fd, path, flags) {
        Ok(Some(fd)) => statx::all_at_hand(fd.as_raw_fd())?,
        Ok(None) => return Ok(None),
        // stat(2) needs no descriptor, so it must not fail when descriptors run out.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => return Ok(None),
        Err(e) => return Err(e),
    };
    let is_known = mount::verdict(status.mount).is_some_and(Locality::is_local);
    Ok(is_known.then_some(status))
}

/// Whether a path is in the kernel's cache and on a filesystem that answers without blocking.
pub fn is_local(path: &CStr) -> bool {
    matches!(status_of(libc::AT_FDCWD, path, true), Ok(Some(_)))
}

/// The place of a path, or of the nearest directory above it that is in the kernel's cache. Never blocks.
pub fn place_of(dir_fd: RawFd, path: &CStr) -> Place {
    let mut bytes = path.to_bytes();
    loop {
        let found = CString::new(if bytes.is_empty() { b"." } else { bytes })
            .ok()
            .and_then(|path| open_cached(dir_fd, &path, libc::O_PATH).ok().flatten())
            .and_then(|fd| statx::at_hand(fd.as_raw_fd()).ok());
        if let Some(status) = found {
            return Place::of(status.mount);
        }
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        bytes = match bytes[..end].iter().rposition(|byte| *byte == b'/') {
            _ if end == 0 => return Place::Unknown,
            Some(0) => b"/",
            Some(slash) => &bytes[..slash],
            None => b"",
        };
    }
}

/// The place of an open file. Never blocks.
pub fn place_of_file(fd: RawFd) -> Place {
    statx::at_hand(fd).map_or(Place::Unknown, |status| Place::of(status.mount))
}

/// Whether closing an open file on a local filesystem may take long: a large unlinked file is freed, a large file
/// that was written is flushed, a socket may linger (SO_LINGER), a block device is flushed.
pub fn is_long_to_close(fd: RawFd) -> bool {
    // If the number is invalid, close(2) reports it.
    statx::at_hand(fd).is_ok_and(|status| {
        let longest = if status.links == 0 { LONG_TO_FREE } else { LONG_TO_FLUSH };
        let is_large = status.is_regular() && status.allocated_bytes >= longest;
        is_large || status.is_socket() || status.is_block_device()
    })
}

/// Whether an open file is on a memory filesystem, which cannot report whether a read would block (EOPNOTSUPP).
#[cold]
fn is_memory(fd: RawFd) -> bool {
    let status = statx::at_hand(fd);
    status.is_ok_and(|status| mount::verdict(status.mount) == Some(Locality::Memory))
}

/// Reads what the page cache has from an offset on, as far as it is contiguous. `Done(0)` is the end of the file.
#[inline]
pub fn read(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<AtOnce<usize>> {
    let mut result = read_cached(fd, room, offset);
    if is_unsupported(&result) && is_memory(fd) {
        result = read_slice(fd, room, offset);
    }
    read_at_once(result)
}

/// Like `read`, but appends up to `len` bytes to a vector.
pub fn read_onto(
    fd: RawFd,
    to: &mut Vec<u8>,
    len: usize,
    offset: i64,
) -> io::Result<AtOnce<usize>> {
    let mut result = transfer::read_onto(fd, to, len, offset, true);
    if is_unsupported(&result) && is_memory(fd) {
        result = transfer::read_onto(fd, to, len, offset, false);
    }
    read_at_once(result)
}

fn read_at_once(result: io::Result<usize>) -> io::Result<AtOnce<usize>> {
    match result {
        Ok(n) => Ok(AtOnce::Done(n)),
        Err(e) => match e.raw_os_error() {
            // EOPNOTSUPP, and EINVAL on older kernels: the file cannot tell whether it would block, for example in
            // /proc. ESPIPE: it has no offsets. The plain call gives the authoritative answer.
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINVAL | libc::EINTR | libc::ESPIPE) => {
                Ok(AtOnce::WouldBlock)
            }
            _ => Err(e),
        },
    }
}

fn is_unsupported(result: &io::Result<usize>) -> bool {
    matches!(result, Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP))
}

fn written_at_once(written: io::Result<usize>) -> io::Result<AtOnce<usize>> {
    match written {
        Ok(n) => Ok(AtOnce::Done(n)),
        Err(e) => match e.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(AtOnce::WouldBlock),
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ESPIPE) => Ok(AtOnce::Unknown),
            _ => Err(e),
        },
    }
}

/// Writes into the page cache if that does not block (RWF_NOWAIT): xfs and btrfs can tell, ext4 and tmpfs cannot. A
/// write also waits for concurrent writers of the file, on tmpfs too.
pub fn write(transfer: &Transfer) -> io::Result<AtOnce<usize>> {
    written_at_once(transfer.write_at_once())
}

/// Like `write`, with one slice.
pub fn write_slice(fd: RawFd, data: &[u8], offset: i64) -> io::Result<AtOnce<usize>> {
    written_at_once(write_slice_at_once(fd, data, offset))
}
