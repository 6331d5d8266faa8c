//! `LoopCore`: the native base class of `oneloop.Loop`, and the only owner of a loop's state.
//!
//! Each field has its own cell, so that no two can deadlock or alias (S2). Fields marked "any thread" are atomics or
//! locks; the others belong to the loop's thread (S5).

use super::meter::Meter;
use super::ready::Timer;
use super::underway::Underway;
use super::{ready, source};
use crate::errors;
use crate::ffi::fallible;
use crate::ffi::thread_exit::guard_thread;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use oneloop_engine::sys::{fork, thread};
use oneloop_engine::{BurstQueue, Clock, Interest, Key, Poller, Timers, Waker};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

pub type Ready = ready::Ready<LoopCore>;
/// The function that a native completion calls with its object.
pub type Run = ready::Run<LoopCore>;
/// Writes out what an object has queued during the tick.
pub type Flush = Run;
pub type OnReady = source::OnReady<LoopCore>;
pub type Party = source::Party<LoopCore>;
pub type Source = source::Source<LoopCore>;

/// How long a loop in the main thread sleeps at first without looking for signals, on versions without `wakeup`.
#[cfg(not(Py_3_13))]
pub(super) const FIRST_NAP_NS: u64 = 50_000_000;

/// Native base class of `oneloop.Loop`. Do not use it directly.
#[pyclass(frozen, subclass, weakref, module = "oneloop._native")]
pub struct LoopCore {
    /// Any thread pushes (the cell serialises them); only the tick pops.
    pub(super) ready: LoopCell<BurstQueue<Ready>>,
    /// How many of them belong to this tick.
    pub(super) turns: LoopCell<usize>,
    pub(super) timers: LoopCell<Timers<Timer>>,
    /// Where the pending handles of the standard library are, by their addresses.
    pub(super) stock_timers: LoopCell<HashMap<usize, Key>>,
    /// Were due at the last poll, and are about to run.
    pub(super) due: LoopCell<BurstQueue<Timer>>,
    /// `None` once the loop is closed. While the loop's thread waits, it holds only the events.
    poller: LoopCell<Option<Box<Poller>>>,
    pub(super) clock: LoopCell<Clock>,
    pub(super) sources: LoopCell<Vec<Option<Source>>>,
    /// Transports of a program's sockets that begin in the next tick, when they register.
    pub(super) unbegun: LoopCell<HashMap<RawFd, Object>>,
    /// Writes of transports that wait for the end of the callback.
    pub(super) gathered: LoopCell<BurstQueue<(Object, Flush)>>,
    /// File operations that wait for the end of the tick.
    pub(super) dirty: LoopCell<BurstQueue<(Object, Flush)>>,
    pub meter: LoopCell<Meter>,
    /// In virtual time only.
    pub(super) underway: LoopCell<Underway>,
    /// Shared by the small reads of all transports; allocated at the first read.
    pub read_buffer: LoopCell<Vec<MaybeUninit<u8>>>,
    /// `{"loop": loop}`: see `futures.rs`.
    pub(super) only_loop: LoopCell<Option<Py<PyDict>>>,
    /// Any thread.
    pub(super) waker: Waker,
    /// Any thread.
    pub(super) stopping: AtomicBool,
    /// Any thread.
    closed: AtomicBool,
    debug: AtomicBool,
    /// Of the process that made the loop.
    fork_generation: u32,
    /// Any thread: ident of the thread that runs the loop, 0 if it does not run.
    pub(super) thread: AtomicU64,
    /// The number of the running callback, or of the next one. Only the loop's thread changes it.
    callback: AtomicU64,
    /// See the method of this name.
    pub(super) event_tick: AtomicU64,
    /// Something was sent since the last poll.
    pub(super) has_sent: AtomicBool,
    /// The loop's thread is in a wait that may sleep. Any thread may read it.
    pub(super) asleep: AtomicBool,
    /// Only green threads use the loop. If nothing is left that could wake them, the loop does not sleep forever.
    pub(super) has_only_green: AtomicBool,
    /// The descriptor that signals arrive through; -1 before its first use.
    pub(super) signal_fd: AtomicI32,
    /// The process's wakeup descriptor while the loop sleeps; -1 if the loop does not run in the main thread.
    pub(super) wakeup_fd: AtomicI32,
    /// The longest sleep until signals are looked for. Only for Python before 3.13.
    #[cfg(not(Py_3_13))]
    pub(super) nap_ns: LoopCell<u64>,
}

impl LoopCore {
    /// Accesses the poller, even while the loop's thread waits. Returns an error once the loop is closed.
    #[inline]
    pub fn with_poller<R>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Poller) -> R,
    ) -> io::Result<R> {
        self.poller.with(py, |poller| match poller {
            Some(poller) => Ok(f(poller)),
            None => Err(io::Error::other("the event loop is closed")),
        })
    }

    /// The number of the callback that the calling thread runs, if it is the thread of the running loop.
    #[inline]
    pub fn current_callback(&self) -> Option<u64> {
        let ours = self.thread.load(Ordering::Relaxed) == thread::ident();
        ours.then(|| self.callback.load(Ordering::Relaxed))
    }

    /// Whether another thread runs the loop.
    pub fn runs_elsewhere(&self) -> bool {
        let runs = self.thread.load(Ordering::Relaxed);
        runs != 0 && runs != thread::ident()
    }

    #[inline]
    pub fn is_debug(&self) -> bool {
        self.debug.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_closed_now(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether this process is a child of the one that made the loop (S6).
    #[inline]
    pub fn is_parents(&self) -> bool {
        fork::generation() != self.fork_generation
    }

    /// RuntimeError on a closed loop, like `BaseEventLoop._check_closed`.
    #[inline]
    pub fn check_closed(&self) -> PyResult<()> {
        if self.is_closed_now() {
            return Err(PyRuntimeError::new_err("Event loop is closed"));
        }
        Ok(())
    }

    /// The number of the running tick. The events it serves were polled before its callbacks ran.
    pub fn tick_number(&self, py: Python<'_>) -> u64 {
        self.meter.with(py, |meter| meter.ticks)
    }

    /// The number of the tick whose poll returned the event that is being served. That is the running tick, or an
    /// earlier one after an exception has left the loop.
    pub fn event_tick(&self) -> u64 {
        self.event_tick.load(Ordering::Relaxed)
    }

    /// Called after a transport or a socket operation has sent. A peer in this process may be ready now, so the next
    /// tick polls.
    #[inline]
    pub fn note_sent(&self, py: Python<'_>, len_bytes: usize) {
        self.has_sent.store(true, Ordering::Relaxed);
        self.meter.with(py, |meter| meter.bytes_out += len_bytes as u64);
    }

    /// Nanoseconds on the loop's clock.
    #[inline]
    pub fn now_ns(&self, py: Python<'_>) -> u64 {
        self.clock.with(py, |clock| clock.now_ns())
    }

    /// Ends a callback: sends what it has gathered, counts it, records its name if it was the longest of the last seconds,
    /// and reports it if debug mode finds it slow.
    #[inline]
    pub fn lap(&self, owner: &Bound<'_, Self>, what: &Bound<'_, PyAny>) -> PyResult<()> {
        let (cycles, is_long) = self.end_callback(owner.py());
        let flushed = self.flush_gathered(owner);
        if is_long || self.is_debug() {
            return flushed.and(self.describe_callback(owner, what, cycles, is_long));
        }
        flushed
    }

    /// Like `lap`, for a method that was called by name.
    #[inline]
    pub fn lap_method(
        &self,
        owner: &Bound<'_, Self>,
        object: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let (cycles, is_long) = self.end_callback(owner.py());
        let flushed = self.flush_gathered(owner);
        if is_long || self.is_debug() {
            // If the method does not exist, the call has failed, and the object is reported instead.
            let what = object.getattr(name).unwrap_or_else(|_| object.clone());
            return flushed.and(self.describe_callback(owner, &what, cycles, is_long));
        }
        flushed
    }

    /// Like `lap`, for a callback that Python code has already measured and reported.
    pub(super) fn lap_reported(
        &self,
        owner: &Bound<'_, Self>,
        what: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (cycles, is_long) = self.end_callback(owner.py());
        if is_long {
            let name = name_of(what);
            self.meter.with(owner.py(), |meter| meter.note_long(cycles, name));
        }
        self.flush_gathered(owner)
    }

    /// Counts a callback that has ended. Returns its length in cycles, and whether it was the longest of the last seconds.
    #[inline]
    pub(super) fn end_callback(&self, py: Python<'_>) -> (u64, bool) {
        self.callback.store(self.callback.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.meter.with(py, Meter::lap)
    }

    #[cold]
    fn describe_callback(
        &self,
        owner: &Bound<'_, Self>,
        what: &Bound<'_, PyAny>,
        cycles: u64,
        is_long: bool,
    ) -> PyResult<()> {
        let py = owner.py();
        if is_long {
            let name = name_of(what);
            self.meter.with(py, |meter| meter.note_long(cycles, name));
        }
        if self.is_debug() {
            let length_s = self.meter.with(py, |m| cycles as f64 * m.seconds_per_cycle());
            owner.call_method1(intern!(py, "_report_slow"), (what, length_s))?;
        }
        Ok(())
    }
}

/// An attribute, without an exception for one that is missing, which would cost more than the rest. `None` too for one
/// that raises another exception.
fn found<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> Option<Bound<'py, PyAny>> {
    object.getattr_opt(name).ok().flatten()
}

/// The qualified name of a callback. A step of a task has the name of its coroutine, and of the task.
fn name_of(what: &Bound<'_, PyAny>) -> String {
    let py = what.py();
    let qualname = |object: &Bound<'_, PyAny>| {
        found(object, intern!(py, "__qualname__"))?.extract::<String>().ok()
    };
    let of_task = || {
        let task = found(what, intern!(py, "__self__"))?;
        // As asyncio.isfuture() has it: methods of the program's own classes are not called.
        found(task.get_type().as_any(), intern!(py, "_asyncio_future_blocking"))?;
        let coroutine = task.call_method0(intern!(py, "get_coro")).ok()?;
        let name = task.call_method0(intern!(py, "get_name")).ok()?.extract::<String>().ok()?;
        Some(format!("{} ({name})", qualname(&coroutine)?))
    };
    let of_partial = || qualname(&found(what, intern!(py, "func"))?);
    of_task()
        .or_else(|| qualname(what))
        .or_else(of_partial)
        .or_else(|| qualname(what.get_type().as_any()))
        .unwrap_or_else(|| "callback".to_owned())
}

#[pymethods]
impl LoopCore {
    #[new]
    #[pyo3(signature = (*_args, virtual_time = false, **_kwargs))]
    fn new(
        _args: &Bound<'_, PyTuple>,
        virtual_time: bool,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        guard_thread();
        let make = || -> io::Result<(Poller, Waker)> {
            let mut poller = Poller::new()?;
            let waker = Waker::new()?;
            poller.register(waker.raw_fd(), Interest::READ | Interest::EDGE)?;
            Ok((poller, waker))
        };
        let (poller, waker) = make().map_err(|e| errors::os_error("event loop", &e))?;
        Ok(Self {
            ready: LoopCell::new(BurstQueue::default()),
            turns: LoopCell::new(0),
            timers: LoopCell::new(Timers::default()),
            stock_timers: LoopCell::new(HashMap::new()),
            due: LoopCell::new(BurstQueue::default()),
            poller: LoopCell::new(Some(Box::new(poller))),
            clock: LoopCell::new(if virtual_time { Clock::Virtual(0) } else { Clock::Monotonic }),
            sources: LoopCell::new(Vec::new()),
            unbegun: LoopCell::new(HashMap::new()),
            gathered: LoopCell::new(BurstQueue::default()),
            dirty: LoopCell::new(BurstQueue::default()),
            meter: LoopCell::new(Meter::new()),
            underway: LoopCell::new(Underway::default()),
            read_buffer: LoopCell::new(Vec::new()),
            only_loop: LoopCell::new(None),
            waker,
            stopping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            debug: AtomicBool::new(false),
            fork_generation: fork::generation(),
            thread: AtomicU64::new(0),
            callback: AtomicU64::new(1),
            event_tick: AtomicU64::new(0),
            has_sent: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            has_only_green: AtomicBool::new(false),
            signal_fd: AtomicI32::new(-1),
            wakeup_fd: AtomicI32::new(-1),
            #[cfg(not(Py_3_13))]
            nap_ns: LoopCell::new(FIRST_NAP_NS),
        })
    }

    /// The loop's time in seconds, on the clock of `time.monotonic()`.
    fn time<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyFloat>> {
        fallible::float(py, self.now_ns(py) as f64 / 1e9)
    }

    /// Stop the loop at the end of the current tick. May be called from any thread, but only
    /// `call_soon_threadsafe(loop.stop)` wakes a sleeping loop.
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub fn is_running(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != 0
    }

    fn is_closed(&self) -> bool {
        self.is_closed_now()
    }

    /// Marks a hub's own loop: instead of sleeping forever it calls `_nothing_to_wait_for()`.
    fn _serve_green_threads_only(&self) {
        self.has_only_green.store(true, Ordering::Relaxed);
    }

    /// Sets the descriptor that signals arrive through.
    fn _note_signal_fd(&self, fd: i32) {
        self.signal_fd.store(fd, Ordering::Relaxed);
    }

    /// Sets the wakeup descriptor that the next runs use while they sleep; -1: none.
    fn _note_wakeup_fd(&self, fd: i32) {
        self.wakeup_fd.store(fd, Ordering::Relaxed);
    }

    /// The wakeup descriptor that the next sleep uses; -1: none, or the program's was found there in this run.
    #[getter]
    fn _noted_wakeup_fd(&self) -> Value<i32> {
        Value(self.wakeup_fd.load(Ordering::Relaxed))
    }

    fn get_debug(&self) -> bool {
        self.is_debug()
    }

    /// RuntimeError in a child of the process that made the loop (S6).
    #[inline]
    pub fn _check_process(&self) -> PyResult<()> {
        if self.is_parents() && !self.is_closed_now() {
            return Err(PyRuntimeError::new_err(
                "this event loop belongs to the parent process: after fork(), the child must make \
                 its own loop (or call os._exit())",
            ));
        }
        Ok(())
    }

    fn _check_closed(&self) -> PyResult<()> {
        self.check_closed()
    }

    #[getter]
    fn _debug(&self) -> bool {
        self.is_debug()
    }

    /// Assigned by BaseEventLoop.set_debug() with any object from the program.
    #[setter(_debug)]
    fn set_debug_flag(&self, enabled: &Bound<'_, PyAny>) -> PyResult<()> {
        self.debug.store(enabled.is_truthy()?, Ordering::Relaxed);
        Ok(())
    }

    /// Ident of the thread that runs the loop, or None.
    #[getter]
    fn _thread_id(&self) -> Value<Option<u64>> {
        Value(Some(self.thread.load(Ordering::Relaxed)).filter(|ident| *ident != 0))
    }

    /// BaseEventLoop's constructor assigns None.
    #[setter(_thread_id)]
    fn set_thread_id(&self, ident: Option<u64>) {
        self.thread.store(ident.unwrap_or(0), Ordering::Relaxed);
    }

    #[getter]
    fn _stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    #[setter(_stopping)]
    fn set_stopping(&self, value: bool) {
        self.stopping.store(value, Ordering::SeqCst);
    }

    #[getter]
    fn _closed(&self) -> bool {
        self.is_closed_now()
    }

    #[setter(_closed)]
    fn set_closed(&self, value: bool) {
        self.closed.store(value, Ordering::Relaxed);
    }

    /// Drops all pending callbacks, timers and sources. `close()` calls it once.
    fn _clear(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        guard_thread();
        let flushed = this.flush_gathered(slf).and(this.flush_dirty(slf));
        // Destructors that run here see a closed loop, as in asyncio. `BaseEventLoop.close()` then closes it
        // permanently.
        this.closed.store(true, Ordering::Relaxed);
        for item in this.ready.take(py) {
            item.forget(py);
        }
        for timer in this.timers.take(py).into_items().chain(this.due.take(py)) {
            timer.forget(py);
        }
        drop(this.stock_timers.take(py));
        drop(this.unbegun.take(py));
        let sources = this.sources.take(py);
        // Registrations are dropped with the poller, descriptors with their owners.
        drop(sources);
        drop(this.read_buffer.take(py));
        drop(this.only_loop.take(py));
        this.closed.store(false, Ordering::Relaxed);
        flushed
    }

    /// Closes the loop's own descriptors; the last step of `close()`.
    fn _close_poller(&self, py: Python<'_>) {
        drop(self.poller.take(py));
        self.waker.close();
    }

    /// Sends immediately what the running callback has gathered. Does nothing in a thread other than the loop's.
    fn _send_gathered(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        if this.current_callback().is_some() { this.flush_gathered(slf) } else { Ok(()) }
    }

    /// Counters by name, from which `Loop.statistics()` makes its dataclass.
    fn _counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = fallible::dict(py)?;
        let stale = self.with_poller(py, |p| p.stale_events()).unwrap_or(0);
        let (pending, cancelled) =
            self.timers.with(py, |timers| (timers.pending(), timers.cancelled()));
        // The dictionary is filled outside of the cell (S2): the first use of a name may release the GIL.
        let (
            [ticks, callbacks, polls, events, open_transports, bytes_in, bytes_out],
            durations,
            longest,
        ) = self.meter.with(py, |m| {
            (
                [
                    m.ticks,
                    m.callbacks,
                    m.polls,
                    m.events,
                    m.open_transports,
                    m.bytes_in,
                    m.bytes_out,
                ],
                [m.longest_callback_s(), m.longest_tick_s(), m.loop_lag_s()],
                m.longest_name.clone(),
            )
        });
        let [longest_callback_s, longest_tick_s, loop_lag_s] = durations;
        counters.set_item(intern!(py, "ticks"), ticks)?;
        counters.set_item(intern!(py, "callbacks"), callbacks)?;
        counters.set_item(intern!(py, "polls"), polls)?;
        counters.set_item(intern!(py, "events"), events)?;
        counters.set_item(intern!(py, "stale_events"), stale)?;
        counters.set_item(intern!(py, "timers_pending"), pending)?;
        counters.set_item(intern!(py, "timers_cancelled"), cancelled)?;
        counters.set_item(intern!(py, "open_transports"), open_transports)?;
        counters.set_item(intern!(py, "bytes_in"), bytes_in)?;
        counters.set_item(intern!(py, "bytes_out"), bytes_out)?;
        counters.set_item(intern!(py, "longest_callback_s"), longest_callback_s)?;
        counters.set_item(intern!(py, "longest_callback_name"), longest)?;
        counters.set_item(intern!(py, "longest_tick_s"), longest_tick_s)?;
        counters.set_item(intern!(py, "loop_lag_s"), loop_lag_s)?;
        Ok(counters)
    }

    /// For `oneloop top`, from any thread: the seconds that the current callback has run (None if the loop sleeps or
    /// does not run), and the seconds and the name of the longest recent callback.
    fn _activity(&self, py: Python<'_>) -> Value<(Option<f64>, f64, String)> {
        let is_busy = self.is_running() && !self.asleep.load(Ordering::SeqCst);
        Value(self.meter.with(py, |meter| {
            let busy_s = is_busy.then(|| meter.since_mark_s());
            let (longest_s, name) = meter.recent_longest();
            (busy_s, longest_s, name.to_owned())
        }))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // A cell that is in use is skipped: its objects then count as reachable.
        if let Some(result) =
            self.ready.peek(|ready| ready.iter().try_for_each(|r| r.visit(&visit)))
        {
            result?;
        }
        if let Some(result) =
            self.timers.peek(|timers| timers.iter().try_for_each(|t| t.visit(&visit)))
        {
            result?;
        }
        self.due.peek(|due| due.iter().try_for_each(|t| t.visit(&visit))).unwrap_or(Ok(()))?;
        if let Some(result) = self
            .sources
            .peek(|sources| sources.iter().flatten().try_for_each(|source| source.visit(&visit)))
        {
            result?;
        }
        self.unbegun
            .peek(|unbegun| unbegun.values().try_for_each(|object| object.visit(&visit)))
            .unwrap_or(Ok(()))?;
        self.only_loop.peek(|made| visit.call(made)).unwrap_or(Ok(()))?;
        for list in [&self.gathered, &self.dirty] {
            list.peek(|list| list.iter().try_for_each(|(object, _)| object.visit(&visit)))
                .unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.ready.take(py));
        drop(self.timers.take(py));
        drop(self.due.take(py));
        drop(self.sources.take(py));
        drop(self.unbegun.take(py));
        drop(self.gathered.take(py));
        drop(self.dirty.take(py));
        drop(self.only_loop.take(py));
    }
}
