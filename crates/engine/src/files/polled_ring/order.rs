//! `Order`: which operations of a ring must not overtake each other, for programs written for kernel AIO.
//!
//! io_submit(2) reads and writes buffered files before it returns, one after the other (`aio_read` and `aio_write` in
//! the kernel's fs/aio.c call the filesystem). So a later write wins over an earlier one, a read sees earlier writes,
//! and fsync covers them. Only O_DIRECT operations, fsync and polls continue after the call, in any order. In a ring
//! all operations are asynchronous, and one that completes inline overtakes one that a kernel worker executes
//! (io_uring_enter(2) promises no order).
//!
//! | later \ earlier | buffered read | buffered write | O_DIRECT, fsync, poll |
//! |---|---|---|---|
//! | read, fsync | continues | waits | continues |
//! | write | waits | waits | continues |
//! | poll | continues | continues | continues |
//!
//! This applies to operations on one file, through any descriptor. Pipes and sockets have no order here: an operation
//! that waits for a peer would block the program, as it does in io_submit(2).

use crate::files::operation::{Opcode, Operation};
use crate::files::slots::Key;
use crate::sys::descriptor;
use std::io;

/// The file an operation works on, and how.
pub struct Place {
    file: (u64, u64),
    writes: bool,
    /// It reads and writes no buffered data, so no operation has to wait for it.
    pub is_direct: bool,
}

impl Place {
    /// `None`: the operation is not ordered.
    pub fn of<T>(operation: &Operation<T>) -> io::Result<Option<Self>> {
        let (writes, is_transfer) = match operation.opcode {
            Opcode::Read => (false, true),
            Opcode::Write => (true, true),
            Opcode::Fsync | Opcode::Fdsync => (false, false),
            Opcode::Poll { .. } => return Ok(None),
        };
        let Some(file) = descriptor::file_on_disk(operation.fd)? else { return Ok(None) };
        let is_direct = !is_transfer || descriptor::open_flags(operation.fd)? & libc::O_DIRECT != 0;
        Ok(Some(Self { file, writes, is_direct }))
    }
}

/// The buffered reads and writes that are in flight.
#[derive(Default)]
pub struct Order(Vec<(Key, Place)>);

impl Order {
    /// The operations that `later` must not overtake.
    pub fn before(&self, later: &Place) -> Vec<Key> {
        let conflicts =
            |earlier: &Place| earlier.file == later.file && (earlier.writes || later.writes);
        self.0.iter().filter(|(_, earlier)| conflicts(earlier)).map(|(key, _)| *key).collect()
    }

    pub fn enter(&mut self, key: Key, place: Place) {
        self.0.push((key, place));
    }

    pub fn leave(&mut self, key: Key) {
        self.0.retain(|(its, _)| *its != key);
    }
}
