//! Coroutines of others: their steps, and how their results and exceptions are passed on.

use super::Object;
use super::call::call1;
use pyo3::exceptions::{PyStopIteration, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// The result of a step of a coroutine.
pub enum Step {
    /// The object it waits for.
    Yielded(Object),
    Returned(Object),
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
