//! greenlet's C API (greenlet.h), out of its capsule: switching between greenlets.
//!
//! A switch copies a part of the C stack away and runs other code of this thread: nothing that is borrowed, locked or
//! guarded may be alive across it (S2), and no pointer into the stack may be known elsewhere (S3). The functions here hold
//! owned references alone.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_int, c_void};
use std::mem::transmute;

type Pointer = *mut ffi::PyObject;

/// The places in the table, greenlet.h: `PyGreenlet_*_NUM`.
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

/// Loads the API, before any greenlet of ours runs: filling such a cell while another greenlet of this thread waits for
/// it would never end.
///
/// Raises:
///     ImportError: there is no greenlet package, or one without this API.
pub fn load(py: Python<'_>) -> PyResult<()> {
    API.get_or_try_init(py, || {
        py.import("greenlet")?;
        // SAFETY: a NUL-terminated name; the module that it names was imported.
        let table =
            unsafe { ffi::PyCapsule_Import(c"greenlet._C_API".as_ptr(), c_int::from(false)) };
        if table.is_null() {
            return Err(
                PyErr::take(py).unwrap_or_else(|| PyImportError::new_err("greenlet has no C API"))
            );
        }
        // SAFETY: the capsule holds a table of this many pointers, which lives as long as the process.
        let table = unsafe { &*table.cast::<[*const c_void; LENGTH]>() };
        // SAFETY: the function that greenlet.h declares at this place.
        let new = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn(Pointer, Pointer) -> Pointer>(
                table[NEW],
            )
        };
        // SAFETY: as above.
        let current = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn() -> Pointer>(table[GET_CURRENT])
        };
        // SAFETY: as above.
        let throw = unsafe {
            transmute::<
                *const c_void,
                unsafe extern "C" fn(Pointer, Pointer, Pointer, Pointer) -> Pointer,
            >(table[THROW])
        };
        // SAFETY: as above.
        let switch = unsafe {
            transmute::<*const c_void, unsafe extern "C" fn(Pointer, Pointer, Pointer) -> Pointer>(
                table[SWITCH],
            )
        };
        // SAFETY: as above.
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

/// The greenlet that runs.
#[inline]
pub fn current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let api = api(py)?;
    // SAFETY: the thread is attached.
    let current = unsafe { (api.current)() };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, current) }
}

/// A greenlet of this thread that will call `run`, and then go on in `parent`.
pub fn make<'py>(
    run: &Bound<'py, PyAny>,
    parent: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = run.py();
    let api = api(py)?;
    // SAFETY: both are alive through the call; greenlet checks what the parent is.
    let made = unsafe { (api.new)(run.as_ptr(), parent.as_ptr()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// Goes on in `target` until somebody switches back here; what they pass, or throw.
#[inline]
pub fn switch<'py>(target: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = target.py();
    let api = api(py)?;
    // SAFETY: the target is alive, held by the caller's reference, which lies in a frame that is copied with the stack;
    // null arguments stand for none.
    let result =
        unsafe { (api.switch)(target.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// Has the end of `child` resume `parent`, a greenlet of the same thread.
pub fn set_parent(child: &Bound<'_, PyAny>, parent: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = child.py();
    let api = api(py)?;
    // SAFETY: both are alive through the call; greenlet checks what they are.
    if unsafe { (api.set_parent)(child.as_ptr(), parent.as_ptr()) } < 0 {
        return Err(PyErr::fetch(py));
    }
    Ok(())
}

/// Raises `error` in `target`, and goes on there until somebody switches back here.
pub fn throw<'py>(
    target: &Bound<'py, PyAny>,
    error: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = target.py();
    let api = api(py)?;
    let class = error.get_type();
    // SAFETY: all are alive through the call, as above; null stands for no traceback.
    let result = unsafe {
        (api.throw)(target.as_ptr(), class.as_ptr(), error.as_ptr(), std::ptr::null_mut())
    };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}
