//! What a class tells about itself without a look-up.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// A number that changes whenever the class or a base of it is modified; `None` while it has none
/// (just modified, or modified too often).
#[inline]
pub fn version(class: &Bound<'_, PyType>) -> Option<u32> {
    // SAFETY: the class is alive; the GIL keeps others from modifying it.
    let version = unsafe { (*class.as_type_ptr()).tp_version_tag };
    Some(version).filter(|version| *version != 0)
}
