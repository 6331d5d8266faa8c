//! Which thread this is.

/// The calling thread's identity, `threading.get_ident()` in Python: one load, no system call.
#[inline]
pub fn ident() -> u64 {
    // SAFETY: takes no arguments and cannot fail (pthread_self(3)).
    unsafe { libc::pthread_self() }
}
