//! `Receiver`: takes the peer's bytes and returns events.
//!
//! | state | input |
//! |---|---|
//! | between frames | a head; incomplete ones are kept in `head` |
//! | in a frame | the payload, unmasked in place; what cannot be delivered yet is kept in `kept` or `control` |
//! | done | nothing: after a close frame or a failure all bytes are ignored |
//!
//! A message that is complete in the input is borrowed from it. Everything else is collected, checked as it arrives,
//! and released by the next call.

use crate::config::{Config, Role};
use crate::event::Event;
use crate::failure::Failure;
use crate::frame::{Frame, MAX_HEAD_BYTES, Opcode};
use crate::inflater::Inflater;
use crate::mask;
use crate::utf8::Utf8;
use std::cmp;
use std::ops::Range;

/// Memory for a payload is allocated immediately up to this size. Above it, memory grows with the received bytes, so
/// that a head alone cannot reserve much.
const TRUSTED_BYTES: usize = 64 << 10;

const NOT_UTF8: Failure = Failure::data("text is not UTF-8");

/// The result of one call of `read`.
#[derive(Debug)]
pub struct Step<'a> {
    /// The number of bytes used. All of them if there is no event, because incomplete data is kept.
    pub consumed: usize,
    pub event: Option<Event<'a>>,
}

/// A frame whose payload is incomplete.
struct Incoming {
    opcode: Opcode,
    is_final: bool,
    left_bytes: u64,
    mask: Option<[u8; 4]>,
}

/// A message whose last frame is incomplete.
#[derive(Default)]
struct Message {
    is_text: bool,
    is_compressed: bool,
    frames: u32,
    interleaved_frames: u32,
    /// As received, compressed or not.
    payload_bytes: u64,
    utf8: Utf8,
}

/// Where the payload of a complete message or control frame is.
enum Place {
    Input(Range<usize>),
    Kept,
}

pub struct Receiver {
    is_masked: bool,
    is_done: bool,
    max_message_bytes: usize,
    max_message_frames: u32,
    max_interleaved_frames: u32,
    inflater: Option<Box<Inflater>>,
    head: [u8; MAX_HEAD_BYTES],
    head_bytes: u8,
    frame: Option<Incoming>,
    message: Option<Message>,
    /// The current message, inflated; after its event, the data that the event borrows.
    kept: Vec<u8>,
    /// Like `kept`, for a control frame, which may arrive between the frames of a message.
    control: Vec<u8>,
}

impl Receiver {
    pub fn new(config: &Config) -> Self {
        let is_server = matches!(config.role, Role::Server);
        let inflater = config.deflate.map(|params| {
            let (bits, resets) = if is_server {
                (params.client_max_window_bits, params.client_no_context_takeover)
            } else {
                (params.server_max_window_bits, params.server_no_context_takeover)
            };
            Box::new(Inflater::new(bits, !resets, config.max_message_bytes))
        });
        Self {
            is_masked: is_server,
            is_done: false,
            max_message_bytes: config.max_message_bytes,
            max_message_frames: config.max_message_frames,
            max_interleaved_frames: config.max_interleaved_frames,
            inflater,
            head: [0; MAX_HEAD_BYTES],
            head_bytes: 0,
            frame: None,
            message: None,
            kept: Vec::new(),
            control: Vec::new(),
        }
    }

    /// Reads up to the end of the next message or control frame. Payloads are unmasked in `input` itself.
    ///
    /// Call it again with the rest of the input until there is no event. The next call also releases the data that the
    /// previous event borrowed, as `release` does.
    ///
    /// # Errors
    ///
    /// The peer broke a rule or a limit. Further bytes are ignored.
    pub fn read<'a>(&'a mut self, input: &'a mut [u8]) -> Result<Step<'a>, Failure> {
        let found = self.advance(input).inspect_err(|_| self.end())?;
        let Some((consumed, opcode, place)) = found else {
            return Ok(Step { consumed: input.len(), event: None });
        };
        if opcode == Opcode::Close {
            self.is_done = true;
            self.message = None;
            self.inflater = None;
        }
        let payload: &'a [u8] = match place {
            Place::Input(range) => &input[range],
            Place::Kept if opcode.is_control() => &self.control,
            Place::Kept => &self.kept,
        };
        let event = Event::of(opcode, payload).inspect_err(|_| self.is_done = true)?;
        Ok(Step { consumed, event: Some(event) })
    }

    /// Whether a close frame or a failure has ended reading.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Frees the memory of the last event, which is otherwise kept until the next `read`: a long message may be the
    /// last one for hours.
    pub fn release(&mut self) {
        if self.message.is_none() {
            self.kept = Vec::new();
        }
    }

    /// The memory held by incomplete messages and frames, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.kept.capacity() + self.control.capacity()
    }

    /// Bytes kept as context for the next compressed message: at most the window.
    pub fn window_bytes(&self) -> usize {
        self.inflater.as_ref().map_or(0, |inflater| inflater.window_bytes())
    }

    fn advance(&mut self, input: &mut [u8]) -> Result<Option<(usize, Opcode, Place)>, Failure> {
        self.release();
        if self.frame.as_ref().is_none_or(|frame| !frame.opcode.is_control()) {
            self.control = Vec::new();
        }
        let mut at = 0;
        while !self.is_done {
            if self.frame.is_none() {
                let Some((frame, len)) = self.read_head(&input[at..])? else { return Ok(None) };
                at += len;
                self.begin(&frame)?;
            }
            let Some(frame) = &mut self.frame else { return Ok(None) };
            let take = cmp::min(frame.left_bytes, (input.len() - at) as u64) as usize;
            let piece = at..at + take;
            if let Some(key) = &mut frame.mask {
                mask::apply(&mut input[piece.clone()], *key);
                *key = mask::rotated(*key, take);
            }
            frame.left_bytes -= take as u64;
            at += take;
            let is_ended = frame.left_bytes == 0;
            let opcode = frame.opcode;
            let ended = if opcode.is_control() {
                self.take_control(opcode, is_ended, input, piece)
            } else {
                self.take_data(is_ended, input, piece)?
            };
            if is_ended {
                self.frame = None;
            }
            if let Some((opcode, place)) = ended {
                return Ok(Some((at, opcode, place)));
            }
            if !is_ended {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Parses a head, and returns how many bytes of `input` it took; keeps an incomplete one.
    fn read_head(&mut self, input: &[u8]) -> Result<Option<(Frame, usize)>, Failure> {
        let kept = usize::from(self.head_bytes);
        if kept == 0
            && let Some(found) = Frame::parse(input, self.is_masked)?
        {
            return Ok(Some(found));
        }
        let added = cmp::min(input.len(), MAX_HEAD_BYTES - kept);
        self.head[kept..kept + added].copy_from_slice(&input[..added]);
        if let Some((frame, len)) = Frame::parse(&self.head[..kept + added], self.is_masked)? {
            self.head_bytes = 0;
            return Ok(Some((frame, len - kept)));
        }
        self.head_bytes = (kept + added) as u8;
        Ok(None)
    }

    /// Checks a frame against the current message and the limits, before its payload.
    fn begin(&mut self, frame: &Frame) -> Result<(), Failure> {
        if frame.opcode.is_control() {
            if let Some(message) = &mut self.message {
                message.interleaved_frames += 1;
                if message.interleaved_frames > self.max_interleaved_frames {
                    return Err(Failure::policy("too many control frames within a message"));
                }
            }
        } else {
            self.begin_data(frame)?;
        }
        self.frame = Some(Incoming {
            opcode: frame.opcode,
            is_final: frame.is_final,
            left_bytes: frame.payload_bytes,
            mask: frame.mask,
        });
        Ok(())
    }

    fn begin_data(&mut self, frame: &Frame) -> Result<(), Failure> {
        if frame.is_compressed && self.inflater.is_none() {
            return Err(Failure::protocol("reserved bit set"));
        }
        match (&self.message, frame.opcode) {
            (None, Opcode::Continuation) => {
                return Err(Failure::protocol("continuation without a message"));
            }
            (Some(_), Opcode::Text | Opcode::Binary) => {
                return Err(Failure::protocol("new message inside a message"));
            }
            _ => {}
        }
        let message = self.message.get_or_insert_with(|| Message {
            is_text: frame.opcode == Opcode::Text,
            is_compressed: frame.is_compressed,
            ..Message::default()
        });
        message.frames += 1;
        if message.frames > self.max_message_frames {
            return Err(Failure::policy("too many frames in a message"));
        }
        message.payload_bytes = message.payload_bytes.saturating_add(frame.payload_bytes);
        let mut most = self.max_message_bytes as u64;
        if message.is_compressed {
            // Incompressible data grows slightly. The inflater checks the limit of the inflated data.
            most = most.saturating_add(most / 8).saturating_add(64);
        }
        if message.payload_bytes > most {
            return Err(Failure::too_big("message too long"));
        }
        Ok(())
    }

    fn take_control(
        &mut self,
        opcode: Opcode,
        is_ended: bool,
        input: &[u8],
        piece: Range<usize>,
    ) -> Option<(Opcode, Place)> {
        if is_ended && self.control.is_empty() {
            return Some((opcode, Place::Input(piece)));
        }
        self.control.extend_from_slice(&input[piece]);
        is_ended.then_some((opcode, Place::Kept))
    }

    fn take_data(
        &mut self,
        is_ended: bool,
        input: &[u8],
        piece: Range<usize>,
    ) -> Result<Option<(Opcode, Place)>, Failure> {
        let (Some(frame), Some(message)) = (&self.frame, &mut self.message) else {
            return Ok(None);
        };
        let opcode = if message.is_text { Opcode::Text } else { Opcode::Binary };
        let is_last = is_ended && frame.is_final;
        let start = self.kept.len();
        if let (true, Some(inflater)) = (message.is_compressed, &mut self.inflater) {
            inflater.push(&input[piece], &mut self.kept)?;
            if is_last {
                inflater.finish(&mut self.kept)?;
            }
        } else if is_last && start == 0 {
            // The whole message is available (earlier frames were empty): the event checks its text.
            self.message = None;
            return Ok(Some((opcode, Place::Input(piece))));
        } else {
            let added = piece.len();
            if self.kept.capacity() - start < added {
                // The rest of the frame up to the trusted size; doubled each time; never beyond the limit.
                let rest = cmp::min(frame.left_bytes, TRUSTED_BYTES as u64) as usize;
                let room = cmp::max(added + rest, start);
                self.kept.reserve_exact(cmp::min(room, self.max_message_bytes - start));
            }
            self.kept.extend_from_slice(&input[piece]);
        }
        // A text that ends here in one piece is checked by its event; one that came in pieces is checked piece by
        // piece.
        if message.is_text && !is_last && !message.utf8.push(&self.kept[start..]) {
            return Err(NOT_UTF8);
        }
        if is_last {
            self.message = None;
            return Ok(Some((opcode, Place::Kept)));
        }
        Ok(None)
    }

    /// Ends reading and releases kept data.
    fn end(&mut self) {
        self.is_done = true;
        self.frame = None;
        self.message = None;
        self.inflater = None;
        self.kept = Vec::new();
        self.control = Vec::new();
    }
}
