//! Pending timers by deadline.
//!
//! Entries leave in order of deadline, and of insertion among equal deadlines. Most timers of a program are timeouts,
//! which are cancelled long before they are due. So a timer goes to a bucket of the `wheel` first, where making and
//! removing it take the same few steps however many others are pending. Only what is due within about a millisecond is
//! put in order (docs/design/0025).

mod slots;
mod wheel;

use crate::heap::Heap;
use slots::{KEPT, Place, Slot, Slots};
use wheel::Wheel;

/// With at most this many cancelled entries among those that are in order, a pass over them is not worth its cost (like
/// asyncio's `_MIN_SCHEDULED_TIMER_HANDLES`).
const MIN_CANCELLED: usize = 100;

/// Says which timer is meant. It stays valid, and means no other, when the timer has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    pub fn to_bits(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    pub fn from_bits(bits: u64) -> Self {
        Self { slot: (bits >> 32) as u32, generation: bits as u32 }
    }
}

/// A timer that is due soon, in the order in which it leaves.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Soon {
    deadline_ns: u64,
    sequence: u64,
    slot: u32,
}

#[derive(Debug)]
pub struct Timers<T> {
    slots: Slots<T>,
    wheel: Wheel,
    /// What has left the wheel, sorted; the earliest is the last.
    sorted: Vec<Soon>,
    /// What was too early for the wheel when it was made.
    heap: Heap<Soon>,
    next_sequence: u64,
    pending: usize,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            wheel: Wheel::default(),
            sorted: Vec::new(),
            heap: Heap::default(),
            next_sequence: 0,
            pending: 0,
        }
    }
}

impl<T> Timers<T> {
    /// `now_ns`: the time, or any earlier time.
    #[inline]
    pub fn push(&mut self, deadline_ns: u64, now_ns: u64, item: T) -> Key {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.pending += 1;
        if self.wheel.earliest_ns().is_none_or(|earliest_ns| earliest_ns > now_ns) {
            self.wheel.pass(now_ns);
        }
        let slot = self.slots.make(deadline_ns, sequence, item);
        if !self.wheel.insert(&mut self.slots, slot) {
            self.heap.push(Soon { deadline_ns, sequence, slot });
        }
        Key { slot, generation: sequence as u32 }
    }

    /// True until the timer leaves.
    pub fn contains(&self, key: Key) -> bool {
        let slot = self.slots.get(key.slot);
        slot.is_some_and(|slot| slot.item.is_some() && slot.sequence as u32 == key.generation)
    }

    /// Takes a timer out that is not wanted any more. `None` if it has left.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        if !self.contains(key) {
            return None;
        }
        self.pending -= 1;
        let slot = self.slots.at_mut(key.slot);
        let removed = slot.item.take();
        match slot.place {
            Place::Bucket(bucket) => {
                self.wheel.remove(&mut self.slots, key.slot, bucket);
                self.slots.free(key.slot);
            }
            Place::Near | Place::Unused => {
                let cancelled = self.cancelled();
                if cancelled > MIN_CANCELLED && cancelled * 2 > self.sorted.len() + self.heap.len()
                {
                    self.forget_cancelled();
                }
            }
        }
        removed
    }

    /// Cancelled entries that have not been forgotten: a few of those that were due soon. Their items are gone.
    pub fn cancelled(&self) -> usize {
        self.slots.used() - self.pending
    }

    fn forget_cancelled(&mut self) {
        let slots = &self.slots;
        let is_cancelled = |soon: &Soon| slots.at(soon.slot).item.is_none();
        let mut cancelled = self.heap.take_all(is_cancelled);
        cancelled.extend(self.sorted.extract_if(.., |soon| is_cancelled(soon)));
        for soon in cancelled {
            self.slots.free(soon.slot);
        }
    }

    #[cold]
    fn forget_cancelled_tops(&mut self) {
        while let Some(top) = self.heap.peek()
            && self.slots.at(top.slot).item.is_none()
        {
            self.slots.free(top.slot);
            self.heap.pop();
        }
        while let Some(top) = self.sorted.last()
            && self.slots.at(top.slot).item.is_none()
        {
            self.slots.free(top.slot);
            self.sorted.pop();
        }
    }

    /// The earliest of those that are in order, after the cancelled ones before it have been forgotten.
    #[inline]
    fn soonest(&mut self) -> Option<&Soon> {
        if self.cancelled() > 0 {
            self.forget_cancelled_tops();
        }
        match (self.sorted.last(), self.heap.peek()) {
            (Some(sorted), Some(heap)) => Some(sorted.min(heap)),
            (sorted, heap) => sorted.or(heap),
        }
    }

    /// A time before which nothing is due. It may be earlier than the earliest deadline if the timer that was the
    /// earliest has been removed.
    #[inline]
    pub fn next_deadline_ns(&mut self) -> Option<u64> {
        let in_wheel_ns = self.wheel.earliest_ns();
        let soonest_ns = self.soonest().map(|soon| soon.deadline_ns);
        match (in_wheel_ns, soonest_ns) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Removes and returns the earliest item whose deadline is `now_ns` or before.
    #[inline]
    pub fn pop_due(&mut self, now_ns: u64) -> Option<T> {
        if self.wheel.earliest_ns().is_some_and(|earliest_ns| earliest_ns <= now_ns) {
            self.turn(now_ns);
        }
        let &Soon { deadline_ns, slot, sequence } = self.soonest()?;
        if deadline_ns > now_ns {
            return None;
        }
        if self.sorted.last().is_some_and(|sorted| sorted.sequence == sequence) {
            self.sorted.pop();
        } else {
            self.heap.pop();
        }
        let item = self.slots.at_mut(slot).item.take();
        self.slots.free(slot);
        self.pending -= 1;
        item
    }

    /// Moves what is due soon out of the wheel.
    fn turn(&mut self, now_ns: u64) {
        let sorted = &mut self.sorted;
        let before = sorted.len();
        if before == 0 {
            // After a burst.
            sorted.shrink_to(KEPT);
        }
        self.wheel.turn(&mut self.slots, now_ns, |slots, slot| {
            let &Slot { deadline_ns, sequence, .. } = slots.at(slot);
            sorted.push(Soon { deadline_ns, sequence, slot });
        });
        if sorted.len() > before {
            sorted.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    pub fn pending(&self) -> usize {
        self.pending
    }

    /// All items in arbitrary order.
    pub fn into_items(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| slot.item)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.item.as_ref())
    }
}

#[cfg(test)]
mod tests;
