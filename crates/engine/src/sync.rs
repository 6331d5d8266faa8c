//! What threads use to meet: of the standard library, or, in a build with the feature `models`, of loom, which tries
//! every order in which threads may run and every value that an atomic load may return. `models` has the tests.
//!
//! Without the feature these are other names for the standard library's types, and cost nothing.

#[cfg(not(feature = "models"))]
mod real {
    pub use crate::sys::eventfd;
    pub use std::os::fd::OwnedFd as Bell;
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};
    pub use std::thread::{Builder, JoinHandle, Thread, current, park_timeout};
}
#[cfg(not(feature = "models"))]
pub use real::*;

#[cfg(feature = "models")]
mod modelled {
    pub use crate::models::eventfd::{self, Bell};
    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};
    pub use loom::thread::{Builder, JoinHandle, Thread, current};

    /// In a model no time passes: only a wait for no time at all ends without a call.
    pub fn park_timeout(longest: std::time::Duration) {
        if longest.is_zero() { loom::thread::yield_now() } else { loom::thread::park() }
    }
}
#[cfg(feature = "models")]
pub use modelled::*;
