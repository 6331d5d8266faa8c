//! The hand-over of short work between the loop's thread and one of a pool.
//!
//! Waking a thread that sleeps costs several times what most calls cost. Where another processor is there to do so, the
//! two sides look for each other's word for a moment before they sleep: the loop's thread whenever it waits, a pool's
//! thread where the work that it got last came as fast.

use super::Outcome;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub const MOMENT: Duration = Duration::from_micros(10);

fn is_alone() -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    *ALONE.get_or_init(|| thread::available_parallelism().map_or(true, |count| count.get() < 2))
}

/// Returns when it is so, at the latest after `MOMENT`: whether it is.
fn look_for(is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if is_alone() || began.elapsed() >= MOMENT {
            return false;
        }
        hint::spin_loop();
    }
    true
}

/// Whether looking was worth it: where it was not (the other processor is busy, the calls take long), ever more waits go
/// without.
#[derive(Default)]
pub struct Looks {
    in_vain: u32,
    skipped: u32,
}

impl Looks {
    /// In a row, at most.
    const MOST_IN_VAIN: u32 = 6;

    fn look_for(&mut self, is_so: impl Fn() -> bool) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if look_for(is_so) {
            self.in_vain = 0;
        } else {
            self.in_vain = (self.in_vain + 1).min(Self::MOST_IN_VAIN);
            self.skipped = (1 << self.in_vain) - 1;
        }
    }
}

/// A wait for a piece of work that is short: whoever comes second, the thread or the end of the wait, knows of the other.
pub struct Wait {
    state: AtomicU8,
    outcome: Mutex<Option<Outcome>>,
    waiter: Thread,
}

const WAITED_FOR: u8 = 0;
const DONE: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Wait {
    pub fn new() -> Self {
        Self {
            state: AtomicU8::new(WAITED_FOR),
            outcome: Mutex::new(None),
            waiter: thread::current(),
        }
    }

    fn moves(&self, to: u8) -> bool {
        let moved =
            self.state.compare_exchange(WAITED_FOR, to, Ordering::AcqRel, Ordering::Acquire);
        moved.is_ok()
    }

    fn put(&self, outcome: Option<Outcome>) -> Option<Outcome> {
        let mut slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, outcome)
    }

    /// By the thread. The outcome comes back if nobody waits for it any more.
    pub fn finish(&self, outcome: Outcome) -> Option<Outcome> {
        self.put(Some(outcome));
        if self.moves(DONE) {
            self.waiter.unpark();
            return None;
        }
        self.put(None)
    }

    /// None: it takes longer, and will be reaped.
    pub fn wait(&self, patience: Duration, looks: &mut Looks) -> Option<Outcome> {
        looks.look_for(|| self.state.load(Ordering::Acquire) != WAITED_FOR);
        let deadline = Instant::now() + patience;
        while self.state.load(Ordering::Acquire) == WAITED_FOR {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && self.moves(GIVEN_UP) {
                return None;
            }
            thread::park_timeout(left);
        }
        self.put(None)
    }
}

/// A pool's thread while it has no work.
pub struct Sleeper {
    thread: Thread,
    is_called: AtomicBool,
}

impl Sleeper {
    /// Of the thread that calls it.
    pub fn new() -> Self {
        Self { thread: thread::current(), is_called: AtomicBool::new(false) }
    }

    fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    pub fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Until it is called, or so long.
    pub fn sleep(&self, looks_first: bool, longest: Duration) {
        if looks_first {
            look_for(|| self.is_called());
        }
        let deadline = Instant::now() + longest;
        while !self.is_called() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::park_timeout(left);
        }
        self.is_called.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn looks_in_vain_become_rare_until_one_is_not() {
        let mut looks = Looks::default();
        let looked = Cell::new(0);
        let mut wait = |is_seen: bool| {
            let before = looked.get();
            looks.look_for(|| {
                looked.set(looked.get() + 1);
                is_seen
            });
            looked.get() > before
        };
        let in_vain = (0..1000).filter(|_| wait(false)).count();
        assert!((10..30).contains(&in_vain), "{in_vain}");
        assert!((0..64).any(|_| wait(true)));
        assert!((0..100).all(|_| wait(true)));
    }
}
