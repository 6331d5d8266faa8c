//! Pyclasses whose instances are made for every callback, allocated from recycled memory.
//!
//! PyO3's own freelist takes a lock and thread-local look-ups per object; this one is a vector that the GIL protects.
//! `make` writes into recycled memory; `install` replaces the class's `tp_dealloc` by one that keeps the memory.
//!
//! The garbage collector must not traverse large numbers of such objects repeatedly (that was half of the cost of
//! `call_soon_threadsafe`), and need not while their referents are reachable anyway. So an instance starts untracked.
//! The code that made it calls `track` before it can become part of a cycle that nothing else keeps alive. A class
//! without `__traverse__` is never tracked: its instances drop their references when they have been used.
//!
//! Only for frozen classes without `__dict__`, which Python code can neither instantiate nor subclass. Free-threaded
//! builds, where no GIL protects the vector, keep PyO3's allocation.

use super::LoopCell;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, PyClassInitializer};

/// Objects kept for reuse, per class.
const KEPT: usize = 1024;

/// The memory of dead instances, and the offset of the value in an instance.
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
    /// The class has `__traverse__`.
    const IS_COLLECTED: bool;
    fn pool() -> &'static Pool;
}

/// A new instance, untracked.
#[inline]
pub fn make<T: Recycled>(py: Python<'_>, value: T) -> PyResult<Bound<'_, T>> {
    let recycled = T::pool().0.with(py, |m| m.addresses.pop().map(|address| (address, m.offset)));
    let Some((address, offset)) = recycled else {
        let made = Bound::new(py, value)?;
        if T::IS_COLLECTED {
            // SAFETY: a live object of a class with garbage collection.
            unsafe { ffi::PyObject_GC_UnTrack(made.as_ptr().cast()) };
        }
        return Ok(made);
    };
    let object = address as *mut ffi::PyObject;
    // SAFETY: the memory of a dead instance of this class, left by `dealloc` untracked and without weak references.
    // This sets its reference count and takes a reference to the type.
    unsafe { ffi::PyObject_Init(object, T::type_object_raw(py)) };
    // SAFETY: `offset` was measured on a live instance, so it is inside the instance.
    let contents = unsafe { object.byte_add(offset) }.cast::<T>();
    // SAFETY: the value's place in a dead instance: aligned, ours, and with nothing to drop.
    unsafe { contents.write(value) };
    // SAFETY: a new reference to a now complete instance.
    let object = unsafe { Bound::from_owned_ptr(py, object) };
    // SAFETY: PyObject_Init has given it the type of `T`.
    Ok(unsafe { object.cast_into_unchecked() })
}

/// Lets the garbage collector track the instance from now on. Runs no Python code.
pub fn track<T: Recycled>(_py: Python<'_>, object: &Py<T>) {
    if !T::IS_COLLECTED {
        return;
    }
    // SAFETY: the object is alive and the thread attached, as `_py` proves.
    if unsafe { ffi::PyObject_GC_IsTracked(object.as_ptr()) } == 0 {
        // SAFETY: alive, complete, untracked, and of a class with garbage collection.
        unsafe { ffi::PyObject_GC_Track(object.as_ptr().cast()) };
    }
}

/// Clears the weak references to the object.
///
/// # Safety
/// `object` must be in deallocation by an attached thread.
unsafe fn clear_weak_references<T: Recycled>(object: *mut ffi::PyObject) {
    // SAFETY: the type is alive: the instance still holds a reference to it.
    let class = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: as above.
    let offset = unsafe { (*class).tp_weaklistoffset };
    if offset <= 0 {
        return;
    }
    // SAFETY: the type says that the list's head is there.
    let head = unsafe { object.byte_offset(offset) }.cast::<*mut ffi::PyObject>();
    // SAFETY: as above; null means no weak references.
    if !unsafe { *head }.is_null() {
        // SAFETY: required in the `tp_dealloc` of such a type; the reference count is zero.
        unsafe { ffi::PyObject_ClearWeakRefs(object) };
    }
}

/// Drops the value and keeps the memory.
///
/// # Safety
/// Must be called by CPython as the `tp_dealloc` of `T`.
unsafe extern "C" fn dealloc<T: Recycled>(object: *mut ffi::PyObject) {
    // SAFETY: objects are deallocated by attached threads.
    let py = unsafe { Python::assume_attached() };
    if T::IS_COLLECTED {
        // SAFETY: an object of a class with garbage collection; nothing happens if it is not tracked.
        unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
    }
    // SAFETY: this is the object's `tp_dealloc`.
    unsafe { clear_weak_references::<T>(object) };
    // SAFETY: the object has no references left, but its value is still alive.
    let borrowed = unsafe { Borrowed::<PyAny>::from_ptr(py, object) };
    // SAFETY: this is the `tp_dealloc` of `T` only.
    let borrowed = unsafe { borrowed.cast_unchecked::<T>() };
    let value = std::ptr::from_ref(borrowed.get()).cast_mut();
    let offset = value.addr() - object.addr();
    // SAFETY: nothing refers to the value any more, and it is not used again.
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
    if !kept && T::IS_COLLECTED {
        // SAFETY: the inverse of PyType_GenericAlloc for a class with garbage collection.
        unsafe { ffi::PyObject_GC_Del(object.cast()) };
    } else if !kept {
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
    // SAFETY: the type is alive, no instance has been made yet, and no other thread has seen it.
    let class = unsafe { &mut *class };
    class.tp_dealloc = Some(dealloc::<T>);
    if !T::IS_COLLECTED {
        class.tp_free = Some(ffi::PyObject_Free);
        class.tp_traverse = None;
        class.tp_clear = None;
        class.tp_flags &= !ffi::Py_TPFLAGS_HAVE_GC;
    }
}
