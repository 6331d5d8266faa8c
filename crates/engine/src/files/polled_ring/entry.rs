//! Entries of the submission queue: operations in the ring's words.

use crate::files::operation::{Opcode, Operation};
use crate::sys::descriptor;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use std::io;
use std::os::fd::RawFd;

/// What is written to an eventfd when its operation completes.
static ONE: u64 = 1;

/// What kernel AIO refuses at the submission is refused here too, so that both engines say it at the
/// same place: a descriptor that is not open, not for this direction, or no eventfd.
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
        // The ring would write into any file.
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

/// An operation in the ring's words.
pub fn of<T>(operation: &Operation<T>) -> Entry {
    let fd = Fd(operation.fd);
    let segments = operation.memory.segments();
    let count = segments.len() as u32;
    let offset = operation.offset.cast_unsigned();
    // Kernel AIO takes this hint and ignores it; a ring that polls no device refuses it.
    let flags = operation.rw_flags & !libc::RWF_HIPRI;
    let priority = operation.priority;
    // A length of 32 bits is the ring's; longer transfers are short ones, as the kernel's are anyway.
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

/// Raises an eventfd.
pub fn raise(eventfd: RawFd) -> Entry {
    opcode::Write::new(Fd(eventfd), (&raw const ONE).cast(), 8).build()
}
