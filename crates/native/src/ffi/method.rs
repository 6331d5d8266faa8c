//! Methods with CPython's fastest calling convention, added to a pyclass after its creation.
//!
//! PyO3's own methods collect `*args` into a tuple. The four `call_*` methods run once for every callback of a
//! program, so they take the caller's argument array as it is (METH_FASTCALL | METH_KEYWORDS).

use super::fallible;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

type OneOrTwo<'a, 'py> = (Borrowed<'a, 'py, PyAny>, Option<Borrowed<'a, 'py, PyAny>>);

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

    /// The names of the keyword arguments, and their values.
    #[inline]
    pub fn named(&self) -> Option<(Borrowed<'a, 'py, PyTuple>, &'a [Borrowed<'a, 'py, PyAny>])> {
        self.names.map(|names| (names, self.keywords))
    }

    /// `callable(*positional, **keywords, loop=loop)`: the original call with one more argument. `only_loop` holds
    /// it, so that no dictionary is made for every instance. The callable must not keep or change its keywords.
    pub fn call_with_loop(
        &self,
        callable: &Bound<'py, PyAny>,
        only_loop: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callable.py();
        let args = match self.positional {
            [] => PyTuple::empty(py),
            given => fallible::tuple_of(py, given.iter().map(|value| (*value).to_owned()))?,
        };
        if self.keywords.is_empty() {
            return callable.call(args, Some(only_loop));
        }
        let keywords = only_loop.copy()?;
        for (name, value) in self.names.iter().flat_map(|n| n.iter()).zip(self.keywords) {
            if keywords.contains(&name)? {
                let text = "got multiple values for keyword argument 'loop'";
                return Err(PyTypeError::new_err(text));
            }
            keywords.set_item(name, *value)?;
        }
        callable.call(args, Some(&keywords))
    }

    /// `callable(*positional, **keywords)`: the original call.
    pub fn call(&self, callable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = callable.py();
        let args = fallible::tuple_of(py, self.positional.iter().map(|value| (*value).to_owned()))?;
        let keywords = fallible::dict(py)?;
        for (name, value) in self.names.iter().flat_map(|n| n.iter()).zip(self.keywords) {
            keywords.set_item(name, *value)?;
        }
        callable.call(args, Some(&keywords))
    }

    /// `function(slf, *positional, **keywords)`: the original call, made to another function.
    pub fn call_after(
        &self,
        function: &Bound<'py, PyAny>,
        slf: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let positional = self.positional.iter().map(|value| (*value).to_owned());
        let all: Vec<_> = std::iter::once(slf.clone()).chain(positional).collect();
        let args = fallible::tuple_of(function.py(), all.into_iter())?;
        let keywords = fallible::dict(function.py())?;
        for (name, value) in self.names.iter().flat_map(|n| n.iter()).zip(self.keywords) {
            keywords.set_item(name, *value)?;
        }
        function.call(args, Some(&keywords))
    }

    /// The only argument of a function, by position or by name; TypeError otherwise.
    #[inline]
    pub fn one(
        &self,
        function: &str,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Borrowed<'a, 'py, PyAny>> {
        if let [only] = self.positional
            && self.keywords.is_empty()
        {
            return Ok(*only);
        }
        match self.only_keyword(function, name)? {
            Some(value) if self.positional.is_empty() => Ok(value),
            _ => Err(PyTypeError::new_err(format!(
                "{function}() takes exactly one argument: {name}"
            ))),
        }
    }

    /// The arguments `(first, second=None)` of a function, by position or by name; TypeError otherwise.
    #[inline]
    pub fn one_or_two(
        &self,
        function: &str,
        names: [&Bound<'py, PyString>; 2],
    ) -> PyResult<OneOrTwo<'a, 'py>> {
        match (self.positional, self.keywords) {
            ([first], []) => Ok((*first, None)),
            ([first, second], []) => Ok((*first, Some(*second))),
            _ => self.one_or_two_by_name(function, names),
        }
    }

    #[cold]
    fn one_or_two_by_name(
        &self,
        function: &str,
        names: [&Bound<'py, PyString>; 2],
    ) -> PyResult<OneOrTwo<'a, 'py>> {
        let wrong = |text: String| Err(PyTypeError::new_err(format!("{function}() {text}")));
        let given = self.positional.len();
        if given > names.len() {
            return wrong(format!("takes at most {} arguments ({given} given)", names.len()));
        }
        let mut values = [None, None];
        for (place, value) in values.iter_mut().zip(self.positional) {
            *place = Some(*value);
        }
        for (name, value) in self.names.iter().flat_map(|n| n.iter()).zip(self.keywords) {
            let [first, second] = names;
            let place = match (name.eq(first)?, name.eq(second)?) {
                (true, _) => &mut values[0],
                (_, true) => &mut values[1],
                _ => return wrong(format!("got an unexpected keyword argument '{name}'")),
            };
            if place.replace(*value).is_some() {
                return wrong(format!("got multiple values for argument '{name}'"));
            }
        }
        match values {
            [Some(first), second] => Ok((first, second)),
            [None, _] => wrong(format!("missing required argument: '{}'", names[0])),
        }
    }

    /// The only keyword argument that a function accepts; TypeError for any other.
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

/// One method: its name, its documentation in CPython's format, and its function.
///
/// `call` gets `self` as the class that the method was added to; CPython's method descriptor has checked the type.
pub trait FastMethod {
    type Class: pyo3::PyClass;

    const NAME: &'static CStr;
    const DOC: &'static CStr;

    fn call<'py>(
        slf: Borrowed<'_, 'py, Self::Class>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>;
}

/// Like `FastMethod`, for a method without arguments, which has an even cheaper convention (METH_NOARGS).
pub trait BareMethod {
    type Class: pyo3::PyClass;

    const NAME: &'static CStr;
    const DOC: &'static CStr;

    fn call<'py>(slf: Borrowed<'_, 'py, Self::Class>) -> PyResult<Bound<'py, PyAny>>;
}

/// Converts an outcome for C: sets exceptions, and turns panics into exceptions (S7).
#[inline]
fn hand_over(
    py: Python<'_>,
    outcome: std::thread::Result<PyResult<Bound<'_, PyAny>>>,
) -> *mut ffi::PyObject {
    match outcome {
        Ok(Ok(object)) => object.into_ptr(),
        Ok(Err(error)) => {
            error.restore(py);
            std::ptr::null_mut()
        }
        Err(panic) => {
            raise_panic(py, &*panic);
            std::ptr::null_mut()
        }
    }
}

#[cold]
fn raise_panic(py: Python<'_>, panic: &(dyn std::any::Any + Send)) {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic in oneloop".to_owned());
    pyo3::panic::PanicException::new_err((text,)).restore(py);
}

/// The C function of `M`, which converts its arguments to slices.
///
/// # Safety
/// Must be called by CPython as METH_FASTCALL | METH_KEYWORDS.
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
        let slf = unsafe { Borrowed::<PyAny>::from_ptr(py, slf) };
        // SAFETY: the method is only reachable through a descriptor of this class, which checks the type.
        let slf = unsafe { slf.cast_unchecked::<M::Class>() };
        // SAFETY: null, or a tuple of names that is alive through the call.
        let names = unsafe { Borrowed::from_ptr_or_opt(py, kwnames) }
            // SAFETY: the calling convention passes a tuple.
            .map(|names| unsafe { names.cast_unchecked::<PyTuple>() });
        let count = nargs.cast_unsigned();
        let named = names.map_or(0, |names| names.len());
        let all: &[Borrowed<'_, '_, PyAny>] = if count + named == 0 {
            &[]
        } else {
            // SAFETY: the caller passes that many live, non-null references; `Borrowed` is a transparent wrapper of
            // such a pointer.
            unsafe { std::slice::from_raw_parts(args.cast(), count + named) }
        };
        let (positional, keywords) = all.split_at(count);
        M::call(slf, Arguments { positional, keywords, names })
    }));
    hand_over(py, outcome)
}

/// The C function of `M`.
///
/// # Safety
/// Must be called by CPython as METH_NOARGS.
unsafe extern "C" fn bare_trampoline<M: BareMethod>(
    slf: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls methods with the interpreter attached.
    let py = unsafe { Python::assume_attached() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `self` is alive through the call.
        let slf = unsafe { Borrowed::<PyAny>::from_ptr(py, slf) };
        // SAFETY: the method is only reachable through a descriptor of this class, which checks the type.
        M::call(unsafe { slf.cast_unchecked::<M::Class>() })
    }));
    hand_over(py, outcome)
}

/// Adds `M` to a type.
pub fn add<M: FastMethod>(py: Python<'_>) -> PyResult<()> {
    let function = ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampoline::<M> };
    let flags = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
    add_function(&py.get_type::<M::Class>(), M::NAME, M::DOC, function, flags)
}

/// Adds `M` to a type.
pub fn add_bare<M: BareMethod>(py: Python<'_>) -> PyResult<()> {
    let function = ffi::PyMethodDefPointer { PyCFunction: bare_trampoline::<M> };
    add_function(&py.get_type::<M::Class>(), M::NAME, M::DOC, function, ffi::METH_NOARGS)
}

/// The definition is leaked, because CPython needs it as long as the process lives.
fn add_function(
    class: &Bound<'_, PyType>,
    name: &'static CStr,
    doc: &'static CStr,
    function: ffi::PyMethodDefPointer,
    flags: std::ffi::c_int,
) -> PyResult<()> {
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: function,
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }));
    // SAFETY: the type and the leaked definition are alive.
    let descriptor = unsafe { ffi::PyDescr_NewMethod(class.as_ptr().cast(), definition) };
    // SAFETY: a new reference, or null with an exception set.
    let descriptor = unsafe { Bound::from_owned_ptr_or_err(class.py(), descriptor) }?;
    class.setattr(fallible::text(class.py(), &name.to_string_lossy())?, descriptor)
}
