//! Linux kernel AIO: io_setup(2), io_submit(2), io_getevents(2), io_cancel(2), io_destroy(2).
//!
//! The C library has no wrappers for them. Not POSIX AIO, which is threads.

use std::io;
use std::ptr;

/// The kernel's name for a context: an address in this process's memory, void after io_destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextId(libc::c_ulong);

pub const PREAD: u16 = 0;
pub const PWRITE: u16 = 1;
pub const FSYNC: u16 = 2;
pub const FDSYNC: u16 = 3;
pub const POLL: u16 = 5;
pub const PREADV: u16 = 7;
pub const PWRITEV: u16 = 8;

/// `resfd` is an eventfd that is raised when the operation completes.
pub const RESFD: u32 = 1;
/// `priority` holds an I/O priority, as ioprio_set(2) makes them.
pub const IOPRIO: u32 = 2;

/// `struct iocb` of linux/aio_abi.h: one operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Iocb {
    /// Handed back in the event.
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
    /// Bytes; of vectors, their number.
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
    /// What the system call would have returned, or a negative errno.
    pub result: i64,
    pub second_result: i64,
}

fn checked(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// EAGAIN: the machine's limit, `fs.aio-max-nr`, is reached.
pub fn setup(capacity: u32) -> io::Result<ContextId> {
    let mut id: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word into `id` during the call.
    checked(unsafe { libc::syscall(libc::SYS_io_setup, capacity, &raw mut id) })?;
    Ok(ContextId(id))
}

/// Submits operations in order and returns how many the kernel took; the errno is that of the first.
///
/// # Safety
/// Every pointer is that of an `Iocb` which stays where it is through the call, and the memory
/// that it names stays allocated until the operation's event has been seen; writable, if the
/// operation reads.
pub unsafe fn submit(context: ContextId, operations: &[*mut Iocb]) -> io::Result<usize> {
    let count = operations.len() as libc::c_long;
    // SAFETY: the caller answers for the operations; the array lives through the call.
    let taken = unsafe {
        libc::syscall(libc::SYS_io_submit, context.0, count, operations.as_ptr().cast_mut())
    };
    checked(taken)
}

/// Waits for at least `min` events, at most `timeout_ns` (`None`: for ever), and adds at most `max`
/// to `events`. EINTR is returned, for the caller owns signals.
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
    // SAFETY: there is room for `max` events and `timeout` lives through the call; a void context
    // is an error of the kernel's (EINVAL).
    let count =
        unsafe { libc::syscall(libc::SYS_io_getevents, context.0, min, max, target, timeout) };
    let count = checked(count)?;
    let len = events.len() + count;
    // SAFETY: the kernel has written `count` events, at most the `max` there is room for.
    unsafe { events.set_len(len) };
    Ok(())
}

/// Asks for the end of an operation; its event tells how it ended. EINVAL: nothing that could be
/// cancelled, which is what every disk operation answers.
pub fn cancel(context: ContextId, operation: &mut Iocb) -> io::Result<()> {
    let operation = ptr::from_mut(operation);
    let mut event = RawEvent::default();
    // SAFETY: the kernel compares the address and reads the key of a live operation; `event` has
    // room for one event, which kernels before 3.13 write.
    let result =
        unsafe { libc::syscall(libc::SYS_io_cancel, context.0, operation, &raw mut event) };
    match checked(result) {
        // What kernels since 3.13 say when they have begun to cancel.
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Waits, without bound, for every operation under way, and ends the context.
pub fn destroy(context: ContextId) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    checked(unsafe { libc::syscall(libc::SYS_io_destroy, context.0) })?;
    Ok(())
}
