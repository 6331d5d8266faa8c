//! `Pending`: whoever waits for an operation, what he will get, and the memory that the kernel has
//! until then (S1).

use super::Files;
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

/// Where a call's thread leaves what the callable has returned or raised.
pub type Answer = Arc<Mutex<Option<PyResult<Py<PyAny>>>>>;

/// What the future gets when the operation has succeeded.
pub enum Want {
    Nothing,
    Descriptor,
    /// How many bytes were moved; the views are what they were moved from or to.
    Count(#[expect(dead_code, reason = "kept until the completion: S1")] Vec<View>),
    Bytes(BytesRoom),
    /// Bytes that went through aligned memory, for O_DIRECT.
    Aligned(Aligned),
    Answer(Answer),
}

pub struct Pending {
    pub future: Py<PyAny>,
    pub want: Want,
}

impl Pending {
    /// Hands the result to the future, unless that was cancelled; memory is released here.
    pub fn settle(completion: Completion<Self>, files: &Files, py: Python<'_>) -> PyResult<()> {
        let Completion { owner: Self { future, want }, outcome } = completion;
        let future = future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Self::discard(&want, &outcome.result).map_err(|e| errors::file_error(&e));
        }
        match want.value(files, py, outcome) {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
        }
        .map(drop)
    }

    /// The loop is being closed: nobody waits any more.
    pub fn abandon(completion: Completion<Self>) -> PyResult<()> {
        let Completion { owner: Self { want, .. }, outcome } = completion;
        Self::discard(&want, &outcome.result).map_err(|e| errors::file_error(&e))
    }

    /// A descriptor that was opened too late is nobody's.
    fn discard(want: &Want, result: &io::Result<usize>) -> io::Result<()> {
        match (want, result) {
            (Want::Descriptor, Ok(fd)) => file::close(*fd as RawFd),
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
            Self::Nothing | Self::Answer(_) => Ok(py.None().into_bound(py)),
            Self::Descriptor | Self::Count(_) => n.into_bound_py_any(py),
            Self::Bytes(room) => room.completed(py, n).map(Bound::into_any),
            Self::Aligned(aligned) => {
                let bytes = PyBytes::new(py, aligned.as_slice(n));
                files.scratch.with(py, |scratch| scratch.put(aligned));
                Ok(bytes.into_any())
            }
        }
    }
}
