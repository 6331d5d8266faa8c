//! Converts operations to entries of the submission queue.

use crate::files::operation::{Opcode, Operation};
use crate::sys::descriptor;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use std::io;
use std::os::fd::RawFd;

/// The value written to an eventfd when its operation completes.
static ONE: u64 = 1;

/// Refuses at submission what kernel AIO refuses there, so that both engines report it at the same place: a
/// descriptor that is not open, not open for this direction, or not an eventfd.
pub fn check<T>(operation: &Operation<T>) -> io::Result<()> {
    let flags = descriptor::open_flags(operation.fd)?;
    let is_wrong = match operation.opcode {
        Opcode::Read => flags & libc::O_ACCMODE == libc::O_WRONLY,
        Opcode::Write => flags & libc::O_ACCMODE == libc::O_RDONLY,
        _ => false,
    };
    if is_wrong || flags & libc::O_PATH != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    if let Some(fd) = operation.resfd
        && !descriptor::is_anonymous(fd)?
    {
        // Without this check the ring would write into any file.
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

/// Converts an operation to a submission queue entry.
pub fn of<T>(operation: &Operation<T>) -> Entry {
    let fd = Fd(operation.fd);
    let segments = operation.memory.segments();
    let count = segments.len() as u32;
    let offset = operation.offset.cast_unsigned();
    // Kernel AIO accepts and ignores this hint; a ring that does not poll its device refuses it.
    let flags = operation.rw_flags & !libc::RWF_HIPRI;
    let priority = operation.priority;
    // The ring's length field has 32 bits. Longer transfers become short ones, as they do in the kernel anyway.
    let scalar = |segment: &libc::iovec| u32::try_from(segment.iov_len).unwrap_or(i32::MAX as u32);
    match (operation.opcode, segments) {
        (Opcode::Read, [one]) => opcode::Read::new(fd, one.iov_base.cast(), scalar(one))
            .offset(offset)
            .rw_flags(flags)
            .ioprio(priority)
            .build(),
        (Opcode::Write, [one]) => opcode::Write::new(fd, one.iov_base.cast(), scalar(one))
            .offset(offset)
            .rw_flags(flags)
            .ioprio(priority)
            .build(),
        (Opcode::Read, many) => opcode::Readv::new(fd, many.as_ptr(), count)
            .offset(offset)
            .rw_flags(flags)
            .ioprio(priority)
            .build(),
        (Opcode::Write, many) => opcode::Writev::new(fd, many.as_ptr(), count)
            .offset(offset)
            .rw_flags(flags)
            .ioprio(priority)
            .build(),
        (Opcode::Fsync, _) => opcode::Fsync::new(fd).build(),
        (Opcode::Fdsync, _) => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        (Opcode::Poll { mask }, _) => opcode::PollAdd::new(fd, u32::from(mask)).build(),
    }
}

/// A write that signals an eventfd.
pub fn raise(eventfd: RawFd) -> Entry {
    opcode::Write::new(Fd(eventfd), (&raw const ONE).cast(), 8).build()
}
