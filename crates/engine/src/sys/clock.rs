//! CLOCK_MONOTONIC, the clock of `time.monotonic()` and of `epoll_pwait2`'s timeouts.

/// Nanoseconds of CLOCK_MONOTONIC (clock_gettime(2), answered by the vDSO).
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a live timespec that the vDSO fills before the call returns (S3 concerns only pointers that
    // outlive a call).
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    debug_assert_eq!(result, 0, "CLOCK_MONOTONIC exists on every Linux");
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Approximate counts of `cycles` per microsecond, for limits that need no precision.
pub const CYCLES_PER_US: u64 = if cfg!(target_arch = "x86_64") { 2500 } else { 1000 };

/// A cheap cycle counter for measuring callbacks. The reader calibrates its unit against `monotonic_ns`. Returns
/// nanoseconds where no such counter is readable.
#[inline]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64 and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        monotonic_ns()
    }
}
