//! A queue that gives back the memory of its largest burst.
//!
//! `VecDeque` keeps its capacity for ever, and its front wanders through all of it, so that a queue that was long once
//! keeps that memory and touches it again and again. This one shrinks after some short bursts in a row. A queue that is
//! never longer than `KEPT` costs one comparison.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// A capacity that is not worth giving back, in items.
const KEPT: usize = 4096;
/// So many bursts in a row must need less than a quarter of the capacity, so that a queue with regular long bursts does
/// not shrink and grow in turn.
const SHORT_BURSTS: u32 = 16;

pub struct BurstQueue<T> {
    items: VecDeque<T>,
    /// Short bursts since the last long one, and the longest of them.
    short_bursts: u32,
    longest: usize,
}

impl<T> Default for BurstQueue<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), short_bursts: 0, longest: 0 }
    }
}

impl<T> BurstQueue<T> {
    /// Called regularly, when what the queue holds is about to be taken out.
    #[inline]
    pub fn begin_burst(&mut self) {
        if self.items.capacity() > KEPT {
            self.give_back();
        }
    }

    #[cold]
    fn give_back(&mut self) {
        let len = self.items.len();
        if len == 0 {
            // Begins at the front again, whose memory was touched last.
            self.items.clear();
        }
        if len > self.items.capacity() / 4 {
            self.short_bursts = 0;
            self.longest = 0;
            return;
        }
        self.short_bursts += 1;
        self.longest = self.longest.max(len);
        if self.short_bursts == SHORT_BURSTS {
            self.items.shrink_to((self.longest * 2).max(KEPT));
            self.short_bursts = 0;
            self.longest = 0;
        }
    }
}

impl<T> Deref for BurstQueue<T> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        &self.items
    }
}

impl<T> DerefMut for BurstQueue<T> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        &mut self.items
    }
}

impl<T> IntoIterator for BurstQueue<T> {
    type Item = T;
    type IntoIter = std::collections::vec_deque::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(queue: &mut BurstQueue<usize>, len: usize) {
        queue.extend(0..len);
        queue.begin_burst();
        assert!((0..len).all(|expected| queue.pop_front() == Some(expected)));
    }

    #[test]
    fn the_memory_of_a_long_burst_is_given_back() {
        let mut queue = BurstQueue::default();
        burst(&mut queue, 1_000_000);
        assert!(queue.capacity() >= 1_000_000);
        for _ in 0..SHORT_BURSTS {
            burst(&mut queue, 10);
        }
        assert!(queue.capacity() <= 2 * KEPT, "{}", queue.capacity());
    }

    #[test]
    fn a_queue_that_is_long_again_and_again_keeps_its_memory() {
        let mut queue = BurstQueue::default();
        for round in 0..50 {
            burst(&mut queue, 100_000);
            assert!(queue.capacity() >= 100_000, "in round {round}");
            for _ in 0..SHORT_BURSTS / 2 {
                burst(&mut queue, 10);
            }
        }
    }

    #[test]
    fn shrinking_keeps_what_waits_and_leaves_room() {
        let mut queue = BurstQueue::default();
        burst(&mut queue, 1_000_000);
        for _ in 0..SHORT_BURSTS {
            burst(&mut queue, 20_000);
        }
        assert!((40_000..100_000).contains(&queue.capacity()), "{}", queue.capacity());
    }

    #[test]
    fn an_empty_queue_begins_at_its_front() {
        let mut queue = BurstQueue::default();
        burst(&mut queue, 10_000);
        queue.begin_burst();
        let all = queue.capacity();
        queue.extend(0..all);
        assert!(queue.as_slices().1.is_empty());
    }
}
