//! Identifies the calling thread.

/// The calling thread's identity, equal to Python's `threading.get_ident()`: one load, no system call.
#[inline]
pub fn ident() -> u64 {
    // SAFETY: it takes no arguments and cannot fail (pthread_self(3)).
    let thread = unsafe { libc::pthread_self() };
    // An integer in glibc, a pointer in musl; CPython casts it in the same way.
    thread as u64
}
