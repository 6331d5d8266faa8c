//! Timers that are not due soon, in buckets by their deadlines.
//!
//! The buckets of level 0 cover a millisecond each, those of every further level 64 times as much as those of the level
//! below. A timer's level is that of the highest digit, of base 64, in which its deadline differs from the present. When
//! the earliest timer of a bucket is due, the bucket's timers move to lower levels, or out of the wheel. So a timer
//! moves a few times before it is due, and one that is cancelled before usually never.
//!
//! Within a bucket there is no order: whoever takes timers out sorts them.

use super::slots::{NONE, Place, Slots};

/// log2 of the nanoseconds that a bucket of level 0 covers.
const UNIT_BITS: u32 = 20;
const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
/// Enough for all deadlines of 64 bits.
const LEVELS: usize = (u64::BITS - UNIT_BITS).div_ceil(DIGIT_BITS) as usize;

#[derive(Debug)]
struct Level {
    /// A bit for each bucket that is not empty.
    occupied: u64,
    heads: [u32; BUCKETS],
    /// Not later than the bucket's earliest deadline. It is earlier if that timer was removed.
    earliest_ns: [u64; BUCKETS],
}

impl Level {
    fn new() -> Box<Self> {
        Box::new(Self { occupied: 0, heads: [NONE; BUCKETS], earliest_ns: [0; BUCKETS] })
    }

    /// Not later than any timer of the level. All buckets before the first occupied one have been emptied.
    fn earliest_ns(&self) -> Option<u64> {
        (self.occupied != 0).then(|| self.earliest_ns[self.occupied.trailing_zeros() as usize])
    }
}

#[derive(Debug, Default)]
pub(super) struct Wheel {
    /// The present in units of level 0. It never passes a timer of the wheel.
    present: u64,
    /// Made when they are first used.
    levels: [Option<Box<Level>>; LEVELS],
    /// Not later than any timer of the wheel; `None` if it is empty.
    earliest_ns: Option<u64>,
}

fn split(bucket: u16) -> (usize, usize) {
    (bucket as usize / BUCKETS, bucket as usize % BUCKETS)
}

impl Wheel {
    /// A time before which no timer of the wheel is due.
    #[inline]
    pub fn earliest_ns(&self) -> Option<u64> {
        self.earliest_ns
    }

    /// Time has passed, but no timer of the wheel is due.
    #[inline]
    pub fn pass(&mut self, now_ns: u64) {
        self.present = self.present.max(now_ns >> UNIT_BITS);
    }

    /// Takes a timer whose slot is in no list. Returns false if it is too early for the wheel.
    #[inline]
    pub fn insert<T>(&mut self, slots: &mut Slots<T>, number: u32) -> bool {
        let deadline_ns = slots.at(number).deadline_ns;
        let unit = deadline_ns >> UNIT_BITS;
        if unit <= self.present {
            return false;
        }
        let level = ((unit ^ self.present).ilog2() / DIGIT_BITS) as usize;
        let digit = (unit >> (level as u32 * DIGIT_BITS)) as usize % BUCKETS;
        let place = Place::Bucket((level * BUCKETS + digit) as u16);
        let level = self.levels[level].get_or_insert_with(Level::new);
        if level.occupied & 1 << digit == 0 {
            level.occupied |= 1 << digit;
            level.earliest_ns[digit] = deadline_ns;
        } else {
            level.earliest_ns[digit] = level.earliest_ns[digit].min(deadline_ns);
        }
        slots.link(number, &mut level.heads[digit], place);
        self.earliest_ns = Some(self.earliest_ns.map_or(deadline_ns, |ns| ns.min(deadline_ns)));
        true
    }

    /// Takes a timer out of its bucket.
    #[inline]
    pub fn remove<T>(&mut self, slots: &mut Slots<T>, number: u32, bucket: u16) {
        let (level, digit) = split(bucket);
        let Some(level) = self.levels[level].as_mut() else { return };
        slots.unlink(number, &mut level.heads[digit]);
        if level.heads[digit] == NONE {
            level.occupied &= !(1 << digit);
            if self.earliest_ns == Some(level.earliest_ns[digit]) {
                self.find_earliest();
            }
        }
    }

    fn find_earliest(&mut self) {
        self.earliest_ns = self.levels.iter().flatten().filter_map(|l| l.earliest_ns()).min();
    }

    /// Moves the present. Timers that are due, or too early for the wheel, go to `leaves`; the others of their buckets
    /// to lower levels.
    pub fn turn<T>(
        &mut self,
        slots: &mut Slots<T>,
        now_ns: u64,
        mut leaves: impl FnMut(&Slots<T>, u32),
    ) {
        self.pass(now_ns);
        // From the lowest level: what moves down is not due, so its bucket stays.
        for level in 0..LEVELS {
            while let Some(bucket) = self.levels[level].as_mut().and_then(|l| take_due(l, now_ns)) {
                let mut number = bucket;
                while number != NONE {
                    let next = slots.next(number);
                    if slots.at(number).deadline_ns <= now_ns || !self.insert(slots, number) {
                        slots.at_mut(number).place = Place::Near;
                        leaves(slots, number);
                    }
                    number = next;
                }
            }
        }
        self.find_earliest();
    }
}

/// Empties the level's first bucket if a timer of it may be due. Returns the head of its list.
fn take_due(level: &mut Level, now_ns: u64) -> Option<u32> {
    if level.earliest_ns()? > now_ns {
        return None;
    }
    let digit = level.occupied.trailing_zeros() as usize;
    level.occupied &= !(1 << digit);
    Some(std::mem::replace(&mut level.heads[digit], NONE))
}
