//! Instances of CPython's own structure sequences, such as `os.stat_result`.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// A new instance with all its fields, in their order, named or not. `None`: the class has another number of fields, as
/// in a version of Python that is not known yet.
pub fn filled<'py, const N: usize>(
    class: &Bound<'py, PyAny>,
    fields: [Bound<'py, PyAny>; N],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = class.py();
    let class = class.cast::<PyType>()?;
    let count: usize = class.getattr(intern!(py, "n_fields"))?.extract()?;
    if count != N {
        return Ok(None);
    }
    // SAFETY: only the classes of structure sequences have `n_fields`; `class` is alive through the call.
    let made = unsafe { ffi::PyStructSequence_New(class.as_type_ptr()) };
    // SAFETY: a new reference, or null with an exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    for (index, field) in fields.into_iter().enumerate() {
        // SAFETY: a new instance, with room for all these fields; the call takes over the reference.
        unsafe {
            ffi::PyStructSequence_SetItem(
                made.as_ptr(),
                index as ffi::Py_ssize_t,
                field.into_ptr(),
            );
        }
    }
    Ok(Some(made))
}
