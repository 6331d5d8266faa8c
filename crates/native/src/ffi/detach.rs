//! Releases the GIL around one blocking call.
//!
//! `Python::detach` also maintains PyO3's state (a thread-local count, the pool of deferred drops), which a poll of
//! the kernel does not need.

use pyo3::ffi;
use pyo3::prelude::*;

/// Takes the GIL again when dropped, also after a panic.
struct Detached(*mut ffi::PyThreadState);

impl Drop for Detached {
    fn drop(&mut self) {
        // SAFETY: the state that this thread saved, restored once on the same thread.
        unsafe { ffi::PyEval_RestoreThread(self.0) }
    }
}

/// True if this is the interpreter's only thread, so that no thread can be waiting for the GIL.
#[inline]
pub fn is_only_thread(_py: Python<'_>) -> bool {
    // SAFETY: this thread is attached, as `_py` proves.
    let mine = unsafe { ffi::PyThreadState_Get() };
    // SAFETY: an attached thread's state is alive, and so is its interpreter.
    let interpreter = unsafe { ffi::PyThreadState_GetInterpreter(mine) };
    // New threads are added at the front. Another thread's state may be freed at any moment, so only its address is
    // read. SAFETY: as above; this reads one pointer.
    let newest = unsafe { ffi::PyInterpreterState_ThreadHead(interpreter) };
    // SAFETY: our own state is alive.
    newest == mine && unsafe { ffi::PyThreadState_Next(mine) }.is_null()
}

/// Runs `f` without the GIL. `f` must not use or drop Python objects.
#[inline]
pub fn detached<R: Send>(_py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
    // SAFETY: this thread is attached, as `_py` proves.
    let _detached = Detached(unsafe { ffi::PyEval_SaveThread() });
    f()
}
