//! Native coroutines, most of whose values are already available, and the async iterators that return them.
//!
//! `async for` over lines in memory costs three slot calls per line. PyO3's slots, which raise a StopIteration each
//! time, cost more than the line itself (470 ns against 150 for a blocking `for line in file`). So these slots are
//! written by hand. `am_send` is one of them and needs no exception.

use super::coroutine::{Step, stop_iteration};
#[cfg(Py_3_12)]
use super::object::references;
use super::{LoopCell, Object};
use pyo3::ffi;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Py_TPFLAGS_HAVE_AM_SEND, object.h.
const HAVE_AM_SEND: std::ffi::c_ulong = 1 << 21;

/// A coroutine.
pub trait Steps: pyo3::PyClass {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step>;

    /// Where the exception that returns this value is kept, for the next one. `None`: it is a new one.
    #[inline]
    fn spare<'a>(
        _slf: &'a Borrowed<'_, '_, Self>,
        _value: &Bound<'_, PyAny>,
    ) -> Option<&'a SpareStop> {
        None
    }
}

/// The last StopIteration that an object has raised, for its next value. It keeps that value alive until then.
pub type SpareStop = LoopCell<Option<Object>>;

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
                    match T::spare(&slf, value.bind(py)) {
                        Some(spare) => raise_again(py, spare, value),
                        None => raise_stop_iteration(py, value),
                    }
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

/// Sets `StopIteration(value)`. Until Python 3.14 an await in a Python coroutine goes through `next_step` and so through
/// this, for each value: only `asyncio` and native code use `send_step`. A call of the class would cost as much as
/// reading a line.
#[cfg(Py_3_12)]
fn raise_stop_iteration(py: Python<'_>, value: Object) {
    if let Some(made) = made_stop_iteration(py, value) {
        // SAFETY: the call takes over the reference.
        unsafe { ffi::PyErr_SetRaisedException(made.into_ptr()) };
    }
}

/// The same with the exception that was raised before, if nothing else has it and nothing has changed it since.
#[cfg(Py_3_12)]
fn raise_again(py: Python<'_>, spare: &SpareStop, value: Object) {
    let made = match spare.with(py, Option::take) {
        Some(used) if is_unused(&used) => {
            // SAFETY: a StopIteration of `made_stop_iteration` that only this refers to.
            let error = unsafe { &mut *used.as_ptr().cast::<ffi::PyStopIterationObject>() };
            let value = value.into_ptr();
            let old = std::mem::replace(&mut error.value, value);
            // SAFETY: the value is alive: the exception has it.
            let another = unsafe { ffi::Py_NewRef(value) };
            // SAFETY: a tuple of one item that only the exception refers to.
            let item = unsafe { ffi::PyTuple_GET_ITEM(error.args, 0) };
            // SAFETY: as above; the call takes over the reference and leaves the old one, which is released below.
            unsafe { ffi::PyTuple_SET_ITEM(error.args, 0, another) };
            for reference in [old, item] {
                // SAFETY: references that the exception had.
                unsafe { ffi::Py_DECREF(reference) };
            }
            Some(used)
        }
        _ => made_stop_iteration(py, value).map(Object::new),
    };
    let Some(made) = made else { return };
    let raised = made.clone_ref(py);
    drop(spare.with(py, |spare| spare.replace(made)));
    // SAFETY: the call takes over the reference.
    unsafe { ffi::PyErr_SetRaisedException(raised.into_ptr()) };
}

/// Whether only we refer to the exception, and its fields are as they were made.
#[cfg(Py_3_12)]
fn is_unused(used: &Object) -> bool {
    // SAFETY: a live StopIteration.
    let error = unsafe { &*used.as_ptr().cast::<ffi::PyStopIterationObject>() };
    let untouched = [error.dict, error.notes, error.traceback, error.context, error.cause];
    // SAFETY: the tuple is alive: the exception has it.
    let users = unsafe { ffi::Py_REFCNT(error.args) };
    // SAFETY: as above.
    let len = unsafe { ffi::PyTuple_GET_SIZE(error.args) };
    references(used.as_ref()) == 1
        && users == 1
        && len == 1
        && untouched.iter().all(|field| field.is_null())
        && !error.value.is_null()
}

/// `StopIteration(value)`, or `None` with an exception set.
#[cfg(Py_3_12)]
fn made_stop_iteration(py: Python<'_>, value: Object) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the class is alive and static.
    let class = unsafe { ffi::PyExc_StopIteration }.cast::<ffi::PyTypeObject>();
    // SAFETY: as above.
    let alloc = unsafe { (*class).tp_alloc }.unwrap_or(ffi::PyType_GenericAlloc);
    // SAFETY: a complete type, which has no items.
    let made = unsafe { alloc(class, 0) };
    // SAFETY: a new reference, or null with an exception set, which the caller then passes on.
    let made = (unsafe { Bound::from_owned_ptr_or_opt(py, made) })?;
    // SAFETY: the interpreter is attached.
    let args = unsafe { ffi::PyTuple_New(1) };
    if args.is_null() {
        return None;
    }
    let value = value.into_ptr();
    // SAFETY: the value is alive: this holds a reference.
    let another = unsafe { ffi::Py_NewRef(value) };
    // SAFETY: a new tuple with room for one item; the call takes over the reference.
    unsafe { ffi::PyTuple_SET_ITEM(args, 0, another) };
    // SAFETY: a new instance of this class, which nobody else has. Its fields are null, which they all allow for.
    let error = unsafe { &mut *made.as_ptr().cast::<ffi::PyStopIterationObject>() };
    // As its constructor does, this gives it references.
    error.args = args;
    error.value = value;
    Some(made)
}

#[cfg(not(Py_3_12))]
fn raise_again(py: Python<'_>, _spare: &SpareStop, value: Object) {
    raise_stop_iteration(py, value);
}

#[cfg(not(Py_3_12))]
fn raise_stop_iteration(py: Python<'_>, value: Object) {
    match stop_iteration(value.bind(py)) {
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
        Step::Returned(object) => Err(stop_iteration(object.bind(py))?),
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
