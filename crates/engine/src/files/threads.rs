//! `Pool`: a few threads for operations without an opcode, and for all operations where the other engines are
//! forbidden.
//!
//! Threads are started when work waits and none is idle, and end after some idle time. Work is split into lanes with
//! separate threads, so that short work never queues behind long work. A request that may wait forever (opening a
//! FIFO) gets its own thread, so that it blocks no others. Requests go to the threads; their owners stay here, on the
//! loop's thread, until the completion (S1).
//!
//! submitted → taken by a thread → done → reaped; `cancel` only affects work that no thread has taken yet.

use super::blocking;
use super::handover::{Pace, Sleeper, Wait, is_one_processor};
use super::mount::Place;
use super::request::Request;
use super::slots::{Key, Slots};
use super::{Completion, Outcome};
use crate::sync::{Arc, Bell, Condvar, Mutex, MutexGuard, eventfd};
use crate::sys::{file, thread};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
#[cfg(not(feature = "models"))]
use std::os::fd::{AsFd, AsRawFd};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Threads for requests that may wait forever. Further ones use the queue of the other threads.
const UNBOUNDED_THREADS: usize = 64;
/// The most calls that are not looked at before they start. They leave as many threads to the others as before.
const SPARE: usize = 4;
const IDLE: Duration = Duration::from_secs(5);

/// Selects the group of threads that does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Short work on local filesystems.
    Local,
    /// Calls that may wait for another machine, and functions of the program.
    Remote(Place),
    /// Transfers of megabytes on local filesystems.
    Bulk,
    /// Jobs of several steps: listings of trees, atomic writes.
    Long(Place),
    /// Copies.
    Copy(Place),
    /// Removals of trees.
    Remove(Place),
    /// Look-ups of names, which may wait for servers.
    Names,
}

impl Lane {
    /// The maximum number of threads per loop. Each place has its own, so that a filesystem that hangs stops only the
    /// work on itself.
    fn width(self) -> usize {
        match self {
            Self::Remote(Place::Unknown) => 8 + SPARE,
            Self::Remote(_) => 8,
            // As many as asyncio's default executor has at most.
            Self::Names => 32,
            _ => 4,
        }
    }
}

/// A function to call on a thread. It must not panic.
pub type Call = Box<dyn FnOnce() -> io::Result<usize> + Send>;

/// Work for a thread.
pub enum Work {
    Request(Request),
    Call(Call),
}

impl Work {
    fn done(self) -> Outcome {
        match self {
            Self::Request(request) => {
                let result = blocking::execute(&request);
                Outcome { request: Some(request), result }
            }
            Self::Call(call) => Outcome { request: None, result: call() },
        }
    }

    /// The outcome of work that was never started.
    fn cancelled(self) -> Outcome {
        let request = match self {
            Self::Request(request) => Some(request),
            Self::Call(_) => None,
        };
        Outcome { request, result: Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
    }
}

struct Job {
    key: Key,
    at: Instant,
    work: Work,
    wait: Option<Arc<Wait>>,
    /// It must be done even if nobody waits any more: a file is being closed.
    is_uncancellable: bool,
}

/// A lane's queue and threads.
#[derive(Default)]
struct Row {
    queue: VecDeque<Job>,
    /// Jobs that a thread has taken and not finished.
    running: usize,
    threads: usize,
    /// Idle threads. The one that worked last gets the next work.
    idle: Vec<Arc<Sleeper>>,
}

#[derive(Default)]
struct State {
    /// The row of `Lane::Local`, which is used most.
    local: Row,
    /// The others, as long as they have threads. There may be thousands: four kinds for each mount.
    rows: HashMap<Lane, Row>,
    done: Vec<(Key, Outcome)>,
    unbounded: usize,
    /// A thread waits for work to end.
    is_awaited: bool,
    /// Signalled when there are completions to reap. `None` once nobody will reap any more.
    bell: Option<Arc<Bell>>,
}

impl State {
    fn row(&mut self, lane: Lane) -> &mut Row {
        if lane == Lane::Local { &mut self.local } else { self.rows.entry(lane).or_default() }
    }

    /// A thread of this lane ends, or could not be started.
    fn leave(&mut self, lane: Lane) {
        let row = self.row(lane);
        if row.threads == 0 && row.queue.is_empty() {
            self.rows.remove(&lane);
        }
    }

    fn all_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().chain([&self.local])
    }

    fn all_rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.values_mut().chain([&mut self.local])
    }

    fn threads(&self) -> usize {
        self.all_rows().map(|row| row.threads).sum::<usize>() + self.unbounded
    }

    fn idle(&self) -> usize {
        self.all_rows().map(|row| row.idle.len()).sum()
    }
}

struct Shared {
    state: Mutex<State>,
    finished: Condvar,
    /// So long a thread without work stays.
    idle: Duration,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an outcome for reaping. Returns true if it is the first one.
    fn finish(state: &mut State, key: Key, outcome: Outcome) -> bool {
        if state.bell.is_none() {
            close_late(&outcome);
            return false;
        }
        state.done.push((key, outcome));
        state.done.len() == 1
    }

    /// Releases the lock first, because the thread that is woken needs it.
    fn tell(&self, state: MutexGuard<'_, State>, rings: bool) {
        let is_awaited = state.is_awaited;
        let bell = if rings { state.bell.clone() } else { None };
        drop(state);
        if let Some(bell) = bell {
            ring(&bell);
        }
        if is_awaited {
            self.finished.notify_all();
        }
    }

    /// The main function of a thread. It is listed as idle before it announces a result, so that it can take the work
    /// that the announcement triggers.
    fn work(&self, lane: Lane) {
        let me = Arc::new(Sleeper::new());
        let mut pace = Pace::new(Instant::now());
        let mut was_asleep = false;
        let mut state = self.lock();
        loop {
            let mut done = None;
            let row = state.row(lane);
            if let Some(Job { key, at, work, wait, .. }) = row.queue.pop_front() {
                row.running += 1;
                drop(state);
                pace.take(at, Instant::now(), std::mem::take(&mut was_asleep));
                done = Some((key, work.done(), wait));
                state = self.lock();
                state.row(lane).running -= 1;
            }
            let is_over = state.row(lane).queue.is_empty();
            if is_over && state.bell.is_none() {
                state.row(lane).threads -= 1;
                state.leave(lane);
                return self.hand_over(state, done);
            }
            if is_over {
                let look = pace.idle(Instant::now());
                me.begin(look.is_some());
                state.row(lane).idle.push(Arc::clone(&me));
                self.hand_over(state, done);
                was_asleep = me.sleep(look, self.idle);
            } else {
                self.hand_over(state, done);
            }
            state = self.lock();
            let row = state.row(lane);
            // A thread that hands over work removes this thread from the list and wakes it.
            let listed = row.idle.iter().position(|idle| Arc::ptr_eq(idle, &me));
            if let Some(index) = listed {
                row.idle.remove(index);
                if row.queue.is_empty() {
                    row.threads -= 1;
                    state.leave(lane);
                    return self.tell(state, false);
                }
            }
        }
    }

    /// Gives the outcome to the thread that waits for it, or stores it for reaping.
    fn hand_over(
        &self,
        mut state: MutexGuard<'_, State>,
        done: Option<(Key, Outcome, Option<Arc<Wait>>)>,
    ) {
        match done {
            None => self.tell(state, false),
            Some((key, outcome, None)) => {
                let rings = Self::finish(&mut state, key, outcome);
                self.tell(state, rings);
            }
            Some((key, outcome, Some(wait))) => {
                drop(state);
                if let Some(outcome) = wait.finish(outcome) {
                    let mut state = self.lock();
                    let rings = Self::finish(&mut state, key, outcome);
                    self.tell(state, rings);
                }
            }
        }
    }
}

fn ring(bell: &Bell) {
    // It fails only if the counter is full, and then the reader is already signalled.
    let rung = eventfd::signal(bell.as_fd());
    debug_assert!(rung.is_ok(), "eventfd: {rung:?}");
}

/// Closes a descriptor that was opened for a request nobody waits for.
fn close_late(outcome: &Outcome) {
    if let (Some(Request::Open { .. }), Ok(fd)) = (&outcome.request, &outcome.result) {
        let closed = file::close(*fd as RawFd);
        debug_assert!(closed.is_ok(), "close: {closed:?}");
    }
}

/// The result of a short wait.
pub enum Brief<T> {
    Done(Completion<T>),
    /// No thread is free immediately: it will be reaped later.
    Later(Key),
    /// The wait timed out: it will be reaped later.
    Late(Key),
}

pub struct Pool<T> {
    shared: Arc<Shared>,
    bell_fd: RawFd,
    owners: Slots<T>,
    /// Eventfds to stop operations that have their own thread.
    stops: HashMap<Key, Arc<Bell>>,
}

impl<T> Pool<T> {
    /// Makes a pool without threads.
    pub fn new() -> io::Result<Self> {
        Self::with_idle(IDLE)
    }

    /// Like `new`; its threads end after another idle time.
    pub fn with_idle(idle: Duration) -> io::Result<Self> {
        let bell = Arc::new(eventfd::create()?);
        let bell_fd = bell.as_raw_fd();
        let shared = Shared {
            state: Mutex::new(State { bell: Some(bell), ..State::default() }),
            finished: Condvar::new(),
            idle,
        };
        let (shared, owners) = (Arc::new(shared), Slots::default());
        Ok(Self { shared, bell_fd, owners, stops: HashMap::new() })
    }

    /// Signals an edge whenever there are completions to reap; never read.
    pub fn raw_fd(&self) -> RawFd {
        self.bell_fd
    }

    /// Queues work for a thread. If no thread can be started, returns the error and the owner.
    pub fn submit(&mut self, lane: Lane, work: Work, owner: T) -> Result<Key, (io::Error, T)> {
        self.enqueue(lane, work, None, false, owner)
    }

    /// Like `submit`, for work that is done even while the pool is shut down: the last write to a file, closing it.
    pub fn submit_uncancellable(
        &mut self,
        lane: Lane,
        work: Work,
        owner: T,
    ) -> Result<Key, (io::Error, T)> {
        self.enqueue(lane, work, None, true, owner)
    }

    /// Like `submit`, but if a thread can start the work immediately, waits for its end, at most for `patience`.
    pub fn submit_and_wait(
        &mut self,
        lane: Lane,
        work: Work,
        is_uncancellable: bool,
        owner: T,
        patience: Duration,
    ) -> Result<Brief<T>, (io::Error, T)> {
        let is_brief = |idle: &Arc<Sleeper>| is_one_processor() || idle.is_looking();
        if !self.shared.lock().row(lane).idle.last().is_some_and(is_brief) {
            return self.enqueue(lane, work, None, is_uncancellable, owner).map(Brief::Later);
        }
        let wait = Arc::new(Wait::new());
        let key = self.enqueue(lane, work, Some(Arc::clone(&wait)), is_uncancellable, owner)?;
        let Some(outcome) = wait.wait(patience) else {
            return Ok(Brief::Late(key));
        };
        let owner = self.owners.remove(key).expect("inserted above, and reaped by nobody");
        Ok(Brief::Done(Completion { owner, outcome }))
    }

    pub fn owner(&mut self, key: Key) -> Option<&mut T> {
        self.owners.get_mut(key)
    }

    fn enqueue(
        &mut self,
        lane: Lane,
        work: Work,
        wait: Option<Arc<Wait>>,
        is_uncancellable: bool,
        owner: T,
    ) -> Result<Key, (io::Error, T)> {
        let mut state = self.shared.lock();
        let row = state.row(lane);
        let idle = row.idle.pop();
        if idle.is_none() && row.threads < lane.width() {
            let shared = Arc::clone(&self.shared);
            match thread::spawn_without_signals("oneloop-files", move || shared.work(lane)) {
                Ok(_) => row.threads += 1,
                // The existing threads will take it.
                Err(_) if row.threads > 0 => {}
                Err(e) => {
                    state.leave(lane);
                    drop(state);
                    return Err((e, owner));
                }
            }
        }
        let key = self.owners.insert(owner);
        row.queue.push_back(Job { key, at: Instant::now(), work, wait, is_uncancellable });
        drop(state);
        if let Some(idle) = idle {
            idle.call();
        }
        Ok(key)
    }

    /// Gives a request that may wait forever its own thread.
    pub fn submit_unbounded(&mut self, request: Request, owner: T) -> Result<Key, (io::Error, T)> {
        if self.shared.lock().unbounded >= UNBOUNDED_THREADS {
            return self.submit(Lane::Remote(Place::Unknown), Work::Request(request), owner);
        }
        let stop = match eventfd::create() {
            Ok(stop) => Arc::new(stop),
            Err(e) => return Err((e, owner)),
        };
        let key = self.owners.insert(owner);
        self.stops.insert(key, Arc::clone(&stop));
        let shared = Arc::clone(&self.shared);
        shared.lock().unbounded += 1;
        let made = thread::spawn_without_signals("oneloop-waits", move || {
            let result = blocking::execute_until(&request, stop.as_raw_fd());
            drop(stop);
            let mut state = shared.lock();
            let outcome = Outcome { request: Some(request), result };
            let rings = Shared::finish(&mut state, key, outcome);
            shared.tell(state, rings);
            // Last: `shut` waits for this, and the bell must be released by then.
            let mut state = shared.lock();
            state.unbounded -= 1;
            shared.tell(state, false);
        });
        match made {
            Ok(_) => Ok(key),
            Err(e) => {
                self.shared.lock().unbounded -= 1;
                self.stops.remove(&key);
                let owner = self.owners.remove(key).expect("inserted above");
                Err((e, owner))
            }
        }
    }

    /// Asks for an operation that can be cancelled to end early. Affects work that no thread has started and requests that
    /// wait for a pipe's other end; these complete with ECANCELED.
    pub fn cancel(&mut self, key: Key) {
        if let Some(stop) = self.stops.get(&key) {
            ring(stop);
            return;
        }
        let mut state = self.shared.lock();
        let withdrawn = state.all_rows_mut().find_map(|row| {
            let index = row.queue.iter().position(|job| job.key == key)?;
            row.queue.remove(index)
        });
        if let Some(Job { work, .. }) = withdrawn {
            let rings = Shared::finish(&mut state, key, work.cancelled());
            self.shared.tell(state, rings);
        }
    }

    fn take_done(&mut self, completions: &mut Vec<Completion<T>>) {
        let done = std::mem::take(&mut self.shared.lock().done);
        for (key, outcome) in done {
            self.stops.remove(&key);
            if let Some(owner) = self.owners.remove(key) {
                completions.push(Completion { owner, outcome });
            }
        }
    }

    /// Appends finished work.
    pub fn reap(&mut self, completions: &mut Vec<Completion<T>>) {
        self.take_done(completions);
    }

    /// What a poll does.
    #[cfg(feature = "models")]
    pub fn wait_for_bell(&self) {
        let bell = self.shared.lock().bell.clone();
        if let Some(bell) = bell {
            bell.poll();
            eventfd::drain(&bell).expect("a model's eventfd");
        }
    }

    pub fn under_way(&self) -> usize {
        self.owners.len()
    }

    pub fn threads(&self) -> usize {
        self.shared.lock().threads()
    }

    /// Whether a call can start immediately in `Lane::Remote(Place::Unknown)`, whatever it works on: then it need not be
    /// found out. The calls that hang there are so few that they stop no other.
    pub fn has_spare_thread(&self) -> bool {
        let state = self.shared.lock();
        let row = state.rows.get(&Lane::Remote(Place::Unknown));
        row.is_none_or(|row| row.queue.len() + row.running < SPARE)
    }

    /// Drops work that no thread has taken and that can be cancelled, waits for the rest until `deadline`, and reaps. Work
    /// that is still running then keeps its owner forever (S1).
    pub fn shut(&mut self, deadline: Instant, completions: &mut Vec<Completion<T>>) -> usize {
        let mut state = self.shared.lock();
        state.is_awaited = true;
        let mut waiting = Vec::new();
        for row in state.all_rows_mut() {
            let (kept, dropped) = row.queue.drain(..).partition(|job| job.is_uncancellable);
            row.queue = kept;
            waiting.extend::<VecDeque<_>>(dropped);
        }
        drop(state);
        for Job { key, work, .. } in waiting {
            if let Some(owner) = self.owners.remove(key) {
                completions.push(Completion { owner, outcome: work.cancelled() });
            }
        }
        self.stops.values().for_each(|stop| ring(stop));
        let mut state = self.shared.lock();
        while self.owners.len() > state.done.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .shared
                .finished
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let bell = state.bell.take();
        state.all_rows().flat_map(|row| &row.idle).for_each(|idle| idle.call());
        drop(state);
        drop(bell);
        self.take_done(completions);
        self.wait_for_idle_threads(deadline);
        let left = self.owners.len();
        std::mem::forget(std::mem::take(&mut self.owners));
        left
    }

    /// Idle threads end immediately. Waits for them, so that none is left after the loop has ended.
    fn wait_for_idle_threads(&self, deadline: Instant) {
        let mut state = self.shared.lock();
        let is_quiet = self.owners.is_empty();
        while state.idle() > 0 || (is_quiet && state.threads() > 0) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .shared
                .finished
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

#[cfg(all(test, not(feature = "models")))]
mod tests {
    use super::*;
    use crate::sys::statx;
    use std::fs::File;

    /// Nothing is left of a lane without threads, so that a process may use any number of mounts.
    #[test]
    fn a_lane_without_threads_has_no_row() -> io::Result<()> {
        let places = ["/proc", "/sys", "/dev", "/"].map(|path| {
            let status = statx::at_hand(File::open(path)?.as_raw_fd())?;
            io::Result::Ok(Place::Mount(status.mount))
        });
        let mut pool = Pool::new()?;
        let mut rows = 0;
        for place in places {
            let place = place?;
            for lane in [Lane::Local, Lane::Remote(place), Lane::Long(place), Lane::Copy(place)] {
                let call = Work::Call(Box::new(|| Ok(0)));
                pool.submit(lane, call, ()).map_err(|(error, ())| error)?;
                rows = rows.max(pool.shared.lock().rows.len());
            }
        }
        assert!(rows > 3);
        assert_eq!(pool.shut(Instant::now() + Duration::from_secs(10), &mut Vec::new()), 0);
        assert_eq!((pool.threads(), pool.shared.lock().rows.len()), (0, 0));
        Ok(())
    }
}
