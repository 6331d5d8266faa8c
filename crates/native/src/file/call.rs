//! `call`: runs a Python callable on a pool thread, for operations that have no request.

use super::Files;
use super::exit::Running;
use super::operations::Way;
use super::pending::{Answer, Want};
use oneloop_engine::files::Lane;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

struct Callable {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

impl Callable {
    /// Runs on a pool thread, which takes the GIL for it.
    fn run(self, answer: &Answer) {
        let attached = Python::try_attach(|py| {
            let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
            let result = self.function.bind(py).call(self.args.bind(py), kwargs);
            let result = result.map(Bound::unbind);
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            // Dropped here, while the GIL is held.
            drop(self);
        });
        // The interpreter is shutting down: nobody waits for an answer any more.
        let _gone = attached.is_none();
    }
}

#[pymethods]
impl Files {
    /// Call `function(*args, **kwargs)` on a thread. Cancelling the future only has an effect before a thread has
    /// started the call.
    #[pyo3(signature = (function, /, *args, **kwargs))]
    fn call<'py>(
        slf: &Bound<'py, Self>,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::call_in(slf, Lane::Far, function, args, kwargs)
    }

    /// Like `call`, for functions with many steps, on threads that no short work waits for.
    #[pyo3(signature = (function, /, *args, **kwargs))]
    fn call_long<'py>(
        slf: &Bound<'py, Self>,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::call_in(slf, Lane::Long, function, args, kwargs)
    }
}

impl Files {
    fn call_in<'py>(
        slf: &Bound<'py, Self>,
        lane: Lane,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let callable = Callable {
            function: function.unbind(),
            args: args.unbind(),
            kwargs: kwargs.map(Bound::unbind),
        };
        let answer: Answer = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&answer);
        let running = Running::begin();
        let work = move || {
            let _running = running;
            // A panic would end the thread and leave the future waiting (S7).
            let caught = catch_unwind(AssertUnwindSafe(|| callable.run(&theirs)));
            if caught.is_err() {
                let error = PyRuntimeError::new_err("panic in a thread for file operations");
                *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(Err(error));
            }
            Ok(0)
        };
        Self::begin_cancellable(slf, Way::Call(Box::new(work), lane), Want::Answer(answer))
    }
}
