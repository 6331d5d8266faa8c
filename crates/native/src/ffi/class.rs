//! Properties of a class, read without attribute lookups.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// A number that changes whenever the class or one of its bases is modified; `None` while it has none (just modified,
/// or modified too often).
#[inline]
pub fn version(class: &Bound<'_, PyType>) -> Option<u32> {
    // SAFETY: the class is alive; the GIL keeps others from modifying it.
    let version = unsafe { (*class.as_type_ptr()).tp_version_tag };
    Some(version).filter(|version| *version != 0)
}

/// Whether both classes have the same `__new__`.
pub fn same_new(class: &Bound<'_, PyType>, other: &Bound<'_, PyType>) -> bool {
    // SAFETY: the class is alive and ready.
    let one = unsafe { (*class.as_type_ptr()).tp_new };
    // SAFETY: as for `one`.
    let two = unsafe { (*other.as_type_ptr()).tp_new };
    one.map(|new| new as usize) == two.map(|new| new as usize)
}

/// What `object.name` is, where `descriptor` is the type's own attribute of that name: a method, whose name no instance
/// can have.
pub fn bound<'py>(
    descriptor: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    // SAFETY: the class is alive and ready.
    let get = unsafe { (*descriptor.get_type_ptr()).tp_descr_get };
    let Some(get) = get else { return Ok(descriptor.clone()) };
    let class = object.get_type_ptr().cast();
    // SAFETY: the same call as in `object.__getattribute__`.
    let made = unsafe { get(descriptor.as_ptr(), object.as_ptr(), class) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// A new instance made by the class's `__new__` without arguments; `__init__` is not called.
pub fn new_instance<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: the class is alive and ready: `tp_new` is inherited.
    let new = unsafe { (*class.as_type_ptr()).tp_new };
    let Some(new) = new else { return class.call0() };
    let arguments = PyTuple::empty(py);
    // SAFETY: the same call as in `type.__call__`; null means no keyword arguments.
    let made = unsafe { new(class.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}
