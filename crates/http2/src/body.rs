//! `Body`: what is queued of a body that is being sent.

use std::collections::VecDeque;

/// A part of a body: copied, or an object of the caller that has the bytes.
#[derive(Debug)]
pub enum Chunk<B> {
    Copied(Vec<u8>),
    Shared(B),
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Chunk<B> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Shared(bytes) => bytes.as_ref(),
        }
    }
}

pub struct Body<B> {
    chunks: VecDeque<Chunk<B>>,
    /// This much of the first chunk was sent.
    at: usize,
    len_bytes: usize,
    /// Nothing follows.
    pub is_complete: bool,
    /// Fields that follow, in lines.
    pub trailers: Option<Vec<u8>>,
    /// nghttp2 does not ask for data until it is told that there is some.
    pub is_deferred: bool,
    /// All of it, and the end, were framed.
    pub is_sent: bool,
}

impl<B> Default for Body<B> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            at: 0,
            len_bytes: 0,
            is_complete: false,
            trailers: None,
            is_deferred: false,
            is_sent: false,
        }
    }
}

impl<B: AsRef<[u8]>> Body<B> {
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub fn push(&mut self, chunk: Chunk<B>) {
        let len = chunk.as_ref().len();
        if len > 0 {
            self.len_bytes += len;
            self.chunks.push_back(chunk);
        }
    }

    /// Moves the first `len` bytes to the end of `out`. Chunks that are used up go to `used`: dropping one may run code
    /// of the caller.
    pub fn take(&mut self, mut len: usize, out: &mut Vec<u8>, used: &mut Vec<B>) {
        self.len_bytes -= len;
        while len > 0 {
            let chunk = self.chunks.front().expect("len is at most len_bytes");
            let rest = &chunk.as_ref()[self.at..];
            let part = &rest[..rest.len().min(len)];
            out.extend_from_slice(part);
            len -= part.len();
            self.at += part.len();
            if self.at == chunk.as_ref().len() {
                self.at = 0;
                if let Some(Chunk::Shared(object)) = self.chunks.pop_front() {
                    used.push(object);
                }
            }
        }
    }

    pub fn clear(&mut self, used: &mut Vec<B>) {
        for chunk in self.chunks.drain(..) {
            if let Chunk::Shared(object) = chunk {
                used.push(object);
            }
        }
        (self.at, self.len_bytes) = (0, 0);
    }
}
