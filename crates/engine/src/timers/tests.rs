use super::*;

#[test]
fn leaves_in_order_of_deadline_then_of_insertion() {
    let mut timers = Timers::default();
    for (deadline, item) in [(30, 'c'), (10, 'a'), (20, 'b'), (10, 'A')] {
        timers.push(deadline, item);
    }
    let order: Vec<char> = std::iter::from_fn(|| timers.pop_due(100)).collect();
    assert_eq!(order, ['a', 'A', 'b', 'c']);
}

#[test]
fn nothing_is_early() {
    let mut timers = Timers::default();
    timers.push(10, ());
    assert_eq!(timers.pop_due(9), None);
    assert_eq!(timers.pop_due(10), Some(()));
}

#[test]
fn sweeping_keeps_order_and_counts() {
    let mut timers = Timers::default();
    for n in 0..1000u64 {
        timers.push(1000 - n, n);
    }
    for _ in 0..500 {
        timers.note_cancelled();
    }
    assert!(!timers.wants_sweep(), "half is not more than half");
    timers.note_cancelled();
    assert!(timers.wants_sweep(), "more than half is cancelled");
    let is_cancelled = |n: &u64| *n == 1 || n.is_multiple_of(2);
    let mut removed: Vec<u64> = (0..2000).filter_map(|_| timers.sweep_step(is_cancelled)).collect();
    removed.sort_unstable();
    assert_eq!(removed, (0..1000).filter(is_cancelled).collect::<Vec<_>>());
    assert_eq!(timers.pending(), 499);
    assert!(!timers.wants_sweep());
    let order: Vec<u64> = std::iter::from_fn(|| timers.pop_due(u64::MAX)).collect();
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]));
}

#[test]
fn two_steps_for_each_new_timer_bound_what_is_cancelled() {
    let mut timers = Timers::default();
    let mut alive = std::collections::HashSet::new();
    let mut most = 0;
    for n in 0..200_000u64 {
        timers.push(n.wrapping_mul(7919) % 100_003, n);
        if n % 100 == 0 {
            alive.insert(n);
        } else {
            timers.note_cancelled();
        }
        for _ in 0..2 {
            if timers.wants_sweep() {
                timers.sweep_step(|n| !alive.contains(n));
            }
        }
        most = most.max(timers.len());
    }
    assert_eq!(timers.pending(), alive.len());
    assert!(most <= 2 * alive.len() + 2 * MIN_SWEEP, "{most} entries for {} alive", alive.len());
}

#[test]
fn a_sweep_that_finds_nothing_ends() {
    let mut timers = Timers::default();
    for n in 0..300u64 {
        timers.push(n, n);
        timers.note_cancelled();
    }
    let steps = (0..10_000).take_while(|_| {
        timers.sweep_step(|_| false);
        timers.wants_sweep()
    });
    assert!(steps.count() < 1000);
    assert_eq!(timers.pending(), 300);
}

#[test]
fn a_timer_that_is_due_at_once_leaves_the_heap_alone() {
    let mut timers = Timers::default();
    for n in 0..100 {
        timers.push(1000 + n, n);
    }
    for _ in 0..3 {
        timers.push(1, 7777);
        assert_eq!(timers.pop_due(1), Some(7777));
    }
    assert_eq!(timers.pop_due(1), None);
    assert_eq!(timers.pop_due(1000), Some(0));
}

/// Compares with a sorted vector.
#[test]
fn agrees_with_a_sorted_vector() {
    let mut timers = Timers::default();
    let mut model: Vec<(u64, u64)> = Vec::new();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for id in 0..5000u64 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let deadline = (seed >> 33) % 1000;
        if seed.is_multiple_of(3) {
            model.sort_unstable();
            let expected = if model.first().is_some_and(|(d, _)| *d <= deadline) {
                Some(model.remove(0).1)
            } else {
                None
            };
            assert_eq!(timers.pop_due(deadline), expected);
        } else {
            timers.push(deadline, id);
            model.push((deadline, id));
        }
    }
    assert_eq!(timers.pending(), model.len());
}

#[test]
fn many_due_timers_leave_in_the_same_order_at_once() {
    let filled = || {
        let mut timers = Timers::default();
        for n in 0..5000_u64 {
            timers.push(n * 7919 % 1000, n);
        }
        timers
    };
    let (mut one_by_one, mut at_once) = (filled(), filled());
    let expected: Vec<_> = std::iter::from_fn(|| one_by_one.pop_due(899)).collect();
    assert!(at_once.take_due(899, 0).is_none(), "nothing was popped before");
    let mut taken: Vec<_> = (0..200).map(|_| at_once.pop_due(899).expect("many are due")).collect();
    taken.extend(at_once.take_due(899, 200).expect("many are left"));
    assert_eq!(taken, expected);
    assert_eq!(at_once.next_deadline_ns(), Some(900));
    assert!(at_once.take_due(899, 1 << 20).is_none(), "nothing is due any more");
    let rest = |timers: &mut Timers<u64>| {
        std::iter::from_fn(|| timers.pop_due(u64::MAX)).collect::<Vec<_>>()
    };
    assert_eq!(rest(&mut at_once), rest(&mut one_by_one));
}
