//! What a class tells about itself without a look-up.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// A number that changes whenever the class or a base of it is modified; `None` while it has none
/// (just modified, or modified too often).
#[inline]
pub fn version(class: &Bound<'_, PyType>) -> Option<u32> {
    // SAFETY: the class is alive; the GIL keeps others from modifying it.
    let version = unsafe { (*class.as_type_ptr()).tp_version_tag };
    Some(version).filter(|version| *version != 0)
}

/// Whether instances of both are made by the same `__new__`.
pub fn same_new(class: &Bound<'_, PyType>, other: &Bound<'_, PyType>) -> bool {
    // SAFETY: the class is alive, and complete.
    let one = unsafe { (*class.as_type_ptr()).tp_new };
    // SAFETY: as above.
    let two = unsafe { (*other.as_type_ptr()).tp_new };
    one.map(|new| new as usize) == two.map(|new| new as usize)
}

/// A new instance of the class as its `__new__` makes it without arguments; `__init__` is not called.
pub fn new_instance<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: the class is alive, and complete: `tp_new` is inherited.
    let new = unsafe { (*class.as_type_ptr()).tp_new };
    let Some(new) = new else { return class.call0() };
    let arguments = PyTuple::empty(py);
    // SAFETY: as `type.__call__` does it; null stands for no keywords.
    let made = unsafe { new(class.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}
