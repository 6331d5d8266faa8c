//! `Operation`: what kernel AIO and the polled ring take, and `Completion`: what they give back.
//!
//! An operation carries an owner, of any type, which keeps its memory alive: the engine holds it
//! from the submission to the completion and hands it back then, or leaks it (S1). May not know who
//! executes it, nor what an owner is.

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
    /// Waits for the readiness (POLLIN…) in the mask and returns it.
    Poll {
        mask: u16,
    },
}

/// One operation. Its memory is its owner's.
#[derive(Debug)]
pub struct Operation<T> {
    pub opcode: Opcode,
    pub fd: RawFd,
    pub offset: i64,
    pub memory: Memory,
    /// RWF_NOWAIT and its kin, preadv2(2).
    pub rw_flags: i32,
    /// Class and value as ioprio_set(2) takes them; 0: none.
    pub priority: u16,
    /// An eventfd that the kernel raises at the completion.
    pub resfd: Option<RawFd>,
    pub owner: T,
}

/// What became of a submission.
#[derive(Debug)]
pub struct Submission<T> {
    /// The keys of what the kernel has, in order.
    pub taken: Vec<Key>,
    /// The rest, in order.
    pub refused: Vec<Operation<T>>,
    /// Why the first of the rest was refused, if it is known: the kernel says so only for the
    /// first operation of a call. EAGAIN: no room.
    pub error: Option<io::Error>,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion<T> {
    pub key: Key,
    /// What the system call would have returned, or a negative errno.
    pub result: i64,
    /// The kernel's second word, which no operation uses today.
    pub second_result: i64,
    pub owner: T,
}
