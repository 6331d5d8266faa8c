//! `LoopCell`: state of a loop that frozen pyclasses can access and no borrow can outlive (S2).
//!
//! Access is by a closure that gets `&mut T` and must not run Python code: no calls, no drops of Python objects. If
//! it does, re-entry is detected and panics (an exception in Python, S7) instead of aliasing.
//!
//! With the GIL, `Python<'py>` proves that no other thread runs here, so a plain flag is enough. Without it
//! (free-threaded builds) a mutex takes the place of the flag.

use pyo3::Python;

#[cfg(not(Py_GIL_DISABLED))]
mod imp {
    use std::cell::{Cell, UnsafeCell};

    pub struct Storage<T> {
        busy: Cell<bool>,
        value: UnsafeCell<T>,
    }

    // SAFETY: every access needs `Python<'py>`, which only the thread with the GIL has. `busy`, itself protected by
    // the GIL, refuses a second access during the first.
    unsafe impl<T: Send> Sync for Storage<T> {}

    struct Busy<'a>(&'a Cell<bool>);

    impl Drop for Busy<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }

    impl<T> Storage<T> {
        pub const fn new(value: T) -> Self {
            Self { busy: Cell::new(false), value: UnsafeCell::new(value) }
        }

        #[inline]
        pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            if self.busy.replace(true) {
                return None;
            }
            let _busy = Busy(&self.busy);
            // SAFETY: `busy` was false, so no other reference to the value exists (S2).
            Some(f(unsafe { &mut *self.value.get() }))
        }
    }
}

#[cfg(Py_GIL_DISABLED)]
mod imp {
    use std::sync::{Mutex, TryLockError};
    use std::thread::{self, ThreadId};

    pub struct Storage<T> {
        owner: Mutex<Option<ThreadId>>,
        value: Mutex<T>,
    }

    impl<T> Storage<T> {
        pub const fn new(value: T) -> Self {
            Self { owner: Mutex::new(None), value: Mutex::new(value) }
        }

        pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            let me = thread::current().id();
            if *self.owner.lock().unwrap_or_else(|e| e.into_inner()) == Some(me) {
                return None;
            }
            let mut guard = match self.value.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::WouldBlock) => {
                    self.value.lock().unwrap_or_else(|e| e.into_inner())
                }
                Err(TryLockError::Poisoned(e)) => e.into_inner(),
            };
            *self.owner.lock().unwrap_or_else(|e| e.into_inner()) = Some(me);
            let result = f(&mut guard);
            *self.owner.lock().unwrap_or_else(|e| e.into_inner()) = None;
            Some(result)
        }
    }
}

pub struct LoopCell<T>(imp::Storage<T>);

impl<T> LoopCell<T> {
    pub const fn new(value: T) -> Self {
        Self(imp::Storage::new(value))
    }

    /// Runs `f` on the value. `f` must not run Python code; see the head of this file.
    #[inline]
    pub fn with<R>(&self, _py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(f).expect("S2: loop state is never borrowed across a call into Python")
    }

    /// For garbage collection, which runs with all threads stopped but has no `Python` token. `None` if the
    /// collection was triggered inside an access.
    pub fn peek<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.0.with(|value| f(value))
    }
}

impl<T: Default> Default for LoopCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Copy> LoopCell<T> {
    #[inline]
    pub fn get(&self, py: Python<'_>) -> T {
        self.with(py, |value| *value)
    }

    #[inline]
    pub fn set(&self, py: Python<'_>, new: T) {
        self.with(py, |value| *value = new);
    }
}

impl<T: Default> LoopCell<T> {
    /// Moves the value out, so that it can be dropped or run outside of the cell.
    #[inline]
    pub fn take(&self, py: Python<'_>) -> T {
        self.with(py, std::mem::take)
    }
}
