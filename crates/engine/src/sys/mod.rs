//! Checked system calls: besides the file engines, the only part of the engine where `unsafe` is allowed.
//!
//! Each function is one system call, takes borrowed descriptors and slices, and turns `-1` into `io::Error` with its
//! errno. No policy and no state: the only retries are after EINTR where that is always right.

// `unsafe` is allowed in this directory; see SAFETY.md.
#![allow(unsafe_code)]

pub mod address;
pub mod aio;
pub mod clock;
pub mod descriptor;
pub mod epoll;
pub mod eventfd;
pub mod fifo;
pub mod file;
pub mod fork;
pub mod inotify;
pub mod memory;
pub mod names;
pub mod socket;
pub mod statfs;
pub mod statx;
pub mod tcp;
pub mod thread;
pub mod transfer;

#[cfg_attr(not(feature = "faults"), path = "no_faults.rs")]
pub mod faults;

#[cfg(not(feature = "faults"))]
use ::libc;
/// The C library, whose functions may fail by order in a build with the feature `faults`.
#[cfg(feature = "faults")]
use faults::calls as libc;

use std::io;

/// Turns the kernel's `-1` into the calling thread's errno.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Turns the kernel's `-1` into errno, anything else into a length.
fn checked_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
