//! A heap of deadlines with lazy cancellation.
//!
//! Entries leave in order of deadline, and of insertion among equal deadlines. The earliest may be kept outside the
//! heap: a timer that is due immediately then costs two comparisons, however many others are pending. A cancelled
//! entry stays until it becomes due or `sweep_step` reaches it. Each step handles one entry, so that cancelling is
//! cheap and nothing ever waits for a pass over the heap.

use crate::heap::Heap;
use std::cmp::Ordering;

/// With at most this many cancelled entries sweeping is not worth its cost (like asyncio's
/// `_MIN_SCHEDULED_TIMER_HANDLES`).
const MIN_SWEEP: usize = 100;

/// The number of entries to scan for each one popped before: less work than the pops were.
const PASS_PER_POPPED: usize = 32;

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
    fn cmp(&self, other: &Self) -> Ordering {
        (self.deadline_ns, self.sequence).cmp(&(other.deadline_ns, other.sequence))
    }
}

#[derive(Debug)]
pub struct Timers<T> {
    /// If set, it is earlier than everything in the heap.
    first: Option<Entry<T>>,
    heap: Heap<Entry<T>>,
    next_sequence: u64,
    cancelled: usize,
    /// The next step of the sweep checks the place before this one.
    cursor: usize,
    /// Steps that removed nothing since the last success or the last cancellation.
    fruitless: usize,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            first: None,
            heap: Heap::default(),
            next_sequence: 0,
            cancelled: 0,
            cursor: 0,
            fruitless: 0,
        }
    }
}

impl<T> Timers<T> {
    pub fn push(&mut self, deadline_ns: u64, item: T) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let new = Entry { deadline_ns, sequence, item };
        match &mut self.first {
            Some(first) if new < *first => self.heap.push(std::mem::replace(first, new)),
            None if self.heap.peek().is_none_or(|top| new < *top) => self.first = Some(new),
            _ => self.heap.push(new),
        }
    }

    fn earliest(&self) -> Option<&Entry<T>> {
        self.first.as_ref().or_else(|| self.heap.peek())
    }

    /// The earliest deadline, possibly of a cancelled entry.
    #[inline]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.earliest().map(|entry| entry.deadline_ns)
    }

    /// Removes and returns the earliest item whose deadline is `now_ns` or before.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        if self.next_deadline_ns()? > now_ns {
            return None;
        }
        self.pop()
    }

    /// Removes and returns all due items in order, for use after `popped` of them have already left and many more
    /// remain. Sorting them costs a fraction of popping them one by one. `None`: not worth a pass over the heap.
    pub fn take_due(&mut self, now_ns: u64, popped: usize) -> Option<impl Iterator<Item = T>> {
        if self.heap.len() > popped * PASS_PER_POPPED || self.next_deadline_ns()? > now_ns {
            return None;
        }
        let first = self.first.take();
        let mut due = self.heap.take_all(|entry| entry.deadline_ns <= now_ns);
        due.extend(first);
        due.sort_unstable();
        Some(due.into_iter().map(|entry| entry.item))
    }

    /// Removes and returns the earliest item, due or not: for dropping cancelled ones from the top.
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
        self.fruitless = 0;
    }

    /// Counts a cancelled entry that `pop` or `pop_due` removed.
    pub fn note_cancelled_popped(&mut self) {
        self.cancelled = self.cancelled.saturating_sub(1);
    }

    /// True while more than half is cancelled.
    #[inline]
    pub fn wants_sweep(&self) -> bool {
        self.cancelled > MIN_SWEEP && self.cancelled * 2 > self.len()
    }

    /// Checks one entry and removes it if `is_cancelled` is true, so that the caller can drop it where running
    /// destructors is allowed. Moves from the end of the heap to its top and starts over, because removing at the end
    /// moves nothing.
    pub fn sweep_step(&mut self, is_cancelled: impl Fn(&T) -> bool) -> Option<T> {
        if self.cursor == 0 || self.cursor > self.heap.len() {
            self.cursor = self.heap.len();
        }
        let Some(place) = self.cursor.checked_sub(1) else {
            self.cancelled = self.cancelled.min(self.len());
            return None;
        };
        self.cursor = place;
        if !self.heap.get(place).is_some_and(|entry| is_cancelled(&entry.item)) {
            self.fruitless += 1;
            if self.fruitless > 2 * self.heap.len() {
                // More than half were counted as cancelled: the count was wrong.
                self.cancelled = 0;
            }
            return None;
        }
        self.fruitless = 0;
        self.note_cancelled_popped();
        Some(self.heap.remove(place).item)
    }

    /// Entries that are not cancelled.
    pub fn pending(&self) -> usize {
        self.len() - self.cancelled.min(self.len())
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none() && self.heap.is_empty()
    }

    /// All items in arbitrary order.
    pub fn into_items(self) -> impl Iterator<Item = T> {
        self.first.into_iter().chain(self.heap).map(|entry| entry.item)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.heap.iter()).map(|entry| &entry.item)
    }
}

#[cfg(test)]
mod tests;
