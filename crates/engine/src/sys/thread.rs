//! Which thread this is.

/// The calling thread's identity, `threading.get_ident()` in Python: one load, no system call.
#[inline]
pub fn ident() -> u64 {
    // SAFETY: takes no arguments and cannot fail (pthread_self(3)).
    let thread = unsafe { libc::pthread_self() };
    // An integer in glibc, a pointer in musl; CPython casts it in the same way.
    thread as u64
}
