//! `Window`: the end of what one direction has carried, to which the next message may refer.

/// Kept instead of zlib's own state, which takes 47 KiB (inflating) and 165 KiB (deflating) whatever the window is.
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

    /// The window moves on over `message`.
    pub fn push(&mut self, message: &[u8]) {
        let added = &message[message.len().saturating_sub(self.most_bytes)..];
        let kept_bytes = self.bytes.len().min(self.most_bytes - added.len());
        self.bytes.drain(..self.bytes.len() - kept_bytes);
        let len = kept_bytes + added.len();
        if len > self.bytes.capacity() {
            // Twofold, and never beyond what is kept at most.
            self.bytes.reserve_exact(self.most_bytes.min(len.max(2 * kept_bytes)) - kept_bytes);
        }
        self.bytes.extend_from_slice(added);
    }

    /// What a message that has begun with `message` may refer to.
    pub fn with(&self, message: &[u8]) -> Vec<u8> {
        let mut window = Self { bytes: self.bytes.clone(), most_bytes: self.most_bytes };
        window.push(message);
        window.bytes
    }
}
