//! Drives sessions from one thread: paces them, waits for the server, counts, times.
//!
//! It waits by spinning (repeated polls without a timeout) or by sleeping. If a client sleeps, the server pays for
//! waking it, which is a large part of a small message's cost. For large messages this part is negligible, and spinning
//! would only waste CPU time.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::clock::{now_ns, own_cpu_ns};
use crate::fault::Fault;
use crate::outcome::{Outcome, Window};
use crate::pace::{Pace, Schedule};
use crate::poller::Poller;
use crate::session::{Overdue, Session, Step, Tally};

const SCRATCH_LEN: usize = 256 * 1024;
const CHECK_EVERY_NS: u64 = 50_000_000;

/// One connection and what is known of its turn.
#[derive(Debug)]
struct Slot<S> {
    session: S,
    busy: bool,
    /// When the turn began: for patience.
    begun_ns: u64,
    /// From when the turn is timed: begun, or due in an open loop.
    timed_ns: u64,
}

#[derive(Debug)]
pub struct Engine<S> {
    poller: Poller,
    slots: Vec<Slot<S>>,
    free: VecDeque<usize>,
    busy: usize,
    spin: bool,
    patience: Duration,
    scratch: Vec<u8>,
    ready: Vec<usize>,
}

impl<S: Session> Engine<S> {
    pub fn new(spin: bool, patience: Duration) -> Result<Self, Fault> {
        Ok(Self {
            poller: Poller::new().map_err(|e| Fault::system("epoll_create", e))?,
            slots: Vec::new(),
            free: VecDeque::new(),
            busy: 0,
            spin,
            patience,
            scratch: vec![0; SCRATCH_LEN],
            ready: Vec::new(),
        })
    }

    /// Adds a session; its token is its position.
    pub fn add(&mut self, session: S) {
        self.free.push_back(self.slots.len());
        self.slots.push(Slot { session, busy: false, begun_ns: 0, timed_ns: 0 });
    }

    /// Runs for `length`, then waits until nothing is under way.
    pub fn run(&mut self, length: Duration, pace: Pace) -> Result<Outcome, Fault> {
        let begin_ns = now_ns();
        let mut window = Window::new(begin_ns, begin_ns + length.as_nanos() as u64, own_cpu_ns());
        let tally_before = self.tally();
        let mut schedule = match pace {
            Pace::Closed => None,
            Pace::Open { per_second } => Some(Schedule::new(per_second, begin_ns)),
        };
        let mut next_check_ns = begin_ns + CHECK_EVERY_NS;
        loop {
            let now = now_ns();
            self.begin_turns(now, &window, schedule.as_mut())?;
            if now >= window.end_ns && self.busy == 0 {
                break;
            }
            self.wait(now, &mut window, schedule.as_ref())?;
            self.serve_ready(&mut window)?;
            if now >= next_check_ns {
                self.check_patience(now, &mut window)?;
                next_check_ns = now + CHECK_EVERY_NS;
            }
        }
        window.tally = self.tally().since(tally_before);
        window.unsent = schedule.map_or(0, |s| s.backlog() as u64);
        Ok(window.close(now_ns(), own_cpu_ns(), self.spin))
    }

    fn tally(&self) -> Tally {
        self.slots.iter().fold(Tally::default(), |sum, slot| sum.plus(slot.session.tally()))
    }

    fn begin_turns(
        &mut self,
        now: u64,
        window: &Window,
        schedule: Option<&mut Schedule>,
    ) -> Result<(), Fault> {
        let Some(schedule) = schedule else {
            if now >= window.end_ns {
                return Ok(());
            }
            while let Some(index) = self.free.pop_front() {
                self.begin(index, now, now)?;
            }
            return Ok(());
        };
        schedule.advance(now, window.end_ns);
        // An overloaded server is given as long again to answer what it owes; the rest is reported as unsent.
        if now >= window.end_ns + (window.end_ns - window.begin_ns) {
            return Ok(());
        }
        while !self.free.is_empty() {
            let Some(due_ns) = schedule.take() else { break };
            let Some(index) = self.free.pop_front() else { break };
            self.begin(index, now, due_ns)?;
        }
        Ok(())
    }

    fn begin(&mut self, index: usize, now: u64, timed_ns: u64) -> Result<(), Fault> {
        let slot = &mut self.slots[index];
        slot.busy = true;
        slot.begun_ns = now;
        slot.timed_ns = timed_ns;
        self.busy += 1;
        slot.session.start(&self.poller)
    }

    fn wait(
        &mut self,
        now: u64,
        window: &mut Window,
        schedule: Option<&Schedule>,
    ) -> Result<(), Fault> {
        let timeout = if self.spin {
            Duration::ZERO
        } else {
            let until = schedule.map_or(u64::MAX, Schedule::next_ns);
            Duration::from_nanos(until.saturating_sub(now).clamp(1, CHECK_EVERY_NS))
        };
        let waited = self.poller.wait(Some(timeout), &mut self.ready);
        waited.map_err(|e| Fault::system("epoll_wait", e))?;
        if self.spin && self.ready.is_empty() {
            window.idle_ns += now_ns() - now;
        }
        Ok(())
    }

    fn serve_ready(&mut self, window: &mut Window) -> Result<(), Fault> {
        for position in 0..self.ready.len() {
            let index = self.ready[position];
            let slot = &mut self.slots[index];
            if slot.session.ready(&mut self.scratch)? == Step::Done && slot.busy {
                let now = now_ns();
                slot.busy = false;
                self.busy -= 1;
                window.record(now - slot.timed_ns, slot.session.messages_per_turn());
                self.free.push_back(index);
                window.last_done_ns = now;
            }
        }
        Ok(())
    }

    fn check_patience(&mut self, now: u64, window: &mut Window) -> Result<(), Fault> {
        let mut hanging = 0;
        let patience_ns = self.patience.as_nanos() as u64;
        for slot in &mut self.slots {
            let patience_ns = slot.session.patience_ns().unwrap_or(patience_ns);
            if !slot.busy || now.saturating_sub(slot.begun_ns) < patience_ns {
                continue;
            }
            match slot.session.overdue()? {
                Overdue::Again => {
                    slot.begun_ns = now;
                    window.lost += 1;
                }
                Overdue::Hangs => hanging += 1,
            }
        }
        if hanging == 0 {
            return Ok(());
        }
        Err(Fault::Silent { connections: hanging, seconds: self.patience.as_secs() })
    }

    /// One turn on every connection: proves that each is open and served.
    pub fn greet(&mut self) -> Result<(), Fault> {
        self.start_all()?;
        self.finish_all()
    }

    /// Begins a turn on every connection, and reads nothing yet.
    pub fn start_all(&mut self) -> Result<(), Fault> {
        while let Some(index) = self.free.pop_front() {
            let now = now_ns();
            self.begin(index, now, now)?;
        }
        Ok(())
    }

    /// Reads until every turn is over.
    pub fn finish_all(&mut self) -> Result<(), Fault> {
        let begin_ns = now_ns();
        for slot in &mut self.slots {
            slot.begun_ns = begin_ns;
        }
        let mut window = Window::new(begin_ns, begin_ns, own_cpu_ns());
        while self.busy > 0 {
            let wait = self.poller.wait(Some(Duration::from_millis(50)), &mut self.ready);
            wait.map_err(|e: io::Error| Fault::system("epoll_wait", e))?;
            self.serve_ready(&mut window)?;
            self.check_patience(now_ns(), &mut window)?;
        }
        Ok(())
    }
}
