//! Reads and writes of memory whose owner has promised to keep it (S1).
//!
//! Owns the vector of segments. The memory behind them belongs to the code that made them, and stays allocated until
//! the operation's completion has been returned.

use super::{checked_len, file, libc};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;

/// iovec(2)
pub type IoVec = libc::iovec;

/// Memory that the kernel reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Segment(IoVec);

// SAFETY: a pointer and a length. The caller of `new` guarantees the memory behind them, on any thread that runs the
// operation.
unsafe impl Send for Segment {}

impl Segment {
    /// # Safety
    /// The memory must stay at its address until the completion of the operation has been returned. Until then nobody
    /// else may write it, or read it if the operation is a read.
    pub unsafe fn new(pointer: *mut u8, len: usize) -> Self {
        Self(IoVec { iov_base: pointer.cast(), iov_len: len })
    }

    /// The first `len` bytes, if it is longer.
    #[must_use]
    pub fn cut(self, len: usize) -> Self {
        Self(IoVec { iov_len: self.0.iov_len.min(len), ..self.0 })
    }

    /// Everything after the first `len` bytes.
    #[must_use]
    pub fn skip(self, len: usize) -> Self {
        let len = len.min(self.0.iov_len);
        // SAFETY: inside the same memory, or one past its end.
        let start = unsafe { self.0.iov_base.byte_add(len) };
        Self(IoVec { iov_base: start, iov_len: self.0.iov_len - len })
    }

    /// Writes `bytes`, as far as there is room, like a system call of a read.
    pub fn fill(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.0.iov_len);
        // SAFETY: the memory of the operation, which nobody else uses meanwhile: the promise to `new`.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(self.0.iov_base.cast(), len) }
    }

    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Segments of memory, in the format of the vectored calls. Boxed, so that the kernel can keep a pointer to the
/// vector.
#[derive(Clone, Debug, Default)]
pub struct Memory(Box<[IoVec]>);

// SAFETY: as for `Segment`, of which it consists.
unsafe impl Send for Memory {}

impl Memory {
    pub fn new(segments: &[Segment]) -> Self {
        Self(segments.iter().map(|segment| segment.0).collect())
    }

    pub fn segments(&self) -> &[IoVec] {
        &self.0
    }

    /// The total number of bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(|segment| segment.iov_len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Describes a read or write of a file's content.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub fd: RawFd,
    /// -1: the descriptor's own position.
    pub offset: i64,
    /// The file was opened with O_DIRECT.
    pub direct: bool,
    /// It waits, perhaps forever, for a pipe's other end or a key press.
    pub waits: bool,
    pub memory: Memory,
}

impl Transfer {
    pub fn new(fd: RawFd, offset: i64, direct: bool, segments: &[Segment]) -> Self {
        Self { fd, offset, direct, waits: offset < 0, memory: Memory::new(segments) }
    }

    /// For a regular file, where a transfer at the descriptor's own position does not wait for a peer.
    #[must_use]
    pub fn of_file(self) -> Self {
        Self { waits: false, ..self }
    }

    /// The part of at most `len` bytes behind the first `start`.
    #[must_use]
    pub fn piece(&self, start: usize, len: usize) -> Self {
        let (mut start, mut len) = (start, len);
        let mut segments = Vec::new();
        for segment in self.memory.segments().iter().map(|vector| Segment(*vector)) {
            let part = segment.skip(start).cut(len);
            start = start.saturating_sub(segment.len());
            len -= part.len();
            if !part.is_empty() {
                segments.push(part);
            }
        }
        let Self { fd, offset, direct, waits, .. } = *self;
        Self { fd, offset, direct, waits, memory: Memory::new(&segments) }
    }

    fn pointer_and_count(&self) -> (*const IoVec, libc::c_int) {
        let segments = self.memory.segments();
        (segments.as_ptr(), segments.len() as libc::c_int)
    }

    /// preadv(2), or readv(2) at the descriptor's own position.
    pub fn read(&self) -> io::Result<usize> {
        let (pointer, count) = self.pointer_and_count();
        // SAFETY: as above.
        unsafe { READ.run(self.fd, pointer, count, self.offset, 0) }
    }

    /// Like `write`, with RWF_NOWAIT: EAGAIN if it would block, EOPNOTSUPP if the file cannot tell.
    pub fn write_at_once(&self) -> io::Result<usize> {
        let (pointer, count) = self.pointer_and_count();
        let flags = libc::RWF_NOWAIT;
        // SAFETY: as above.
        unsafe { WRITE.run(self.fd, pointer, count, self.offset, flags) }
    }

    /// pwritev(2), or writev(2) at the descriptor's own position.
    pub fn write(&self) -> io::Result<usize> {
        let (pointer, count) = self.pointer_and_count();
        // SAFETY: as above.
        write_somehow(self.fd, self.offset, |at| unsafe {
            WRITE.run(self.fd, pointer, count, at, 0)
        })
    }
}

/// pwritev2(2) with one slice, at an offset or (-1) at the descriptor's own position.
pub fn write_slice(fd: RawFd, data: &[u8], offset: i64) -> io::Result<usize> {
    write_somehow(fd, offset, |at| write_flagged(fd, data, at, 0))
}

/// Most writable files of procfs have a position (lseek(2)), but refuse to write at another one: pwrite(2) fails with
/// ESPIPE (seq_open in the kernel's fs/seq_file.c). Their own position is set instead.
fn write_somehow(
    fd: RawFd,
    offset: i64,
    write_at: impl Fn(i64) -> io::Result<usize>,
) -> io::Result<usize> {
    match write_at(offset) {
        Err(e) if offset >= 0 && e.raw_os_error() == Some(libc::ESPIPE) => {
            // A pipe has none.
            file::move_position(fd, offset).map_err(|_no_position| e)?;
            write_at(-1)
        }
        result => result,
    }
}

/// Like `write_slice`, with RWF_NOWAIT: EAGAIN if it would block, EOPNOTSUPP if the file cannot tell.
pub fn write_slice_at_once(fd: RawFd, data: &[u8], offset: i64) -> io::Result<usize> {
    write_flagged(fd, data, offset, libc::RWF_NOWAIT)
}

fn write_flagged(fd: RawFd, data: &[u8], offset: i64, flags: libc::c_int) -> io::Result<usize> {
    let vector = IoVec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: the kernel reads `data.len()` bytes of live memory during the call.
    unsafe { WRITE.run(fd, &raw const vector, 1, offset, flags) }
}

/// preadv2(2) with RWF_NOWAIT at an offset: EAGAIN if not even the first byte is in the page cache. Returns `n`; the
/// first `n` bytes of `room` were written.
#[inline]
pub fn read_cached(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<usize> {
    read_flagged(fd, room, offset, libc::RWF_NOWAIT)
}

/// Like `read_cached`, but may block.
pub fn read_slice(fd: RawFd, room: &mut [MaybeUninit<u8>], offset: i64) -> io::Result<usize> {
    read_flagged(fd, room, offset, 0)
}

/// Appends up to `len` bytes of a file to a vector and returns the number. Reads with `read_cached` if `is_cached`,
/// else with `read_slice`.
pub fn read_onto(
    fd: RawFd,
    to: &mut Vec<u8>,
    len: usize,
    offset: i64,
    is_cached: bool,
) -> io::Result<usize> {
    to.reserve(len);
    let room = &mut to.spare_capacity_mut()[..len];
    let flags = if is_cached { libc::RWF_NOWAIT } else { 0 };
    let read = read_flagged(fd, room, offset, flags)?;
    let end = to.len() + read;
    // SAFETY: the kernel has written `read` bytes of the spare capacity that starts at the vector's end.
    unsafe { to.set_len(end) };
    Ok(read)
}

#[inline]
fn read_flagged(
    fd: RawFd,
    room: &mut [MaybeUninit<u8>],
    offset: i64,
    flags: libc::c_int,
) -> io::Result<usize> {
    let vector = IoVec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: the kernel writes at most `room.len()` bytes into live memory during the call.
    unsafe { READ.run(fd, &raw const vector, 1, offset, flags) }
}

/// The vectored calls of one direction.
struct Calls {
    /// preadv2(2) or pwritev2(2).
    flagged: libc::c_long,
    /// readv(2) or writev(2).
    plain: unsafe extern "C" fn(RawFd, *const IoVec, libc::c_int) -> libc::ssize_t,
    /// preadv(2) or pwritev(2).
    positioned: unsafe extern "C" fn(RawFd, *const IoVec, libc::c_int, i64) -> libc::ssize_t,
}

const READ: Calls =
    Calls { flagged: libc::SYS_preadv2, plain: libc::readv, positioned: libc::preadv };
const WRITE: Calls =
    Calls { flagged: libc::SYS_pwritev2, plain: libc::writev, positioned: libc::pwritev };

impl Calls {
    /// preadv2(2) or pwritev2(2), by its number: glibc has the functions from 2.26 on, musl from 1.2.5 on. Where the
    /// kernel has no such call (before Linux 4.6, emulators), it does what glibc does: without flags the older calls,
    /// with flags EOPNOTSUPP.
    ///
    /// # Safety
    ///
    /// `vectors` are `count` descriptions of memory that stays valid during the call. If it reads, the memory may be
    /// written during the call.
    #[inline]
    unsafe fn run(
        &self,
        fd: RawFd,
        vectors: *const IoVec,
        count: libc::c_int,
        offset: i64,
        flags: libc::c_int,
    ) -> io::Result<usize> {
        // syscall(2) takes longs. The kernel joins two halves of the offset; on 64 bits all of it is in the first.
        let (count_long, no_high_half): (libc::c_long, libc::c_long) = (count.into(), 0);
        // SAFETY: the caller's promise.
        let result = checked_len(unsafe {
            libc::syscall(self.flagged, fd, vectors, count_long, offset, no_high_half, flags)
                as libc::ssize_t
        });
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                if flags != 0 {
                    return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
                }
                checked_len(match offset {
                    // SAFETY: the caller's promise.
                    -1 => unsafe { (self.plain)(fd, vectors, count) },
                    // SAFETY: the caller's promise.
                    _ => unsafe { (self.positioned)(fd, vectors, count, offset) },
                })
            }
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_begins_and_ends_inside_segments() {
        let mut memory = *b"abcdefgh";
        let base = memory.as_mut_ptr();
        // SAFETY: inside `memory`.
        let middle = unsafe { base.add(3) };
        // SAFETY: `memory` outlives it, and nobody else uses it.
        let first = unsafe { Segment::new(base, 3) };
        // SAFETY: as above.
        let second = unsafe { Segment::new(middle, 5) };
        let whole = Transfer::new(-1, -1, false, &[first, second]);
        let places = |start, len| {
            let piece = whole.piece(start, len);
            let place = |vector: &IoVec| (vector.iov_base.addr() - base.addr(), vector.iov_len);
            piece.memory.segments().iter().map(place).collect::<Vec<_>>()
        };
        assert_eq!(places(0, 8), [(0, 3), (3, 5)]);
        assert_eq!(places(0, 4), [(0, 3), (3, 1)]);
        assert_eq!(places(2, 3), [(2, 1), (3, 2)]);
        assert_eq!(places(3, 1), [(3, 1)]);
        assert_eq!(places(4, 9), [(4, 4)]);
        assert!(places(8, 1).is_empty());
    }
}
