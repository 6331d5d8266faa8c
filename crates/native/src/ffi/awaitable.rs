//! Native coroutines, most of whose values are already available, and the async iterators that return them.
//!
//! `async for` over lines in memory costs three slot calls per line. PyO3's slots, which raise a StopIteration each
//! time, cost more than the line itself (470 ns against 150 for a blocking `for line in file`). So these slots are
//! written by hand. `am_send` is one of them and needs no exception.

use super::Object;
use pyo3::ffi;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Py_TPFLAGS_HAVE_AM_SEND, object.h.
const HAVE_AM_SEND: std::ffi::c_ulong = 1 << 21;

/// The result of a step of a coroutine.
pub enum Step {
    /// The object it waits for.
    Yielded(Object),
    Returned(Object),
}

/// A coroutine.
pub trait Steps: pyo3::PyClass {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step>;
}

/// An async iterator that can return its next awaitable without Python code.
pub trait Iterate: pyo3::PyClass {
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>>;
}

/// Runs `f` on an object of class `T`. Sets exceptions, and turns panics into exceptions (S7).
///
/// # Safety
/// Must be called by CPython from a slot of `T`, with an instance of `T`.
unsafe fn serve<T: pyo3::PyClass>(
    object: *mut ffi::PyObject,
    f: impl for<'py> FnOnce(Borrowed<'_, 'py, T>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls slots with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the object is alive through the call.
    let slf = unsafe { Borrowed::<PyAny>::from_ptr(py, object) };
    // SAFETY: the caller's promise.
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
                // For tp_iternext, null without an exception means the value None.
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
    // SAFETY: the caller passes room for a reference; it is set to null if an exception is set.
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

/// Sets `StopIteration(value)`. Only for `next()`; awaiting uses `send_step`.
fn raise_stop_iteration(py: Python<'_>, value: &Object) {
    match super::call::stop_iteration(value.bind(py)) {
        Ok(error) | Err(error) => error.restore(py),
    }
}

/// `send(value)` of a coroutine, for code that calls the method.
pub fn sent<T: Steps>(slf: &Bound<'_, T>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    shown(slf.py(), T::send(slf.as_borrowed(), value)?)
}

/// Converts a step to what Python code sees: the yielded object, or StopIteration.
pub fn shown(py: Python<'_>, step: Step) -> PyResult<Py<PyAny>> {
    match step {
        Step::Yielded(object) => Ok(object.bind(py).clone().unbind()),
        Step::Returned(object) => Err(super::call::stop_iteration(object.bind(py))?),
    }
}

/// Installs the slots of a class. Called once, when the module is loaded.
pub fn install_steps<T: Steps>(py: Python<'_>) {
    let class = T::type_object_raw(py);
    // SAFETY: the type is alive, and no other thread has seen it yet.
    let class = unsafe { &mut *class };
    class.tp_iter = Some(itself);
    class.tp_iternext = Some(next_step::<T>);
    class.tp_flags |= HAVE_AM_SEND;
    // SAFETY: heap types have this table, and the class's `__await__` makes PyO3 fill it.
    let table = unsafe { &mut *class.tp_as_async };
    table.am_await = Some(itself);
    table.am_send = Some(send_step::<T>);
}

/// Like `install_steps`, to be called after it.
pub fn install_iterate<T: Iterate>(py: Python<'_>) {
    let class = T::type_object_raw(py);
    // SAFETY: as in `install_steps`.
    let class = unsafe { &mut *class };
    // SAFETY: as in `install_steps`; `__anext__` makes PyO3 fill it.
    let table = unsafe { &mut *class.tp_as_async };
    table.am_aiter = Some(itself);
    table.am_anext = Some(anext::<T>);
}
