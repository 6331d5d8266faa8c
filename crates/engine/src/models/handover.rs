//! The wait for short work, and the sleep of an idle thread.

use super::every_way;
use crate::files::Outcome;
use crate::files::handover::{Sleeper, Wait};
use crate::sync::Arc;
use loom::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1000);

fn outcome(number: usize) -> Outcome {
    Outcome { request: None, result: Ok(number) }
}

#[test]
fn short_work_arrives_exactly_once() {
    for patience in [Duration::ZERO, LONG] {
        every_way("short work", move || {
            let wait = Arc::new(Wait::new());
            let theirs = Arc::clone(&wait);
            let worker = thread::spawn(move || theirs.finish(outcome(7)));
            let here = wait.wait(patience);
            let there = worker.join().expect("it does not panic");
            assert_eq!(usize::from(here.is_some()) + usize::from(there.is_some()), 1);
            let got = here.or(there).map(|outcome| outcome.result.map_err(|e| e.kind()));
            assert_eq!(got, Some(Ok(7)));
            assert!(patience.is_zero() || wait.put(None).is_none());
        });
    }
}

#[test]
fn a_called_thread_does_not_sleep() {
    for looks in [false, true] {
        every_way("a sleeper", move || {
            let (tell, hear) =
                (Arc::new(loom::sync::Mutex::new(None)), Arc::new(loom::sync::Condvar::new()));
            let (told, heard) = (Arc::clone(&tell), Arc::clone(&hear));
            let sleeper = thread::spawn(move || {
                let me = Arc::new(Sleeper::new());
                me.begin(looks);
                *told.lock().expect("no panic") = Some(Arc::clone(&me));
                heard.notify_one();
                me.sleep(looks.then_some(Duration::ZERO), LONG);
            });
            let mut listed = tell.lock().expect("no panic");
            while listed.is_none() {
                listed = hear.wait(listed).expect("no panic");
            }
            listed.take().expect("it is listed").call();
            drop(listed);
            sleeper.join().expect("it does not panic");
        });
    }
}
