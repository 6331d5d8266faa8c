//! For tests: every prefix of an input, and a seeded random number generator.

/// Applies `read` to every prefix, starting with the shortest. The first answer must be the same for all longer ones.
pub fn outcome_of_prefixes<T: PartialEq + std::fmt::Debug>(
    input: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut first: Option<T> = None;
    for end in 0..=input.len() {
        let answer = read(&input[..end]);
        if first.is_some() {
            assert_eq!(answer, first, "{end} bytes of {}", input.escape_ascii());
        } else {
            first = answer;
        }
    }
    first
}

/// xorshift64*: the same numbers for the same seed on every machine.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % bound
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Changes some bytes: replaces, inserts, removes or doubles them, preferably with significant ones.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        const TELLING: &[u8] = b"\r\n\0\t :;,=\"\\/?#*%@[]0123aAfFxX+-\x0b\x7f\x80\xff";
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let byte = *self.pick(TELLING);
            match self.below(4) {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => {
                    let end = (at + self.below(20)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
            }
        }
    }

    /// The number of cases of a random test: `usual`, or the value of ONELOOP_HTTP1_CASES.
    pub fn cases(usual: u64) -> u64 {
        std::env::var("ONELOOP_HTTP1_CASES")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(usual)
    }
}
