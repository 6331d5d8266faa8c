//! `Window`: the most recent data of one direction, to which the next message may refer.

/// Kept instead of zlib's own state, which takes 47 KiB (inflating) and 165 KiB (deflating) for any window size.
pub struct Window {
    bytes: Vec<u8>,
    most_bytes: usize,
}

impl Window {
    pub fn new(most_bytes: usize) -> Self {
        Self { bytes: Vec::new(), most_bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Moves the window forward over `message`.
    pub fn push(&mut self, message: &[u8]) {
        let added = &message[message.len().saturating_sub(self.most_bytes)..];
        let kept_bytes = self.bytes.len().min(self.most_bytes - added.len());
        self.bytes.drain(..self.bytes.len() - kept_bytes);
        let len = kept_bytes + added.len();
        if len > self.bytes.capacity() {
            // Doubled, but never beyond the maximum.
            self.bytes.reserve_exact(self.most_bytes.min(len.max(2 * kept_bytes)) - kept_bytes);
        }
        self.bytes.extend_from_slice(added);
    }

    /// The data to which the rest of a message that begins with `message` may refer.
    pub fn with(&self, message: &[u8]) -> Vec<u8> {
        let mut window = Self { bytes: self.bytes.clone(), most_bytes: self.most_bytes };
        window.push(message);
        window.bytes
    }
}
