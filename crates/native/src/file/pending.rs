//! `Pending`: the future of an operation, the kind of its result, and the memory that the kernel uses until then
//! (S1).

use super::Files;
use super::handle::{FileHandle, Shipment};
use super::look::{self, Seen};
use super::names::Opening;
use super::stored::NOT_HERE;
use crate::errors;
use crate::ffi::buffer::View;
use crate::ffi::bytes::BytesRoom;
use oneloop_engine::files::{Completion, Outcome};
use oneloop_engine::sys::file;
use oneloop_engine::sys::memory::Aligned;
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a call's thread stores the return value or exception.
pub type Answer = Arc<Mutex<Option<PyResult<Py<PyAny>>>>>;

/// The result that the future gets if the operation has succeeded.
pub enum Want {
    Nothing,
    Descriptor,
    /// The number of bytes; the views are the buffers of the transfer.
    Count(#[expect(dead_code, reason = "kept until the completion: S1")] Vec<View>),
    Bytes(BytesRoom),
    /// Bytes from aligned memory, for O_DIRECT.
    Aligned(Aligned),
    Answer(Answer),
    /// The status of a descriptor, from a thread.
    Look(Seen, RawFd),
    /// A file's pending data was written, or is returned to it.
    Sent {
        handle: Py<FileHandle>,
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
    pub want: Want,
}

impl Pending {
    /// Resolves the future, unless it was cancelled. Releases the memory.
    pub fn settle(completion: Completion<Self>, slf: &Bound<'_, Files>) -> PyResult<()> {
        let Completion { owner, outcome } = completion;
        let (used, landed) = match &owner.want {
            Want::Look(_, fd) => (Some(*fd), Ok(())),
            Want::Sent { handle, shipment, fd } => {
                (Some(*fd), handle.get().landed(slf.py(), shipment))
            }
            _ => (None, Ok(())),
        };
        let settled = owner.settled(outcome, slf);
        used.map_or(Ok(()), |fd| Files::has_ended(slf, fd)).and(landed).and(settled)
    }

    fn settled(self, outcome: Outcome, slf: &Bound<'_, Files>) -> PyResult<()> {
        let py = slf.py();
        let Self { future, want } = self;
        let Some(future) = future else {
            return outcome.result.map(drop).map_err(|e| errors::file_error(&e));
        };
        let future = future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Self::discard(slf, &want, &outcome.result);
        }
        let want = match want {
            Want::Opening(opening) => match opening.go_on(slf, &outcome.result, future) {
                // An engine will resolve the future.
                Ok(None) => return Ok(()),
                Ok(Some(fd)) => {
                    return future.call_method1(intern!(py, "set_result"), (fd,)).map(drop);
                }
                Err(error) => {
                    return future.call_method1(intern!(py, "set_exception"), (error,)).map(drop);
                }
            },
            want => want,
        };
        match want.value(slf.get(), py, outcome) {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
        }
        .map(drop)
    }

    /// The loop is being closed: nobody waits any more.
    pub fn abandon(completion: Completion<Self>) -> PyResult<()> {
        let Completion { owner: Self { want, .. }, outcome } = completion;
        match (want, outcome.result) {
            (Want::Descriptor, Ok(fd)) => {
                file::close(fd as RawFd).map_err(|e| errors::file_error(&e))
            }
            (Want::Sent { handle, shipment, .. }, _) => {
                Python::attach(|py| handle.get().landed(py, &shipment))
            }
            _ => Ok(()),
        }
    }

    /// Closes a descriptor that was opened after its future was cancelled.
    fn discard(slf: &Bound<'_, Files>, want: &Want, result: &io::Result<usize>) -> PyResult<()> {
        match (want, result) {
            (Want::Descriptor, Ok(fd)) => Files::forsake_now(slf, *fd as RawFd),
            _ => Ok(()),
        }
    }
}

impl Want {
    fn value<'py>(
        self,
        files: &Files,
        py: Python<'py>,
        outcome: Outcome,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Self::Answer(answer) = self {
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(answer) = answer {
                return answer.map(|value| value.into_bound(py));
            }
            outcome.result.map_err(|e| errors::file_error(&e))?;
            return Ok(py.None().into_bound(py));
        }
        let n = outcome.result.map_err(|e| errors::file_error(&e))?;
        match self {
            Self::Nothing | Self::Answer(_) | Self::Opening(_) | Self::Sent { .. } => {
                Ok(py.None().into_bound(py))
            }
            Self::Written(_) if n == NOT_HERE => Ok(py.None().into_bound(py)),
            Self::Look(seen, fd) => match seen.get() {
                Some((status, is_near)) => {
                    files.keep_look(py, fd, status, *is_near);
                    look::told(py, status, *is_near)
                }
                None => Ok(py.None().into_bound(py)),
            },
            Self::Descriptor | Self::Count(_) | Self::Written(_) => n.into_bound_py_any(py),
            Self::Bytes(room) => room.completed(py, n).map(Bound::into_any),
            Self::Aligned(aligned) => {
                let bytes = PyBytes::new(py, aligned.as_slice(n));
                files.scratch.with(py, |scratch| scratch.put(aligned));
                Ok(bytes.into_any())
            }
        }
    }
}
