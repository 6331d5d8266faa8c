//! Methods with CPython's fastest calling convention, added to a pyclass after its creation.
//!
//! PyO3's own methods collect `*args` into a tuple. The four `call_*` methods run once for every
//! callback of a program, so they take the caller's argument array as it is
//! (METH_FASTCALL | METH_KEYWORDS).

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The arguments of one call, borrowed from the caller's array.
pub struct Arguments<'a, 'py> {
    positional: &'a [Borrowed<'a, 'py, PyAny>],
    keywords: &'a [Borrowed<'a, 'py, PyAny>],
    names: Option<Borrowed<'a, 'py, PyTuple>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    pub fn positional(&self) -> &'a [Borrowed<'a, 'py, PyAny>] {
        self.positional
    }

    /// The one keyword argument that a function takes; TypeError for any other.
    #[inline]
    pub fn only_keyword(
        &self,
        function: &str,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Option<Borrowed<'a, 'py, PyAny>>> {
        let Some(names) = self.names else { return Ok(None) };
        for (index, given) in names.iter_borrowed().enumerate() {
            if given.as_ptr() != name.as_ptr() && !given.eq(name)? {
                return Err(PyTypeError::new_err(format!(
                    "{function}() got an unexpected keyword argument '{}'",
                    given.to_owned()
                )));
            }
            if index + 1 == names.len() {
                return Ok(Some(self.keywords[index]));
            }
        }
        Ok(None)
    }
}

/// One method: its name, its documentation in CPython's form, and what it does.
pub trait FastMethod {
    const NAME: &'static CStr;
    const DOC: &'static CStr;

    fn call<'py>(
        slf: Borrowed<'_, 'py, PyAny>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>;
}

/// The C function of `M`: the arguments as slices, exceptions set, panics turned into exceptions (S7).
///
/// # Safety
/// To be called by CPython as METH_FASTCALL | METH_KEYWORDS.
unsafe extern "C" fn trampoline<M: FastMethod>(
    slf: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    nargs: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls methods with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `self` is alive through the call.
        let slf = unsafe { Borrowed::from_ptr(py, slf) };
        // SAFETY: null, or a tuple of names that is alive through the call.
        let names = unsafe { Borrowed::from_ptr_or_opt(py, kwnames) }
            // SAFETY: the calling convention says that it is a tuple.
            .map(|names| unsafe { names.cast_unchecked::<PyTuple>() });
        let count = nargs.cast_unsigned();
        let named = names.map_or(0, |names| names.len());
        let all: &[Borrowed<'_, '_, PyAny>] = if count + named == 0 {
            &[]
        } else {
            // SAFETY: the caller passes that many live, non-null references; `Borrowed` is a
            // transparent wrapper of such a pointer.
            unsafe { std::slice::from_raw_parts(args.cast(), count + named) }
        };
        let (positional, keywords) = all.split_at(count);
        M::call(slf, Arguments { positional, keywords, names })
    }));
    match outcome {
        Ok(Ok(object)) => object.into_ptr(),
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            let text = panic
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "panic in oneloop".to_owned());
            pyo3::panic::PanicException::new_err((text,)).restore(py);
            std::ptr::null_mut()
        }
    }
}

/// Adds `M` to a type. The definition lives as long as the process, as CPython wants.
pub fn add<M: FastMethod>(class: &Bound<'_, PyType>) -> PyResult<()> {
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: M::NAME.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampoline::<M> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: M::DOC.as_ptr(),
    }));
    // SAFETY: the type and the leaked definition are alive.
    let descriptor = unsafe {
        Bound::from_owned_ptr_or_err(
            class.py(),
            ffi::PyDescr_NewMethod(class.as_ptr().cast(), definition),
        )
    }?;
    class.setattr(PyString::new(class.py(), &M::NAME.to_string_lossy()), descriptor)
}
