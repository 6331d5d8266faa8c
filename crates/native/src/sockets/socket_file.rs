//! The file of a Unix socket that a server has bound: removed when the server stops (Python 3.13 on).

use crate::errors;
use pyo3::prelude::*;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Remove the file at `path` if it is still the one with this inode: somebody else may have put another there since.
///
/// OSError if it cannot be removed; a file that is gone is none. Not `os.stat()` and `os.unlink()`, which detectors of
/// blocking calls rightly report on an event loop: a name of a local socket is looked up without waiting.
#[pyfunction]
pub fn remove_socket_file(path: PathBuf, inode: u64) -> PyResult<()> {
    let removed = fs::metadata(&path)
        .and_then(|found| if found.ino() == inode { fs::remove_file(&path) } else { Ok(()) });
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(errors::os_error("unlink", &e)),
        _ => Ok(()),
    }
}
