//! `wsgi.file_wrapper`: a file as the body of a response.

use super::answer::Framing;
use super::exchange::Answer;
use super::pause::is_here;
use super::wsgi::WsgiCall;
use crate::event_loop::LoopCore;
use crate::imports;
use crate::transport::Under;
use pyo3::exceptions::PyConnectionError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
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
    pub fn set_length(slf: &Bound<'_, Self>, call: &Bound<'_, WsgiCall>) {
        let py = slf.py();
        // If it has no descriptor or is not a regular file, its length is unknown.
        if call.get().is_length_unknown(py)
            && let Ok(Some(left)) = slf.get().left_bytes(py)
        {
            call.get().say_length(py, left);
        }
    }

    /// Sends a long regular file with sendfile(2), if it is the whole body. Returns false if it has to be read and
    /// sent.
    pub fn send_by_kernel(slf: &Bound<'_, Self>, call: &Bound<'_, WsgiCall>) -> PyResult<bool> {
        let py = slf.py();
        let exchange = call.get().exchange.get();
        let connection = exchange.connection.get();
        let len_bytes = exchange.state.with(py, |s| match (s.answer, s.framing) {
            (Answer::Started, Framing::Length(len_bytes)) if !s.is_disconnected => Some(len_bytes),
            _ => None,
        });
        let Some(len_bytes) = len_bytes.filter(|len| *len >= LEAST_BLOCK_BYTES as u64) else {
            return Ok(false);
        };
        let Some(Under::Stream(transport)) = connection.under(py) else { return Ok(false) };
        if !matches!(slf.get().left_bytes(py), Ok(Some(left)) if left == len_bytes) {
            return Ok(false);
        }
        let nothing = PyBytes::new(py, b"");
        let framed = exchange.frame(py, b"", true)?;
        WsgiCall::put(call, framed, &nothing)?;
        let file = slf.get().filelike.bind(py);
        let position = file.call_method0(intern!(py, "tell"))?;
        let owner = connection.http.get().owner.bind(py);
        let given = PyDict::new(py);
        given.set_item(intern!(py, "fallback"), false)?;
        let arguments = (transport.bind(py), file, position, len_bytes);
        let sending = owner.call_method(intern!(py, "sendfile"), arguments, Some(&given))?;
        let sent = match wait_for(owner, sending) {
            Ok(sent) => sent.extract::<u64>()?,
            Err(error) if error.is_instance_of::<PyConnectionError>(py) => {
                // The peer is gone; the connection will notice it too.
                exchange.state.with(py, |s| s.is_disconnected = true);
                return Ok(true);
            }
            Err(error) if error.is_instance(py, &imports::sendfile_not_available(py)?) => 0,
            Err(error) => return Err(error),
        };
        exchange.state.with(py, |s| {
            s.framing = Framing::Length(len_bytes.saturating_sub(sent));
            s.sent_bytes += sent;
        });
        // If the file was truncated meanwhile, there is nothing more to read, and the end of the answer reports that
        // it is too short.
        Ok(sent > 0)
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

/// Waits for a coroutine of the loop; a green thread parks, a thread blocks.
fn wait_for<'py>(
    owner: &Bound<'py, LoopCore>,
    coroutine: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    if is_here(owner) {
        return imports::await_green(py)?.call1((coroutine,));
    }
    let future = imports::run_coroutine_threadsafe(py)?.call1((coroutine, owner))?;
    future.call_method0(intern!(py, "result"))
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
