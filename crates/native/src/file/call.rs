//! `call`: runs a Python callable on a pool thread, for operations that have no request.

use super::Files;
use super::exit::Running;
use super::operations::Strategy;
use super::pending::{Conversion, ReturnValue};
use crate::ffi::thread_state::{self, NoState};
use crate::imports;
use oneloop_engine::files::mount::Place;
use oneloop_engine::files::{AT_FDCWD, Engines, Lane, cached};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

struct Callable {
    function: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

impl Callable {
    fn new<'py>(
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> Self {
        let kwargs = kwargs.map(Bound::unbind);
        Self { function: function.unbind(), args: args.unbind(), kwargs }
    }

    /// Runs on a pool thread, which takes the GIL for it.
    fn run(self, returned: &ReturnValue) {
        let attached = thread_state::attached(|py| {
            let kwargs = self.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
            let result = self.function.bind(py).call(self.args.bind(py), kwargs);
            let result = result.map(Bound::unbind);
            *returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            // Dropped here, while the GIL is held.
            drop(self);
        });
        if let Err(NoState) = attached {
            let error = PyMemoryError::new_err(());
            *returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(Err(error));
        }
    }
}

/// The longest path that the kernel takes, in bytes: path_resolution(7).
const PATH_MAX: usize = 4096;

/// The place that a call probably works on: that of the paths among its arguments, or of the path whose method it is.
/// It only selects the threads, so a wrong guess does no harm.
fn place_of(function: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> Place {
    let py = function.py();
    let place = |object: Bound<'_, PyAny>| -> PyResult<Place> {
        let is_path = object.is_instance_of::<PyString>()
            || object.is_instance_of::<PyBytes>()
            || object.hasattr(intern!(py, "__fspath__"))?;
        // What is longer is content: it must not be copied on the loop's thread.
        let is_content = object.len().is_ok_and(|len| len > PATH_MAX);
        if !is_path || is_content {
            return Ok(Place::Unknown);
        }
        let bytes = imports::fsencode(py)?.call1((object,))?;
        let path = CString::new(bytes.cast::<PyBytes>()?.as_bytes())?;
        Ok(cached::place_of(AT_FDCWD, &path))
    };
    let owner = function.getattr(intern!(py, "__self__")).ok();
    // The function reports what is wrong with an argument.
    Place::first_remote(
        args.iter().chain(owner).map(|object| place(object).unwrap_or(Place::Unknown)),
    )
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
        // Looking at the paths costs three system calls each.
        let is_spare = slf
            .get()
            .engines
            .with(slf.py(), |engines| engines.as_ref().is_none_or(Engines::has_spare_thread));
        let place = if is_spare { Place::Unknown } else { place_of(&function, &args) };
        Self::call_in(slf, Lane::Remote(place), Callable::new(function, args, kwargs))
    }

    /// Like `call`, for functions with many steps, on threads that no short work waits for.
    #[pyo3(signature = (function, /, *args, **kwargs))]
    fn call_long<'py>(
        slf: &Bound<'py, Self>,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lane = Lane::Long(place_of(&function, &args));
        Self::call_in(slf, lane, Callable::new(function, args, kwargs))
    }

    /// Like `call_long`, for copies of files and trees.
    #[pyo3(signature = (function, /, *args, **kwargs))]
    fn call_copy<'py>(
        slf: &Bound<'py, Self>,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lane = Lane::Copy(place_of(&function, &args));
        Self::call_in(slf, lane, Callable::new(function, args, kwargs))
    }

    /// Like `call_long`, for removals of trees.
    #[pyo3(signature = (function, /, *args, **kwargs))]
    fn call_removal<'py>(
        slf: &Bound<'py, Self>,
        function: Bound<'py, PyAny>,
        args: Bound<'py, PyTuple>,
        kwargs: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lane = Lane::Remove(place_of(&function, &args));
        Self::call_in(slf, lane, Callable::new(function, args, kwargs))
    }
}

impl Files {
    fn call_in<'py>(
        slf: &Bound<'py, Self>,
        lane: Lane,
        callable: Callable,
    ) -> PyResult<Bound<'py, PyAny>> {
        let returned: ReturnValue = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&returned);
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
        Self::begin_cancellable(
            slf,
            Strategy::Call(Box::new(work), lane),
            Conversion::ReturnValue(returned),
        )
    }
}
