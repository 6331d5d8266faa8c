//! `wsgi.file_wrapper`: a file as the body of a response.

use crate::http::exchange::contract::Exchange;
use crate::http::exchange::reply::FilePart;
use crate::http::exchange::response_state::{Framing, Response};
use crate::http::exchange::waiting::is_here;
use crate::imports;
use oneloop_engine::files::served;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

/// Iterates over the parts of a file: `FileWrapper(file, block_size=8192)`, like that of `wsgiref.util`.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct FileWrapper {
    #[pyo3(get)]
    filelike: Py<PyAny>,
    #[pyo3(get)]
    blksize: usize,
}

/// Files are read in parts of at least this size, because each part costs a read and a send.
const LEAST_BLOCK_BYTES: usize = 64 * 1024;

impl FileWrapper {
    /// Sets the body's length if the application has not and the file is a regular one, whose rest is sent.
    pub fn set_length(slf: &Bound<'_, Self>, exchange: &Exchange) {
        let py = slf.py();
        // If it has no descriptor or is not a regular file, its length is unknown.
        if exchange.is_length_unknown(py)
            && let Ok(Some(left)) = slf.get().left_bytes(py)
        {
            exchange.set_length(py, left);
        }
    }

    /// A long regular file that has all of the body, for the connection, which sends it like static files. `None` if it
    /// has to be read and sent.
    pub fn part_for_connection(slf: &Bound<'_, Self>, exchange: &Exchange) -> Option<FilePart> {
        let py = slf.py();
        let len_bytes = exchange.state.with(py, |s| match (s.response, s.framing) {
            (Response::Started, Framing::Length(len_bytes)) if !s.is_disconnected => {
                Some(len_bytes)
            }
            _ => None,
        });
        let len_bytes = len_bytes.filter(|len| *len >= LEAST_BLOCK_BYTES as u64)?;
        let is_here = is_here(exchange.service.get().owner.bind(py));
        // What cannot be shared, or not be asked, can still be read.
        slf.get().part(py, len_bytes, !is_here).ok().flatten()
    }

    /// The next bytes of a regular file; `None` if it is none, or has fewer.
    fn part(&self, py: Python<'_>, len_bytes: u64, may_block: bool) -> PyResult<Option<FilePart>> {
        if self.left_bytes(py)?.is_none_or(|left| left < len_bytes) {
            return Ok(None);
        }
        let file = self.filelike.bind(py);
        let first: u64 = file.call_method0(intern!(py, "tell"))?.extract()?;
        let number: i32 = file.call_method0(intern!(py, "fileno"))?.extract()?;
        let opened = served::share(number, may_block)?;
        Ok(opened.map(|opened| FilePart::new(opened, first, len_bytes)))
    }

    /// The number of bytes left in a regular file; `None` for other files.
    fn left_bytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let file = self.filelike.bind(py);
        if !gives_its_descriptors_bytes(file)? {
            return Ok(None);
        }
        let number: i32 = file.call_method0(intern!(py, "fileno"))?.extract()?;
        let status = imports::fstat(py)?.call1((number,))?;
        let mode: u32 = status.getattr(intern!(py, "st_mode"))?.extract()?;
        if mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(None);
        }
        let size: u64 = status.getattr(intern!(py, "st_size"))?.extract()?;
        if size == 0 {
            // The kernel's own files, such as those in /proc, do not report their length.
            return Ok(None);
        }
        let position: u64 = file.call_method0(intern!(py, "tell"))?.extract()?;
        Ok(size.checked_sub(position))
    }
}

/// Whether reading returns the bytes of the descriptor. An object that unpacks or decrypts has the descriptor of its
/// source.
fn gives_its_descriptors_bytes(file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = file.py();
    let mut file = file.clone();
    if file.is_instance(&imports::temporary_file(py)?)? {
        file = file.getattr(intern!(py, "file"))?;
    }
    if reads_as(&file, &imports::buffered_reader(py)?)?
        || reads_as(&file, &imports::buffered_random(py)?)?
    {
        file = file.getattr(intern!(py, "raw"))?;
    }
    reads_as(&file, &imports::file_io(py)?)
}

/// Whether it is an instance of this class with the class's own `read`.
fn reads_as(file: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>) -> PyResult<bool> {
    let read = intern!(file.py(), "read");
    Ok(file.is_instance(class)? && file.get_type().getattr(read)?.is(&class.getattr(read)?))
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
