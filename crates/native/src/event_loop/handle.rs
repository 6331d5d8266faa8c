//! `Handle`: what `call_soon` returns.

use super::turnstile::Turnstile;
use super::work::{Args, Call, Work};
use crate::ffi::method::BareMethod;
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::values::Value;
use crate::ffi::{Object, context};
use crate::imports;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;

/// A callback waiting to run. Returned by `loop.call_soon()` and `loop.call_soon_threadsafe()`; has the interface of
/// `asyncio.Handle`.
#[pyclass(frozen, weakref, module = "oneloop")]
pub struct Handle {
    pub work: Work,
    pub turnstile: Turnstile,
}

impl Handle {
    /// Makes a handle for a callback that runs repeatedly, in a copy of the current context.
    pub fn make(
        py: Python<'_>,
        callback: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<Self>> {
        let args = if args.is_empty() {
            Args::None
        } else {
            Args::Many(Object::new(args.clone().into_any()))
        };
        let context = Object::new(context::copy_current(py)?);
        let work = Work::new(Call { callback: callback.into(), args }, context);
        let made = recycled::make(py, Self { work, turnstile: Turnstile::open() })?.unbind();
        recycled::track(py, &made);
        Ok(made)
    }
}

impl Recycled for Handle {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

#[pymethods]
impl Handle {
    /// The class that `isinstance` also accepts, because native classes cannot have Python bases.
    #[getter(__class__)]
    fn presented_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.turnstile.is_shared() {
            return imports::stock_threadsafe_handle(py);
        }
        imports::stock_handle(py)
    }

    /// True if the callback was cancelled.
    fn cancelled(&self, py: Python<'_>) -> bool {
        self.turnstile.wait(py);
        self.work.is_cancelled()
    }

    /// The contextvars.Context in which the callback will run, or None once it has run.
    fn get_context<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.work.context(py)
    }

    #[getter]
    fn _callback<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.work.parts(py)?.map(|(callback, _)| callback))
    }

    #[getter]
    fn _args<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        Ok(self.work.parts(py)?.map(|(_, args)| args))
    }

    #[getter]
    fn _context<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.work.context(py)
    }

    #[getter]
    fn _cancelled(&self) -> bool {
        self.work.is_cancelled()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.work.visit(&visit)
    }

    fn __clear__(&self, py: Python<'_>) {
        self.work.forget(py);
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        let state = if self.work.is_cancelled() { " cancelled" } else { "" };
        let what = self.work.describe(py)?;
        let space = if what.is_empty() { "" } else { " " };
        Ok(Value(format!("<Handle{state}{space}{what}>")))
    }
}

/// `Handle.cancel`
pub struct Cancel;

impl BareMethod for Cancel {
    type Class = Handle;
    const NAME: &'static CStr = c"cancel";
    const DOC: &'static CStr = c"cancel($self, /)\n--\n\nCancel the callback. A second call, or one after the callback has run, does nothing.";

    fn call<'py>(slf: Borrowed<'_, 'py, Handle>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().turnstile.wait(slf.py());
        slf.get().work.cancel(slf.py());
        Ok(slf.py().None().into_bound(slf.py()))
    }
}
