//! Asking the processor for memory that will be needed soon.
//!
//! 100,000 timers made in no order lie all over the memory. When they fall due, waiting for one after the other costs
//! more than all else that is done with them (docs/design/0013).

use pyo3::prelude::*;

/// What CPython's collector keeps in front of an object: two links of a list.
type GcHead = [usize; 2];

/// Without effect but on time; on processors other than x86-64, on nothing at all.
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
        // SAFETY: a hint: it reads nothing and cannot fault, whatever stands at the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
