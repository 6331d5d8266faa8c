//! When the next message is due. In a closed loop: as soon as the connection is free. In an open loop: at a fixed rate,
//! whether or not the server keeps up; latency counts from the time when the message was due (no coordinated omission).

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    Closed,
    Open { per_second: f64 },
}

/// The due times of an open loop that no connection has taken yet.
#[derive(Debug)]
pub struct Schedule {
    begin_ns: u64,
    interval_ns: f64,
    issued: u64,
    overdue: VecDeque<u64>,
}

impl Schedule {
    #[must_use]
    pub fn new(per_second: f64, begin_ns: u64) -> Self {
        Self { begin_ns, interval_ns: 1e9 / per_second, issued: 0, overdue: VecDeque::new() }
    }

    /// The moment at which the next message falls due.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.begin_ns + (self.issued as f64 * self.interval_ns) as u64
    }

    /// Moves everything that is due by `now_ns` (and before `end_ns`) into the waiting line.
    pub fn advance(&mut self, now_ns: u64, end_ns: u64) {
        while self.next_ns() <= now_ns.min(end_ns) {
            self.overdue.push_back(self.next_ns());
            self.issued += 1;
        }
    }

    /// The oldest due time that waits for a connection.
    pub fn take(&mut self) -> Option<u64> {
        self.overdue.pop_front()
    }

    /// Messages that were due and never sent.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.overdue.len()
    }

    pub fn forget_backlog(&mut self) {
        self.overdue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_loop_still_owes_every_message() {
        let mut schedule = Schedule::new(1_000.0, 0);
        schedule.advance(10_500_000, u64::MAX);
        assert_eq!(schedule.backlog(), 11);
        assert_eq!(schedule.take(), Some(0));
        assert_eq!(schedule.take(), Some(1_000_000));
        assert_eq!(schedule.next_ns(), 11_000_000);
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let mut schedule = Schedule::new(1_000.0, 0);
        schedule.advance(10_000_000, 3_000_000);
        assert_eq!(schedule.backlog(), 4);
    }
}
