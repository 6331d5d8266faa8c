//! `Utf8`: checks text that arrives in pieces, and refuses it at the first invalid byte.

/// The state between two pieces: the start of an incomplete character.
#[derive(Debug, Default)]
pub struct Utf8 {
    started: [u8; 4],
    started_len: u8,
}

impl Utf8 {
    /// Whether the text is valid so far.
    pub fn push(&mut self, mut piece: &[u8]) -> bool {
        while self.started_len > 0 {
            let Some((first, rest)) = piece.split_first() else { return true };
            let len = usize::from(self.started_len) + 1;
            self.started[len - 1] = *first;
            piece = rest;
            match std::str::from_utf8(&self.started[..len]) {
                Ok(_) => self.started_len = 0,
                Err(error) if error.error_len().is_some() => return false,
                // A character has at most four bytes: the fourth completes it or is invalid.
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

#[cfg(test)]
mod tests {
    use super::Utf8;

    /// The first and last byte of every class in the grammar of UTF-8 (RFC 3629 section 4).
    const BYTES: [u8; 20] = [
        0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF,
        0xF0, 0xF3, 0xF4, 0xF5, 0xFF,
    ];

    /// The standard library's verdict on the start of a text.
    fn may_go_on(text: &[u8]) -> bool {
        std::str::from_utf8(text).map_or_else(|error| error.error_len().is_none(), |_| true)
    }

    #[test]
    fn every_text_of_four_bytes_in_every_pair_of_pieces() {
        for number in 0..BYTES.len().pow(4) {
            let text = [0, 1, 2, 3].map(|place| BYTES[number / BYTES.len().pow(place) % 20]);
            for cut in 0..=4 {
                let (left, right) = text.split_at(cut);
                let mut utf8 = Utf8::default();
                let found = (utf8.push(left), utf8.push(right));
                assert_eq!(found.0, may_go_on(left), "{text:?} {cut}");
                // After a refusal the result no longer matters.
                assert!(!found.0 || found.1 == may_go_on(&text), "{text:?} {cut}");
            }
            let mut utf8 = Utf8::default();
            let bytewise = text.chunks(1).all(|byte| utf8.push(byte));
            assert_eq!(bytewise, may_go_on(&text), "{text:?}");
        }
    }
}
