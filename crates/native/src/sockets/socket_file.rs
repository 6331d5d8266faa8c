//! The file of a Unix socket that a server has bound: removed when the server stops (since Python 3.13).

use crate::errors;
use pyo3::prelude::*;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Remove the file at `path` if it still has this inode: another process may have replaced it.
///
/// Raises OSError if it cannot be removed, but not if it is already gone. Does not use `os.stat()` and `os.unlink()`,
/// because tools that detect blocking calls would report them on an event loop. Looking up a local socket's name does
/// not block.
#[pyfunction]
pub fn remove_socket_file(path: PathBuf, inode: u64) -> PyResult<()> {
    let removed = fs::metadata(&path)
        .and_then(|found| if found.ino() == inode { fs::remove_file(&path) } else { Ok(()) });
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(errors::os_error("unlink", &e)),
        _ => Ok(()),
    }
}
