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
    assert!(!timers.wants_sweep(true), "half is not more than half");
    timers.note_cancelled();
    assert!(timers.wants_sweep(true), "more than half is cancelled");
    assert!(!timers.wants_sweep(false), "a busy loop sweeps later");
    let removed = timers.sweep(|n| n % 2 == 0);
    assert_eq!(removed.len(), 500);
    assert_eq!(timers.pending(), 500);
    let order: Vec<u64> = std::iter::from_fn(|| timers.pop_due(u64::MAX)).collect();
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]));
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

/// The plain twin: a sorted vector.
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
