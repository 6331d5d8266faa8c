//! `Http2`: what a connection knows of its session and its streams.

use crate::client::timeouts::Awaited;
use crate::ffi::Object;
use crate::ffi::bytes::SharedBytes;
use oneloop_http2::{Code, Session};
use std::collections::HashMap;

/// More streams than this are not opened at a time, whatever the server allows: further requests take another connection.
pub const MOST_STREAMS: u32 = 100;

/// A stream with an exchange `E` that has not ended.
pub struct Open<E> {
    pub exchange: Object<E>,
    /// What the deadline limits.
    pub awaited: Awaited,
    pub deadline_ns: u64,
    /// What was queued of the request when it was set, in bytes.
    pub undrained: usize,
    /// What is queued of the request.
    pub queued_bytes: usize,
    /// Received, and not yet given back to the server's window.
    pub held_bytes: usize,
    /// Heads before that of the response.
    pub interim: u32,
    /// The connection had carried others and was idle, and nothing had been received since, when this one began.
    pub is_on_kept: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct Http2<E> {
    /// For the requests: http or https.
    pub scheme: &'static [u8],
    pub session: Session<SharedBytes>,
    pub streams: HashMap<i32, Open<E>>,
    /// Input is being processed: what is queued meanwhile is sent at its end.
    pub is_feeding: bool,
    /// What is queued will be sent at the end of the callback.
    pub is_sending_due: bool,
    pub is_writing_paused: bool,
    /// The server's settings have arrived. Until then there is one stream only.
    pub is_greeted: bool,
    /// No further stream is opened.
    pub is_leaving: bool,
    /// The server has said that it ends the connection.
    pub goaway: Option<Code>,
    /// When something was received last.
    pub received_ns: u64,
    /// Nothing was received since it was idle.
    pub is_unheard: bool,
    /// It may be dead: it gets no further stream until something is received.
    pub is_doubted: bool,
}

impl<E> Http2<E> {
    pub fn new(session: Session<SharedBytes>, scheme: &'static [u8], now_ns: u64) -> Self {
        Self {
            scheme,
            session,
            streams: HashMap::new(),
            is_feeding: false,
            is_sending_due: false,
            is_writing_paused: false,
            is_greeted: false,
            is_leaving: false,
            goaway: None,
            received_ns: now_ns,
            is_unheard: false,
            is_doubted: false,
        }
    }

    /// Whether another stream may be opened now.
    pub fn has_room(&self) -> bool {
        let most = if self.is_greeted { self.session.most_streams().min(MOST_STREAMS) } else { 1 };
        !self.is_leaving && !self.is_doubted && self.streams.len() < most as usize
    }

    /// The first deadline.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.streams.values().map(|open| open.deadline_ns).min()
    }
}
