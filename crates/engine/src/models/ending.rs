//! A thread that serves in a poll, as that of the stats socket does, and others that want its end.

use super::every_way;
use crate::ending::End;
use crate::sync::Arc;
use loom::thread;

#[test]
fn the_thread_ends() {
    let ways = every_way("ending", || {
        let end = Arc::new(End::new().expect("a model's eventfd"));
        let served = Arc::clone(&end);
        let serving = thread::spawn(move || {
            while !served.is_wanted() {
                served.bell().poll();
            }
        });
        let asking = Arc::clone(&end);
        let other = thread::spawn(move || asking.ask().expect("a model's eventfd"));
        end.ask().expect("a model's eventfd");
        serving.join().expect("it does not panic");
        other.join().expect("it does not panic");
    });
    assert!(ways > 10, "{ways}");
}

/// A connection wakes the thread too, and the end comes meanwhile.
#[test]
fn a_connection_comes_first() {
    every_way("ending, after a connection", || {
        let end = Arc::new(End::new().expect("a model's eventfd"));
        let served = Arc::clone(&end);
        let serving = thread::spawn(move || {
            // The first poll has returned for a connection.
            thread::yield_now();
            while !served.is_wanted() {
                served.bell().poll();
            }
        });
        end.ask().expect("a model's eventfd");
        serving.join().expect("it does not panic");
    });
}
