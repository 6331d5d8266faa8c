//! The bytes that are sent, and the bytes that are expected as the answer.
//!
//! They come from a pseudo-random ring of a prime length. Each connection starts at a different offset, so that a byte
//! that is changed, dropped, duplicated or sent to another connection is detected. Does not use sockets.

/// Prime, and larger than any single write or read that is compared.
const RING_LEN: usize = 262_147;

#[derive(Debug)]
pub struct Pattern {
    /// The ring twice over, so that every slice up to `RING_LEN` is contiguous.
    bytes: Vec<u8>,
}

impl Default for Pattern {
    fn default() -> Self {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut bytes = Vec::with_capacity(2 * RING_LEN);
        for _ in 0..RING_LEN {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push((state >> 32) as u8);
        }
        bytes.extend_from_within(..);
        Self { bytes }
    }
}

impl Pattern {
    /// The bytes of the stream from `offset` on, at most `len_bytes` and at most one ring.
    #[must_use]
    pub fn at(&self, offset: u64, len_bytes: usize) -> &[u8] {
        let from = (offset % RING_LEN as u64) as usize;
        &self.bytes[from..from + len_bytes.min(RING_LEN)]
    }

    /// The index of the first byte of `got` that is not what the stream has at `offset`.
    #[must_use]
    pub fn first_difference(&self, offset: u64, got: &[u8]) -> Option<usize> {
        let mut done = 0;
        while done < got.len() {
            let want = self.at(offset + done as u64, got.len() - done);
            let part = &got[done..done + want.len()];
            if part != want {
                let within = part.iter().zip(want).position(|(a, b)| a != b);
                return within.map(|index| done + index);
            }
            done += want.len();
        }
        None
    }

    /// Where the stream of connection number `index` begins.
    #[must_use]
    pub fn origin(index: usize) -> u64 {
        (index as u64).wrapping_mul(7919) % RING_LEN as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found_anywhere() {
        let pattern = Pattern::default();
        for (offset, len) in [(0, 64), (262_100, 100), (5, 600_000)] {
            let mut copy = Vec::new();
            while copy.len() < len {
                let part = pattern.at(offset + copy.len() as u64, len - copy.len());
                copy.extend_from_slice(part);
            }
            assert_eq!(pattern.first_difference(offset, &copy), None);
            for index in [0, len / 2, len - 1] {
                copy[index] ^= 1;
                assert_eq!(pattern.first_difference(offset, &copy), Some(index));
                copy[index] ^= 1;
            }
        }
    }

    #[test]
    fn two_connections_do_not_send_the_same() {
        let pattern = Pattern::default();
        assert_ne!(pattern.at(Pattern::origin(1), 64), pattern.at(Pattern::origin(2), 64));
    }
}
