//! `Order`: which operations of a ring may not overtake each other, for programs made for kernel AIO.
//!
//! io_submit(2) reads and writes buffered files before it returns, one after the other (`aio_read` and
//! `aio_write` in the kernel's fs/aio.c call the filesystem). So a later write wins over an earlier one,
//! a read sees what was written before it, and fsync covers it. Only operations with O_DIRECT, fsync and
//! polls go on after the call, in any order. In a ring everything goes on, and an operation that is done
//! at once overtakes one that a worker of the kernel has got (io_uring_enter(2) promises no order).
//!
//! | later \ earlier | buffered read | buffered write | O_DIRECT, fsync, poll |
//! |---|---|---|---|
//! | read, fsync | goes | waits | goes |
//! | write | waits | waits | goes |
//! | poll | goes | goes | goes |
//!
//! That is between operations on one file, whatever its descriptors. Pipes and sockets have no order
//! here: what waits for a peer would hold up the program, as it does in io_submit(2).

use crate::files::operation::{Opcode, Operation};
use crate::files::slots::Key;
use crate::sys::descriptor;
use std::io;

/// What an operation does to which file.
pub struct Place {
    file: (u64, u64),
    writes: bool,
    /// It reads no buffered data and writes none: nothing has to wait for it.
    pub is_direct: bool,
}

impl Place {
    /// None: it has no order.
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
    /// What an operation may not overtake.
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
