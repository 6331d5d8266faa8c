//! Hands short work from the loop's thread to a pool thread and back.
//!
//! Waking a thread costs several times as much as most calls: 3 us on one processor, 5 to 80 where a sleeping or
//! virtual processor has to be woken first. So a pool thread whose work arrives fast spins before it sleeps, for
//! about as long as a wake-up takes. At worst that doubles the cost of the wake-up; at best there is no wake-up. The
//! loop's thread waits for short work if a thread is spinning, and otherwise continues without waiting (design 0014).

use super::Outcome;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Mutex, Thread, current, park_timeout};
use std::hint;
use std::sync::{OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the loop's thread spins for the end of short work before it sleeps.
const LOOK: Duration = Duration::from_micros(10);

/// On one processor the two sides cannot run at the same time: both sleep immediately, and waking is cheap.
pub fn is_one_processor() -> bool {
    static ONE: OnceLock<bool> = OnceLock::new();
    if cfg!(feature = "models") {
        return true;
    }
    *ONE.get_or_init(|| thread::available_parallelism().map_or(true, |count| count.get() < 2))
}

/// Spins until the condition holds, at most for `longest`.
fn look_for(longest: Duration, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() && began.elapsed() < longest {
        hint::spin_loop();
    }
}

/// How a pool thread spends the time between two pieces of work.
pub struct Pace {
    /// Twice as long as a wake-up takes.
    moment: Duration,
    taken: Instant,
    idle_since: Instant,
    is_fast: bool,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_micros(10);
    const LONGEST: Duration = Duration::from_micros(100);
    const SHORT: Duration = Duration::from_micros(50);

    pub fn new(now: Instant) -> Self {
        Self { moment: Self::SHORTEST, taken: now, idle_since: now, is_fast: false }
    }

    /// Records that work, handed over at time `at`, is taken now.
    pub fn take(&mut self, at: Instant, now: Instant, was_asleep: bool) {
        self.taken = now;
        if was_asleep {
            let wake_up = self.taken.saturating_duration_since(at);
            self.moment = (wake_up * 2).clamp(Self::SHORTEST, Self::LONGEST);
        }
        self.is_fast = at.saturating_duration_since(self.idle_since) < self.moment;
    }

    /// The work is done and the queue is empty. Returns how long to spin for more. After long work a wake-up hardly
    /// matters.
    pub fn idle(&mut self, now: Instant) -> Option<Duration> {
        self.idle_since = now;
        let was_short = self.idle_since - self.taken < Self::SHORT;
        (self.is_fast && was_short && !is_one_processor()).then_some(self.moment)
    }
}

/// A wait for a short piece of work. The state is atomic: the second side to act, the thread or the end of the wait,
/// notices the first.
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
        Self { state: AtomicU8::new(WAITED_FOR), outcome: Mutex::new(None), waiter: current() }
    }

    fn moves(&self, to: u8) -> bool {
        let moved =
            self.state.compare_exchange(WAITED_FOR, to, Ordering::AcqRel, Ordering::Acquire);
        moved.is_ok()
    }

    pub(crate) fn put(&self, outcome: Option<Outcome>) -> Option<Outcome> {
        let mut slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, outcome)
    }

    /// Called by the thread. Returns the outcome if nobody waits for it any more.
    pub fn finish(&self, outcome: Outcome) -> Option<Outcome> {
        self.put(Some(outcome));
        if self.moves(DONE) {
            self.waiter.unpark();
            return None;
        }
        self.put(None)
    }

    /// `None`: the work takes longer and will be reaped later.
    pub fn wait(&self, patience: Duration) -> Option<Outcome> {
        if !is_one_processor() {
            look_for(LOOK, || self.state.load(Ordering::Acquire) != WAITED_FOR);
        }
        let deadline = Instant::now() + patience;
        while self.state.load(Ordering::Acquire) == WAITED_FOR {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && self.moves(GIVEN_UP) {
                return None;
            }
            park_timeout(left);
        }
        self.put(None)
    }
}

/// A pool thread while it has no work.
///
/// ```text
/// looking → asleep
///       ↘ called ↙
/// ```
pub struct Sleeper {
    thread: Thread,
    state: AtomicU8,
}

const LOOKING: u8 = 0;
const ASLEEP: u8 = 1;
const CALLED: u8 = 2;

impl Sleeper {
    /// Makes one for the calling thread.
    pub fn new() -> Self {
        Self { thread: current(), state: AtomicU8::new(ASLEEP) }
    }

    /// Called by the thread, before others can find it.
    pub fn begin(&self, looks: bool) {
        self.state.store(if looks { LOOKING } else { ASLEEP }, Ordering::Release);
    }

    /// True if the thread is spinning: a call is noticed immediately.
    pub fn is_looking(&self) -> bool {
        self.state.load(Ordering::Acquire) == LOOKING
    }

    fn is_called(&self) -> bool {
        self.state.load(Ordering::Acquire) == CALLED
    }

    pub fn call(&self) {
        if self.state.swap(CALLED, Ordering::AcqRel) == ASLEEP {
            self.thread.unpark();
        }
    }

    /// Sleeps until it is called, at most for `longest`. Returns true if it was asleep.
    pub fn sleep(&self, look: Option<Duration>, longest: Duration) -> bool {
        if let Some(look) = look {
            look_for(look, || self.is_called());
            let slept =
                self.state.compare_exchange(LOOKING, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            if slept.is_err() {
                return false;
            }
        }
        let deadline = Instant::now() + longest;
        while !self.is_called() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            park_timeout(left);
        }
        true
    }
}

#[cfg(all(test, not(feature = "models")))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_looks_for_more_where_work_comes_fast() {
        let begin = Instant::now();
        let at = |micros: u64| begin + Duration::from_micros(micros);
        let looks = |pace: &mut Pace, now| pace.idle(now).is_some() != is_one_processor();
        let mut pace = Pace::new(begin);
        assert_eq!(pace.idle(at(0)), None, "nothing has come yet");
        pace.take(at(5), at(6), false);
        assert!(looks(&mut pace, at(20)));
        pace.take(at(20 + 11), at(32), false);
        assert_eq!(pace.idle(at(40)), None, "it came late");
        pace.take(at(41), at(42), false);
        assert_eq!(pace.idle(at(42 + 51)), None, "it was long");
        pace.take(at(500), at(530), true);
        assert_eq!(pace.moment, Duration::from_micros(60), "twice as long as the wake-up took");
        assert_eq!(pace.idle(at(540)), None, "it came late");
        pace.take(at(540 + 59), at(600), false);
        assert!(looks(&mut pace, at(610)));
        pace.take(at(2000), at(3000), true);
        assert_eq!(pace.moment, Pace::LONGEST);
    }

    #[test]
    fn who_is_called_does_not_sleep() {
        let sleeper = Sleeper::new();
        for looks in [false, true] {
            sleeper.begin(looks);
            assert_eq!(sleeper.is_looking(), looks);
            sleeper.call();
            let look = looks.then_some(Duration::from_secs(10));
            assert_eq!(sleeper.sleep(look, Duration::from_secs(10)), !looks);
        }
        sleeper.begin(true);
        assert!(sleeper.sleep(Some(Duration::ZERO), Duration::ZERO), "nobody called");
        assert!(!sleeper.is_looking());
    }
}
