//! greenlet's C API (greenlet.h), loaded from its capsule: switches between greenlets.
//!
//! A switch copies part of the C stack away and runs other code of this thread. No borrow, lock or guard may be alive
//! across it (S2), and nobody else may hold a pointer into the stack (S3). The functions here hold only owned
//! references.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_int, c_void};
use std::mem::transmute;

type Pointer = *mut ffi::PyObject;

/// Indexes into the table, greenlet.h: `PyGreenlet_*_NUM`.
const NEW: usize = 3;
const GET_CURRENT: usize = 4;
const THROW: usize = 5;
const SWITCH: usize = 6;
const SET_PARENT: usize = 7;
const LENGTH: usize = 12;

struct Api {
    new: unsafe extern "C" fn(Pointer, Pointer) -> Pointer,
    current: unsafe extern "C" fn() -> Pointer,
    throw: unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> Pointer,
    switch: unsafe extern "C" fn(Pointer, Pointer, Pointer) -> Pointer,
    set_parent: unsafe extern "C" fn(Pointer, Pointer) -> c_int,
}

static API: PyOnceLock<Api> = PyOnceLock::new();

/// Loads the API. Must be called before any of our greenlets runs: initialising the cell while another greenlet of
/// this thread waits for it would never end.
///
/// Raises:
///     ImportError: there is no greenlet package, or one without this API.
pub fn load(py: Python<'_>) -> PyResult<()> {
    API.get_or_try_init(py, || {
        py.import("greenlet")?;
        // SAFETY: a NUL-terminated name; the module was imported above.
        let table =
            unsafe { ffi::PyCapsule_Import(c"greenlet._C_API".as_ptr(), c_int::from(false)) };
        if table.is_null() {
            return Err(
                PyErr::take(py).unwrap_or_else(|| PyImportError::new_err("greenlet has no C API"))
            );
        }
        // SAFETY: the capsule holds a table of this many pointers, which lives as long as the process.
        let table = unsafe { &*table.cast::<[*const c_void; LENGTH]>() };
        // SAFETY: greenlet.h declares this function at this index.
        let new = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn(Pointer, Pointer) -> Pointer>(
                table[NEW],
            )
        };
        // SAFETY: as for `new`.
        let current = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn() -> Pointer>(table[GET_CURRENT])
        };
        // SAFETY: as for `new`.
        let throw = unsafe {
            transmute::<
                *const c_void,
                unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> Pointer,
            >(table[THROW])
        };
        // SAFETY: as for `new`.
        let switch = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn(Pointer, Pointer, Pointer) -> Pointer>(
                table[SWITCH],
            )
        };
        // SAFETY: as for `new`.
        let set_parent = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn(Pointer, Pointer) -> c_int>(
                table[SET_PARENT],
            )
        };
        Ok(Api { new, current, throw, switch, set_parent })
    })
    .map(drop)
}

fn api(py: Python<'_>) -> PyResult<&Api> {
    API.get(py).ok_or_else(|| PyImportError::new_err("oneloop.green was not imported"))
}

/// The running greenlet.
#[inline]
pub fn current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let api = api(py)?;
    // SAFETY: the thread is attached.
    let current = unsafe { (api.current)() };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, current) }
}

/// Makes a greenlet of this thread that will call `run` and then continue in `parent`.
pub fn make<'py>(
    run: &Bound<'py, PyAny>,
    parent: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = run.py();
    let api = api(py)?;
    // SAFETY: both are alive through the call; greenlet checks the parent's type.
    let made = unsafe { (api.new)(run.as_ptr(), parent.as_ptr()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// Switches to `target` until another greenlet switches back here. Returns the value passed back, or the exception
/// thrown.
#[inline]
pub fn switch<'py>(target: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = target.py();
    let api = api(py)?;
    // SAFETY: the target is alive: the caller's reference is in a frame that is copied with the stack. Null means no
    // arguments.
    let result =
        unsafe { (api.switch)(target.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// Makes the end of `child` resume `parent`, a greenlet of the same thread.
pub fn set_parent(child: &Bound<'_, PyAny>, parent: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = child.py();
    let api = api(py)?;
    // SAFETY: both are alive through the call; greenlet checks their types.
    if unsafe { (api.set_parent)(child.as_ptr(), parent.as_ptr()) } < 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(())
}

/// Raises `error` in `target`, and continues there until another greenlet switches back here.
pub fn throw<'py>(
    target: &Bound<'py, PyAny>,
    error: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = target.py();
    let api = api(py)?;
    let class = error.get_type();
    // SAFETY: all are alive through the call, as in `switch`; null means no traceback.
    let result = unsafe {
        (api.throw)(target.as_ptr(), class.as_ptr(), error.as_ptr(), std::ptr::null_mut())
    };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}
