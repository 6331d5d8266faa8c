//! One heap of deadlines with lazy cancellation.
//!
//! Entries leave in order of deadline, and of insertion among equal deadlines. The earliest may stand
//! outside of the heap: a timer that is due at once then costs two comparisons, however many others
//! are pending. A cancelled entry stays until it comes up or until a `sweep` rebuilds the heap, so
//! that mass cancellation costs O(1) per timer.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Below this many cancelled entries a sweep is not worth its pass over the heap
/// (asyncio's `_MIN_CANCELLED_TIMER_HANDLES_FRACTION` has the same purpose).
const MIN_SWEEP: usize = 100;
/// Cancelled entries that a loop without a quiet moment may keep, some 15 MB.
const MAX_CANCELLED: usize = 1 << 17;

#[derive(Debug)]
struct Entry<T> {
    deadline_ns: u64,
    /// Insertion number: first in, first out among equal deadlines.
    sequence: u64,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// Reversed: `BinaryHeap` keeps its greatest on top, we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.deadline_ns, other.sequence).cmp(&(self.deadline_ns, self.sequence))
    }
}

#[derive(Debug)]
pub struct Timers<T> {
    /// If any, it is earlier than everything in the heap.
    first: Option<Entry<T>>,
    heap: BinaryHeap<Entry<T>>,
    next_sequence: u64,
    cancelled: usize,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { first: None, heap: BinaryHeap::new(), next_sequence: 0, cancelled: 0 }
    }
}

impl<T> Timers<T> {
    pub fn push(&mut self, deadline_ns: u64, item: T) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let new = Entry { deadline_ns, sequence, item };
        // `Ord` is reversed: greater is earlier. Equal deadlines keep their order of insertion.
        match &mut self.first {
            Some(first) if new > *first => self.heap.push(std::mem::replace(first, new)),
            None if self.heap.peek().is_none_or(|top| new > *top) => self.first = Some(new),
            _ => self.heap.push(new),
        }
    }

    fn earliest(&self) -> Option<&Entry<T>> {
        self.first.as_ref().or_else(|| self.heap.peek())
    }

    /// The earliest deadline, which may belong to a cancelled entry.
    #[inline]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.earliest().map(|entry| entry.deadline_ns)
    }

    /// The earliest item whose deadline is `now_ns` or before.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        if self.next_deadline_ns()? > now_ns {
            return None;
        }
        self.pop()
    }

    /// The earliest item, due or not: for dropping cancelled ones from the top.
    pub fn pop(&mut self) -> Option<T> {
        self.first.take().or_else(|| self.heap.pop()).map(|entry| entry.item)
    }

    pub fn peek(&self) -> Option<&T> {
        self.earliest().map(|entry| &entry.item)
    }

    fn len(&self) -> usize {
        self.heap.len() + usize::from(self.first.is_some())
    }

    /// Counts one more cancelled entry.
    #[inline]
    pub fn note_cancelled(&mut self) {
        self.cancelled += 1;
    }

    /// A cancelled entry left by `pop` or `pop_due`.
    pub fn note_cancelled_popped(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }

    /// True when it is time to `sweep`: more than half is cancelled and the loop is `idle`, or there
    /// are too many to wait for that.
    #[inline]
    pub fn wants_sweep(&self, idle: bool) -> bool {
        let worth_it = self.cancelled > MIN_SWEEP && self.cancelled * 2 > self.len();
        worth_it && (idle || self.cancelled > MAX_CANCELLED)
    }

    /// Removes every entry for which `is_cancelled` holds and returns them, so that the caller
    /// may drop them where running destructors is allowed.
    pub fn sweep(&mut self, is_cancelled: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::with_capacity(self.cancelled);
        let mut kept = Vec::with_capacity(self.len().saturating_sub(self.cancelled));
        for entry in self.first.take().into_iter().chain(std::mem::take(&mut self.heap)) {
            if is_cancelled(&entry.item) {
                removed.push(entry.item);
            } else {
                kept.push(entry);
            }
        }
        self.heap = BinaryHeap::from(kept);
        self.cancelled = 0;
        removed
    }

    /// Entries that are not cancelled.
    pub fn pending(&self) -> usize {
        self.len() - self.cancelled.min(self.len())
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.heap.is_empty()
    }

    /// All items, in no order.
    pub fn into_items(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.heap).map(|entry| entry.item)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.heap).map(|entry| &entry.item)
    }
}

#[cfg(test)]
mod tests;
