//! `Budget`: for how long a tick does at once what needs no waiting.
//!
//! A coroutine that reads file after file from the cache, or line after line from memory, would otherwise never let the
//! loop go on. What the program computes between counts too: that is what the others wait for.

use std::time::{Duration, Instant};

/// From the first such operation of a tick on. With the longest single one some tenths of a millisecond more.
const PER_TICK: Duration = Duration::from_micros(400);
/// Operations in memory between two looks at the clock, at most.
const LARGEST_STRIDE: u32 = 8;
/// Looks that follow each other faster than this may be fewer.
const QUICK: Duration = Duration::from_micros(20);

#[derive(Default)]
pub struct Budget {
    tick: u64,
    begun: Option<Instant>,
    /// This tick's time is over, whatever is asked from here on.
    is_spent: bool,
    /// When the clock was looked at last.
    looked: Option<Instant>,
    /// Operations in memory until it is looked at again.
    credit: u32,
    /// How many there are then.
    stride: u32,
    /// So many short waits are not made: the last one was in vain.
    unpaid: u32,
}

/// Short waits that are left out after one in vain: a disk that is slow now is slow for a while.
const PENALTY: u32 = 64;

impl Budget {
    /// Whether something short may be waited for.
    pub fn may_wait(&mut self) -> bool {
        let may = self.unpaid == 0;
        self.unpaid = self.unpaid.saturating_sub(1);
        may
    }

    pub fn has_waited_in_vain(&mut self) {
        self.unpaid = PENALTY;
    }

    /// Whether there is time for one more in this tick.
    #[inline]
    pub fn allows(&mut self, tick: u64) -> bool {
        let now = Instant::now();
        // Where the program takes its time with each of them, each is looked at.
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

    /// The same for what takes no time itself, and looks at the clock now and then only.
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

    /// How many operations in memory may follow without asking again.
    pub fn allowance(&self) -> u32 {
        self.stride
    }
}
