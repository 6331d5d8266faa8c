//! One iteration of the loop, and the iterations from `run_forever` to `stop`.
//!
//! A tick keeps asyncio's order: the handles that were ready when it began, then the I/O of its poll, then the timers
//! that were due at its poll. While callbacks keep each other ready and nothing else happens, the kernel is polled
//! only now and then, because a poll costs more than a callback.
//!
//! The GIL is released for every poll, unless the poll cannot sleep and no other thread could take it.

#[cfg(not(Py_3_13))]
use super::core::FIRST_NAP_NS;
use super::core::{LoopCore, Ready};
use super::underway;
use crate::errors;
use crate::ffi::detach::{detached, is_only_thread};
use crate::ffi::thread_exit::guard_thread;
#[cfg(Py_3_13)]
use crate::ffi::wakeup;
use oneloop_engine::sys::{clock, thread};
use oneloop_engine::{Poller, Timers};
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

/// Ticks with ready handles or due timers between two polls. asyncio polls in every tick.
const BURST_TICKS: u32 = 64;
/// The longest time without a poll, on the cycle counter.
const BURST_CYCLES: u64 = 20 * clock::CYCLES_PER_US;
/// Of polls that do not sleep, one in so many looks for signals.
const POLLS_PER_SIGNAL_CHECK: u64 = 16;

/// Only ticks with a few quick callbacks share a poll. A longer tick is followed by a poll: it may have made something
/// ready by a system call that the loop does not see.
const QUICK_TICK_CYCLES: u64 = 3 * clock::CYCLES_PER_US / 2;

/// The longest time without looking for signals: each nap in which nothing happens is twice as long as the one before it.
#[cfg(not(Py_3_13))]
const LAST_NAP_NS: u64 = 1_000_000_000;

/// The ticks since the last poll.
#[derive(Default)]
struct Burst {
    ticks_left: u32,
    began: u64,
    /// The start of the last tick.
    tick_began: u64,
}

/// What a poll has brought.
enum Polled {
    Events,
    /// The socket of the signals is readable.
    Signal,
}

impl LoopCore {
    /// Whether there is something to do or to send, so that the poll must not sleep. A green thread, a destructor or
    /// another thread may have started a file operation since the end of the last tick.
    fn has_work(&self, py: Python<'_>) -> bool {
        !self.ready.with(py, |ready| ready.is_empty())
            || !self.dirty.with(py, |list| list.is_empty())
            || !self.gathered.with(py, |list| list.is_empty())
    }

    /// How long the poll may sleep if there is no work; `None`: forever.
    fn timeout_ns(&self, py: Python<'_>) -> Option<u64> {
        if self.stopping.load(Ordering::SeqCst) || !self.due.with(py, |due| due.is_empty()) {
            return Some(0);
        }
        let deadline = self.timers.with(py, Timers::next_deadline_ns);
        deadline.map(|deadline| deadline.saturating_sub(self.now_ns(py)))
    }

    /// Nothing is ready and nothing will be: there is no timer and no descriptor. Only other threads could still wake
    /// it.
    fn would_sleep_for_ever(&self, py: Python<'_>) -> bool {
        !self.has_work(py)
            && self.timeout_ns(py).is_none()
            && self.sources.with(py, |sources| {
                let signals = usize::try_from(self.signal_fd.load(Ordering::Relaxed));
                sources.iter().enumerate().all(|(fd, source)| source.is_none() || Ok(fd) == signals)
            })
    }

    fn poll(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let idle = self.ready.with(py, |ready| ready.is_empty());
        // The state is checked again, because a thread may have called before it was found to have nothing to do.
        if self.has_only_green.load(Ordering::Relaxed)
            && self.would_sleep_for_ever(py)
            && owner.call_method1(intern!(py, "_is_alone"), (is_only_thread(py),))?.is_truthy()?
            && self.would_sleep_for_ever(py)
        {
            owner.call_method0(intern!(py, "_nothing_to_wait_for"))?;
        }
        let polls = self.meter.with(py, |meter| {
            meter.polls += 1;
            meter.polls
        });
        if !idle {
            // Native callbacks alone would never let the interpreter look for signals.
            if polls.is_multiple_of(POLLS_PER_SIGNAL_CHECK) {
                py.check_signals()?;
            }
            return self.polled(py, self.poll_at_once(py));
        }
        self.poll_until_signal(owner)
    }

    /// What a poll means to the tick. A signal that ended it: its Python handler runs here and may raise
    /// KeyboardInterrupt.
    #[expect(clippy::inline_always, reason = "18 instructions of each sleep")]
    #[inline(always)]
    fn polled(&self, py: Python<'_>, result: io::Result<Polled>) -> PyResult<()> {
        match result {
            Ok(Polled::Events) => Ok(()),
            Ok(Polled::Signal) => py.check_signals(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => py.check_signals(),
            Err(e) => Err(errors::os_error("epoll_wait", &e)),
        }
    }

    fn is_virtual(&self, py: Python<'_>) -> bool {
        self.clock.with(py, |clock| clock.is_virtual())
    }

    fn poll_as_long_as_idle(&self, py: Python<'_>) -> io::Result<Polled> {
        match self.timeout_ns(py) {
            Some(0) => self.poll_at_once(py),
            Some(_) if self.is_virtual(py) && self.has_work(py) => self.poll_at_once(py),
            Some(ns) if self.is_virtual(py) => self.poll_virtual(py, ns),
            timeout_ns => self.poll_blocking(py, timeout_ns),
        }
    }

    /// A poll that a signal ends, also if it comes immediately before the sleep: the process's wakeup descriptor is this
    /// loop's meanwhile.
    #[cfg(Py_3_13)]
    fn poll_until_signal(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        let fd = self.wakeup_fd.load(Ordering::Relaxed);
        let mut outer = -1;
        if fd >= 0 {
            match wakeup::swap(py, fd) {
                // A signal's handler runs the loop within its run, which is about to sleep or slept.
                found if found == fd => outer = fd,
                found => self.check_wakeup_fd(owner, found, -1)?,
            }
        }
        // A signal that came before that line is seen here. Its handler may stop the loop or make a timer.
        let result = py.check_signals().map(|()| self.poll_as_long_as_idle(py));
        let fd = self.wakeup_fd.load(Ordering::Relaxed);
        if fd >= 0 {
            self.check_wakeup_fd(owner, wakeup::swap(py, outer), fd)?;
        }
        // A signal that came before the sleep has only made the socket readable. Its Python handler runs here: an
        // exception would not leave the callback that empties the socket. One that came after the sleep is seen before
        // the next.
        self.polled(py, result?)
    }

    /// If the program has set a wakeup descriptor, it is restored and stays for the rest of this run.
    #[cfg(Py_3_13)]
    fn check_wakeup_fd(&self, owner: &Bound<'_, Self>, found: i32, expected: i32) -> PyResult<()> {
        if found == expected {
            return Ok(());
        }
        self.wakeup_fd.store(-1, Ordering::Relaxed);
        let name = intern!(owner.py(), "_keep_wakeup_fd");
        let keep = || owner.call_method1(name, (found,)).map(drop);
        // What a signal's handler has interrupted is done again.
        keep().or_else(|error| keep().and(Err(error)))
    }

    /// A poll that a signal ends. If the signal comes immediately before the sleep, that is after a nap, because these
    /// versions cannot set the wakeup descriptor without a trace.
    #[cfg(not(Py_3_13))]
    fn poll_until_signal(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let py = owner.py();
        py.check_signals()?;
        self.polled(py, self.poll_as_long_as_idle(py))
    }

    /// A poll that does not sleep. Other threads get a chance to run, as with asyncio.
    fn poll_at_once(&self, py: Python<'_>) -> io::Result<Polled> {
        if is_only_thread(py) {
            self.with_poller(py, |poller| poller.wait(Some(0)))??;
            return Ok(Polled::Events);
        }
        self.wait_detached(py, Some(0))
    }

    fn poll_blocking(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<Polled> {
        let waker = &self.waker;
        waker.about_to_sleep();
        // Work pushed before this line is seen here; a push after it signals the waker.
        if self.has_work(py) {
            waker.awake();
            return self.poll_at_once(py);
        }
        self.asleep.store(true, Ordering::SeqCst);
        let result = self.sleep(py, timeout_ns);
        self.asleep.store(false, Ordering::SeqCst);
        waker.awake();
        result
    }

    #[cfg(Py_3_13)]
    fn sleep(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<Polled> {
        self.wait_detached(py, timeout_ns)
    }

    /// The sleep of a loop that signals may end, in naps.
    #[cfg(not(Py_3_13))]
    fn sleep(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<Polled> {
        if self.wakeup_fd.load(Ordering::Relaxed) < 0 {
            return self.wait_detached(py, timeout_ns);
        }
        let nap_ns = self.nap_ns.get(py);
        let result = self.wait_detached(py, Some(timeout_ns.map_or(nap_ns, |ns| ns.min(nap_ns))));
        let is_quiet =
            !self.has_work(py) && matches!(self.with_poller(py, |p| p.has_pending()), Ok(false));
        self.nap_ns.set(py, if is_quiet { (2 * nap_ns).min(LAST_NAP_NS) } else { FIRST_NAP_NS });
        result
    }

    /// Waits without the GIL. Any thread can still change registrations; only the events are out of reach.
    fn wait_detached(&self, py: Python<'_>, timeout_ns: Option<u64>) -> io::Result<Polled> {
        let mut wait = self.with_poller(py, Poller::begin_wait)??;
        let (wait, result) = detached(py, move || {
            let result = wait.run(timeout_ns);
            (wait, result)
        });
        let signal_fd = self.signal_fd.load(Ordering::Relaxed);
        let ended = self.with_poller(py, |poller| {
            poller.end_wait(wait).map(|()| poller.has_event_of(signal_fd))
        })?;
        result.and(ended).map(|by_signal| if by_signal { Polled::Signal } else { Polled::Events })
    }

    /// Virtual time: events that are ready come first, and those of bytes that are underway; if there are none, time
    /// jumps to the deadline.
    #[cold]
    #[inline(never)]
    fn poll_virtual(&self, py: Python<'_>, timeout_ns: u64) -> io::Result<Polled> {
        // Looked for before the poll, which sees what has arrived meanwhile.
        if self.underway.with(py, |bytes| self.with_poller(py, |poller| bytes.moves(poller)))? {
            return self.wait_detached(py, Some(underway::PAUSE_NS));
        }
        self.with_poller(py, |poller| poller.wait(Some(0)))??;
        if !self.with_poller(py, |poller| Poller::has_pending(poller))? {
            self.clock.with(py, |clock| clock.advance(timeout_ns));
        }
        Ok(Polled::Events)
    }

    /// True if a timer is due. Stores the time that it has read for the rest of the tick.
    fn is_timer_due(&self, py: Python<'_>, now_ns: &mut Option<u64>) -> bool {
        let Some(deadline) = self.timers.with(py, Timers::next_deadline_ns) else {
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

    /// The next entry of this tick. There may be fewer than turns: a nested close clears the queue.
    #[inline]
    fn next_ready(&self, py: Python<'_>) -> Option<Ready> {
        let has_turn = self.turns.with(py, |turns| {
            let left = turns.checked_sub(1);
            *turns = left.unwrap_or(0);
            left.is_some()
        });
        if has_turn { self.ready.with(py, |ready| ready.pop_front()) } else { None }
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
        let turns = self.ready.with(py, |ready| {
            ready.begin_burst();
            ready.len()
        });
        self.turns.set(py, turns);
        while let Some(ready) = self.next_ready(py) {
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
            let rest = rest.min(ready.len());
            let behind = ready.split_off(rest);
            ready.extend(left.into_iter().chain(behind));
        });
    }

    fn run_until_stopped(&self, owner: &Bound<'_, Self>) -> PyResult<()> {
        let mut burst = Burst::default();
        loop {
            self._check_process()?;
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
    pub fn _run(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        guard_thread();
        // Not 0 if it runs already: see `ClientTurns`.
        let outer = this.thread.swap(thread::ident(), Ordering::Relaxed);
        // After a panic too (without memory, PyO3's constructors panic) the loop no longer runs, and can be closed.
        let result = catch_unwind(AssertUnwindSafe(|| this.run_until_stopped(slf)));
        // What was written before an exception left the loop is still sent.
        let flushed = this.flush_gathered(slf).and(this.flush_dirty(slf));
        this.thread.store(outer, Ordering::Relaxed);
        this.ready.with(py, |ready| ready.iter().for_each(|handle| handle.track(py)));
        this.timers.with(py, |timers| timers.iter().for_each(|timer| timer.track(py)));
        this.due.with(py, |due| due.iter().for_each(|timer| timer.track(py)));
        this.stopping.store(false, Ordering::SeqCst);
        result.unwrap_or_else(|panic| resume_unwind(panic)).and(flushed)
    }
}
