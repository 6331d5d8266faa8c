//! The loop's clock: CLOCK_MONOTONIC, or virtual time that only moves when nothing is ready.
//!
//! Virtual time makes tests with timers exact and fast: a wait without a ready event advances the clock to its
//! deadline immediately.

use crate::sys;

#[derive(Debug)]
pub enum Clock {
    Monotonic,
    /// Nanoseconds since an arbitrary start; moved by `advance`.
    Virtual(u64),
}

impl Clock {
    /// Nanoseconds.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic => sys::clock::monotonic_ns(),
            Self::Virtual(now) => *now,
        }
    }

    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Moves virtual time forward. Does nothing on the monotonic clock.
    pub fn advance(&mut self, by_ns: u64) {
        if let Self::Virtual(now) = self {
            *now = now.saturating_add(by_ns);
        }
    }
}
