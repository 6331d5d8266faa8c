//! Makes a thread hang when the interpreter ends it at exit, instead of unwinding its stack (S7).
//!
//! Before 3.14, CPython ends a daemon thread that wants the GIL during finalization with pthread_exit(3). In glibc that
//! unwinds the stack. Frames of Rust abort then, or run destructors without a thread state. CPython 3.14 lets such
//! threads hang instead (python/cpython#87135), and so does this file for the threads that it guards.
//!
//! glibc calls a handler that was pushed with `_pthread_cleanup_push` before it leaves the frame that contains the
//! handler's record. It finds that frame by comparing addresses (`FRAME_LEFT` in nptl/unwind.c). A record outside of the
//! stack counts as newer than all frames, so its handler is called before any frame is left. This handler never returns.
//! The pthread_exit(3) of musl does not unwind.

#[cfg(all(target_env = "gnu", not(Py_3_14)))]
mod guard {
    use oneloop_engine::sys::thread;
    use std::cell::OnceCell;
    use std::ffi::{c_int, c_void};
    use std::ptr;

    /// glibc's `struct _pthread_cleanup_buffer`.
    #[repr(C)]
    struct Record {
        routine: Option<unsafe extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
        cancel_type: c_int,
        previous: *mut Record,
    }

    type Routine = unsafe extern "C" fn(*mut c_void);

    unsafe extern "C" {
        fn _pthread_cleanup_push(record: *mut Record, routine: Routine, argument: *mut c_void);
        fn _pthread_cleanup_pop(record: *mut Record, execute: c_int);
        #[cfg_attr(not(Py_3_13), link_name = "_Py_IsFinalizing")]
        fn Py_IsFinalizing() -> c_int;
    }

    unsafe extern "C" fn hang(_: *mut c_void) {
        // SAFETY: it reads one static variable, and needs no thread state.
        if unsafe { Py_IsFinalizing() } != 0 {
            thread::hang();
        }
        // Otherwise the program ends its own thread.
    }

    /// The record of this thread, on the heap.
    struct Guard(*mut Record);

    impl Guard {
        fn push() -> Self {
            let record = Box::into_raw(Box::new(Record {
                routine: None,
                argument: ptr::null_mut(),
                cancel_type: 0,
                previous: ptr::null_mut(),
            }));
            // SAFETY: the record stays valid until the guard has popped it.
            unsafe { _pthread_cleanup_push(record, hang, ptr::null_mut()) };
            Self(record)
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            // The thread has ended. Destructors of other thread-locals follow, which must not find the record.
            // SAFETY: pushed by this thread. Records pushed later are forgotten with it: their frames are gone.
            unsafe { _pthread_cleanup_pop(self.0, 0) };
            // SAFETY: made by `push`, and no longer in glibc's list.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }

    thread_local! {
        static GUARD: OnceCell<Option<Guard>> = const { OnceCell::new() };
    }

    pub fn guard_thread() {
        let install = |guard: &OnceCell<Option<Guard>>| {
            // The main thread finalizes the interpreter.
            guard.get_or_init(|| (!thread::is_main()).then(Guard::push));
        };
        // The thread is ending: its thread-locals are gone, and its stack is empty.
        let _ending = GUARD.try_with(install);
    }
}

/// From now on the calling thread hangs if the interpreter ends it. Called where a thread enters this module to run
/// Python code from there; cheap when repeated.
#[inline]
pub fn guard_thread() {
    #[cfg(all(target_env = "gnu", not(Py_3_14)))]
    guard::guard_thread();
}
