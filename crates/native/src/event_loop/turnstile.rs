//! `Turnstile`: lets other threads wait until a running callback has ended.
//!
//! Since Python 3.14, `cancel()` and `cancelled()` of a handle from `call_soon_threadsafe` wait while the callback
//! runs, if they are called in a thread other than the loop's. Afterwards it is certain that the callback has run or
//! will not run. Waiting threads do not hold the GIL.

use crate::ffi::detach::detached;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// One mutex for all turnstiles, because waiting is rare and short.
static GATE: Mutex<()> = Mutex::new(());
static LEFT: Condvar = Condvar::new();
static WAITING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Its address identifies the thread.
    static HERE: u8 = const { 0 };
}

fn this_thread() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Nobody waits: for handles of the loop's own thread.
const OPEN: usize = 0;
/// Threads may wait, and no callback is running.
const IDLE: usize = 1;

pub struct Turnstile(AtomicUsize);

impl Turnstile {
    /// For handles that stay in the loop's thread.
    pub const fn open() -> Self {
        Self(AtomicUsize::new(OPEN))
    }

    /// For handles made by other threads, on Python versions that need it.
    pub const fn shared() -> Self {
        Self(AtomicUsize::new(if cfg!(Py_3_14) { IDLE } else { OPEN }))
    }

    pub fn is_shared(&self) -> bool {
        self.0.load(Ordering::Relaxed) != OPEN
    }

    /// Runs the callback; others wait until it has ended.
    #[inline]
    pub fn pass<R>(&self, f: impl FnOnce() -> R) -> R {
        if !self.is_shared() {
            return f();
        }
        self.0.store(this_thread(), Ordering::SeqCst);
        let result = f();
        self.0.store(IDLE, Ordering::SeqCst);
        if WAITING.load(Ordering::SeqCst) > 0 {
            let _gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
            LEFT.notify_all();
        }
        result
    }

    /// Returns once no other thread is running the callback.
    #[inline]
    pub fn wait(&self, py: Python<'_>) {
        let inside = self.0.load(Ordering::SeqCst);
        if inside == OPEN || inside == IDLE || inside == this_thread() {
            return;
        }
        detached(py, || {
            WAITING.fetch_add(1, Ordering::SeqCst);
            let mut gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
            while self.0.load(Ordering::SeqCst) != IDLE {
                gate = LEFT.wait(gate).unwrap_or_else(PoisonError::into_inner);
            }
            drop(gate);
            WAITING.fetch_sub(1, Ordering::SeqCst);
        });
    }
}
