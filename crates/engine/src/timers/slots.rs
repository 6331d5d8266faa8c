//! The memory of the pending timers: slots that are reused, and lists through them.
//!
//! A slot is in one list at a time, so any timer leaves its list without a search and without moving another. Timers
//! that were made one after the other are neighbours in memory and in their list.

/// The end of a list.
pub(super) const NONE: u32 = u32::MAX;
/// A capacity that is not worth giving back.
pub(super) const KEPT: usize = 4096;
/// Unused slots at the end to give back for each one that becomes unused, so that nothing waits for a pass over them.
const GIVEN_BACK: usize = 2;

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unused,
    /// Known by its number to the timers that are due soon.
    Near,
    /// In the list of this bucket of the wheel.
    Bucket(u16),
}

#[derive(Debug)]
pub(super) struct Slot<T> {
    pub deadline_ns: u64,
    /// Insertion number: first in, first out among equal deadlines. It also tells a slot's timers apart.
    pub sequence: u64,
    /// `None` if the slot is unused, or near and cancelled.
    pub item: Option<T>,
    previous: u32,
    next: u32,
    pub place: Place,
}

#[derive(Debug)]
pub(super) struct Slots<T> {
    memory: Vec<Slot<T>>,
    /// The list of unused slots.
    unused: u32,
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { memory: Vec::new(), unused: NONE, used: 0 }
    }
}

impl<T> Slots<T> {
    pub fn get(&self, number: u32) -> Option<&Slot<T>> {
        self.memory.get(number as usize)
    }

    #[inline]
    pub fn at(&self, number: u32) -> &Slot<T> {
        &self.memory[number as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, number: u32) -> &mut Slot<T> {
        &mut self.memory[number as usize]
    }

    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// Slots that are not unused.
    pub fn used(&self) -> usize {
        self.used
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Slot<T>> {
        self.memory.iter()
    }

    /// A slot for the item, in no list.
    #[inline]
    pub fn make(&mut self, deadline_ns: u64, sequence: u64, item: T) -> u32 {
        let slot = Slot {
            deadline_ns,
            sequence,
            item: Some(item),
            previous: NONE,
            next: NONE,
            place: Place::Near,
        };
        self.used += 1;
        if self.unused == NONE {
            let number = u32::try_from(self.memory.len()).expect("200 GB of timers do not exist");
            self.memory.push(slot);
            return number;
        }
        let number = self.unused;
        let mut head = self.unused;
        self.unlink(number, &mut head);
        self.unused = head;
        self.memory[number as usize] = slot;
        number
    }

    /// The slot, which is in no list and whose item was taken, becomes unused.
    #[inline]
    pub fn free(&mut self, number: u32) {
        self.used -= 1;
        if self.used == 0 {
            self.unused = NONE;
            self.memory.clear();
            self.memory.shrink_to(KEPT);
            return;
        }
        let mut head = self.unused;
        self.link(number, &mut head, Place::Unused);
        self.unused = head;
        if self.memory.len() > KEPT {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        for _ in 0..GIVEN_BACK {
            if self.memory.last().is_none_or(|last| last.place != Place::Unused) {
                break;
            }
            let mut head = self.unused;
            self.unlink(self.memory.len() as u32 - 1, &mut head);
            self.unused = head;
            self.memory.pop();
        }
        if self.memory.len() <= self.memory.capacity() / 4 {
            self.memory.shrink_to(self.memory.capacity() / 2);
        }
    }

    /// Puts the slot at the head of a list.
    #[inline]
    pub fn link(&mut self, number: u32, head: &mut u32, place: Place) {
        let next = std::mem::replace(head, number);
        if next != NONE {
            self.at_mut(next).previous = number;
        }
        let slot = self.at_mut(number);
        slot.previous = NONE;
        slot.next = next;
        slot.place = place;
    }

    /// Takes the slot out of its list.
    #[inline]
    pub fn unlink(&mut self, number: u32, head: &mut u32) {
        let &Slot { previous, next, .. } = self.at(number);
        if previous == NONE {
            *head = next;
        } else {
            self.at_mut(previous).next = next;
        }
        if next != NONE {
            self.at_mut(next).previous = previous;
        }
    }

    pub fn next(&self, number: u32) -> u32 {
        self.at(number).next
    }
}

impl<T> IntoIterator for Slots<T> {
    type Item = Slot<T>;
    type IntoIter = std::vec::IntoIter<Slot<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.memory.into_iter()
    }
}
