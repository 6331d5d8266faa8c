//! Vectorcalls without argument tuples.

use super::Object;
use super::awaitable::Step;
use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// Converts the result of a call to the object or the raised exception.
#[inline]
fn finish(py: Python<'_>, result: *mut ffi::PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: a vectorcall returns a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// `callable()`
#[inline]
pub fn call0<'py>(callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: `callable` is alive through the call.
    let result = unsafe { ffi::PyObject_CallNoArgs(callable.as_ptr()) };
    finish(callable.py(), result)
}

/// `callable(*args, **kwargs)`
#[inline]
pub fn call_tuple<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let kwargs = kwargs.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: all are alive through the call; null means no keyword arguments.
    let result = unsafe { ffi::PyObject_Call(callable.as_ptr(), args.as_ptr(), kwargs) };
    finish(callable.py(), result)
}

/// `callable(arg)`
#[inline]
pub fn call1<'py>(
    callable: &Bound<'py, PyAny>,
    arg: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    vectorcall(callable, [arg.as_ptr()])
}

/// `callable(first, second)`
#[inline]
pub fn call2<'py>(
    callable: &Bound<'py, PyAny>,
    first: &Bound<'py, PyAny>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    vectorcall(callable, [first.as_ptr(), second.as_ptr()])
}

#[inline]
fn vectorcall<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    args: [*mut ffi::PyObject; N],
) -> PyResult<Bound<'py, PyAny>> {
    // One free slot in front lets a bound method put its `self` there without a copy (PEP 590,
    // PY_VECTORCALL_ARGUMENTS_OFFSET). No call here has more than two arguments.
    let mut stack = [std::ptr::null_mut(); 3];
    stack[1..=N].copy_from_slice(&args);
    let arguments = stack[1..].as_ptr();
    // SAFETY: the N arguments are borrowed from live `Bound`s, and the slot before them is ours.
    let result = unsafe {
        ffi::PyObject_Vectorcall(
            callable.as_ptr(),
            arguments,
            N | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET,
            std::ptr::null_mut(),
        )
    };
    finish(callable.py(), result)
}

/// One step of a coroutine.
pub fn send<'py>(coroutine: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
    let py = coroutine.py();
    let mut result = std::ptr::null_mut();
    // SAFETY: both are alive through the call, and there is room for a reference.
    let sent = unsafe { ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &raw mut result) };
    // SAFETY: a new reference, or null with an exception set.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, result) }?;
    Ok(match sent {
        ffi::PySendResult::PYGEN_NEXT => Step::Yielded(Object::new(object)),
        _ => Step::Returned(Object::new(object)),
    })
}

/// `coroutine.throw(*args)`, as a step.
pub fn throw<'py>(coroutine: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Step> {
    let py = coroutine.py();
    match coroutine.call_method1(pyo3::intern!(py, "throw"), args.clone()) {
        Ok(yielded) => Ok(Step::Yielded(Object::new(yielded))),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
            let value = error.value(py).getattr(pyo3::intern!(py, "value"))?;
            Ok(Step::Returned(Object::new(value)))
        }
        Err(error) => Err(error),
    }
}

/// `StopIteration(value)`, which the iterator of an awaitable raises to return a value. Works for tuples and
/// exceptions too, which raising by class would unpack.
pub fn stop_iteration(value: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    let class = value.py().get_type::<PyStopIteration>();
    Ok(PyErr::from_value(call1(class.as_any(), value)?))
}

/// The exception that `throw(*args)` of a coroutine raises, from an exception or its class. The two further arguments
/// are obsolete and ignored.
pub fn raised(args: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
    let Ok(first) = args.get_item(0) else {
        return Err(PyTypeError::new_err("throw expected at least 1 argument, got 0"));
    };
    let error = if first.is_instance_of::<PyType>() { first.call0()? } else { first };
    Ok(PyErr::from_value(error))
}
