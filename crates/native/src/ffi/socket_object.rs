//! Reads the descriptor number of a `socket.socket` without a call.
//!
//! A transport on a socket object must notice when the program closes that object, before the kernel reuses the
//! number for another connection (S4), so it reads the number before every use. `fileno()` costs a call; the field
//! behind it is the first of the object, since Python 2. If that ever changes, the check at module load
//! (`check_layout`) notices it, and the call is used.

use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{ffi, intern};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

#[repr(C)]
struct SocketHead {
    object: ffi::PyObject,
    fd: std::ffi::c_int,
}

static LAYOUT_HOLDS: AtomicBool = AtomicBool::new(false);
/// `_socket.socket`, the base of all socket classes; lives as long as the process.
static SOCKET_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

fn read_field(socket: &Bound<'_, PyAny>) -> RawFd {
    // SAFETY: only called for instances of `_socket.socket`, whose first field is a C int; `check_layout` compares it
    // with `fileno()` for an open and for a closed socket.
    unsafe { (*socket.as_ptr().cast::<SocketHead>()).fd }
}

/// Called when the module is loaded.
pub fn check_layout(py: Python<'_>) -> PyResult<()> {
    let socket = py.import("socket")?.getattr(intern!(py, "socket"))?.call0()?;
    let open: RawFd = socket.call_method0(intern!(py, "fileno"))?.extract()?;
    let matches_open = read_field(&socket) == open;
    socket.call_method0(intern!(py, "close"))?;
    let class = py.import("_socket")?.getattr(intern!(py, "socket"))?.cast_into::<PyType>()?;
    SOCKET_TYPE.store(class.into_ptr().cast(), Ordering::Relaxed);
    LAYOUT_HOLDS.store(matches_open && read_field(&socket) == -1, Ordering::Relaxed);
    Ok(())
}

/// The socket's descriptor, -1 once it is closed or detached; `None` if that takes a call. Runs no Python code.
#[inline]
pub fn known_fileno(socket: &Bound<'_, PyAny>) -> Option<RawFd> {
    let class = SOCKET_TYPE.load(Ordering::Relaxed);
    let is_known = LAYOUT_HOLDS.load(Ordering::Relaxed)
        // SAFETY: both are alive; the flag is false until `check_layout` has stored the type.
        && unsafe { ffi::PyObject_TypeCheck(socket.as_ptr(), class) } != 0;
    is_known.then(|| read_field(socket))
}

/// Like `known_fileno`, for any object with a `fileno()`.
#[inline]
pub fn fileno(socket: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    match known_fileno(socket) {
        Some(fd) => Ok(fd),
        None => socket.call_method0(intern!(socket.py(), "fileno"))?.extract(),
    }
}
