//! System calls on files and folder entries; reads and writes are in `transfer`.
//!
//! `open_cached`, and `open_beneath` with `is_cached`, do not block. The others may block and are for the file
//! engine's threads. Paths are C strings; folder descriptors may be AT_FDCWD.

use super::{checked, libc};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// openat2(2) with RESOLVE_CACHED: EAGAIN if the path is not in the kernel's cache (Linux 5.12).
pub fn open_cached(dir_fd: RawFd, path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    open_resolved(dir_fd, path, flags, libc::RESOLVE_CACHED)
}

/// openat2(2) restricted to a folder (Linux 5.6). EXDEV if the path, or a symbolic link on it, is absolute or leaves
/// the folder; EAGAIN also while folders are being renamed. `is_cached` works as in `open_cached`.
pub fn open_beneath(
    dir_fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    is_cached: bool,
) -> io::Result<OwnedFd> {
    let cached = if is_cached { libc::RESOLVE_CACHED } else { 0 };
    let resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | cached;
    open_resolved(dir_fd, path, flags, resolve)
}

fn open_resolved(
    dir_fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    resolve: u64,
) -> io::Result<OwnedFd> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::from((flags | libc::O_CLOEXEC).cast_unsigned());
    how.resolve = resolve;
    // SAFETY: path and structure are live through the call; the length is the structure's size.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir_fd,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let fd = checked(fd as libc::c_int)?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// openat(2), always with O_CLOEXEC. Returns the number, which the caller owns.
pub fn open(
    dir_fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<RawFd> {
    // SAFETY: the path is live through the call.
    checked(unsafe { libc::openat(dir_fd, path.as_ptr(), flags | libc::O_CLOEXEC, mode) })
}

/// Like `open`, but returns an owned descriptor, and tries again after EINTR: a filesystem may let a signal end its open
/// (open(2)), which then had no effect.
pub fn open_owned(
    dir_fd: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<OwnedFd> {
    let fd = loop {
        match open(dir_fd, path, flags, mode) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// geteuid(2)
pub fn effective_user() -> u32 {
    // SAFETY: it takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Removes O_NONBLOCK from an open file: fcntl(2), F_SETFL.
pub fn make_blocking(fd: &OwnedFd, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })?;
    Ok(())
}

/// close(2). EINTR counts as closed, because Linux has released the number by then.
pub fn close(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers are passed. The caller owns the descriptor, or the program asked to close its own number.
    match checked(unsafe { libc::close(fd) }) {
        Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
        _ => Ok(()),
    }
}

/// fcntl(2): another descriptor of the same open file. They share the position.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let made = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    let made = checked(made)?;
    // SAFETY: the call has made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// The descriptor's own position: lseek(2), which does not contact a server for that.
pub fn position(fd: RawFd) -> io::Result<i64> {
    // SAFETY: no pointers are passed.
    let position = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    if position < 0 { Err(io::Error::last_os_error()) } else { Ok(position) }
}

/// Sets the descriptor's own position: lseek(2), which does not contact a server for that.
pub fn move_position(fd: RawFd, position: i64) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let moved = unsafe { libc::lseek(fd, position, libc::SEEK_SET) };
    if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// fsync(2) or fdatasync(2)
pub fn sync(fd: RawFd, datasync: bool) -> io::Result<()> {
    let result = if datasync {
        // SAFETY: no pointers are passed.
        unsafe { libc::fdatasync(fd) }
    } else {
        // SAFETY: no pointers are passed.
        unsafe { libc::fsync(fd) }
    };
    checked(result).map(drop)
}

/// ftruncate(2)
pub fn truncate(fd: RawFd, len: i64) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::ftruncate(fd, len) }).map(drop)
}

/// fallocate(2)
pub fn allocate(fd: RawFd, mode: libc::c_int, offset: i64, len: i64) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::fallocate(fd, mode, offset, len) }).map(drop)
}

/// A name in a folder.
pub type Entry<'a> = (RawFd, &'a CStr);

/// renameat2(2), or renameat(2) if there are no flags. Called by number: glibc has renameat2 from 2.28 on, musl from 1.2.5
/// on.
pub fn rename(from: Entry<'_>, to: Entry<'_>, flags: libc::c_uint) -> io::Result<()> {
    let result = if flags == 0 {
        // SAFETY: both paths are live through the call.
        unsafe { libc::renameat(from.0, from.1.as_ptr(), to.0, to.1.as_ptr()) }
    } else {
        let (source, target) = (from.1.as_ptr(), to.1.as_ptr());
        // SAFETY: as above.
        let result =
            unsafe { libc::syscall(libc::SYS_renameat2, from.0, source, to.0, target, flags) };
        result as libc::c_int
    };
    checked(result).map(drop)
}

/// unlinkat(2)
pub fn unlink(at: Entry<'_>, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: the path is live through the call.
    checked(unsafe { libc::unlinkat(at.0, at.1.as_ptr(), flags) }).map(drop)
}

/// mkdirat(2)
pub fn mkdir(at: Entry<'_>, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: the path is live through the call.
    checked(unsafe { libc::mkdirat(at.0, at.1.as_ptr(), mode) }).map(drop)
}

/// mkfifoat(3). For tests: a program that makes the FIFO would hold the descriptors of other tests until its exec.
#[cfg(test)]
pub fn make_fifo(at: Entry<'_>, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: the path is live through the call.
    checked(unsafe { libc::mkfifoat(at.0, at.1.as_ptr(), mode) }).map(drop)
}

/// linkat(2)
pub fn link(from: Entry<'_>, to: Entry<'_>, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: both paths are live through the call.
    checked(unsafe { libc::linkat(from.0, from.1.as_ptr(), to.0, to.1.as_ptr(), flags) }).map(drop)
}

/// symlinkat(2)
pub fn symlink(target: &CStr, at: Entry<'_>) -> io::Result<()> {
    // SAFETY: both paths are live through the call.
    checked(unsafe { libc::symlinkat(target.as_ptr(), at.0, at.1.as_ptr()) }).map(drop)
}

/// Waits until `fd` is ready for reading (or writing) or `stop` is readable: poll(2). Returns false if it was
/// stopped.
pub fn wait_ready(fd: RawFd, writes: bool, stop: RawFd) -> io::Result<bool> {
    let events = if writes { libc::POLLOUT } else { libc::POLLIN };
    let wanted = |fd, events| libc::pollfd { fd, events, revents: 0 };
    let mut fds = [wanted(fd, events), wanted(stop, libc::POLLIN)];
    loop {
        // SAFETY: two live structures are read and written during the call.
        match checked(unsafe { libc::poll(fds.as_mut_ptr(), 2, -1) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map(|_| fds[1].revents == 0),
        }
    }
}
