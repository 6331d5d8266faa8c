//! Detects that this process is the child of a fork (S6).
//!
//! A counter that `pthread_atfork` raises in the child costs one load to check, where getpid(2)
//! would cost a system call on each use.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between the first caller's process and this one. Compare with the value
/// read when an epoll instance or ring was made: different means that it is the parent's.
#[inline]
pub fn generation() -> u32 {
    if !INSTALL.is_completed() {
        INSTALL.call_once(|| {
            // SAFETY: `in_child` is a plain function that lives as long as the library, and
            // raises one atomic: async-signal-safe, as a fork handler must be.
            let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            assert_eq!(result, 0, "pthread_atfork fails only when out of memory");
        });
    }
    FORKS.load(Ordering::Relaxed)
}
