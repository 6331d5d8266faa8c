//! `Pending`: the future of an operation, the kind of its result, and the memory that the kernel uses until then
//! (S1). `settling` makes the result.

use super::opening::Opening;
use super::shipment::Shipment;
use crate::ffi::buffer::View;
use crate::ffi::bytes::BytesRoom;
use oneloop_engine::sys::memory::Aligned;
use oneloop_engine::sys::names::{Found, LookUpError};
use oneloop_engine::sys::statx::Status;
use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, OnceLock};

/// A thread returns this for a path that is not a regular file: opening it may wait forever.
pub const NOT_HERE: usize = usize::MAX;

/// Where a thread stores a status, and whether the filesystem answers without blocking.
pub type Seen = Arc<OnceLock<(Status, bool)>>;

/// Where a call's thread stores the return value or exception.
pub type ReturnValue = Arc<Mutex<Option<PyResult<Py<PyAny>>>>>;

/// Where a thread stores the addresses of a name.
pub type Addresses = Arc<OnceLock<Result<Vec<Found>, LookUpError>>>;

/// The result that the future gets if the operation has succeeded.
pub enum Conversion {
    Nothing,
    Descriptor,
    /// The number of bytes; the views are the buffers of the transfer.
    Count(#[expect(dead_code, reason = "kept until the completion: S1")] Vec<View>),
    /// Bytes that begin with so many that were there before.
    Bytes(BytesRoom, usize),
    /// Bytes that a thread reads from this descriptor.
    BytesOfThread(BytesRoom, RawFd),
    /// Bytes from aligned memory, for O_DIRECT.
    Aligned(Aligned),
    ReturnValue(ReturnValue),
    /// A new descriptor with its status, from a thread; None if the thread did not open it.
    Opened(Seen),
    /// The addresses of a name, from a thread.
    Addresses(Addresses),
    /// The status of a descriptor, from a thread.
    Status(Seen, RawFd),
    /// A file's pending data was written, or is returned to it.
    Sent {
        /// Its `FileHandle`.
        handle: Py<PyAny>,
        shipment: Shipment,
        fd: RawFd,
    },
    /// A path was checked and can be opened.
    Opening(Opening),
    /// The number of bytes in a whole file; None if it is not a regular file.
    Written(#[expect(dead_code, reason = "kept until the completion: S1")] View),
}

pub struct Pending {
    /// `None`: a descriptor that was left open is being closed.
    pub future: Option<Py<PyAny>>,
    pub conversion: Conversion,
}
