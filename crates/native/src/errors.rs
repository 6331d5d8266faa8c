//! The only file that converts the kernel's errors to exceptions (S8).

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// `OSError(errno, text)`, of the subclass for the errno (ConnectionResetError…), with a note (PEP 678) that names
/// the operation. `str(exc)` is the same as in asyncio. An error without an errno comes from the engine and becomes a
/// RuntimeError.
pub fn os_error(operation: &str, error: &io::Error) -> PyErr {
    let Some(errno) = error.raw_os_error() else {
        return PyRuntimeError::new_err(format!("{operation}: {error}"));
    };
    let made = PyOSError::new_err((errno, strerror(errno)));
    Python::attach(|py| match made.value(py).call_method1(intern!(py, "add_note"), (operation,)) {
        Ok(_) => made,
        // Without memory, for instance: report that error instead.
        Err(failed) => failed,
    })
}

/// Like `os_error`, with a text that says what was refused and what to do about it.
pub fn os_error_advised(what: &str, error: &io::Error, advice: Option<&str>) -> PyErr {
    let (Some(errno), Some(advice)) = (error.raw_os_error(), advice) else {
        return os_error(what, error);
    };
    PyOSError::new_err((errno, format!("{what}: {}: {advice}", strerror(errno))))
}

/// Like `os_error`, with the descriptor of the operation.
pub fn os_error_on(operation: &str, fd: io::Result<RawFd>, error: &io::Error) -> PyErr {
    match fd {
        Ok(fd) => os_error(&format!("{operation} on descriptor {fd}"), error),
        Err(_) => os_error(&format!("{operation} on a closed descriptor"), error),
    }
}

/// `OSError(errno, text)` as from `open()`; the caller adds the path if it has one.
pub fn file_error(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, strerror(errno))),
        None => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Like `file_error`, with the path.
pub fn path_error(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, strerror(errno), path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// The kernel's text, equal to `os.strerror`; Rust's adds "(os error N)".
fn strerror(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
