//! epoll(7): create, control, wait with nanoseconds.

use super::{checked, libc};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

pub type RawEvent = libc::epoll_event;

/// Set when the kernel (before 5.11) or a sandbox does not support epoll_pwait2.
static NO_PWAIT2: AtomicBool = AtomicBool::new(false);

pub fn create() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn control(epoll: BorrowedFd<'_>, op: i32, fd: RawFd, mask: u32, data: u64) -> io::Result<()> {
    let mut event = RawEvent { events: mask, u64: data };
    // SAFETY: `event` lives through the call, and the kernel copies it. An invalid `fd` is an error from the kernel
    // (EBADF, ENOENT), not a memory error.
    checked(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut event) })?;
    Ok(())
}

pub fn add(epoll: BorrowedFd<'_>, fd: RawFd, mask: u32, data: u64) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, mask, data)
}

pub fn modify(epoll: BorrowedFd<'_>, fd: RawFd, mask: u32, data: u64) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_MOD, fd, mask, data)
}

pub fn delete(epoll: BorrowedFd<'_>, fd: RawFd) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0)
}

/// Waits for events; `None` waits forever. EINTR is returned, because the caller handles signals.
pub fn wait(
    epoll: BorrowedFd<'_>,
    buffer: &mut Vec<RawEvent>,
    timeout_ns: Option<u64>,
) -> io::Result<()> {
    buffer.clear();
    let capacity = i32::try_from(buffer.capacity()).unwrap_or(i32::MAX);
    let target = buffer.spare_capacity_mut().as_mut_ptr().cast::<RawEvent>();
    let count = match timeout_ns {
        None => wait_ms(epoll, target, capacity, -1)?,
        Some(0) => wait_ms(epoll, target, capacity, 0)?,
        Some(ns) if NO_PWAIT2.load(Ordering::Relaxed) => wait_ms(epoll, target, capacity, ms(ns))?,
        Some(ns) => match wait_ns(epoll, target, capacity, ns) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                NO_PWAIT2.store(true, Ordering::Relaxed);
                wait_ms(epoll, target, capacity, ms(ns))?
            }
            other => other?,
        },
    };
    // SAFETY: the kernel has written `count` events, at most the spare capacity.
    unsafe { buffer.set_len(count) };
    Ok(())
}

/// Milliseconds rounded up, so that no timer fires early.
fn ms(ns: u64) -> i32 {
    i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

fn wait_ms(
    epoll: BorrowedFd<'_>,
    target: *mut RawEvent,
    capacity: i32,
    ms: i32,
) -> io::Result<usize> {
    // SAFETY: `target` has room for `capacity` events through the call.
    let count = checked(unsafe { libc::epoll_wait(epoll.as_raw_fd(), target, capacity, ms) })?;
    Ok(count.cast_unsigned() as usize)
}

fn wait_ns(
    epoll: BorrowedFd<'_>,
    target: *mut RawEvent,
    capacity: i32,
    ns: u64,
) -> io::Result<usize> {
    let timeout = libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    };
    // The raw system call, because glibc has the wrapper only since 2.35. SAFETY: `target` has room for `capacity`
    // events and `timeout` lives through the call.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            target,
            capacity,
            &raw const timeout,
            ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
