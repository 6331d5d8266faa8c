//! `Scratch`: reusable aligned memory for direct reads.

use oneloop_engine::sys::memory::Aligned;

/// The number of blocks kept for the next reads, all of one length.
const KEPT: usize = 64;
/// Longer blocks are freed.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Default)]
pub struct Scratch(Vec<Aligned>);

impl Scratch {
    /// Memory of this length with arbitrary content; `None` if there is no memory.
    pub fn take(&mut self, len: usize) -> Option<Aligned> {
        match self.0.pop_if(|aligned| aligned.len() == len) {
            Some(aligned) => Some(aligned),
            None => Aligned::new(len),
        }
    }

    pub fn put(&mut self, aligned: Aligned) {
        if aligned.len() > KEPT_BYTES {
            return;
        }
        // Blocks of another length are no longer needed.
        if self.0.last().is_some_and(|kept| kept.len() != aligned.len()) {
            self.0.clear();
        }
        if self.0.len() < KEPT {
            self.0.push(aligned);
        }
    }
}
