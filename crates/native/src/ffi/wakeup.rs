//! The process's wakeup descriptor: the interpreter writes the number of each signal to it (`signal.set_wakeup_fd`).
//!
//! Unlike the function of the module `signal`, `swap` does not check the descriptor, works in every thread, and costs a few
//! instructions. It sets `warn_on_full_buffer`, which nothing can read. CPython exports it since 3.13.

use pyo3::prelude::*;
use std::ffi::c_int;

unsafe extern "C" {
    fn PySignal_SetWakeupFd(fd: c_int) -> c_int;
}

/// Sets the wakeup descriptor (-1: none) and returns the previous one.
#[pyfunction(name = "swap_wakeup_fd", signature = (fd, /))]
pub fn swap(_py: Python<'_>, fd: i32) -> i32 {
    // SAFETY: it exchanges one static variable, which the GIL protects; any number is accepted.
    unsafe { PySignal_SetWakeupFd(fd) }
}
