//! `Crew`: the jobs of some threads, and when one more thread is woken or started.
//!
//! A thread is added when a job finds no thread that is about to look for work. If jobs still wait when the one who
//! submits them runs again (`look`), one more is added. So one thread serves a burst of quick jobs, and no job waits
//! behind one that blocks. The caller guards it with a lock, starts the threads, and lets the idle ones sleep at a
//! `Gate`; `models/crew.rs` tries all orders.
//!
//! ```text
//!           add_one → waking → begin: looks for jobs ⇄ works
//!                       ↑ add_one    ↓ take: none
//!                       └───────── idle
//! ```

use std::collections::VecDeque;

/// What the caller does to add a thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Added {
    /// Lets one in at the gate.
    Wake,
    /// Starts a thread; `not_started` if that fails.
    Start,
    /// All work.
    Nobody,
}

pub struct Crew<J> {
    jobs: VecDeque<J>,
    most: usize,
    threads: usize,
    /// Threads that sleep.
    idle: usize,
    /// Threads that were woken or started, and have not looked for work yet.
    waking: usize,
    /// `look` will be called.
    is_watched: bool,
}

impl<J> Crew<J> {
    /// Makes one of no threads, later at most so many.
    pub fn new(most: usize) -> Self {
        Self { jobs: VecDeque::new(), most, threads: 0, idle: 0, waking: 0, is_watched: false }
    }

    /// Returns true if a thread is to be added now; otherwise `watch`.
    pub fn submit(&mut self, job: J) -> bool {
        self.jobs.push_back(job);
        self.waking == 0 && self.idle == self.threads
    }

    pub fn add_one(&mut self) -> Added {
        if self.idle > 0 {
            self.idle -= 1;
            self.waking += 1;
            Added::Wake
        } else if self.threads < self.most {
            self.threads += 1;
            self.waking += 1;
            Added::Start
        } else {
            Added::Nobody
        }
    }

    /// The thread could not be started. If there is no other, returns the jobs, which nobody will do.
    pub fn not_started(&mut self) -> VecDeque<J> {
        self.threads -= 1;
        self.waking -= 1;
        if self.threads == 0 { std::mem::take(&mut self.jobs) } else { VecDeque::new() }
    }

    /// Jobs are left waiting. Returns true if the caller has to arrange that `look` is called.
    pub fn watch(&mut self) -> bool {
        let may_help = self.idle > 0 || self.threads < self.most;
        may_help && self.waking == 0 && !std::mem::replace(&mut self.is_watched, true)
    }

    /// Returns true if a thread is to be added, because jobs still wait.
    pub fn look(&mut self) -> bool {
        self.is_watched = false;
        !self.jobs.is_empty() && self.waking == 0
    }

    /// In a thread that was started or let in. Starting one may have failed though it runs: an interrupt in between.
    pub fn begin(&mut self) {
        self.waking = self.waking.saturating_sub(1);
    }

    /// The next job, and whether more wait (`watch`). Without a job, the thread goes to sleep at the gate.
    pub fn take(&mut self) -> (Option<J>, bool) {
        let job = self.jobs.pop_front();
        if job.is_none() {
            self.idle += 1;
        }
        (job, !self.jobs.is_empty())
    }

    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.jobs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_start_is_not_waited_for() {
        let mut crew = Crew::new(2);
        assert!(crew.submit(1));
        assert_eq!(crew.add_one(), Added::Start);
        assert_eq!(crew.not_started(), [1], "nobody else does it");
        assert!(crew.submit(2), "the next one is tried again");
        assert_eq!(crew.add_one(), Added::Start);
        assert!(!crew.submit(3));
        crew.begin();
        assert_eq!(crew.take(), (Some(2), true));
        assert!(crew.watch());
        assert!(crew.look());
        assert_eq!(crew.add_one(), Added::Start);
        assert!(crew.not_started().is_empty(), "the first one does it");
        assert_eq!(crew.take(), (Some(3), false));
    }
}
