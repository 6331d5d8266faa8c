//! Prefetches memory that will be needed soon.
//!
//! 100,000 timers made in random order are scattered in memory. When they become due, the cache misses cost more than
//! all other work on them (docs/design/0013).

use pyo3::prelude::*;

/// CPython's garbage collector keeps two list links in front of an object.
type GcHead = [usize; 2];

/// Only affects the timing. Does nothing on processors other than x86-64.
#[inline]
pub fn fetch<T>(object: &Py<T>) {
    let head = object.as_ptr().cast::<GcHead>().wrapping_sub(1);
    fetch_line(head.addr());
    fetch_line(head.addr() + 64);
}

#[inline]
fn fetch_line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::without_provenance::<i8>(address);
        // SAFETY: a hint that reads nothing and cannot fault at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
