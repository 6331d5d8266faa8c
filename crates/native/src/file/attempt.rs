//! `Attempt`: the result of an operation that is tried without its slow half.

use crate::ffi::Object;
use crate::ffi::fallible;
use crate::ffi::values::ToPython;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The operation that was called.
pub enum Act {
    Read(usize),
    ReadLine,
    Write(Object),
    ReadAll,
    ReadAt { size: usize, offset: i64 },
    Flush,
    Close,
}

/// The result of an attempt without the slow half.
pub enum Attempt {
    Done(Object),
    /// It has started: the future to wait for, and the next step.
    Wait(Object, Then),
    /// The slow half has to do it.
    Slow,
}

impl Attempt {
    pub fn wait(future: &Bound<'_, PyAny>, then: Then) -> PyResult<Self> {
        let steps = future.call_method0(intern!(future.py(), "__await__"))?;
        Ok(Self::Wait(Object::new(steps), then))
    }
}

/// The step after an operation has waited.
pub enum Then {
    /// It has kept the turn until now; this is the result.
    Leave(Object),
    /// Like `Leave`, but these bytes are buffered first.
    Put(Box<[u8]>, Object),
    /// The bytes read are the result, if there are this many or none.
    Read(usize),
}

impl Act {
    /// The arguments for the slow half.
    pub fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::Read(size) => fallible::tuple(py, [size.to_python(py)?]),
            Self::ReadLine | Self::ReadAll | Self::Flush | Self::Close => Ok(PyTuple::empty(py)),
            Self::Write(data) => fallible::tuple(py, [data.bind(py).clone()]),
            Self::ReadAt { size, offset } => {
                fallible::tuple(py, [size.to_python(py)?, offset.to_python(py)?])
            }
        }
    }
}
