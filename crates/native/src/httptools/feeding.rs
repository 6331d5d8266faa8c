//! `Feeding`: one call of `feed_data`, from message to message.
//!
//! ```text
//! Head ── complete ──▶ Body ── complete ──▶ Head        after a message that ends the connection: Closed
//!   └── upgrade: the message ends with its head, the rest belongs to the caller ──▶ Head
//! any ── refused, or a callback raised ──▶ Failed
//! ```

use super::callbacks::{Callbacks, Event};
use super::early;
use super::failure::{Failure, Kind, Verdict};
use super::head::{self, Head, Info, LIMITS, Room, Side};
use crate::ffi::LoopCell;
use oneloop_http1::fields::parse_field_line;
use oneloop_http1::{BodyReader, Event as Step, Framing};
use pyo3::prelude::*;
use std::mem::MaybeUninit;

#[derive(Default)]
pub enum Phase {
    #[default]
    Head,
    Body(BodyReader),
    Closed,
    Failed(Verdict),
}

/// The parts of an incomplete head that were already reported.
#[derive(Clone, Copy, Default)]
struct Progress {
    is_begun: bool,
    has_text: bool,
    fields: usize,
    /// Bytes up to the first line that was not reported; 0 while that is the first one.
    len: usize,
}

/// A parser's state between calls.
#[derive(Default)]
pub struct Work {
    pub callbacks: Callbacks,
    pub phase: Phase,
    /// The start of an incomplete head.
    pending: Vec<u8>,
    progress: Progress,
    pub joins_folded_lines: bool,
}

impl Work {
    pub fn new(callbacks: Callbacks) -> Self {
        Self { callbacks, ..Self::default() }
    }
}

pub struct Feeding<'a, 'py> {
    pub py: Python<'py>,
    pub side: Side,
    pub work: &'a mut Work,
    pub info: &'a LoopCell<Info>,
}

impl Feeding<'_, '_> {
    /// Parses all of `input`, or up to an upgrade or an error.
    pub fn run(&mut self, input: &[u8]) -> Result<(), Failure> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            at += match &mut self.work.phase {
                Phase::Head if self.work.pending.is_empty() && !self.work.joins_folded_lines => {
                    self.read_new_head(rest, at)?
                }
                Phase::Head => self.read_joined_head(rest, at)?,
                Phase::Body(_) => self.read_body(rest)?,
                Phase::Closed if matches!(rest[0], b'\r' | b'\n') => 1,
                Phase::Closed => {
                    return Err(Failure::refused(Kind::Error, "Data after `Connection: close`"));
                }
                Phase::Failed(verdict) => return Err(Failure::Refused(verdict.clone())),
            };
        }
        Ok(())
    }

    /// Parses a head from its start.
    fn read_new_head(&mut self, input: &[u8], at: usize) -> Result<usize, Failure> {
        if let Some(taken) = self.read_head(input, 0, at)? {
            return Ok(taken);
        }
        self.work.pending.extend_from_slice(input);
        Ok(input.len())
    }

    /// Parses a head whose first `known` bytes came with earlier calls. Returns how many new bytes it used, if it is
    /// complete.
    fn read_head(
        &mut self,
        source: &[u8],
        known: usize,
        at: usize,
    ) -> Result<Option<usize>, Failure> {
        let mut room: Room = [const { MaybeUninit::uninit() }; 256];
        match head::parse(self.side, source, &mut room) {
            Ok(Some(head)) => {
                let taken = head.len - known;
                self.tell_head(source, &head)?;
                if head.upgrades { Err(Failure::Upgrade(at + taken)) } else { Ok(Some(taken)) }
            }
            Ok(None) => self.tell_early(source).map(|()| None),
            Err(refusal) => {
                if !source.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
                    self.begin()?;
                }
                Err(early::explain(self.side, source, refusal))
            }
        }
    }

    /// Parses a head that arrives in pieces, or whose lines may be folded.
    fn read_joined_head(&mut self, input: &[u8], at: usize) -> Result<usize, Failure> {
        let known = self.work.pending.len();
        // Small pieces of a line are collected, because each would cause the whole head to be parsed again.
        let is_at_line = self.work.pending.last() == Some(&b'\n');
        if self.work.progress.has_text
            && !is_at_line
            && known + input.len() <= LIMITS.head_bytes
            && memchr::memchr(b'\n', input).is_none()
        {
            self.work.pending.extend_from_slice(input);
            return Ok(input.len());
        }
        let mut source = std::mem::take(&mut self.work.pending);
        source.extend_from_slice(input);
        if self.work.joins_folded_lines {
            return self.read_folded_head(source, known, at);
        }
        if let Some(taken) = self.read_head(&source, known, at)? {
            return Ok(taken);
        }
        self.work.pending = source;
        Ok(input.len())
    }

    fn read_folded_head(
        &mut self,
        source: Vec<u8>,
        known: usize,
        at: usize,
    ) -> Result<usize, Failure> {
        let Some((len, unfolded)) = early::unfold(&source) else {
            if source.len() > LIMITS.head_bytes {
                return Err(Failure::refused(Kind::Error, "the head is too long"));
            }
            let taken = source.len() - known;
            self.work.pending = source;
            return Ok(taken);
        };
        match self.read_head(&unfolded, 0, at) {
            Ok(_) => Ok(len - known),
            Err(Failure::Upgrade(_)) => Err(Failure::Upgrade(at + len - known)),
            Err(failure) => Err(failure),
        }
    }

    /// Reports the complete lines of an incomplete head. A line is reported once there is a byte after it.
    fn tell_early(&mut self, source: &[u8]) -> Result<(), Failure> {
        let start =
            source.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(source.len());
        let source = &source[start..];
        if source.is_empty() {
            return Ok(());
        }
        let py = self.py;
        self.begin()?;
        let first = early::look(self.side, source)?;
        if let Some(method) = first.method {
            self.info.with(py, |info| info.set_method(method));
        }
        if let (Some(text), false) = (first.text, self.work.progress.has_text) {
            self.work.progress.has_text = true;
            self.work.callbacks.tell_bytes(py, self.text_event(), text)?;
        }
        let Some(end) = first.end else { return Ok(()) };
        let mut at = self.work.progress.len.max(end);
        while let Some(len) = memchr::memchr(b'\n', &source[at..]) {
            let next = at + len + 1;
            let Some(line) = source[at..next].strip_suffix(b"\r\n") else {
                return Err(Failure::refused(Kind::Error, "Missing expected CR before LF"));
            };
            match source.get(next) {
                None => break,
                Some(b' ' | b'\t') => {
                    return Err(Failure::refused(
                        Kind::Error,
                        "Unexpected whitespace after header value",
                    ));
                }
                Some(_) => {}
            }
            let (name, value) = parse_field_line(line)?;
            self.work.progress.fields += 1;
            at = next;
            self.work.progress.len = at;
            self.work.callbacks.tell_header(py, name, value)?;
        }
        Ok(())
    }

    fn text_event(&self) -> Event {
        if self.side == Side::Request { Event::Url } else { Event::Status }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        if self.work.progress.is_begun {
            return Ok(());
        }
        self.work.progress.is_begun = true;
        self.info.with(self.py, |info| info.upgrades = false);
        self.work.callbacks.tell(self.py, Event::MessageBegin)
    }

    /// Reports the rest of a complete head, and prepares for the body.
    fn tell_head(&mut self, source: &[u8], head: &Head<'_, '_>) -> Result<(), Failure> {
        let py = self.py;
        self.begin()?;
        if self.side == Side::Request && !early::is_known_method(head.method) {
            return Err(Failure::refused(Kind::Method, "Invalid method encountered"));
        }
        self.info.with(py, |info| {
            info.set_method(head.method);
            info.version = Some(head.version);
            info.status = head.status;
            info.keeps_alive = head.keeps_alive;
        });
        if !self.work.progress.has_text {
            let text = match self.side {
                Side::Request => head.target,
                Side::Response => reason_of(source)?,
            };
            self.work.callbacks.tell_bytes(py, self.text_event(), text)?;
        }
        let passed = self.work.progress.fields;
        for header in &head.headers[passed..] {
            self.work.callbacks.tell_header(py, header.name.as_bytes(), header.value)?;
        }
        self.info.with(py, |info| info.upgrades = head.upgrades);
        self.work.progress = Progress::default();
        let body = if head.upgrades { Framing::None } else { head.framing };
        let body = BodyReader::new(body, &LIMITS)?;
        self.work.callbacks.tell(py, Event::HeadersComplete)?;
        if body.is_complete() {
            return self.end_message();
        }
        self.work.phase = Phase::Body(body);
        Ok(())
    }

    /// Parses a step of the body.
    fn read_body(&mut self, input: &[u8]) -> Result<usize, Failure> {
        let py = self.py;
        let Phase::Body(body) = &mut self.work.phase else { return Ok(0) };
        let (step, taken) = body.read_event(input, &LIMITS)?;
        let is_complete = body.is_complete();
        match step {
            Step::ChunkBegins => self.work.callbacks.tell(py, Event::ChunkHeader)?,
            Step::Data(data) => self.work.callbacks.tell_bytes(py, Event::Body, data)?,
            Step::ChunkEnds => self.work.callbacks.tell(py, Event::ChunkComplete)?,
            Step::Ends => {
                for (name, value) in body.trailers() {
                    self.work.callbacks.tell_header(py, name, value)?;
                }
                self.work.callbacks.tell(py, Event::ChunkComplete)?;
            }
            Step::Incomplete => {}
        }
        if is_complete {
            self.end_message()?;
        }
        Ok(taken)
    }

    fn end_message(&mut self) -> Result<(), Failure> {
        let info = self.info.get(self.py);
        self.work.phase =
            if info.keeps_alive || info.upgrades { Phase::Head } else { Phase::Closed };
        self.work.callbacks.tell(self.py, Event::MessageComplete)
    }
}

/// The reason in its original bytes.
fn reason_of(head: &[u8]) -> Result<&[u8], Failure> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    Ok(early::look(Side::Response, &head[start..])?.text.unwrap_or_default())
}
