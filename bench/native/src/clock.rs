//! Monotonic time and this process's CPU time, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

fn read(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[must_use]
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

#[must_use]
pub fn own_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}
