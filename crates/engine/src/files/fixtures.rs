//! Test fixtures: owners that count their drops, operations that use them, and a file.
#![allow(unsafe_code)]

use super::Segment;
use super::operation::{Memory, Opcode, Operation};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An owner that holds a buffer and counts its drop.
pub struct Owner {
    pub bytes: Box<[u8]>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

pub fn owned(len: usize, gone: &Arc<AtomicUsize>) -> (Memory, Owner) {
    let mut bytes = vec![0; len].into_boxed_slice();
    // SAFETY: the owner keeps the bytes, wherever it is moved.
    let segment = unsafe { Segment::new(bytes.as_mut_ptr(), len) };
    (Memory::new(&[segment]), Owner { bytes, gone: Arc::clone(gone) })
}

pub fn operation(
    opcode: Opcode,
    fd: RawFd,
    len: usize,
    gone: &Arc<AtomicUsize>,
) -> Operation<Owner> {
    let (memory, owner) = owned(len, gone);
    Operation { opcode, fd, offset: 0, memory, rw_flags: 0, priority: 0, resfd: None, owner }
}

pub fn poll(fd: RawFd, gone: &Arc<AtomicUsize>) -> Operation<Owner> {
    let mask = libc::POLLIN.cast_unsigned();
    operation(Opcode::Poll { mask }, fd, 0, gone)
}

/// An unlinked file with ten bytes in it.
pub fn file() -> io::Result<File> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let name =
        format!("oneloop-aio-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(b"0123456789")?;
    Ok(file)
}
