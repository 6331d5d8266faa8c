//! `wsgi.file_wrapper`: a file as the body of a response.

use super::wsgi::WsgiCall;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

/// Gives what a file has in parts: `FileWrapper(file, block_size=8192)`, as that of `wsgiref.util`.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct FileWrapper {
    #[pyo3(get)]
    filelike: Py<PyAny>,
    #[pyo3(get)]
    blksize: usize,
}

/// Files are read in parts of at least this size: a part is a read and a send.
const LEAST_BLOCK_BYTES: usize = 64 * 1024;

impl FileWrapper {
    /// Says how long the body is, if the application has not and it is a regular file, whose rest is sent.
    pub fn set_length(slf: &Bound<'_, Self>, call: &Bound<'_, WsgiCall>) {
        let py = slf.py();
        // What has no descriptor, or is no regular file, ends where it ends.
        if call.get().is_length_unknown(py)
            && let Ok(Some(left)) = slf.get().left_bytes(py)
        {
            call.get().say_length(py, left);
        }
    }

    fn left_bytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let file = self.filelike.bind(py);
        let number: i32 = file.call_method0(intern!(py, "fileno"))?.extract()?;
        let status = crate::imports::fstat(py)?.call1((number,))?;
        let mode: u32 = status.getattr(intern!(py, "st_mode"))?.extract()?;
        if mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(None);
        }
        let size: u64 = status.getattr(intern!(py, "st_size"))?.extract()?;
        let position: u64 = file.call_method0(intern!(py, "tell"))?.extract()?;
        Ok(size.checked_sub(position))
    }
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, blksize = 8192))]
    fn new(filelike: Py<PyAny>, blksize: usize) -> Self {
        Self { filelike, blksize }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let size = self.blksize.max(LEAST_BLOCK_BYTES);
        let data = self.filelike.bind(py).call_method1(intern!(py, "read"), (size,))?;
        let is_end = data.cast::<PyBytes>().is_ok_and(|data| data.as_bytes().is_empty());
        Ok((!is_end && !data.is_none()).then_some(data))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.filelike.bind(py).getattr_opt(intern!(py, "close"))? {
            Some(close) => close.call0().map(drop),
            None => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.filelike)
    }
}
