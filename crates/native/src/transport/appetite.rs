//! `Appetite`: how many datagrams to receive per readiness of a socket, if no other socket is ready.
//!
//! One receive too many costs a system call that returns EAGAIN; one too few costs an iteration of the loop. So it
//! receives as many as last time, and only now and then tries one more. After each futile attempt the next one comes
//! later.

/// The most datagrams per readiness, so that one flooded socket does not starve the others.
pub const MOST: u32 = 16;
/// The most readinesses between two attempts to receive more.
const PATIENCE_MAX: u32 = 16;

pub struct Appetite {
    /// How many arrived when the socket was last emptied.
    expected: u32,
    /// Readinesses to serve before trying to receive more than expected.
    patience: u32,
    /// What `patience` was last set to.
    backoff: u32,
}

impl Default for Appetite {
    fn default() -> Self {
        Self { expected: 1, patience: 0, backoff: 1 }
    }
}

impl Appetite {
    /// How many datagrams to receive for this readiness.
    pub fn helping(&mut self) -> u32 {
        if self.patience == 0 {
            return MOST;
        }
        self.patience -= 1;
        self.expected
    }

    /// Records that the socket was empty after `count` datagrams.
    pub fn emptied(&mut self, count: u32) {
        self.backoff = if count > self.expected { 1 } else { (self.backoff * 2).min(PATIENCE_MAX) };
        self.patience = self.backoff;
        self.expected = count.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_datagrams_cost_few_futile_receives() {
        let mut appetite = Appetite::default();
        let mut futile = 0;
        for _ in 0..1000 {
            if appetite.helping() > 1 {
                futile += 1;
                appetite.emptied(1);
            }
        }
        assert!(futile < 70, "{futile} of 1000");
    }

    #[test]
    fn a_flood_is_taken_in_large_steps() {
        let mut appetite = Appetite::default();
        for _ in 0..100 {
            appetite.emptied(1);
        }
        let small = (0..1000).map(|_| appetite.helping()).filter(|n| *n < MOST).count();
        assert!(small <= PATIENCE_MAX as usize);
    }
}
