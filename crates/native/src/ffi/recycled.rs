//! Pyclasses whose instances come and go with every callback, made from recycled memory.
//!
//! PyO3's own freelist takes a lock and thread-local look-ups per object; this one is a vector
//! that the GIL guards. `make` writes into recycled memory; `install` replaces the class's
//! `tp_dealloc` by one that keeps the memory, and takes the class out of garbage collection, where
//! PyO3 puts every class: a flood of handles would make the collector walk all of them again and
//! again (half of the cost of `call_soon_threadsafe`). Only for frozen classes without `__dict__`
//! or weak references, which Python code can neither instantiate nor subclass, and whose instances
//! let go of what they refer to when they have served.
//! Free-threaded builds, where no GIL guards the vector, keep PyO3's allocation.

use super::LoopCell;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, PyClassInitializer};

/// Objects kept for reuse, per class.
const KEPT: usize = 1024;

/// The memory of dead instances, and where in an instance its value lies.
#[derive(Default)]
struct Memory {
    addresses: Vec<usize>,
    offset: usize,
}

pub struct Pool(LoopCell<Memory>);

impl Pool {
    pub const fn new() -> Self {
        Self(LoopCell::new(Memory { addresses: Vec::new(), offset: 0 }))
    }
}

pub trait Recycled: PyClass<Frozen = True> + Sync + Into<PyClassInitializer<Self>> {
    fn pool() -> &'static Pool;
}

/// A new instance.
#[inline]
pub fn make<T: Recycled>(py: Python<'_>, value: T) -> PyResult<Bound<'_, T>> {
    let recycled = T::pool().0.with(py, |m| m.addresses.pop().map(|address| (address, m.offset)));
    let Some((address, offset)) = recycled else {
        return Bound::new(py, value);
    };
    let object = address as *mut ffi::PyObject;
    // SAFETY: the memory of a dead instance of this class, as `dealloc` has left it. This sets its
    // reference count and takes a reference to the type.
    unsafe { ffi::PyObject_Init(object, T::type_object_raw(py)) };
    // SAFETY: `offset` was measured on a live instance: it stays inside the instance.
    let contents = unsafe { object.byte_add(offset) }.cast::<T>();
    // SAFETY: the value's place in a dead instance: aligned, ours, and nothing is overwritten.
    unsafe { contents.write(value) };
    // SAFETY: a new reference to what is a complete instance now.
    let object = unsafe { Bound::from_owned_ptr(py, object) };
    // SAFETY: PyObject_Init has given it the type of `T`.
    Ok(unsafe { object.cast_into_unchecked() })
}

/// Drops the value and keeps the memory.
///
/// # Safety
/// To be called by CPython as the `tp_dealloc` of `T`.
unsafe extern "C" fn dealloc<T: Recycled>(object: *mut ffi::PyObject) {
    // SAFETY: objects are deallocated by attached threads.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the object has no references left, but its value is still alive.
    let borrowed = unsafe { Borrowed::<PyAny>::from_ptr(py, object) };
    // SAFETY: this is the `tp_dealloc` of `T` alone.
    let borrowed = unsafe { borrowed.cast_unchecked::<T>() };
    let value = std::ptr::from_ref(borrowed.get()).cast_mut();
    let offset = value.addr() - object.addr();
    // SAFETY: nobody refers to the value any more, and it is not used again.
    unsafe { std::ptr::drop_in_place(value) };
    // SAFETY: the type is alive: this instance still holds a reference to it.
    let class = unsafe { ffi::Py_TYPE(object) };
    let kept = T::pool().0.with(py, |memory| {
        let keep = memory.addresses.len() < KEPT;
        if keep {
            memory.offset = offset;
            memory.addresses.push(object.addr());
        }
        keep
    });
    if !kept {
        // SAFETY: the inverse of PyType_GenericAlloc for a class without garbage collection.
        unsafe { ffi::PyObject_Free(object.cast()) };
    }
    // SAFETY: the reference that the instance held; `make` takes a new one.
    unsafe { ffi::Py_DECREF(class.cast()) };
}

/// Makes the class recycle its instances. Called once, when the module is loaded.
pub fn install<T: Recycled>(py: Python<'_>) {
    if cfg!(Py_GIL_DISABLED) {
        return;
    }
    let class = T::type_object_raw(py);
    // SAFETY: the type is alive, no instance has been made yet, and no other thread knows it.
    let class = unsafe { &mut *class };
    class.tp_dealloc = Some(dealloc::<T>);
    class.tp_free = Some(ffi::PyObject_Free);
    class.tp_traverse = None;
    class.tp_clear = None;
    class.tp_flags &= !ffi::Py_TPFLAGS_HAVE_GC;
}
