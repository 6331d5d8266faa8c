//! `Session`: one side of a connection.

#![expect(unsafe_code, reason = "calls of a C library")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a session is made by many calls, for one reason"
)]

use crate::body::{Body, Chunk};
use crate::callbacks::{self, Inner};
use crate::config::{Config, Role};
use crate::event::{Code, Event};
use crate::fields::FieldList;
use crate::lines::{add_lines, field, fields_of};
use crate::memory::{self, Room};
use crate::watch::Watch;
use libnghttp2_sys as c;
use std::ffi::CStr;
use std::fmt;
use std::ptr::{self, NonNull};

/// RFC 9218 section 4.1.
const DEFAULT_URGENCY: u32 = 3;

/// nghttp2 has refused a call, or cannot go on with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: i32,
    pub text: String,
}

impl Failure {
    fn of(code: i32) -> Self {
        // SAFETY: it returns a text of the library for every number.
        let text = unsafe { CStr::from_ptr(c::nghttp2_strerror(code)) };
        Self { code, text: text.to_string_lossy().into_owned() }
    }

    /// The memory is used up.
    pub fn is_shortage(&self) -> bool {
        self.code == c::NGHTTP2_ERR_NOMEM
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

fn checked(code: i32) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::of(code)) }
}

/// One side of a connection. `B`: what the caller's parts of bodies are.
pub struct Session<B: AsRef<[u8]>> {
    raw: NonNull<c::nghttp2_session>,
    inner: NonNull<Inner<B>>,
    room: NonNull<Room>,
}

// SAFETY: nghttp2 keeps no state of a thread; a session is used by one thread at a time, because calls need `&mut`.
unsafe impl<B: AsRef<[u8]> + Send> Send for Session<B> {}

impl<B: AsRef<[u8]>> Session<B> {
    pub fn new(config: &Config) -> Result<Self, Failure> {
        let inner = Box::new(Inner {
            events: Vec::new(),
            input: 0,
            head: None,
            head_fields: config.head_fields,
            head_bytes: config.head_bytes,
            bodies: callbacks::Bodies::default(),
            sent: Vec::new(),
            out: Vec::new(),
            out_bytes: 0,
            used: Vec::new(),
            watch: (config.role == Role::Server).then(Watch::default),
            reset: Vec::new(),
            last_begun: 0,
            reason: None,
        });
        let inner = NonNull::from(Box::leak(inner));
        let room = NonNull::from(Box::leak(Box::new(Room::new())));
        let mut raw = ptr::null_mut();
        // SAFETY: pointers to what lives during the call; `inner` and `room` live as long as the session.
        let made = unsafe { make::<B>(&mut raw, config.role, inner, room) };
        let session = match (made, NonNull::new(raw)) {
            (0, Some(raw)) => Self { raw, inner, room },
            (code, _) => {
                // SAFETY: made above, and given to nobody.
                drop(unsafe { (Box::from_raw(inner.as_ptr()), Box::from_raw(room.as_ptr())) });
                return Err(Failure::of(code));
            }
        };
        session.greet(config)?;
        Ok(session)
    }

    /// Announces the limits.
    fn greet(&self, config: &Config) -> Result<(), Failure> {
        let entry = |id: u32, value| c::nghttp2_settings_entry { settings_id: id as i32, value };
        let head_bytes = u32::try_from(config.head_bytes).unwrap_or(u32::MAX);
        let window = u32::try_from(config.stream_window).unwrap_or(65_535);
        let mut entries = vec![
            entry(c::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config.streams),
            entry(c::NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window),
            entry(c::NGHTTP2_SETTINGS_MAX_FRAME_SIZE, config.frame_bytes),
            entry(c::NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, head_bytes),
        ];
        match config.role {
            Role::Server => {
                entries.push(entry(c::NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1));
                entries.push(entry(c::NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1));
            }
            Role::Client => entries[0] = entry(c::NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
        }
        let raw = self.raw.as_ptr();
        // SAFETY: the session and the entries live during the call, which copies them.
        checked(unsafe { c::nghttp2_submit_settings(raw, 0, entries.as_ptr(), entries.len()) })?;
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe {
            c::nghttp2_session_set_local_window_size(raw, 0, 0, config.connection_window)
        })
    }

    fn inner(&mut self) -> &mut Inner<B> {
        // SAFETY: made in `new`, freed in `drop`; nghttp2 does not run now.
        unsafe { self.inner.as_mut() }
    }

    /// Takes bytes of the peer. What they mean is in `take_events`, also if this fails: then the connection ends after
    /// `send`.
    pub fn receive(&mut self, input: &[u8]) -> Result<(), Failure> {
        let wrong = self.inner().watch.as_mut().and_then(|watch| watch.read(input));
        let Some(wrong) = wrong else { return self.take(input) };
        self.take(&input[..wrong.at])?;
        self.inner().watch = None;
        self.inner().reason.get_or_insert_with(|| wrong.reason.to_owned());
        self.terminate(wrong.code)
    }

    fn take(&mut self, input: &[u8]) -> Result<(), Failure> {
        self.inner().input = input.as_ptr().addr();
        // SAFETY: the session and the input live during the call; no reference to `inner` is held.
        let taken =
            unsafe { c::nghttp2_session_mem_recv2(self.raw.as_ptr(), input.as_ptr(), input.len()) };
        match i32::try_from(taken) {
            Ok(code) if code < 0 => Err(Failure::of(code)),
            _ => Ok(()),
        }
    }

    /// What was received since the last call. Ranges of data belong to the last input.
    pub fn take_events(&mut self, room: &mut Vec<Event>) {
        std::mem::swap(&mut self.inner().events, room);
    }

    /// A part of a head was received, and its end was not.
    pub fn is_in_head(&mut self) -> bool {
        self.inner().head.is_some()
    }

    /// What was received of a head whose end was not: of one that the RFC forbids, if the connection has ended.
    pub fn take_head(&mut self) -> Option<FieldList> {
        self.inner().head.take().map(|(_, fields)| fields)
    }

    /// Streams whose response or request was framed to its end since the last call.
    pub fn take_sent(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.inner().sent)
    }

    /// Chunks that are not needed any more. The caller drops them where that may run code.
    pub fn take_used(&mut self) -> Vec<B> {
        std::mem::take(&mut self.inner().used)
    }

    pub fn has_reason(&self) -> bool {
        // SAFETY: made in `new`, freed in `drop`; nghttp2 does not run now.
        unsafe { self.inner.as_ref() }.reason.is_some()
    }

    /// Why the connection ends, or why a stream was reset: the first reason since the last call.
    pub fn take_reason(&mut self) -> Option<String> {
        self.inner().reason.take()
    }

    /// Appends the next frames to `out`, until there is none or it has `most_bytes`; a frame more at most.
    pub fn send(&mut self, out: &mut Vec<u8>, most_bytes: usize) -> Result<(), Failure> {
        let inner = self.inner();
        inner.out_bytes = most_bytes;
        std::mem::swap(&mut inner.out, out);
        let sent = self.frame_on(most_bytes);
        std::mem::swap(&mut self.inner().out, out);
        sent
    }

    fn frame_on(&mut self, most_bytes: usize) -> Result<(), Failure> {
        while self.inner().out.len() < most_bytes {
            let mut frame = ptr::null();
            // SAFETY: the session lives; no reference to `inner` is held.
            let len = unsafe { c::nghttp2_session_mem_send2(self.raw.as_ptr(), &raw mut frame) };
            let before = self.inner().out.len();
            match usize::try_from(len) {
                Ok(0) if before >= most_bytes => {}
                Ok(0) => return Ok(()),
                Ok(len) => {
                    // SAFETY: nghttp2 has returned a frame of this length, which lives until its next call.
                    let frame = unsafe { std::slice::from_raw_parts(frame, len) };
                    self.inner().out.extend_from_slice(frame);
                }
                Err(_) => return Err(Failure::of(i32::try_from(len).unwrap_or(0))),
            }
        }
        Ok(())
    }

    /// There are frames for `send`.
    pub fn wants_write(&self) -> bool {
        // SAFETY: no pointer but the session's is passed.
        unsafe { c::nghttp2_session_want_write(self.raw.as_ptr()) != 0 }
    }

    /// Nothing is sent for now: gives back memory that is used for sending only.
    pub fn rest(&mut self) {
        if !self.wants_write() {
            // SAFETY: made in `new`, freed in `drop`; nghttp2 does not run now.
            unsafe { self.room.as_ref() }.give_back();
        }
    }

    /// The peer may say something that matters.
    pub fn wants_read(&self) -> bool {
        // SAFETY: no pointer but the session's is passed.
        unsafe { c::nghttp2_session_want_read(self.raw.as_ptr()) != 0 }
    }

    fn provider() -> c::nghttp2_data_provider2 {
        c::nghttp2_data_provider2 {
            source: c::nghttp2_data_source { ptr: ptr::null_mut() },
            read_callback: Some(callbacks::on_read::<B>),
        }
    }

    /// Sends the head of a response: the status, then fields in lines `name: value`. The response ends with it if
    /// `ends` is set; otherwise `push` sends its body.
    pub fn respond(
        &mut self,
        stream: i32,
        status: u16,
        lines: &[u8],
        ends: bool,
    ) -> Result<(), Failure> {
        let digits = digits(status);
        let mut fields = Vec::with_capacity(12);
        fields.push(field(b":status", &digits));
        add_lines(&mut fields, lines);
        if !ends {
            self.inner().bodies.insert(stream, Body::default());
        }
        let provider = Self::provider();
        let data = if ends { ptr::null() } else { &raw const provider };
        let raw = self.raw.as_ptr();
        // SAFETY: all of it lives during the call, which copies it.
        let submitted = checked(unsafe {
            c::nghttp2_submit_response2(raw, stream, fields.as_ptr(), fields.len(), data)
        });
        if submitted.is_err() {
            self.inner().bodies.remove(&stream);
        }
        submitted
    }

    /// Sends the head of a request, all in lines, pseudo fields first. Returns its stream.
    pub fn request(&mut self, lines: &[u8], ends: bool) -> Result<i32, Failure> {
        let fields = fields_of(lines);
        let provider = Self::provider();
        let data = if ends { ptr::null() } else { &raw const provider };
        let (raw, none) = (self.raw.as_ptr(), ptr::null());
        // SAFETY: all of it lives during the call, which copies it.
        let stream = unsafe {
            c::nghttp2_submit_request2(
                raw,
                none,
                fields.as_ptr(),
                fields.len(),
                data,
                ptr::null_mut(),
            )
        };
        if stream < 0 {
            return Err(Failure::of(stream));
        }
        if !ends {
            self.inner().bodies.insert(stream, Body::default());
        }
        Ok(stream)
    }

    /// The streams that the peer allows at a time: `u32::MAX` if it names no limit.
    pub fn most_streams(&self) -> u32 {
        let id = c::NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
        // SAFETY: no pointer but the session's is passed.
        unsafe { c::nghttp2_session_get_remote_settings(self.raw.as_ptr(), id) }
    }

    /// Sends a head before that of the response: 100, 103.
    pub fn inform(&mut self, stream: i32, status: u16, lines: &[u8]) -> Result<(), Failure> {
        let digits = digits(status);
        let mut fields = vec![field(b":status", &digits)];
        add_lines(&mut fields, lines);
        let (raw, none) = (self.raw.as_ptr(), ptr::null());
        // SAFETY: all of it lives during the call, which copies it.
        let submitted = unsafe {
            c::nghttp2_submit_headers(
                raw,
                0,
                stream,
                none,
                fields.as_ptr(),
                fields.len(),
                ptr::null_mut(),
            )
        };
        if submitted < 0 { Err(Failure::of(submitted)) } else { Ok(()) }
    }

    /// Queues a part of a body whose head was sent; the last one if `ends` is set. False if the stream is over, or its
    /// body is complete: then the part is dropped.
    pub fn push(&mut self, stream: i32, chunk: Chunk<B>, ends: bool) -> Result<bool, Failure> {
        let inner = self.inner();
        let Some(body) = inner.bodies.get_mut(&stream).filter(|body| !body.is_complete) else {
            if let Chunk::Shared(object) = chunk {
                inner.used.push(object);
            }
            return Ok(false);
        };
        body.push(chunk);
        body.is_complete = ends;
        self.resume(stream)
    }

    /// Ends a body with trailers, in lines.
    pub fn push_trailers(&mut self, stream: i32, lines: Vec<u8>) -> Result<bool, Failure> {
        let Some(body) = self.inner().bodies.get_mut(&stream).filter(|body| !body.is_complete)
        else {
            return Ok(false);
        };
        body.is_complete = true;
        body.trailers = (!lines.is_empty()).then_some(lines);
        self.resume(stream)
    }

    fn resume(&mut self, stream: i32) -> Result<bool, Failure> {
        let is_deferred = self
            .inner()
            .bodies
            .get_mut(&stream)
            .is_some_and(|body| std::mem::take(&mut body.is_deferred));
        if is_deferred {
            // SAFETY: no pointer but the session's is passed.
            checked(unsafe { c::nghttp2_session_resume_data(self.raw.as_ptr(), stream) })?;
        }
        Ok(true)
    }

    /// The length of what is queued of a body; `None` if there is no body, or its end was sent.
    pub fn unsent_bytes(&mut self, stream: i32) -> Option<usize> {
        let body = self.inner().bodies.get(&stream).filter(|body| !body.is_sent)?;
        Some(body.len_bytes())
    }

    /// The peer has opened the stream's own window.
    pub fn may_send(&self, stream: i32) -> bool {
        // SAFETY: no pointer but the session's is passed.
        unsafe { c::nghttp2_session_get_stream_remote_window_size(self.raw.as_ptr(), stream) > 0 }
    }

    /// Ends a stream at once, in both directions, unless it is over. What is queued on it is dropped.
    pub fn reset(&mut self, stream: i32, code: Code) -> Result<(), Failure> {
        let raw = self.raw.as_ptr();
        let last_begun = self.inner().last_begun;
        // A client's stream is not known before its head was sent.
        // SAFETY: no pointer but the session's is passed.
        let is_over = unsafe {
            (c::nghttp2_session_check_server_session(raw) != 0 || stream <= last_begun)
                && c::nghttp2_session_find_stream(raw, stream).is_null()
        };
        if is_over || self.inner().reset.contains(&stream) {
            return Ok(());
        }
        self.inner().reset.push(stream);
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe { c::nghttp2_submit_rst_stream(self.raw.as_ptr(), 0, stream, code.0) })
    }

    /// The peer may send this much more on a stream. It need not exist any more.
    pub fn consume(&mut self, stream: i32, len: usize) -> Result<(), Failure> {
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe { c::nghttp2_session_consume_stream(self.raw.as_ptr(), stream, len) })
    }

    /// The peer may send this much more on all streams together.
    pub fn consume_connection(&mut self, len: usize) -> Result<(), Failure> {
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe { c::nghttp2_session_consume_connection(self.raw.as_ptr(), len) })
    }

    /// Streams of the same urgency take turns: RFC 9218. Without it, the first one is sent to its end.
    pub fn take_turns(&mut self, stream: i32) -> Result<(), Failure> {
        let turns = c::nghttp2_extpri { urgency: DEFAULT_URGENCY, inc: 1 };
        // SAFETY: the session and the structure live during the call.
        checked(unsafe {
            c::nghttp2_session_change_extpri_stream_priority(
                self.raw.as_ptr(),
                stream,
                &raw const turns,
                0,
            )
        })
    }

    /// Tells the peer that this side will end the connection soon: streams that are on their way are still taken.
    pub fn give_notice(&mut self) -> Result<(), Failure> {
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe { c::nghttp2_submit_shutdown_notice(self.raw.as_ptr()) })
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self) -> Result<(), Failure> {
        // SAFETY: no pointer but the session's is passed: the eight bytes are zeros then.
        checked(unsafe { c::nghttp2_submit_ping(self.raw.as_ptr(), 0, ptr::null()) })
    }

    /// Takes no further stream. The connection is over when those that were taken are.
    pub fn go_away(&mut self, code: Code) -> Result<(), Failure> {
        let raw = self.raw.as_ptr();
        // SAFETY: no pointer but the session's is passed.
        let last = unsafe { c::nghttp2_session_get_last_proc_stream_id(raw) };
        // SAFETY: as above; there is no further data.
        checked(unsafe { c::nghttp2_submit_goaway(raw, 0, last, code.0, ptr::null(), 0) })
    }

    /// Ends the connection after a last GOAWAY.
    pub fn terminate(&mut self, code: Code) -> Result<(), Failure> {
        // SAFETY: no pointer but the session's is passed.
        checked(unsafe { c::nghttp2_session_terminate_session(self.raw.as_ptr(), code.0) })
    }
}

impl<B: AsRef<[u8]>> Drop for Session<B> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and not used after this.
        unsafe { c::nghttp2_session_del(self.raw.as_ptr()) };
        // SAFETY: leaked in `new`; the session that used them is gone.
        drop(unsafe { (Box::from_raw(self.inner.as_ptr()), Box::from_raw(self.room.as_ptr())) });
    }
}

fn digits(status: u16) -> [u8; 3] {
    let digit = |value: u16| b'0' + (value % 10) as u8;
    [digit(status / 100), digit(status / 10), digit(status)]
}

/// # Safety
/// `inner` and `room` outlive the session.
unsafe fn make<B: AsRef<[u8]>>(
    raw: &mut *mut c::nghttp2_session,
    role: Role,
    inner: NonNull<Inner<B>>,
    room: NonNull<Room>,
) -> i32 {
    let mut callbacks = ptr::null_mut();
    let mut options = ptr::null_mut();
    // SAFETY: nghttp2 makes both, each is freed below, and the session copies them; the functions have the signatures
    // that it wants.
    unsafe {
        let mut made = c::nghttp2_session_callbacks_new(&raw mut callbacks);
        if made == 0 {
            made = c::nghttp2_option_new(&raw mut options);
        }
        if made == 0 {
            let on = callbacks;
            c::nghttp2_session_callbacks_set_on_begin_headers_callback(
                on,
                Some(callbacks::on_begin_headers::<B>),
            );
            c::nghttp2_session_callbacks_set_on_header_callback(
                on,
                Some(callbacks::on_header::<B>),
            );
            c::nghttp2_session_callbacks_set_on_frame_recv_callback(
                on,
                Some(callbacks::on_frame_recv::<B>),
            );
            c::nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
                on,
                Some(callbacks::on_data_chunk_recv::<B>),
            );
            c::nghttp2_session_callbacks_set_on_stream_close_callback(
                on,
                Some(callbacks::on_stream_close::<B>),
            );
            c::nghttp2_session_callbacks_set_error_callback2(on, Some(callbacks::on_error::<B>));
            c::nghttp2_session_callbacks_set_send_data_callback(
                on,
                Some(callbacks::on_send_data::<B>),
            );
            c::nghttp2_session_callbacks_set_on_frame_send_callback(
                on,
                Some(callbacks::on_frame_send::<B>),
            );
            let invalid: c::nghttp2_on_invalid_header_callback = match role {
                Role::Server => Some(callbacks::on_invalid_request_field::<B>),
                Role::Client => Some(callbacks::on_invalid_response_field::<B>),
            };
            c::nghttp2_session_callbacks_set_on_invalid_header_callback(on, invalid);
            c::nghttp2_session_callbacks_set_rand_callback(on, Some(callbacks::on_random));
            c::nghttp2_option_set_no_auto_window_update(options, 1);
            let (data, mut memory) = (inner.as_ptr().cast(), memory::allocator(room.as_ptr()));
            let mem = &raw mut memory;
            made = match role {
                Role::Server => c::nghttp2_session_server_new3(raw, on, data, options, mem),
                Role::Client => c::nghttp2_session_client_new3(raw, on, data, options, mem),
            };
        }
        c::nghttp2_option_del(options);
        c::nghttp2_session_callbacks_del(callbacks);
        made
    }
}
