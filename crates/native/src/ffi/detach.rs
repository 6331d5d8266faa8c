//! Releases the GIL around one blocking call.
//!
//! `Python::detach` also keeps PyO3's books (a thread-local count, the pool of deferred drops),
//! which a poll of the kernel has no use for.

use pyo3::ffi;
use pyo3::prelude::*;

/// Takes the GIL again when it goes, also after a panic.
struct Detached(*mut ffi::PyThreadState);

impl Drop for Detached {
    fn drop(&mut self) {
        // SAFETY: the state that this thread saved, restored once on the same thread.
        unsafe { ffi::PyEval_RestoreThread(self.0) }
    }
}

/// True if the interpreter has no thread but this one, so that nobody can be waiting for the GIL.
#[inline]
pub fn is_only_thread(_py: Python<'_>) -> bool {
    // SAFETY: this thread is attached, as `_py` shows.
    let mine = unsafe { ffi::PyThreadState_Get() };
    // SAFETY: an attached thread's state is alive, and so is its interpreter.
    let interpreter = unsafe { ffi::PyThreadState_GetInterpreter(mine) };
    // New threads come in front. Of another thread's state, which may go at any moment, only the address is looked at.
    // SAFETY: as above; this reads one pointer.
    let newest = unsafe { ffi::PyInterpreterState_ThreadHead(interpreter) };
    // SAFETY: our own state is alive.
    newest == mine && unsafe { ffi::PyThreadState_Next(mine) }.is_null()
}

/// Runs `f` without the GIL. `f` must not touch Python objects, not even drop them.
#[inline]
pub fn detached<R: Send>(_py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
    // SAFETY: this thread is attached, as `_py` shows.
    let _detached = Detached(unsafe { ffi::PyEval_SaveThread() });
    f()
}
