//! The thread pool of a loop: work that is submitted, waited for, cancelled, or under way when the loop ends.

use super::every_way;
use crate::files::threads::{Brief, Lane, Pool, Work};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(1000);

fn pool(idle: Duration) -> Pool<usize> {
    Pool::with_idle(idle).expect("a model's eventfd")
}

fn work(done: &Arc<AtomicUsize>) -> Work {
    let done = Arc::clone(done);
    Work::Call(Box::new(move || Ok(done.fetch_add(1, Ordering::AcqRel))))
}

fn shut(mut pool: Pool<usize>) -> Vec<usize> {
    let mut completions = Vec::new();
    assert_eq!(pool.shut(Instant::now() + LONG, &mut completions), 0, "nothing is left");
    assert_eq!(pool.threads(), 0);
    let mut owners: Vec<_> = completions.into_iter().map(|completion| completion.owner).collect();
    owners.sort_unstable();
    owners
}

/// Reaps as a loop does: after an edge of the bell.
fn reap(pool: &mut Pool<usize>, count: usize) -> Vec<usize> {
    let mut completions = Vec::new();
    while completions.len() < count {
        pool.wait_for_bell();
        pool.reap(&mut completions);
    }
    completions.into_iter().map(|completion| completion.owner).collect()
}

/// A thread whose idle time is over may get work at that moment.
#[test]
fn work_that_comes_when_a_thread_ends_is_done() {
    for idle in [Duration::ZERO, LONG] {
        let ways = every_way("work for a thread that ends", move || {
            let done = Arc::new(AtomicUsize::new(0));
            let mut pool = pool(idle);
            for owner in 0..2 {
                pool.submit(Lane::Local, work(&done), owner).map_err(|(e, _)| e).expect("a thread");
                assert_eq!(reap(&mut pool, 1), [owner]);
            }
            assert_eq!(done.load(Ordering::Acquire), 2);
            assert!(shut(pool).is_empty());
        });
        assert!(ways > 10, "{ways}");
    }
}

#[test]
fn short_work_is_waited_for_or_reaped() {
    for patience in [Duration::ZERO, LONG] {
        every_way("short work of the pool", move || {
            let done = Arc::new(AtomicUsize::new(0));
            let mut pool = pool(LONG);
            pool.submit(Lane::Local, work(&done), 0).map_err(|(e, _)| e).expect("a thread");
            assert_eq!(reap(&mut pool, 1), [0]);
            let brief = pool.submit_and_wait(Lane::Local, work(&done), false, 1, patience);
            match brief.map_err(|(e, _)| e).expect("a thread") {
                Brief::Done(completion) => assert_eq!(completion.owner, 1),
                Brief::Later(_) | Brief::Late(_) => assert_eq!(reap(&mut pool, 1), [1]),
            }
            assert_eq!(done.load(Ordering::Acquire), 2);
            assert!(shut(pool).is_empty());
        });
    }
}

#[test]
fn what_is_under_way_when_the_loop_ends_is_told_once() {
    every_way("the end of the pool", || {
        let done = Arc::new(AtomicUsize::new(0));
        let mut pool = pool(LONG);
        pool.submit(Lane::Local, work(&done), 0).map_err(|(e, _)| e).expect("a thread");
        pool.submit_uncancellable(Lane::Local, work(&done), 1)
            .map_err(|(e, _)| e)
            .expect("a thread");
        assert_eq!(shut(pool), [0, 1]);
        assert!(done.load(Ordering::Acquire) >= 1, "what is due is done");
    });
}

#[test]
fn cancelled_work_is_told_once() {
    every_way("cancelled work", || {
        let done = Arc::new(AtomicUsize::new(0));
        let mut pool = pool(LONG);
        let key = pool.submit(Lane::Local, work(&done), 0).map_err(|(e, _)| e).expect("a thread");
        pool.cancel(key);
        assert_eq!(reap(&mut pool, 1), [0]);
        assert!(shut(pool).is_empty());
    });
}
