//! A min-heap from which many entries can be removed in one pass.
//!
//! Each node has four children: half as deep as with two, and siblings are adjacent in memory.

const CHILDREN: usize = 4;

#[derive(Debug)]
pub struct Heap<T>(Vec<T>);

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Ord> Heap<T> {
    pub fn push(&mut self, item: T) {
        self.0.push(item);
        self.rise(self.0.len() - 1);
    }

    pub fn peek(&self) -> Option<&T> {
        self.0.first()
    }

    pub fn pop(&mut self) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        let removed = self.0.swap_remove(0);
        self.sink(0);
        // Release memory after a burst of entries.
        if self.0.capacity() > 1024 && self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.capacity() / 2);
        }
        Some(removed)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes every entry for which `wanted` is true, in one pass. The order is arbitrary.
    pub fn take_all(&mut self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let taken: Vec<T> = self.0.extract_if(.., |entry| wanted(entry)).collect();
        for place in (0..self.0.len().div_ceil(CHILDREN)).rev() {
            self.sink(place);
        }
        self.0.shrink_to(self.0.len() * 2);
        taken
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.0[parent] <= self.0[place] {
                break;
            }
            self.0.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.0.len());
            let Some(least) = children.min_by(|a, b| self.0[*a].cmp(&self.0[*b])) else { return };
            if self.0[place] <= self.0[least] {
                return;
            }
            self.0.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a sorted vector.
    #[test]
    fn agrees_with_a_sorted_vector() {
        let mut heap = Heap::default();
        let mut model: Vec<u64> = Vec::new();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        // Miri runs some 1000 times slower.
        for _ in 0..if cfg!(miri) { 300 } else { 20_000 } {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let value = (seed >> 33) % 5000;
            match seed >> 40 & 3 {
                0 | 1 => {
                    heap.push(value);
                    model.insert(model.partition_point(|v| *v < value), value);
                }
                2 if (seed >> 42).is_multiple_of(64) => {
                    let mut taken = heap.take_all(|v| *v < value / 8);
                    taken.sort_unstable();
                    let rest = model.split_off(model.partition_point(|v| *v < value / 8));
                    assert_eq!(taken, std::mem::replace(&mut model, rest));
                }
                _ => assert_eq!(heap.pop(), (!model.is_empty()).then(|| model.remove(0))),
            }
            assert_eq!(heap.len(), model.len());
            assert_eq!(heap.peek(), model.first());
        }
    }
}
