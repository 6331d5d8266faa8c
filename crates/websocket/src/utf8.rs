//! `Utf8`: checks text that arrives in pieces, and refuses it at the first byte that cannot be right.

/// The state between two pieces: the start of a character whose rest has not come yet.
#[derive(Debug, Default)]
pub struct Utf8 {
    started: [u8; 4],
    started_len: u8,
}

impl Utf8 {
    /// Whether the text may go on like this.
    pub fn push(&mut self, mut piece: &[u8]) -> bool {
        while self.started_len > 0 {
            let Some((first, rest)) = piece.split_first() else { return true };
            let len = usize::from(self.started_len) + 1;
            self.started[len - 1] = *first;
            piece = rest;
            match std::str::from_utf8(&self.started[..len]) {
                Ok(_) => self.started_len = 0,
                Err(error) if error.error_len().is_some() => return false,
                // A character has at most four bytes: the fourth completes it or is wrong.
                Err(_) => self.started_len += 1,
            }
        }
        let Err(error) = simdutf8::compat::from_utf8(piece) else { return true };
        if error.error_len().is_some() {
            return false;
        }
        let tail = &piece[error.valid_up_to()..];
        self.started[..tail.len()].copy_from_slice(tail);
        self.started_len = tail.len() as u8;
        true
    }
}
