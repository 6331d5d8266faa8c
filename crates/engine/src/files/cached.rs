//! What cannot block is done at once: opening a path that the kernel knows, reading what its page
//! cache has, writing where the filesystem can say that it would wait. No engine, no completion.

use super::mount::{self, Nearness};
use crate::sys::file;
use crate::sys::statx::{self, Status};
use crate::sys::transfer::{self, Transfer, read_cached, read_slice, write_slice_at_once};
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
    /// Nothing is known of it: a thread is to look first.
    Unknown,
}

/// Bytes that may be read at once: copying them takes some 100 microseconds.
pub const LONGEST: usize = 1 << 20;

/// Freeing a file's blocks takes some 100 microseconds a GiB, or far more where it is in pieces.
const LONG_TO_FREE: u64 = 4 << 20;

/// Any close of a file that was truncated and written anew makes ext4 begin to write it to the disk (auto_da_alloc).
const LONG_TO_FLUSH: u64 = 16 << 20;

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
/// to it, or eat what was written; opening a device may do anything; opening a file of another machine asks that machine.
fn look(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Option<Status>> {
    let looked = open_cached(dir_fd, path, libc::O_PATH | flags & libc::O_NOFOLLOW)?;
    looked.map(|fd| statx::at_hand(fd.as_raw_fd())).transpose()
}

/// What a path is; afterwards the kernel has it in its cache, and its filesystem is known. May wait: for threads.
pub fn look_up(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<Status> {
    let fd = file::open_owned(dir_fd, path, libc::O_PATH | flags & libc::O_NOFOLLOW, 0)?;
    let status = statx::asked(fd.as_raw_fd())?;
    mount::learn(fd.as_raw_fd(), &status)?;
    Ok(status)
}

/// What an open file is, if that needs no waiting.
pub fn status(fd: RawFd) -> io::Result<AtOnce<Status>> {
    let status = statx::at_hand(fd)?;
    Ok(match mount::verdict(status.mount) {
        Some(nearness) if nearness.is_near() => AtOnce::Done(status),
        Some(_) => AtOnce::WouldBlock,
        None => AtOnce::Unknown,
    })
}

/// The same for threads, which may wait; and whether its filesystem answers at once.
pub fn ask(fd: RawFd) -> io::Result<(Status, bool)> {
    let status = statx::asked(fd)?;
    let nearness = mount::learn(fd, &status)?;
    Ok((status, nearness.is_near()))
}

/// The flags with which a file that is there is opened without changing anything; None if that needs a change.
///
/// O_CREAT of a file that is there does nothing, save that the kernel refuses it for files of others in folders that all
/// may write to (fs.protected_regular).
fn unchanging(flags: libc::c_int, status: &Status) -> Option<libc::c_int> {
    match flags & CHANGING {
        0 => Some(flags),
        libc::O_CREAT if flags & libc::O_EXCL == 0 && status.uid == file::effective_user() => {
            Some(flags & !libc::O_CREAT)
        }
        _ => None,
    }
}

/// Opens a file or a folder that is in the kernel's cache. Never blocks, whatever the path is.
pub fn open(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<AtOnce<OwnedFd>> {
    let at_once = |opened: Option<OwnedFd>| opened.map_or(AtOnce::WouldBlock, AtOnce::Done);
    if flags & libc::O_PATH != 0 {
        return open_cached(dir_fd, path, flags).map(at_once);
    }
    let status = match look(dir_fd, path, flags) {
        Ok(Some(status)) => status,
        Ok(None) => return Ok(AtOnce::Unknown),
        // What is not there may be about to be made.
        Err(e) if flags & CHANGING == 0 => return Err(e),
        Err(_) => return Ok(AtOnce::WouldBlock),
    };
    if status.may_wait_for_ever() {
        return Ok(AtOnce::Alone);
    }
    let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY;
    match mount::verdict(status.mount) {
        Some(Nearness::Near | Nearness::Memory) => {}
        Some(Nearness::NearToRead) if is_read => {}
        Some(_) => return Ok(AtOnce::WouldBlock),
        None => return Ok(AtOnce::Unknown),
    }
    let Some(flags) = unchanging(flags, &status).filter(|_| status.is_file_or_folder()) else {
        return Ok(AtOnce::WouldBlock);
    };
    // Without O_NONBLOCK somebody's lease on the file would be waited for.
    let opened = match open_cached(dir_fd, path, flags | libc::O_NONBLOCK) {
        // It has gone since it was looked at: open(2) makes it, if that was wanted, or says so.
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

/// Opens a regular file that is in the kernel's cache for one reading: O_NONBLOCK stays on. With what it was before it was
/// opened.
pub fn open_for_reading(path: &CStr) -> io::Result<AtOnce<(OwnedFd, Status)>> {
    let Some(status) = look(libc::AT_FDCWD, path, 0)? else { return Ok(AtOnce::Unknown) };
    if !status.is_regular() || !mount::verdict(status.mount).is_some_and(Nearness::is_near) {
        return Ok(AtOnce::WouldBlock);
    }
    let opened = open_cached(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_NONBLOCK)?;
    Ok(opened.map_or(AtOnce::WouldBlock, |fd| AtOnce::Done((fd, status))))
}

/// Looks at a path that is in the kernel's cache: an O_PATH descriptor of what fstat(2) tells without waiting.
pub fn open_to_look(
    dir_fd: RawFd,
    path: &CStr,
    follow_symlinks: bool,
) -> io::Result<Option<OwnedFd>> {
    let flags = if follow_symlinks { libc::O_PATH } else { libc::O_PATH | libc::O_NOFOLLOW };
    match open_cached(dir_fd, path, flags) {
        Ok(Some(fd)) => {
            let is_known = matches!(status(fd.as_raw_fd())?, AtOnce::Done(_));
            Ok(is_known.then_some(fd))
        }
        // stat(2) needs no descriptor, so that it must not fail for want of one.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Ok(None),
        result => result,
    }
}

/// Whether a path is in the kernel's cache and leads to a filesystem that answers at once.
pub fn is_near(path: &CStr) -> bool {
    matches!(open_to_look(libc::AT_FDCWD, path, true), Ok(Some(_)))
}

/// Whether closing an open file that is near may take time: a large one without a name is freed, a large one that somebody
/// writes is flushed, a socket lingers (SO_LINGER), a device is flushed.
pub fn is_long_to_close(fd: RawFd) -> bool {
    // What is wrong with the number, close(2) says.
    statx::at_hand(fd).is_ok_and(|status| {
        let longest = if status.links == 0 { LONG_TO_FREE } else { LONG_TO_FLUSH };
        let is_large = status.is_regular() && status.allocated_bytes >= longest;
        is_large || status.is_socket() || status.is_block_device()
    })
}

/// Whether an open file is memory, whose filesystem cannot say whether a read would wait (EOPNOTSUPP).
#[cold]
fn is_memory(fd: RawFd) -> bool {
    let status = statx::at_hand(fd);
    status.is_ok_and(|status| mount::verdict(status.mount) == Some(Nearness::Memory))
}

/// Reads what the page cache has from an offset on, as much as there is in one piece; `Done(0)` is
/// the end of the file.
#[inline]
pub fn read(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<AtOnce<usize>> {
    let mut result = read_cached(fd, room, offset);
    if is_unsupported(&result) && is_memory(fd) {
        result = read_slice(fd, room, offset);
    }
    read_at_once(result)
}

/// The same, behind what a vector has already; up to `len` bytes.
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
            // EOPNOTSUPP, and EINVAL of older kernels: the file cannot say, such as those of /proc;
            // ESPIPE: it has no offsets. The plain call gives the answer that counts.
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

/// Writes into the page cache if that needs no waiting (RWF_NOWAIT): xfs and btrfs can say so, ext4 and tmpfs cannot. On
/// tmpfs too a write waits for whoever else writes the file.
pub fn write(transfer: &Transfer) -> io::Result<AtOnce<usize>> {
    written_at_once(transfer.write_at_once())
}

/// The same of one slice.
pub fn write_slice(fd: RawFd, data: &[u8], offset: i64) -> io::Result<AtOnce<usize>> {
    written_at_once(write_slice_at_once(fd, data, offset))
}
