//! Coroutines of our own, most of whose values are there already, and the async iterators that give them.
//!
//! `async for` over lines in memory costs three calls of slots a line. PyO3's slots and a StopIteration each time cost more
//! than the line itself (470 ns against 150 for blocking `for line in file`), so these slots are our own, `am_send` among
//! them, which needs no exception.

use super::Object;
use pyo3::ffi;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Py_TPFLAGS_HAVE_AM_SEND, object.h.
const HAVE_AM_SEND: std::ffi::c_ulong = 1 << 21;

/// What a step of a coroutine brought.
pub enum Step {
    /// It waits for this.
    Yielded(Object),
    Returned(Object),
}

/// A coroutine.
pub trait Steps: pyo3::PyClass {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step>;
}

/// An async iterator that can tell its next awaitable without Python code of its own.
pub trait Iterate: pyo3::PyClass {
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>>;
}

/// Runs `f` on an object of class `T`; exceptions are set, panics turned into exceptions (S7).
///
/// # Safety
/// To be called by CPython from a slot of `T`, with an instance of `T`.
unsafe fn serve<T: pyo3::PyClass>(
    object: *mut ffi::PyObject,
    f: impl for<'py> FnOnce(Borrowed<'_, 'py, T>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls slots with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the object is alive through the call.
    let slf = unsafe { Borrowed::<PyAny>::from_ptr(py, object) };
    // SAFETY: as this function demands.
    let slf = unsafe { slf.cast_unchecked::<T>() };
    match catch_unwind(AssertUnwindSafe(|| f(slf))) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(_) => {
            pyo3::panic::PanicException::new_err(("panic in oneloop",)).restore(py);
            std::ptr::null_mut()
        }
    }
}

unsafe extern "C" fn itself(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the object is alive through the call.
    unsafe { ffi::Py_NewRef(object) }
}

unsafe extern "C" fn next_step<T: Steps>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let step = |slf: Borrowed<'_, '_, T>| {
        let py = slf.py();
        match T::send(slf, py.None().bind(py))? {
            Step::Yielded(object) => Ok(object.into_ptr()),
            Step::Returned(value) => {
                // Without an exception the value is None: tp_iternext.
                if !value.bind(py).is_none() {
                    raise_stop_iteration(py, &value);
                }
                Ok(std::ptr::null_mut())
            }
        }
    };
    // SAFETY: this is a slot of `T`.
    unsafe { serve::<T>(object, step) }
}

unsafe extern "C" fn send_step<T: Steps>(
    object: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    let mut is_returned = false;
    let step = |slf: Borrowed<'_, '_, T>| {
        // SAFETY: the caller's argument, alive through the call.
        let value = unsafe { Borrowed::<PyAny>::from_ptr(slf.py(), value) };
        Ok(match T::send(slf, &value)? {
            Step::Yielded(object) => object.into_ptr(),
            Step::Returned(object) => {
                is_returned = true;
                object.into_ptr()
            }
        })
    };
    // SAFETY: this is a slot of `T`.
    let stepped = unsafe { serve::<T>(object, step) };
    // SAFETY: the caller has room for a reference, null where an exception is set.
    unsafe { *result = stepped };
    match (stepped.is_null(), is_returned) {
        (true, _) => ffi::PySendResult::PYGEN_ERROR,
        (false, true) => ffi::PySendResult::PYGEN_RETURN,
        (false, false) => ffi::PySendResult::PYGEN_NEXT,
    }
}

unsafe extern "C" fn anext<T: Iterate>(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: this is a slot of `T`.
    unsafe { serve::<T>(object, |slf| T::next(slf).map(Bound::into_ptr)) }
}

/// Sets `StopIteration(value)`. Awaiting goes another way (`send_step`): this is for `next()`.
fn raise_stop_iteration(py: Python<'_>, value: &Object) {
    match super::call::stop_iteration(value.bind(py)) {
        Ok(error) | Err(error) => error.restore(py),
    }
}

/// `send(value)` of a coroutine, for those who call it by its name.
pub fn sent<T: Steps>(slf: &Bound<'_, T>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    shown(slf.py(), T::send(slf.as_borrowed(), value)?)
}

/// A step as Python code sees it: what is yielded, or StopIteration.
pub fn shown(py: Python<'_>, step: Step) -> PyResult<Py<PyAny>> {
    match step {
        Step::Yielded(object) => Ok(object.bind(py).clone().unbind()),
        Step::Returned(object) => Err(super::call::stop_iteration(object.bind(py))?),
    }
}

/// Gives a class its slots. Called once, when the module is loaded.
pub fn install_steps<T: Steps>(py: Python<'_>) {
    let class = T::type_object_raw(py);
    // SAFETY: the type is alive, and no other thread knows it yet.
    let class = unsafe { &mut *class };
    class.tp_iter = Some(itself);
    class.tp_iternext = Some(next_step::<T>);
    class.tp_flags |= HAVE_AM_SEND;
    // SAFETY: heap types have this table, and this one's `__await__` fills it.
    let table = unsafe { &mut *class.tp_as_async };
    table.am_await = Some(itself);
    table.am_send = Some(send_step::<T>);
}

/// As `install_steps`, and after it.
pub fn install_iterate<T: Iterate>(py: Python<'_>) {
    let class = T::type_object_raw(py);
    // SAFETY: as above.
    let class = unsafe { &mut *class };
    // SAFETY: as above; `__anext__` fills it.
    let table = unsafe { &mut *class.tp_as_async };
    table.am_aiter = Some(itself);
    table.am_anext = Some(anext::<T>);
}
