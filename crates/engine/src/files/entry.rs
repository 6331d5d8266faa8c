//! The opcode table: converts a request to an entry of the submission queue.
//!
//! The entry points into the request (paths, vectors) and to its memory. It must only be submitted while the record
//! that holds the request stays at its address (S1, S3).

use super::request::{Place, Request};
use crate::sys::transfer::Transfer;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{Probe, opcode};

/// A kernel worker does longer transfers, so that copying does not block the loop.
const LONG: usize = 512 << 10;

/// The kernel's value for "use the descriptor's own position".
const OWN_POSITION: u64 = u64::MAX;

fn offset(transfer: &Transfer) -> u64 {
    u64::try_from(transfer.offset).unwrap_or(OWN_POSITION)
}

fn length(len: i64) -> u64 {
    // A negative length becomes a value that the kernel refuses with EINVAL, as the system call does.
    len.cast_unsigned()
}

/// `is_local`: the kernel may try the request on the loop's own thread first.
pub fn of(request: &Request, is_local: bool) -> Entry {
    let entry = plain(request);
    let waits_for_nobody = matches!(request, Request::Read(t) | Request::Write(t) if !t.waits);
    if waits_for_nobody && !is_local { entry.flags(Flags::ASYNC) } else { entry }
}

fn plain(request: &Request) -> Entry {
    match request {
        Request::Open { at, flags, mode } => opcode::OpenAt::new(Fd(at.dir_fd), at.path.as_ptr())
            .flags(flags | libc::O_CLOEXEC)
            .mode(*mode)
            .build()
            // A non-blocking open was tried before, and the kernel's inline attempt would open a FIFO without waiting
            // for its other end.
            .flags(Flags::ASYNC),
        Request::Close { fd } => opcode::Close::new(Fd(*fd)).build(),
        Request::Read(transfer) => shaped(transfer, read(transfer)),
        Request::Write(transfer) => shaped(transfer, write(transfer)),
        Request::Sync { fd, datasync } => {
            let flags = if *datasync { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            opcode::Fsync::new(Fd(*fd)).flags(flags).build()
        }
        Request::Truncate { fd, len } => opcode::Ftruncate::new(Fd(*fd), length(*len)).build(),
        Request::Allocate { fd, mode, offset, len } => {
            opcode::Fallocate::new(Fd(*fd), length(*len))
                .offset(length(*offset))
                .mode(*mode)
                .build()
        }
        Request::Rename { from, to, flags } => {
            let (from_fd, to_fd) = (Fd(from.dir_fd), Fd(to.dir_fd));
            opcode::RenameAt::new(from_fd, from.path.as_ptr(), to_fd, to.path.as_ptr())
                .flags(*flags)
                .build()
        }
        Request::Unlink { at: Place { dir_fd, path }, flags } => {
            opcode::UnlinkAt::new(Fd(*dir_fd), path.as_ptr()).flags(*flags).build()
        }
        Request::Mkdir { at: Place { dir_fd, path }, mode } => {
            opcode::MkDirAt::new(Fd(*dir_fd), path.as_ptr()).mode(*mode).build()
        }
        Request::Link { from, to, flags } => {
            let (from_fd, to_fd) = (Fd(from.dir_fd), Fd(to.dir_fd));
            opcode::LinkAt::new(from_fd, from.path.as_ptr(), to_fd, to.path.as_ptr())
                .flags(*flags)
                .build()
        }
        Request::Symlink { target, at } => {
            opcode::SymlinkAt::new(Fd(at.dir_fd), target.as_ptr(), at.path.as_ptr()).build()
        }
    }
}

/// One segment needs no vector, which the kernel would have to import.
fn single(transfer: &Transfer) -> Option<(*mut u8, u32)> {
    match transfer.memory.segments() {
        [one] => Some((one.iov_base.cast(), u32::try_from(one.iov_len).ok()?)),
        _ => None,
    }
}

fn read(transfer: &Transfer) -> Entry {
    let (fd, offset) = (Fd(transfer.fd), offset(transfer));
    if let Some((pointer, len)) = single(transfer) {
        return opcode::Read::new(fd, pointer, len).offset(offset).build();
    }
    let vectors = transfer.memory.segments();
    opcode::Readv::new(fd, vectors.as_ptr(), vectors.len() as u32).offset(offset).build()
}

fn write(transfer: &Transfer) -> Entry {
    let (fd, offset) = (Fd(transfer.fd), offset(transfer));
    if let Some((pointer, len)) = single(transfer) {
        return opcode::Write::new(fd, pointer, len).offset(offset).build();
    }
    let vectors = transfer.memory.segments();
    opcode::Writev::new(fd, vectors.as_ptr(), vectors.len() as u32).offset(offset).build()
}

/// The number of bytes that the kernel copies while it takes the entry, if they are in its cache.
pub fn copied_at_once(request: &Request) -> usize {
    match request {
        Request::Read(transfer) | Request::Write(transfer) if !transfer.direct => {
            let len = transfer.memory.len();
            if len < LONG { len } else { 0 }
        }
        _ => 0,
    }
}

fn shaped(transfer: &Transfer, entry: Entry) -> Entry {
    let copies_long = transfer.memory.len() >= LONG && !transfer.direct;
    if copies_long { entry.flags(Flags::ASYNC) } else { entry }
}

/// Whether the kernel supports the opcode.
pub fn is_supported(request: &Request, probe: &Probe) -> bool {
    probe.is_supported(match request {
        Request::Open { .. } => opcode::OpenAt::CODE,
        Request::Close { .. } => opcode::Close::CODE,
        Request::Read(_) => opcode::Read::CODE,
        Request::Write(_) => opcode::Write::CODE,
        Request::Sync { .. } => opcode::Fsync::CODE,
        Request::Truncate { .. } => opcode::Ftruncate::CODE,
        Request::Allocate { .. } => opcode::Fallocate::CODE,
        Request::Rename { .. } => opcode::RenameAt::CODE,
        Request::Unlink { .. } => opcode::UnlinkAt::CODE,
        Request::Mkdir { .. } => opcode::MkDirAt::CODE,
        Request::Link { .. } => opcode::LinkAt::CODE,
        Request::Symlink { .. } => opcode::SymlinkAt::CODE,
    })
}
