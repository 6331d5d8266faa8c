//! `Pool`: a few threads for what has no opcode, and for everything where nothing else is allowed.
//!
//! Threads are made when work waits and none is idle, and end after a while without work. What may
//! wait for ever (opening a FIFO) gets a thread of its own, so that it starves nobody. Requests go
//! to the threads; their owners stay here, on the loop's thread, until the completion (S1).
//!
//! submitted → taken by a thread → done → reaped; `cancel` works on what no thread has taken yet.

use super::blocking;
use super::request::Request;
use super::slots::{Key, Slots};
use super::{Completion, Outcome};
use crate::sys::{eventfd, file};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Threads of one loop's pool.
const THREADS: usize = 4;
/// Threads for what may wait for ever; more wait in the queue of the others.
const LONERS: usize = 64;
const IDLE: Duration = Duration::from_secs(5);

/// What a thread does.
pub enum Work {
    Request(Request),
    /// Something that the caller wants done; it must not panic.
    Call(Box<dyn FnOnce() + Send>),
}

impl Work {
    /// The outcome of what nobody has begun.
    fn cancelled(self) -> Outcome {
        let request = match self {
            Self::Request(request) => Some(request),
            Self::Call(_) => None,
        };
        Outcome { request, result: Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
    }
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Key, Work)>,
    done: Vec<(Key, Outcome)>,
    threads: usize,
    idle: usize,
    loners: usize,
    /// Rung when there is something to reap. None once nobody will reap any more.
    bell: Option<OwnedFd>,
}

struct Shared {
    state: Mutex<State>,
    wanted: Condvar,
    finished: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, key: Key, work: Work) {
        let outcome = match work {
            Work::Request(request) => {
                let result = blocking::execute(&request);
                Outcome { request: Some(request), result }
            }
            Work::Call(call) => {
                call();
                Outcome { request: None, result: Ok(0) }
            }
        };
        self.hand_over(key, outcome);
    }

    fn hand_over(&self, key: Key, outcome: Outcome) {
        let mut state = self.lock();
        if state.bell.is_none() {
            drop(state);
            close_late(&outcome);
            return;
        }
        state.done.push((key, outcome));
        if state.done.len() == 1 {
            state.bell.iter().for_each(ring);
        }
        drop(state);
        self.finished.notify_all();
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((key, work)) = state.queue.pop_front() {
                drop(state);
                self.run(key, work);
                state = self.lock();
                continue;
            }
            if state.bell.is_none() {
                break;
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wanted.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        drop(state);
        self.finished.notify_all();
    }
}

fn ring(bell: &OwnedFd) {
    // Only a full counter fails, and that rings already.
    let rung = eventfd::signal(bell.as_fd());
    debug_assert!(rung.is_ok(), "eventfd: {rung:?}");
}

/// A descriptor that was opened for nobody.
fn close_late(outcome: &Outcome) {
    if let (Some(Request::Open { .. }), Ok(fd)) = (&outcome.request, &outcome.result) {
        let closed = file::close(*fd as RawFd);
        debug_assert!(closed.is_ok(), "close: {closed:?}");
    }
}

pub struct Pool<T> {
    shared: Arc<Shared>,
    bell_fd: RawFd,
    owners: Slots<T>,
    /// Written to stop an operation with a thread of its own.
    stops: HashMap<Key, Arc<OwnedFd>>,
}

impl<T> Pool<T> {
    /// No thread yet.
    pub fn new() -> io::Result<Self> {
        let bell = eventfd::create()?;
        let bell_fd = bell.as_raw_fd();
        let shared = Shared {
            state: Mutex::new(State { bell: Some(bell), ..State::default() }),
            wanted: Condvar::new(),
            finished: Condvar::new(),
        };
        let (shared, owners) = (Arc::new(shared), Slots::default());
        Ok(Self { shared, bell_fd, owners, stops: HashMap::new() })
    }

    /// Readable when there is something to reap.
    pub fn raw_fd(&self) -> RawFd {
        self.bell_fd
    }

    /// Gives work to a thread. On an error (no thread can be made) the owner comes back.
    pub fn submit(&mut self, work: Work, owner: T) -> Result<Key, (io::Error, T)> {
        let mut state = self.shared.lock();
        if state.idle <= state.queue.len() && state.threads < THREADS {
            let shared = Arc::clone(&self.shared);
            let made = Builder::new().name("oneloop-files".into()).spawn(move || shared.work());
            match made {
                Ok(_) => state.threads += 1,
                // The threads that there are will come to it.
                Err(_) if state.threads > 0 => {}
                Err(e) => {
                    drop(state);
                    return Err((e, owner));
                }
            }
        }
        let key = self.owners.insert(owner);
        state.queue.push_back((key, work));
        drop(state);
        self.shared.wanted.notify_one();
        Ok(key)
    }

    /// Gives a request that may wait for ever to a thread of its own.
    pub fn submit_alone(&mut self, request: Request, owner: T) -> Result<Key, (io::Error, T)> {
        if self.shared.lock().loners >= LONERS {
            return self.submit(Work::Request(request), owner);
        }
        let stop = match eventfd::create() {
            Ok(stop) => Arc::new(stop),
            Err(e) => return Err((e, owner)),
        };
        let key = self.owners.insert(owner);
        self.stops.insert(key, Arc::clone(&stop));
        let shared = Arc::clone(&self.shared);
        shared.lock().loners += 1;
        let made = Builder::new().name("oneloop-waits".into()).spawn(move || {
            let result = blocking::execute_until(&request, stop.as_raw_fd());
            drop(stop);
            shared.hand_over(key, Outcome { request: Some(request), result });
            shared.lock().loners -= 1;
            shared.finished.notify_all();
        });
        match made {
            Ok(_) => Ok(key),
            Err(e) => {
                self.shared.lock().loners -= 1;
                self.stops.remove(&key);
                let owner = self.owners.remove(key).expect("inserted above");
                Err((e, owner))
            }
        }
    }

    /// Asks that an operation end soon: what no thread has begun, and what waits for a pipe's other
    /// end. Its completion says ECANCELED then.
    pub fn cancel(&mut self, key: Key) {
        if let Some(stop) = self.stops.get(&key) {
            ring(stop);
            return;
        }
        let mut state = self.shared.lock();
        let Some(index) = state.queue.iter().position(|(queued, _)| *queued == key) else {
            return;
        };
        if let Some((_, work)) = state.queue.remove(index) {
            state.done.push((key, work.cancelled()));
            state.bell.iter().for_each(ring);
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

    /// Hands over what is done.
    pub fn reap(&mut self, completions: &mut Vec<Completion<T>>) -> io::Result<()> {
        let drained = self.shared.lock().bell.as_ref().map(|bell| eventfd::drain(bell.as_fd()));
        self.take_done(completions);
        drained.unwrap_or(Ok(()))
    }

    pub fn under_way(&self) -> usize {
        self.owners.len()
    }

    pub fn threads(&self) -> usize {
        let state = self.shared.lock();
        state.threads + state.loners
    }

    /// Drops what no thread has taken, waits for the rest until `deadline`, and reaps. What is
    /// still under way then keeps its owner for ever (S1).
    pub fn shut(&mut self, deadline: Instant, completions: &mut Vec<Completion<T>>) -> usize {
        let waiting = std::mem::take(&mut self.shared.lock().queue);
        for (key, work) in waiting {
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
        drop(state);
        drop(bell);
        self.shared.wanted.notify_all();
        self.take_done(completions);
        self.wait_for_idle_threads(deadline);
        let left = self.owners.len();
        std::mem::forget(std::mem::take(&mut self.owners));
        left
    }

    /// Threads without work end at once; so that none is seen after the loop's end.
    fn wait_for_idle_threads(&self, deadline: Instant) {
        let mut state = self.shared.lock();
        let is_quiet = self.owners.is_empty();
        while state.idle > 0 || (is_quiet && state.threads + state.loners > 0) {
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
