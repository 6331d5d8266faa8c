//! Counters that are always on, shown by `loop.statistics()`.
//!
//! Time is measured in cycles of the processor's counter, one reading per callback, and converted to seconds only on
//! request.

use oneloop_engine::sys::clock::{cycles, monotonic_ns};

/// Snapshots contain the longest callback of the last two windows of this length.
const WINDOW_NS: u64 = 1_000_000_000;
/// If the last snapshot is older than this, its windows are discarded.
const STALE_NS: u64 = 5 * WINDOW_NS;

/// The longest callback of a window.
#[derive(Default)]
struct Longest {
    length: u64,
    name: String,
}

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
    /// The length of the longest callback of the window. A longer callback is recorded.
    bar: u64,
    window: Longest,
    window_before: Longest,
    window_began_ns: u64,
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
            bar: 0,
            window: Longest::default(),
            window_before: Longest::default(),
            window_began_ns: 0,
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

    /// Ends a callback. Returns its length in cycles, and whether `note_long` must record it.
    #[inline]
    pub fn lap(&mut self) -> (u64, bool) {
        let now = cycles();
        let length = now.saturating_sub(self.mark);
        self.mark = now;
        self.callbacks += 1;
        let is_long = length > self.bar;
        if is_long {
            self.bar = length;
        }
        (length, is_long)
    }

    /// The longest callback of the window, and perhaps of all; `name` may be made after its end.
    pub fn note_long(&mut self, length: u64, name: String) {
        if length > self.longest {
            self.longest = length;
            self.longest_name.clone_from(&name);
        }
        if length > self.window.length {
            self.window = Longest { length, name };
        }
    }

    /// For who watches: length and name of the longest callback of late. Windows end only here, so that a loop that
    /// nobody watches looks at fewer and fewer callbacks.
    pub fn recent_longest(&mut self) -> (f64, &str) {
        let now_ns = monotonic_ns();
        let age_ns = now_ns.saturating_sub(self.window_began_ns);
        if age_ns >= WINDOW_NS {
            self.window_before = std::mem::take(&mut self.window);
            if age_ns >= STALE_NS {
                self.window_before = Longest::default();
            }
            self.bar = 0;
            self.window_began_ns = now_ns;
        }
        let of_both = [&self.window, &self.window_before].into_iter().max_by_key(|one| one.length);
        let longest = of_both.unwrap_or(&self.window);
        (longest.length as f64 * self.seconds_per_cycle(), &longest.name)
    }

    /// For how long the callback has run that runs now, if one does.
    pub fn since_mark_s(&self) -> f64 {
        cycles().saturating_sub(self.mark) as f64 * self.seconds_per_cycle()
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
