//! `Budget`: how long a tick may spend on operations that need no waiting.
//!
//! Without it, a coroutine that reads file after file from the cache, or line after line from memory, would never let
//! the loop continue. Computation between the operations counts too, because the other tasks wait for it as well.

use std::time::{Duration, Instant};

/// Counted from the first such operation of a tick. The longest single operation adds a few tenths of a millisecond.
const PER_TICK: Duration = Duration::from_micros(400);
/// The most operations in memory between two readings of the clock.
const LARGEST_STRIDE: u32 = 8;
/// If readings follow each other faster than this, the interval may grow.
const QUICK: Duration = Duration::from_micros(20);

#[derive(Default)]
pub struct Budget {
    tick: u64,
    begun: Option<Instant>,
    /// This tick's time is used up for all further operations.
    is_spent: bool,
    /// When the clock was last read.
    looked: Option<Instant>,
    /// Operations in memory until the clock is read again.
    credit: u32,
    /// The initial `credit` after a reading.
    stride: u32,
    /// Short waits still to be skipped, because the last one was futile.
    unpaid: u32,
}

/// Short waits to skip after a futile one: a disk that is slow now stays slow for a while.
const PENALTY: u32 = 64;

impl Budget {
    /// Whether a short wait may be tried.
    pub fn may_wait(&mut self) -> bool {
        let may = self.unpaid == 0;
        self.unpaid = self.unpaid.saturating_sub(1);
        may
    }

    pub fn has_waited_in_vain(&mut self) {
        self.unpaid = PENALTY;
    }

    /// Whether there is time for one more operation in this tick.
    #[inline]
    pub fn allows(&mut self, tick: u64) -> bool {
        let now = Instant::now();
        // If the program takes long between operations, the clock is read at each one.
        let since = self.looked.replace(now).map_or(QUICK, |looked| now - looked);
        self.stride = if since < QUICK { (self.stride * 2).clamp(1, LARGEST_STRIDE) } else { 1 };
        self.credit = self.stride;
        match self.begun {
            Some(begun) if self.tick == tick => {
                self.is_spent |= now - begun >= PER_TICK;
                !self.is_spent
            }
            _ => {
                (self.tick, self.begun, self.is_spent) = (tick, Some(now), false);
                true
            }
        }
    }

    /// Like `allows`, for operations that take almost no time: reads the clock only now and then.
    #[inline]
    pub fn allows_in_memory(&mut self, tick: u64) -> bool {
        if self.tick != tick || self.begun.is_none() {
            return self.allows(tick);
        }
        if self.is_spent {
            return false;
        }
        self.credit = self.credit.saturating_sub(1);
        self.credit > 0 || self.allows(tick)
    }

    /// How many operations in memory may follow without another check.
    pub fn allowance(&self) -> u32 {
        self.stride
    }
}
