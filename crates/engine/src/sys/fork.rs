//! Detects that this process is the child of a fork (S6).
//!
//! `pthread_atfork` increments a counter in the child. Checking it costs one load, while getpid(2) would cost a
//! system call on each use.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The number of forks between the first caller's process and this one. If it differs from the value read when an
/// epoll instance or ring was made, that instance belongs to the parent.
#[inline]
pub fn generation() -> u32 {
    if !INSTALL.is_completed() {
        INSTALL.call_once(|| {
            // SAFETY: `in_child` is a plain function that lives as long as the library and increments one atomic, so
            // it is async-signal-safe, as a fork handler must be.
            let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            assert_eq!(result, 0, "pthread_atfork fails only when out of memory");
        });
    }
    FORKS.load(Ordering::Relaxed)
}
