//! The threads of WSGI applications. A mutex stands for the GIL, which a thread holds unless its job waits.

use super::every_way;
use crate::crew::{Added, Crew};
use crate::gate::Gate;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle};
use std::sync::PoisonError;

struct State {
    crew: Crew<usize>,
    /// The loop will look.
    is_asked: bool,
    done: Vec<usize>,
    threads: Vec<JoinHandle<()>>,
}

struct Server {
    state: Mutex<State>,
    changed: Condvar,
    gate: Gate,
    /// The first job waits for the second one.
    waits: bool,
}

impl Server {
    fn new(most: usize, waits: bool) -> Arc<Self> {
        let crew = Crew::new(most);
        let state = State { crew, is_asked: false, done: Vec::new(), threads: Vec::new() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { state, changed, gate: Gate::default(), waits })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(this: &Arc<Self>, job: usize) {
        let mut state = this.lock();
        if state.crew.submit(job) {
            Self::add_one(this, state);
        } else if state.crew.watch() {
            state.is_asked = true;
        }
    }

    fn add_one(this: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        match state.crew.add_one() {
            Added::Wake => this.gate.let_one_in(),
            Added::Start => {
                let server = Arc::clone(this);
                state.threads.push(thread::spawn(move || server.work()));
            }
            Added::Nobody => {}
        }
    }

    /// The loop, until so many jobs are done.
    fn run(this: &Arc<Self>, count: usize) {
        let mut state = this.lock();
        while state.done.len() < count {
            if std::mem::take(&mut state.is_asked) {
                if state.crew.look() {
                    Self::add_one(this, state);
                    state = this.lock();
                }
            } else {
                state = this.wait(state);
            }
        }
    }

    fn work(&self) {
        self.lock().crew.begin();
        loop {
            let mut state = self.lock();
            while let (Some(job), has_more) = state.crew.take() {
                if has_more && state.crew.watch() {
                    state.is_asked = true;
                    self.changed.notify_all();
                }
                while self.waits && job == 0 && !state.done.contains(&1) {
                    state = self.wait(state);
                }
                state.done.push(job);
                self.changed.notify_all();
            }
            drop(state);
            if !self.gate.pass() {
                return;
            }
            self.lock().crew.begin();
        }
    }

    fn end(&self) -> Vec<usize> {
        self.gate.close();
        let threads = std::mem::take(&mut self.lock().threads);
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        let mut done = std::mem::take(&mut self.lock().done);
        done.sort_unstable();
        done
    }
}

#[test]
fn each_job_is_done_once() {
    every_way("jobs", || {
        let server = Server::new(1, false);
        Server::submit(&server, 0);
        Server::submit(&server, 1);
        Server::run(&server, 2);
        Server::submit(&server, 2);
        Server::run(&server, 3);
        assert_eq!(server.end(), [0, 1, 2]);
    });
}

#[test]
fn no_job_waits_behind_one_that_blocks() {
    let ways = every_way("a job that blocks", || {
        let server = Server::new(2, true);
        Server::submit(&server, 2);
        Server::run(&server, 1);
        Server::submit(&server, 0);
        Server::submit(&server, 1);
        Server::run(&server, 3);
        assert_eq!(server.end(), [0, 1, 2]);
    });
    assert!(ways > 10, "{ways}");
}
