//! One iteration of the loop, and the iterations from `run_forever` to `stop`.
//!
//! A tick keeps asyncio's order: the handles that were ready when it began, then the I/O of its poll, then the timers
//! that were due at its poll. While callbacks keep each other ready and nothing else happens, the kernel is polled
//! only now and then, because a poll costs more than a callback.
//!
//! The GIL is released for every poll, unless the poll cannot sleep and no other thread could take it.

use super::{LoopCore, Ready};
use crate::errors;
use crate::ffi::detach::{detached, is_only_thread};
use oneloop_engine::Poller;
use oneloop_engine::sys::{clock, thread};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::sync::atomic::Ordering;

/// Ticks with ready handles or due timers between two polls. asyncio polls in every tick.
const BURST_TICKS: u32 = 64;
/// The longest time without a poll, on the cycle counter.
const BURST_CYCLES: u64 = 20 * clock::CYCLES_PER_US;
/// A longer tick is followed by a poll: it may have made something ready by a system call that the loop does not see.
/// Only ticks with a few quick callbacks share a poll.
const QUICK_TICK_CYCLES: u64 = 3 * clock::CYCLES_PER_US / 2;

/// The ticks since the last poll.
#[derive(Default)]
struct Burst {
    ticks_left: u32,
    began: u64,
    /// The start of the last tick.
    tick_began: u64,
}

/// Stops a daemon thread's loop when the interpreter shuts down. Before 3.14 CPython ends such a thread with
/// pthread_exit(3), and unwinding through Rust frames aborts the process.
fn stop_for_ever() {
    loop {
        std::thread::park();
    }
}

impl LoopCore {
    /// Whether there is something to do or to send, so that the poll must not sleep. A green thread, a destructor or
    /// another thread may have started a file operation since the end of the last tick.
    fn has_work(&self, py: Python<'_>) -> bool {
        !self.ready.with(py, |ready| ready.is_empty())
            || !self.dirty.with(py, |list| list.is_empty())
            || !self.gathered.with(py, |list| list.is_empty())
    }

    /// How long the poll may sleep; `None`: forever.
    fn timeout_ns(&self, py: Python<'_>) -> Option<u64> {
        let is_idle = !self.has_work(py) && self.due.with(py, |due| due.is_empty());
        if self.stopping.load(Ordering::SeqCst) || !is_idle {
            return Some(0);
        }
        let deadline = self.timers.with(py, |timers| timers.next_deadline_ns());
        deadline.map(|deadline| deadline.saturating_sub(self.now_ns(py)))
    }

    /// Nothing is ready and nothing will be: there is no timer and no descriptor. Only other threads could still wake
    /// it.
    fn would_sleep_for_ever(&self, py: Python<'_>) -> bool {
        self.timeout_ns(py).is_none()
            && self.sources.with(py, |sources| {
                let signals = usize::try_from(self.signal_fd.load(Ordering::Relaxed));
                sources.iter().enumerate().all(|(fd, source)| source.is_none() || Ok(fd) == signals)
            })
    }

    fn poll(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let idle = self.ready.with(py, |ready| ready.is_empty());
        let more = idle && self.sweep_when_idle(py)?;
        // Cancelled timers have been removed, so none of them hides this state. The state is checked again, because a
        // thread may have called before it was found to have nothing to do.
        if !more
            && self.has_only_green.load(Ordering::Relaxed)
            && self.would_sleep_for_ever(py)
            && (is_only_thread(py) || owner.call_method0(intern!(py, "_is_alone"))?.is_truthy()?)
            && self.would_sleep_for_ever(py)
        {
            owner.call_method0(intern!(py, "_nothing_to_wait_for"))?;
        }
        let timeout_ns = if more { Some(0) } else { self.timeout_ns(py) };
        self.meter.with(py, |meter| meter.polls += 1);
        let result = match timeout_ns {
            Some(0) => self.poll_at_once(py),
            Some(ns) if self.clock.with(py, |clock| clock.is_virtual()) => {
                self.poll_virtual(py, ns)
            }
            _ => self.poll_blocking(py, timeout_ns),
        };
        match result {
            // A signal: its Python handler runs here and may raise KeyboardInterrupt.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => py.check_signals(),
            Err(e) => Err(errors::os_error("epoll_wait", &e)),
            Ok(()) => Ok(()),
        }
    }

    /// A poll that does not sleep. Other threads get a chance to run, as with asyncio.
    fn poll_at_once(&self, py: Python<'_>) -> io::Result<()> {
        if is_only_thread(py) {
            return self.with_poller(py, |poller| poller.wait(Some(0)))?;
        }
        self.wait_detached(py, Some(0))
    }

    fn poll_blocking(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<()> {
        let waker = &self.waker;
        waker.about_to_sleep();
        // Work pushed before this line is seen here; a push after it signals the waker.
        if self.has_work(py) {
            waker.awake();
            return self.poll_at_once(py);
        }
        self.asleep.store(true, Ordering::SeqCst);
        let result = self.wait_detached(py, timeout_ns);
        self.asleep.store(false, Ordering::SeqCst);
        waker.awake();
        result
    }

    /// Waits without the GIL. Any thread can still change registrations; only the events are out of reach.
    fn wait_detached(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<()> {
        let mut wait = self.with_poller(py, Poller::begin_wait)??;
        let halting = &self.halting;
        let (wait, result) = detached(py, move || {
            let result = wait.run(timeout_ns);
            if halting.load(Ordering::SeqCst) {
                stop_for_ever();
            }
            (wait, result)
        });
        let ended = self.with_poller(py, |poller| poller.end_wait(wait))?;
        result.and(ended)
    }

    /// Virtual time: events that are ready come first; if there are none, time jumps to the deadline.
    fn poll_virtual(&self, py: Python<'_>, timeout_ns: u64) -> io::Result<()> {
        self.with_poller(py, |poller| poller.wait(Some(0)))??;
        if !self.with_poller(py, |poller| Poller::has_pending(poller))? {
            self.clock.with(py, |clock| clock.advance(timeout_ns));
        }
        Ok(())
    }

    /// True if a timer is due. Stores the time that it has read for the rest of the tick.
    fn is_timer_due(&self, py: Python<'_>, now_ns: &mut Option<u64>) -> bool {
        let Some(deadline) = self.timers.with(py, |timers| timers.next_deadline_ns()) else {
            return false;
        };
        deadline <= *now_ns.insert(self.now_ns(py))
    }

    /// True while the caller, which serves an event, is the only one with work: no handle is ready, no event of this
    /// poll is left, no timer is due, no stop is requested, and the last poll was less than a burst ago.
    pub fn is_alone(&self, py: Python<'_>) -> bool {
        self.meter.with(py, |meter| meter.since_tick()) < BURST_CYCLES
            && !self.stopping.load(Ordering::SeqCst)
            && self.ready.with(py, |ready| ready.is_empty())
            && self.due.with(py, |due| due.is_empty())
            && matches!(self.with_poller(py, |poller| poller.has_pending()), Ok(false))
            && !self.is_timer_due(py, &mut None)
    }

    fn tick(&self, owner: &Bound<'_, Self>, burst: &mut Burst) -> PyResult<()> {
        let py = owner.py();
        let mark = self.meter.with(py, |meter| meter.mark());
        let mut now_ns = None;
        let may_skip = burst.ticks_left > 0
            && mark.wrapping_sub(burst.began) < BURST_CYCLES
            && mark.wrapping_sub(burst.tick_began) < QUICK_TICK_CYCLES
            && !self.has_sent.load(Ordering::Relaxed)
            && (!self.ready.with(py, |ready| ready.is_empty())
                || self.is_timer_due(py, &mut now_ns));
        if may_skip {
            burst.ticks_left -= 1;
        } else {
            let pending = self
                .with_poller(py, |poller| poller.has_pending())
                .map_err(|e| errors::os_error("epoll_wait", &e))?;
            if !pending {
                self.poll(owner)?;
            }
            burst.ticks_left = BURST_TICKS;
            self.has_sent.store(false, Ordering::Relaxed);
        }
        self.collect_due_timers(py, now_ns)?;
        let began = self.meter.with(py, |meter| meter.begin_tick(!may_skip));
        burst.tick_began = began;
        if !may_skip {
            burst.began = began;
        }
        self.turns.set(py, self.ready.with(py, |ready| ready.len()));
        while self.turns.get(py) > 0 {
            // There may be fewer: a nested close clears the queue.
            let Some(ready) = self.ready.with(py, std::collections::VecDeque::pop_front) else {
                break;
            };
            self.turns.set(py, self.turns.get(py) - 1);
            ready.run(owner).inspect_err(|_| self.keep_order(py, self.turns.get(py)))?;
        }
        self.turns.set(py, 0);
        if !may_skip {
            self.serve_events(owner).inspect_err(|_| self.keep_order(py, 0))?;
        }
        self.run_due_timers(owner).inspect_err(|_| self.keep_order(py, 0))?;
        // Sends what was written outside of callbacks, by destructors and signal handlers.
        self.flush_gathered(owner)?;
        self.flush_dirty(owner)?;
        self.meter.with(py, super::meter::Meter::end_tick);
        Ok(())
    }

    /// Called when an exception leaves the loop in the middle of a tick. The unfinished work of this tick keeps its
    /// order when the loop runs again: after the `rest` of its handles, before what was scheduled meanwhile.
    fn keep_order(&self, py: Python<'_>, rest: usize) {
        let next = || self.with_poller(py, Poller::next_event).ok().flatten();
        let tick = self.tick_number(py);
        let events = std::iter::from_fn(next).map(|event| Ready::Event(event, tick));
        let left: Vec<_> = events.chain(self.due.take(py).into_iter().map(Ready::Timer)).collect();
        self.ready.with(py, |ready| {
            let behind = ready.split_off(rest.min(ready.len()));
            ready.extend(left.into_iter().chain(behind));
        });
    }

    fn run_until_stopped(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let mut burst = Burst::default();
        loop {
            self._check_process(py)?;
            if self.halting.load(Ordering::Relaxed) {
                self.halted.store(true, Ordering::SeqCst);
                detached(py, stop_for_ever);
            }
            self.tick(owner, &mut burst)?;
            if self.stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
    }
}

#[pymethods]
impl LoopCore {
    /// Runs ticks until `stop()`; called by `run_forever`. Exceptions from callbacks go to the exception handler,
    /// except KeyboardInterrupt and SystemExit, which are raised from here.
    fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.thread.store(thread::ident(), Ordering::Relaxed);
        let result = this.run_until_stopped(slf);
        // What was written before an exception left the loop is still sent.
        let flushed = this.flush_gathered(slf).and(this.flush_dirty(slf));
        this.thread.store(0, Ordering::Relaxed);
        this.ready.with(py, |ready| ready.iter().for_each(|handle| handle.track(py)));
        this.timers.with(py, |timers| timers.iter().for_each(|timer| timer.track(py)));
        this.due.with(py, |due| due.iter().for_each(|timer| timer.track(py)));
        this.stopping.store(false, Ordering::SeqCst);
        result.and(flushed)
    }
}
