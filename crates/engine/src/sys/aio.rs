//! Linux kernel AIO: io_setup(2), io_submit(2), io_getevents(2), io_cancel(2), io_destroy(2).
//!
//! The C library has no wrappers for them. This is not POSIX AIO, which uses threads.

use super::libc;
use std::io;
use std::ptr;

/// The kernel's identifier of a context: an address in this process's memory, invalid after io_destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(libc::c_ulong);

pub const PREAD: u16 = 0;
pub const PWRITE: u16 = 1;
pub const FSYNC: u16 = 2;
pub const FDSYNC: u16 = 3;
pub const POLL: u16 = 5;
pub const PREADV: u16 = 7;
pub const PWRITEV: u16 = 8;

/// `resfd` is an eventfd that is signalled when the operation completes.
pub const RESFD: u32 = 1;
/// `priority` holds an I/O priority in the format of ioprio_set(2).
pub const IOPRIO: u32 = 2;

/// `struct iocb` of linux/aio_abi.h: one operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Iocb {
    /// Returned in the event.
    pub data: u64,
    /// Written by the kernel, at submission.
    #[cfg(target_endian = "little")]
    pub key: u32,
    pub rw_flags: u32,
    #[cfg(target_endian = "big")]
    pub key: u32,
    pub opcode: u16,
    pub priority: i16,
    pub fd: u32,
    /// An address, or the poll mask.
    pub buffer: u64,
    /// The number of bytes, or the number of vectors.
    pub len: u64,
    pub offset: i64,
    pub reserved: u64,
    pub flags: u32,
    pub resfd: u32,
}

/// `struct io_event`: how one operation ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawEvent {
    pub data: u64,
    /// The address of the `Iocb` that was submitted.
    pub operation: u64,
    /// The system call's return value, or a negative errno.
    pub result: i64,
    pub second_result: i64,
}

fn checked(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// EAGAIN: the system limit `fs.aio-max-nr` is reached.
pub fn setup(capacity: u32) -> io::Result<ContextId> {
    let mut id: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word into `id` during the call.
    checked(unsafe { libc::syscall(libc::SYS_io_setup, capacity, &raw mut id) })?;
    Ok(ContextId(id))
}

/// Submits operations in order and returns how many the kernel accepted. The errno is that of the first one.
///
/// # Safety
/// Every pointer must be to an `Iocb` that stays at its address through the call. The memory that it names must stay
/// allocated until the operation's event has been seen, and must be writable if the operation reads.
pub unsafe fn submit(context: ContextId, operations: &[*mut Iocb]) -> io::Result<usize> {
    let count = operations.len() as libc::c_long;
    // SAFETY: the caller guarantees the operations; the array lives through the call.
    let taken = unsafe {
        libc::syscall(libc::SYS_io_submit, context.0, count, operations.as_ptr().cast_mut())
    };
    checked(taken)
}

/// Waits for at least `min` events or `timeout_ns` (`None`: forever), and appends at most `max` to `events`. EINTR is
/// returned, because the caller handles signals.
pub fn events(
    context: ContextId,
    min: usize,
    max: usize,
    events: &mut Vec<RawEvent>,
    timeout_ns: Option<u64>,
) -> io::Result<()> {
    events.reserve(max);
    let target = events.spare_capacity_mut().as_mut_ptr();
    let mut timeout = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let timeout = match timeout_ns {
        None => ptr::null_mut(),
        Some(ns) => {
            timeout.tv_sec = (ns / 1_000_000_000).cast_signed();
            timeout.tv_nsec = (ns % 1_000_000_000).cast_signed();
            &raw mut timeout
        }
    };
    let (min, max) = (min.min(max) as libc::c_long, max as libc::c_long);
    // SAFETY: there is room for `max` events and `timeout` lives through the call. The kernel rejects an invalid
    // context (EINVAL).
    let count =
        unsafe { libc::syscall(libc::SYS_io_getevents, context.0, min, max, target, timeout) };
    let count = checked(count)?;
    let len = events.len() + count;
    // SAFETY: the kernel has written `count` events, at most the `max` that fit.
    unsafe { events.set_len(len) };
    Ok(())
}

/// Asks for an operation to end early; its event says how it ended. EINVAL: it cannot be cancelled, which is the
/// answer for every disk operation.
pub fn cancel(context: ContextId, operation: &mut Iocb) -> io::Result<()> {
    let operation = ptr::from_mut(operation);
    let mut event = RawEvent::default();
    // SAFETY: the kernel compares the address and reads the key of a live operation; `event` has
    // room for one event, which kernels before 3.13 write.
    let result =
        unsafe { libc::syscall(libc::SYS_io_cancel, context.0, operation, &raw mut event) };
    match checked(result) {
        // Kernels since 3.13 return this when the cancellation has begun.
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Waits, without a limit, for every running operation, and destroys the context.
pub fn destroy(context: ContextId) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::syscall(libc::SYS_io_destroy, context.0) })?;
    Ok(())
}
