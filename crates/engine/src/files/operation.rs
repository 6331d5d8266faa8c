//! `Operation`: the input of kernel AIO and the polled ring, and `Completion`: their output.
//!
//! An operation carries an owner of any type, which keeps its memory alive. The engine holds the owner from the
//! submission to the completion and then returns it, or leaks it (S1). This file must not depend on who executes an
//! operation or on what an owner is.

use super::slots::Key;
pub use crate::sys::transfer::Memory;
use std::io;
use std::os::fd::RawFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    Read,
    Write,
    Fsync,
    Fdsync,
    /// Waits for the readiness in the mask (POLLIN…) and returns it.
    Poll {
        mask: u16,
    },
}

/// One operation. Its memory belongs to its owner.
#[derive(Debug)]
pub struct Operation<T> {
    pub opcode: Opcode,
    pub fd: RawFd,
    pub offset: i64,
    pub memory: Memory,
    /// RWF_NOWAIT and similar flags, preadv2(2).
    pub rw_flags: i32,
    /// Class and value as in ioprio_set(2); 0: none.
    pub priority: u16,
    /// An eventfd that the kernel signals at the completion.
    pub resfd: Option<RawFd>,
    pub owner: T,
}

/// The result of a submission.
#[derive(Debug)]
pub struct Submission<T> {
    /// The keys of the operations that the kernel accepted, in order.
    pub taken: Vec<Key>,
    /// The other operations, in order.
    pub refused: Vec<Operation<T>>,
    /// Why the first refused operation was refused, if known: the kernel reports an error only for the first
    /// operation of a call. EAGAIN: no room.
    pub error: Option<io::Error>,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion<T> {
    pub key: Key,
    /// The system call's return value, or a negative errno.
    pub result: i64,
    /// The kernel's second result, which no operation uses today.
    pub second_result: i64,
    pub owner: T,
}
