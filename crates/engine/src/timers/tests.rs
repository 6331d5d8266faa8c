use super::*;
use std::collections::BTreeMap;

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *seed >> 20
}

fn due<T>(timers: &mut Timers<T>, now_ns: u64) -> Vec<T> {
    std::iter::from_fn(|| timers.pop_due(now_ns)).collect()
}

#[test]
fn leaves_in_order_of_deadline_then_of_insertion() {
    let mut timers = Timers::default();
    for (deadline, item) in
        [(30, 'c'), (10, 'a'), (1 << 40, 'e'), (20, 'b'), (1 << 30, 'd'), (10, 'A')]
    {
        timers.push(deadline, 0, item);
    }
    assert_eq!(due(&mut timers, u64::MAX), ['a', 'A', 'b', 'c', 'd', 'e']);
}

#[test]
fn nothing_is_early() {
    for deadline in [10, 5_000_000, 1 << 45, u64::MAX] {
        let mut timers = Timers::default();
        timers.push(deadline, 0, ());
        assert_eq!(timers.next_deadline_ns(), Some(deadline));
        assert_eq!(timers.pop_due(deadline - 1), None);
        assert_eq!(timers.next_deadline_ns(), Some(deadline));
        assert_eq!(timers.pop_due(deadline), Some(()));
        assert_eq!(timers.next_deadline_ns(), None);
    }
}

#[test]
fn a_removed_timer_has_left_at_once() {
    let mut timers = Timers::default();
    let keys = [5, 5_000_000_000, 1 << 50].map(|deadline| timers.push(deadline, 0, deadline));
    assert!(keys.iter().all(|key| timers.contains(*key)));
    assert!(keys.iter().all(|key| Key::from_bits(key.to_bits()) == *key));
    assert_eq!(timers.remove(keys[1]), Some(5_000_000_000));
    assert_eq!(timers.remove(keys[1]), None);
    assert_eq!(timers.remove(keys[0]), Some(5));
    assert_eq!((timers.pending(), timers.cancelled()), (1, 1));
    assert_eq!(
        timers.next_deadline_ns(),
        Some(1 << 50),
        "what was due soon is forgotten with its item"
    );
    assert_eq!((timers.pending(), timers.cancelled()), (1, 0));
    assert_eq!(timers.remove(keys[2]), Some(1 << 50));
    assert_eq!((timers.pending(), timers.next_deadline_ns()), (0, None));
}

#[test]
fn what_is_due_and_has_not_left_yet_is_not_passed() {
    let unit = 1 << 20;
    let mut timers = Timers::default();
    timers.push(60 * unit, 0, 'a');
    // The tick is late: this is made after `a` was due, and belongs to an earlier bucket of the next round.
    timers.push(74 * unit, 69 * unit, 'b');
    assert_eq!(timers.next_deadline_ns(), Some(60 * unit));
    assert_eq!(due(&mut timers, 70 * unit), ['a']);
    assert_eq!(timers.next_deadline_ns(), Some(74 * unit));
    assert_eq!(due(&mut timers, 74 * unit), ['b']);
}

#[test]
fn a_key_means_no_later_timer_of_its_slot() {
    let mut timers = Timers::default();
    timers.push(1 << 40, 0, 'a');
    let old = timers.push(1 << 40, 0, 'b');
    timers.remove(old);
    let new = timers.push(1 << 40, 0, 'c');
    assert_eq!(new.slot, old.slot);
    assert_eq!(timers.remove(old), None);
    assert_eq!(timers.remove(new), Some('c'));
}

#[test]
fn timers_that_are_due_soon_and_cancelled_are_forgotten_while_time_stands_still() {
    let mut timers = Timers::default();
    timers.push(500, 0, 0);
    for n in 0..if cfg!(miri) { 1000 } else { 100_000 } {
        let key = timers.push(1000 + n, 0, n);
        timers.remove(key);
    }
    assert!(timers.cancelled() <= MIN_CANCELLED + 1, "{}", timers.cancelled());
    assert!(timers.slots.iter().count() < 1000);
    assert_eq!(due(&mut timers, u64::MAX), [0]);
}

#[test]
#[cfg_attr(miri, ignore = "a hundred thousand timers take Miri an hour")]
fn memory_is_given_back() {
    let mut timers = Timers::default();
    let first = timers.push(1 << 40, 0, 0);
    let keys: Vec<Key> = (0..100_000).map(|n| timers.push((1 << 40) + n, 0, n)).collect();
    for key in keys.into_iter().rev() {
        timers.remove(key);
    }
    assert!(timers.slots.capacity() < 10_000, "{}", timers.slots.capacity());
    assert!(timers.contains(first));
    for n in 0..100_000 {
        timers.push(1 << 40, 0, n);
    }
    assert_eq!(due(&mut timers, 1 << 41).len(), 100_001);
    assert!(timers.slots.capacity() < 10_000 && timers.sorted.capacity() > 10_000);
    timers.push(1 << 50, 0, 1);
    assert_eq!(due(&mut timers, u64::MAX), [1]);
    assert!(timers.sorted.capacity() < 10_000, "{}", timers.sorted.capacity());
}

#[test]
fn what_waits_is_found_wherever_it_is() {
    let mut timers = Timers::default();
    for deadline in [1, 1 << 21, 1 << 30, 1 << 62] {
        timers.push(deadline, 0, deadline);
    }
    let mut found: Vec<u64> = timers.iter().copied().collect();
    found.sort_unstable();
    assert_eq!(found, [1, 1 << 21, 1 << 30, 1 << 62]);
    let mut found: Vec<u64> = timers.into_items().collect();
    found.sort_unstable();
    assert_eq!(found, [1, 1 << 21, 1 << 30, 1 << 62]);
}

/// Deadlines of all magnitudes, some in the past, with a clock that is told late or not at all.
#[test]
fn agrees_with_a_sorted_map() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // Miri runs some 1000 times slower.
    let (rounds, ids) = if cfg!(miri) { (2, 100) } else { (200, 2000_u64) };
    for round in 0..rounds {
        let mut timers = Timers::default();
        let mut model: BTreeMap<(u64, u64), Key> = BTreeMap::new();
        let mut now = random(&mut seed) >> (round % 40);
        for id in 0..ids {
            match random(&mut seed) % 8 {
                0..=3 => {
                    let delay = random(&mut seed) >> (random(&mut seed) % 44);
                    let deadline = if delay.is_multiple_of(16) {
                        now.saturating_sub(delay)
                    } else {
                        now + delay
                    };
                    let told = if id.is_multiple_of(3) { 0 } else { now };
                    let key = timers.push(deadline, told, id);
                    model.insert((deadline, id), key);
                }
                4 | 5 if !model.is_empty() => {
                    let nth = random(&mut seed) as usize % model.len();
                    let (&(deadline, id), &key) = model.iter().nth(nth).expect("it has as many");
                    model.remove(&(deadline, id));
                    assert_eq!(timers.remove(key), Some(id));
                }
                6 => {
                    let expected = model.first_key_value().map(|((deadline, _), _)| *deadline);
                    let found = timers.next_deadline_ns();
                    assert_eq!(found.is_none(), expected.is_none());
                    assert!(found <= expected, "{found:?} {expected:?}");
                }
                _ => {
                    now += random(&mut seed) >> (random(&mut seed) % 44);
                    let later = model.split_off(&(now + 1, 0));
                    let expected: Vec<u64> = std::mem::replace(&mut model, later)
                        .into_keys()
                        .map(|(_, id)| id)
                        .collect();
                    assert_eq!(due(&mut timers, now), expected);
                }
            }
            assert_eq!(timers.pending(), model.len());
        }
        let expected: Vec<u64> = model.into_keys().map(|(_, id)| id).collect();
        assert_eq!(due(&mut timers, u64::MAX), expected);
    }
}
