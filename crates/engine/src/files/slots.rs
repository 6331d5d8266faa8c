//! `Slots`: the running operations, each under a key of slot and generation (S4).
//!
//! A used key never becomes valid again, so that a late or duplicate completion finds nothing.

/// Slot in the low half, generation in the high half. The kernel returns it as user_data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    fn new(slot: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(slot))
    }

    fn slot(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn as_u64(self) -> u64 {
        self.0
    }

    pub fn from_u64(value: u64) -> Self {
        Self(value)
    }
}

struct Slot<R> {
    generation: u32,
    record: Option<R>,
}

pub struct Slots<R> {
    slots: Vec<Slot<R>>,
    free: Vec<u32>,
}

impl<R> Default for Slots<R> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<R> Slots<R> {
    pub fn insert(&mut self, record: R) -> Key {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.record = Some(record);
            return Key::new(index, slot.generation);
        }
        let index = u32::try_from(self.slots.len()).expect("fewer operations than 2^32");
        self.slots.push(Slot { generation: 0, record: Some(record) });
        Key::new(index, 0)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut R> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.generation == key.generation() { slot.record.as_mut() } else { None }
    }

    /// Removes and returns the record. The key is stale afterwards.
    pub fn remove(&mut self, key: Key) -> Option<R> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.generation != key.generation() {
            return None;
        }
        let record = slot.record.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot() as u32);
        Some(record)
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Leaks the records of running operations (S1) and returns their number. If there are none, nothing is leaked.
    pub fn leak(&mut self) -> usize {
        let left = self.len();
        let slots = std::mem::take(self);
        if left > 0 {
            std::mem::forget(slots);
        }
        left
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.slots.iter().filter_map(|slot| slot.record.as_ref())
    }

    /// The keys of all running operations.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let live = self.slots.iter().enumerate().filter(|(_, slot)| slot.record.is_some());
        live.map(|(index, slot)| Key::new(index as u32, slot.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_serves_once() {
        let mut slots = Slots::default();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(first.slot(), second.slot(), "slots are used again");
        assert_eq!(slots.remove(first), None, "a stale key finds nothing");
        assert!(slots.get_mut(first).is_none());
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(slots.len(), 1);
    }

    #[test]
    fn keys_survive_the_kernel() {
        let mut slots = Slots::default();
        let keys: Vec<_> = (0..10).map(|n| slots.insert(n)).collect();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slots.remove(Key::from_u64(key.as_u64())), Some(n));
        }
        assert!(slots.is_empty());
    }
}
