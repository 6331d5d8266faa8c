//! Counters that are always on, shown by `loop.statistics()`.
//!
//! Time is measured in cycles of the processor's counter, one reading per callback, and converted to seconds only on
//! request.

use oneloop_engine::sys::clock::{cycles, monotonic_ns};

pub struct Meter {
    pub ticks: u64,
    pub callbacks: u64,
    pub polls: u64,
    pub events: u64,
    pub open_transports: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// When the previous callback ended or the tick began.
    mark: u64,
    tick_began: u64,
    longest: u64,
    pub longest_name: String,
    /// Decaying mean of the tick length: how long ready descriptors wait while callbacks run.
    lag: f64,
    longest_tick: u64,
    born_cycles: u64,
    born_ns: u64,
}

impl Meter {
    pub fn new() -> Self {
        let now = cycles();
        Self {
            ticks: 0,
            callbacks: 0,
            polls: 0,
            events: 0,
            open_transports: 0,
            bytes_in: 0,
            bytes_out: 0,
            mark: now,
            tick_began: now,
            longest: 0,
            longest_name: String::new(),
            lag: 0.0,
            longest_tick: 0,
            born_cycles: now,
            born_ns: monotonic_ns(),
        }
    }

    /// `polled`: the time since the last mark was spent in the poll and counts for no callback. Returns the start of
    /// the tick.
    #[inline]
    pub fn begin_tick(&mut self, polled: bool) -> u64 {
        self.ticks += 1;
        if polled {
            self.mark = cycles();
        }
        self.tick_began = self.mark;
        self.mark
    }

    /// Ends a callback. Returns its length in cycles, and whether it was the longest so far.
    #[inline]
    pub fn lap(&mut self) -> (u64, bool) {
        let now = cycles();
        let length = now.saturating_sub(self.mark);
        self.mark = now;
        self.callbacks += 1;
        let is_longest = length > self.longest;
        if is_longest {
            self.longest = length;
        }
        (length, is_longest)
    }

    #[inline]
    pub fn end_tick(&mut self) {
        let length = self.mark.saturating_sub(self.tick_began);
        self.longest_tick = self.longest_tick.max(length);
        self.lag += (length as f64 - self.lag) / 64.0;
    }

    /// Cycles from the start of the tick to the end of the last callback.
    pub fn since_tick(&self) -> u64 {
        self.mark.saturating_sub(self.tick_began)
    }

    /// When the last callback ended, on the cycle counter.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    pub fn seconds_per_cycle(&self) -> f64 {
        let elapsed = cycles().saturating_sub(self.born_cycles);
        if elapsed == 0 {
            return 0.0;
        }
        monotonic_ns().saturating_sub(self.born_ns) as f64 / elapsed as f64 / 1e9
    }

    pub fn longest_callback_s(&self) -> f64 {
        self.longest as f64 * self.seconds_per_cycle()
    }

    pub fn loop_lag_s(&self) -> f64 {
        self.lag * self.seconds_per_cycle()
    }

    pub fn longest_tick_s(&self) -> f64 {
        self.longest_tick as f64 * self.seconds_per_cycle()
    }
}
