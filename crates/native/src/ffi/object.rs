//! `Object`: an owned reference that is dropped without checking whether the interpreter is attached.
//!
//! `Py<T>` reads a thread-local on every drop, because it may be dropped anywhere. Through the dynamic linker that
//! costs more than the drop itself. `Object` is used only where destructors run attached: in pyclasses (which the
//! interpreter deallocates) and on the stack of native methods. Measured on a `call_soon` chain: see
//! docs/design/0006.

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyTraverseError, PyVisit};
use std::mem::ManuallyDrop;

pub struct Object<T = PyAny>(ManuallyDrop<Py<T>>);

/// The number of references to an object, including ours.
pub fn references<T>(object: &Py<T>) -> isize {
    // SAFETY: the object is alive while `object` refers to it.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Whether the instance that has this field is initialised. Before Python 3.13, object_new allocates the `__dict__`
/// of an instance when its memory is tracked but still zero. The allocation may run the garbage collector, which then
/// must not visit the field.
pub fn is_made<T>(field: &Py<T>) -> bool {
    let pointer = std::ptr::from_ref(field).cast::<usize>();
    // SAFETY: a `Py` is a pointer, whose bits are read as a number. Volatile, because the value may be zero, which no
    // `Py` can be.
    unsafe { std::ptr::read_volatile(pointer) != 0 }
}

impl<T> Object<T> {
    #[inline]
    pub fn new(object: Bound<'_, T>) -> Self {
        Self(ManuallyDrop::new(object.unbind()))
    }

    #[inline]
    pub fn bind<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, T> {
        self.0.bind(py)
    }

    #[inline]
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self(ManuallyDrop::new(self.0.clone_ref(py)))
    }

    pub fn as_ref(&self) -> &Py<T> {
        &self.0
    }

    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// The reference, for a caller that will release it.
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&*self.0)
    }
}

impl<T: PyClass<Frozen = True> + Sync> Object<T> {
    #[inline]
    pub fn get(&self) -> &T {
        self.0.get()
    }
}

impl<T> From<Bound<'_, T>> for Object<T> {
    #[inline]
    fn from(object: Bound<'_, T>) -> Self {
        Self::new(object)
    }
}

impl<T> From<Py<T>> for Object<T> {
    #[inline]
    fn from(object: Py<T>) -> Self {
        Self(ManuallyDrop::new(object))
    }
}

impl<T> Drop for Object<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this only reads the thread's state.
        debug_assert_eq!(unsafe { ffi::PyGILState_Check() }, 1, "dropped while detached");
        // SAFETY: the reference is ours and never used again; the thread is attached, as the head of this file says.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) }
    }
}
