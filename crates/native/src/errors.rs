//! The one file that makes exceptions of the kernel's errors (S8).

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::io;

/// `OSError(errno, text)`, of the subclass that the errno has (ConnectionResetError…). An error
/// without an errno is one of the engine's own and becomes a RuntimeError.
pub fn os_error(operation: &str, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, strerror(errno))),
        None => PyRuntimeError::new_err(format!("{operation}: {error}")),
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
