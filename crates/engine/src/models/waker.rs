//! The waker and a queue, as `call_soon_threadsafe` and the loop's poll use them. A mutex stands for the GIL.

use super::every_way;
use crate::Waker;
use crate::sync::{Arc, Mutex};
use loom::thread;
use std::collections::VecDeque;
use std::sync::PoisonError;

struct Loop {
    waker: Waker,
    ready: Mutex<VecDeque<usize>>,
}

impl Loop {
    fn new() -> Arc<Self> {
        let waker = Waker::new().expect("a model's eventfd");
        Arc::new(Self { waker, ready: Mutex::new(VecDeque::new()) })
    }

    fn with<R>(&self, f: impl FnOnce(&mut VecDeque<usize>) -> R) -> R {
        f(&mut self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `call_soon_threadsafe`. Returns false if it failed.
    fn call_soon(&self, item: usize) -> bool {
        self.with(|ready| ready.push_back(item));
        self.waker.wake().is_ok()
    }

    /// Ticks as `poll_blocking` does them, until so many items have run.
    fn run(&self, count: usize) -> Vec<usize> {
        let mut ran = Vec::new();
        while ran.len() < count {
            self.waker.about_to_sleep();
            if self.with(|ready| ready.is_empty()) {
                self.waker.poll();
            }
            self.waker.awake();
            ran.extend(self.with(std::mem::take));
        }
        ran
    }
}

#[test]
fn no_wake_up_is_lost() {
    let ways = every_way("waker", || {
        let owner = Loop::new();
        let others: Vec<_> = (0..2)
            .map(|item| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || assert!(owner.call_soon(item)))
            })
            .collect();
        let mut ran = owner.run(2);
        ran.sort_unstable();
        assert_eq!(ran, [0, 1], "each once");
        for other in others {
            other.join().expect("it does not panic");
        }
    });
    assert!(ways > 100, "{ways}");
}

/// The order of one thread's calls is kept, and a call while the loop ends does no harm.
#[test]
fn one_thread_calls_twice_and_the_loop_closes() {
    every_way("waker, order", || {
        let owner = Loop::new();
        let theirs = Arc::clone(&owner);
        let other = thread::spawn(move || {
            for item in 0..3 {
                assert!(theirs.call_soon(item));
            }
        });
        let ran = owner.run(2);
        assert_eq!(ran[..2], [0, 1]);
        owner.waker.close();
        other.join().expect("it does not panic");
    });
}

/// A write to the eventfd fails once. Whoever got no error may rely on it that the loop wakes.
#[test]
fn a_failed_signal_is_nobody_elses() {
    every_way("waker, a failed signal", || {
        let owner = Loop::new();
        owner.waker.fail(1);
        let others: Vec<_> = (0..2)
            .map(|item| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || owner.call_soon(item))
            })
            .collect();
        let theirs = Arc::clone(&owner);
        let looks = thread::spawn(move || theirs.run(1));
        let worked = others.into_iter().filter_map(|other| other.join().ok()).filter(|ok| *ok);
        // With an error in both cases, it is the program's turn to do something.
        if worked.count() == 0 {
            theirs_again(&owner);
        }
        assert!(!looks.join().expect("it does not panic").is_empty());
    });
}

/// What a program does after the error: it tries again.
fn theirs_again(owner: &Loop) {
    assert!(owner.call_soon(9), "it fails once");
}
