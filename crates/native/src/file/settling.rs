//! The end of an operation: its result, its exception, or what is left of it when nobody waits any more.

use super::Files;
use super::handle::FileHandle;
use super::look_up;
use super::pending::{Conversion, NOT_HERE, Pending};
use super::shipment::Shipment;
use super::status;
use crate::errors;
use crate::ffi::fallible;
use crate::ffi::values::{ToPython, Value};
use oneloop_engine::files::{Completion, Outcome};
use oneloop_engine::sys::file;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;
use std::sync::PoisonError;

/// A thread has written data of a file, or could not.
fn landed(py: Python<'_>, handle: &Py<PyAny>, shipment: &Shipment) -> PyResult<()> {
    handle.bind(py).cast::<FileHandle>()?.get().landed(py, shipment)
}

impl Pending {
    /// Resolves the future, unless it was cancelled. Releases the memory.
    pub fn settle(completion: Completion<Self>, slf: &Bound<'_, Files>) -> PyResult<()> {
        let Completion { owner, outcome } = completion;
        let ended = owner.ends(slf.py());
        let settled = owner.settled(outcome, slf);
        Self::release(ended, slf).and(settled)
    }

    /// The result of an operation without a future, which the caller has waited for.
    pub fn finish<'py>(
        completion: Completion<Self>,
        slf: &Bound<'py, Files>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Completion { owner, outcome } = completion;
        let ended = owner.ends(slf.py());
        let result = owner.conversion.value(slf.get(), slf.py(), outcome);
        Self::release(ended, slf).and(result)
    }

    /// Updates the file whose data was written. Returns the descriptor that is not in use any more, and the result.
    fn ends(&self, py: Python<'_>) -> (Option<RawFd>, PyResult<()>) {
        match &self.conversion {
            Conversion::Status(_, fd) | Conversion::BytesOfThread(_, fd) => (Some(*fd), Ok(())),
            Conversion::Sent { handle, shipment, fd } => (Some(*fd), landed(py, handle, shipment)),
            _ => (None, Ok(())),
        }
    }

    fn release(ended: (Option<RawFd>, PyResult<()>), slf: &Bound<'_, Files>) -> PyResult<()> {
        let (used, landed) = ended;
        used.map_or(Ok(()), |fd| Files::has_ended(slf, fd)).and(landed)
    }

    fn settled(self, outcome: Outcome, slf: &Bound<'_, Files>) -> PyResult<()> {
        let py = slf.py();
        let Self { future, conversion } = self;
        let Some(future) = future else {
            return outcome.result.map(drop).map_err(|e| errors::file_error(&e));
        };
        let future = future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Self::discard(slf, &conversion, &outcome.result);
        }
        let conversion = match conversion {
            Conversion::Opening(opening) => match opening.go_on(slf, &outcome.result, future) {
                // An engine will resolve the future.
                Ok(None) => return Ok(()),
                Ok(Some(fd)) => {
                    return future.call_method1(intern!(py, "set_result"), (Value(fd),)).map(drop);
                }
                Err(error) => {
                    return future.call_method1(intern!(py, "set_exception"), (error,)).map(drop);
                }
            },
            conversion => conversion,
        };
        match conversion.value(slf.get(), py, outcome) {
            Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
            Err(error) => future.call_method1(intern!(py, "set_exception"), (error,)),
        }
        .map(drop)
    }

    /// The loop is being closed: nobody waits any more.
    pub fn abandon(completion: Completion<Self>) -> PyResult<()> {
        let Completion { owner: Self { conversion, .. }, outcome } = completion;
        match (conversion, outcome.result) {
            (Conversion::Descriptor | Conversion::Opened(_), Ok(fd)) if fd != NOT_HERE => {
                file::close(fd as RawFd).map_err(|e| errors::file_error(&e))
            }
            (Conversion::Sent { handle, shipment, .. }, _) => {
                Python::attach(|py| landed(py, &handle, &shipment))
            }
            _ => Ok(()),
        }
    }

    /// Closes a descriptor that was opened after its future was cancelled.
    fn discard(
        slf: &Bound<'_, Files>,
        conversion: &Conversion,
        result: &io::Result<usize>,
    ) -> PyResult<()> {
        match (conversion, result) {
            (Conversion::Descriptor | Conversion::Opened(_), Ok(fd)) if *fd != NOT_HERE => {
                Files::forsake_now(slf, *fd as RawFd)
            }
            _ => Ok(()),
        }
    }
}

impl Conversion {
    fn value<'py>(
        self,
        files: &Files,
        py: Python<'py>,
        outcome: Outcome,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Self::ReturnValue(returned) = self {
            let returned = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(returned) = returned {
                return returned.map(|value| value.into_bound(py));
            }
            outcome.result.map_err(|e| errors::file_error(&e))?;
            return Ok(py.None().into_bound(py));
        }
        let n = outcome.result.map_err(|e| errors::file_error(&e))?;
        match self {
            Self::Nothing | Self::ReturnValue(_) | Self::Opening(_) | Self::Sent { .. } => {
                Ok(py.None().into_bound(py))
            }
            Self::Addresses(addresses) => look_up::to_python(py, &addresses),
            Self::Written(_) | Self::Opened(_) if n == NOT_HERE => Ok(py.None().into_bound(py)),
            Self::Opened(seen) => match seen.get() {
                Some((status, is_local)) => {
                    let fd = n as RawFd;
                    files.remember_status(py, fd, status, *is_local);
                    (fd, status::status_tuple(py, status, *is_local)?).to_python(py)
                }
                None => Ok(py.None().into_bound(py)),
            },
            Self::Status(seen, fd) => match seen.get() {
                Some((status, is_local)) => {
                    files.remember_status(py, fd, status, *is_local);
                    status::status_tuple(py, status, *is_local)
                }
                None => Ok(py.None().into_bound(py)),
            },
            Self::Descriptor | Self::Count(_) | Self::Written(_) => n.to_python(py),
            Self::Bytes(room, before) => room.completed(py, before + n).map(Bound::into_any),
            Self::BytesOfThread(room, _) => room.completed(py, n).map(Bound::into_any),
            Self::Aligned(aligned) => {
                let bytes = fallible::bytes(py, aligned.as_slice(n))?;
                files.scratch.with(py, |scratch| scratch.put(aligned));
                Ok(bytes.into_any())
            }
        }
    }
}
