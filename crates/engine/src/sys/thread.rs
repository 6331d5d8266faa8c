//! Identifies the calling thread, and starts threads that get no signals.

use crate::sync::{Builder, JoinHandle};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The calling thread's identity, equal to Python's `threading.get_ident()`: one load, no system call.
#[inline]
pub fn ident() -> u64 {
    // SAFETY: it takes no arguments and cannot fail (pthread_self(3)).
    let thread = unsafe { libc::pthread_self() };
    // An integer in glibc, a pointer in musl; CPython casts it in the same way.
    thread as u64
}

/// True in the thread that runs `main`, and in the only thread of a forked child.
pub fn is_main() -> bool {
    // SAFETY: it takes no arguments and cannot fail (gettid(2)).
    let thread = unsafe { libc::gettid() };
    // SAFETY: as above (getpid(2)).
    thread == unsafe { libc::getpid() }
}

/// Never returns. Signals that arrive are handled.
pub fn hang() -> ! {
    loop {
        // SAFETY: it takes no arguments, and returns only after a signal (pause(2)).
        unsafe { libc::pause() };
    }
}

/// Of the thread that has made the mistake; blocked, they would end the process without a word from faulthandler.
const SYNCHRONOUS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];

/// Starts a thread that blocks the signals which others send, as the program decides which of its threads gets a signal.
///
/// A signal that all threads of the program block has to stay pending for sigwait(3) or a signalfd; a thread of ours that
/// does not block it would get it (signal(7)).
pub fn spawn_without_signals<F: FnOnce() + Send + 'static>(
    name: &str,
    run: F,
) -> io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: it fills the set, which is ours, and cannot fail for a valid pointer (sigfillset(3)).
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    for signal in SYNCHRONOUS {
        // SAFETY: the set was filled above, and the signal exists.
        unsafe { libc::sigdelset(all.as_mut_ptr(), signal) };
    }
    // A new thread inherits the mask of the one that makes it.
    // SAFETY: `all` was filled above; `before` is written (pthread_sigmask(3)).
    let error =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let made = Builder::new().name(name.into()).spawn(run);
    // SAFETY: `before` was written by the call above, which has succeeded.
    let restored =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    debug_assert_eq!(restored, 0, "the set and the operation are valid");
    made
}
