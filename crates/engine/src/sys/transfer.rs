//! Reads and writes of memory whose owner has promised to keep it (S1).
//!
//! Owns the vector of segments; the memory behind them belongs to whoever made them, and stays
//! until the operation's completion has come back.

use super::checked_len;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// iovec(2)
pub type IoVec = libc::iovec;

/// Memory that the kernel reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Segment(IoVec);

// SAFETY: a pointer and a length; `new` makes the caller answer for what lies behind them, on
// whatever thread the operation runs.
unsafe impl Send for Segment {}

impl Segment {
    /// # Safety
    /// The memory stays where it is until the completion of the operation has been handed back,
    /// and nobody else writes it meanwhile (nor reads it, if the operation is a read).
    pub unsafe fn new(pointer: *mut u8, len: usize) -> Self {
        Self(IoVec { iov_base: pointer.cast(), iov_len: len })
    }

    /// The first `len` bytes of it, if it is longer.
    #[must_use]
    pub fn cut(self, len: usize) -> Self {
        Self(IoVec { iov_len: self.0.iov_len.min(len), ..self.0 })
    }

    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Segments of memory, as the vectored calls take them. Boxed, so that the kernel may keep a pointer
/// to the vector.
#[derive(Clone, Debug, Default)]
pub struct Memory(Box<[IoVec]>);

// SAFETY: as for `Segment`, of which it is made.
unsafe impl Send for Memory {}

impl Memory {
    pub fn new(segments: &[Segment]) -> Self {
        Self(segments.iter().map(|segment| segment.0).collect())
    }

    pub fn segments(&self) -> &[IoVec] {
        &self.0
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.0.iter().map(|segment| segment.iov_len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How an operation on the content of a file goes.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub fd: RawFd,
    /// -1: the descriptor's own position.
    pub offset: i64,
    /// The file was opened with O_DIRECT.
    pub direct: bool,
    pub memory: Memory,
}

impl Transfer {
    pub fn new(fd: RawFd, offset: i64, direct: bool, segments: &[Segment]) -> Self {
        Self { fd, offset, direct, memory: Memory::new(segments) }
    }

    fn pointer_and_count(&self) -> (*const IoVec, libc::c_int) {
        let segments = self.memory.segments();
        (segments.as_ptr(), segments.len() as libc::c_int)
    }

    /// preadv(2), or readv(2) at the descriptor's own position.
    pub fn read(&self) -> io::Result<usize> {
        let (pointer, count) = self.pointer_and_count();
        // SAFETY: as above.
        checked_len(unsafe { libc::preadv2(self.fd, pointer, count, self.offset, 0) })
    }

    /// pwritev(2), or writev(2) at the descriptor's own position.
    pub fn write(&self) -> io::Result<usize> {
        let (pointer, count) = self.pointer_and_count();
        // SAFETY: as above.
        checked_len(unsafe { libc::pwritev2(self.fd, pointer, count, self.offset, 0) })
    }
}

/// preadv2(2) with RWF_NOWAIT at an offset: EAGAIN if the page cache has not even the first byte.
/// The bytes written are the first `n` of `room`.
#[inline]
pub fn read_cached(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<usize> {
    let vector = IoVec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: the kernel writes at most `room.len()` bytes into live memory during the call.
    checked_len(unsafe { libc::preadv2(fd, &raw const vector, 1, offset, libc::RWF_NOWAIT) })
}
