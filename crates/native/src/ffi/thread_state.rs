//! What CPython keeps for each thread that runs Python, made where a lack of memory can be reported.
//!
//! PyGILState_Ensure, and so `Python::attach`, makes it on a thread that has none, and ends the process without memory.

use super::thread_exit::guard_thread;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ptr::NonNull;

/// The state of a thread that CPython did not start. Until it is dropped, the thread may attach.
struct ThreadState(NonNull<ffi::PyThreadState>);

impl ThreadState {
    /// `None` without memory.
    fn new() -> Option<Self> {
        // SAFETY: the interpreter is initialized; any thread may call it, also one that is detached.
        let interpreter = unsafe { ffi::PyInterpreterState_Main() };
        // SAFETY: as above.
        let state = unsafe { ffi::PyThreadState_New(interpreter) };
        NonNull::new(state).map(Self)
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        // SAFETY: this thread's own state, which is not attached: PyGILState_Ensure has found it and detached it again.
        unsafe { ffi::PyEval_RestoreThread(self.0.as_ptr()) };
        // SAFETY: attached just above, and never used again.
        unsafe { ffi::PyThreadState_Clear(self.0.as_ptr()) };
        // SAFETY: as above. It also detaches.
        unsafe { ffi::PyThreadState_DeleteCurrent() };
    }
}

/// There was no memory for the state of the thread.
#[derive(Debug)]
pub struct NoState;

/// Runs `f` attached, on any thread. `None`: the interpreter is being finalized, and nobody waits for an answer any more.
pub fn attached<R>(f: impl FnOnce(Python<'_>) -> R) -> Result<Option<R>, NoState> {
    guard_thread();
    // SAFETY: no arguments; it may be called by any thread.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let is_known = !unsafe { ffi::PyGILState_GetThisThreadState() }.is_null();
    let _own = if is_known { None } else { Some(ThreadState::new().ok_or(NoState)?) };
    Ok(Python::try_attach(f))
}
