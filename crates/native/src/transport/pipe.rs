//! Common parts of both pipe transports: the kind of file, the non-blocking mode, the extra information.
//!
//! The Python file object owns the descriptor, which is closed once, through that object (S4).

use super::descriptor::Descriptor;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeKind {
    Fifo,
    Socket,
    Character,
}

/// An end of a pipe, checked and set to non-blocking.
pub struct PipeEnd {
    pub descriptor: Descriptor,
    pub kind: PipeKind,
    pub extra: Py<PyDict>,
}

impl PipeEnd {
    /// Raises ValueError(`refusal`) for anything but pipes, sockets and character devices.
    pub fn of(
        owner: &Bound<'_, LoopCore>,
        pipe: &Bound<'_, PyAny>,
        extra: Option<Py<PyDict>>,
        refusal: &'static str,
    ) -> PyResult<Self> {
        let py = pipe.py();
        owner.get().check_closed()?;
        let extra = extra.map_or_else(|| fallible::dict(py), |extra| Ok(extra.into_bound(py)))?;
        extra.set_item(intern!(py, "pipe"), pipe)?;
        let descriptor = Descriptor::of_object(pipe)?;
        let fd = descriptor.fd(py).map_err(|e| errors::os_error("pipe", &e))?;
        let mode: u32 =
            imports::fstat(py)?.call1((fd,))?.getattr(intern!(py, "st_mode"))?.extract()?;
        let kind = match mode & libc::S_IFMT {
            libc::S_IFIFO => PipeKind::Fifo,
            libc::S_IFSOCK => PipeKind::Socket,
            libc::S_IFCHR => PipeKind::Character,
            _ => return Err(PyValueError::new_err(refusal)),
        };
        imports::set_blocking(py)?.call1((fd, false))?;
        Ok(Self { descriptor, kind, extra: extra.unbind() })
    }
}

/// `get_extra_info` of both ends.
pub fn info<'py>(
    extra: &Py<PyDict>,
    name: &Bound<'py, PyAny>,
    default: Option<Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(extra.bind(name.py()).get_item(name)?.or(default))
}
