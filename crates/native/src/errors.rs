//! The one file that makes exceptions of the kernel's errors (S8).

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

/// `OSError(errno, text)`, of the subclass that the errno has (ConnectionResetError…), with a note
/// (PEP 678) that names the operation: `str(exc)` stays what asyncio's would be. An error without an
/// errno is one of the engine's own and becomes a RuntimeError.
pub fn os_error(operation: &str, error: &io::Error) -> PyErr {
    let Some(errno) = error.raw_os_error() else {
        return PyRuntimeError::new_err(format!("{operation}: {error}"));
    };
    let made = PyOSError::new_err((errno, strerror(errno)));
    Python::attach(|py| match made.value(py).call_method1("add_note", (operation,)) {
        Ok(_) => made,
        // Out of memory, for instance: that is the error to tell of then.
        Err(failed) => failed,
    })
}

/// The same with a text that says what was refused, and what can be done about it.
pub fn os_error_advised(what: &str, error: &io::Error, advice: Option<&str>) -> PyErr {
    let (Some(errno), Some(advice)) = (error.raw_os_error(), advice) else {
        return os_error(what, error);
    };
    PyOSError::new_err((errno, format!("{what}: {}: {advice}", strerror(errno))))
}

/// The same, with the descriptor that the operation was on.
pub fn os_error_on(operation: &str, fd: io::Result<RawFd>, error: &io::Error) -> PyErr {
    match fd {
        Ok(fd) => os_error(&format!("{operation} on descriptor {fd}"), error),
        Err(_) => os_error(&format!("{operation} on a closed descriptor"), error),
    }
}

/// `OSError(errno, text)` as `open()` raises it; who knows the path adds it.
pub fn file_error(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, strerror(errno))),
        None => PyRuntimeError::new_err(error.to_string()),
    }
}

/// The same, with the path.
pub fn path_error(error: &io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, strerror(errno), path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("{}: {error}", path.display())),
    }
}

/// The kernel's text, as `os.strerror` gives it; Rust's own adds "(os error N)".
fn strerror(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
