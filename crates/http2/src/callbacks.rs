//! The calls that nghttp2 makes while it receives and sends. Each gets the session's `Inner` as its last argument.
//!
//! Upholds: `Session` holds no reference to its `Inner` while nghttp2 runs, and nghttp2 calls one of these functions at
//! a time, so the reference that each of them makes is the only one.

#![expect(unsafe_code, reason = "functions that C calls")]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "what nghttp2 passes is read in one block, for one reason"
)]

use crate::body::Body;
use crate::event::{Code, Event, HeadKind};
use crate::fields::FieldList;
use crate::lines::fields_of;
use crate::watch::Watch;
use libnghttp2_sys as c;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads the numbers of streams, which follow each other.
#[derive(Default)]
pub struct StreamHasher(u64);

impl Hasher for StreamHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("streams have numbers");
    }

    fn write_i32(&mut self, stream: i32) {
        self.0 = u64::from(stream.unsigned_abs()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub type Bodies<B> = HashMap<i32, Body<B>, BuildHasherDefault<StreamHasher>>;

/// The part of a session that the callbacks use.
pub struct Inner<B> {
    pub events: Vec<Event>,
    /// The address of the input.
    pub input: usize,
    /// The head that is being received.
    pub head: Option<(i32, FieldList)>,
    pub head_fields: usize,
    pub head_bytes: usize,
    /// The bodies that are being sent.
    pub bodies: Bodies<B>,
    /// Streams whose body is sent, with its end.
    pub sent: Vec<i32>,
    /// Frames that were made.
    pub out: Vec<u8>,
    pub out_bytes: usize,
    pub used: Vec<B>,
    /// Of a server.
    pub watch: Option<Watch>,
    /// Streams that this side has reset.
    pub reset: Vec<i32>,
    /// The last stream on which this side has sent a head.
    pub last_begun: i32,
    /// Why nghttp2 has ended the connection or refused a frame: the first reason.
    pub reason: Option<String>,
}

/// # Safety
/// `user_data` is the `Inner<B>` of the session that calls.
unsafe fn inner<'a, B>(user_data: *mut c_void) -> &'a mut Inner<B> {
    // SAFETY: of this function; the only reference, see the head of the file.
    unsafe { &mut *user_data.cast::<Inner<B>>() }
}

pub unsafe extern "C" fn on_begin_headers<B>(
    _session: *mut c::nghttp2_session,
    frame: *const c::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a frame, each of which begins with its head, and what it got as user data.
    let (stream, inner) = unsafe { ((*frame).hd.stream_id, inner::<B>(user_data)) };
    inner.head = Some((stream, FieldList::default()));
    0
}

pub unsafe extern "C" fn on_header<B>(
    _session: *mut c::nghttp2_session,
    _frame: *const c::nghttp2_frame,
    name: *const u8,
    name_len: usize,
    value: *const u8,
    value_len: usize,
    _flags: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes the bytes of name and value, neither of them null.
    let (name, value) = unsafe {
        (std::slice::from_raw_parts(name, name_len), std::slice::from_raw_parts(value, value_len))
    };
    // SAFETY: as above.
    let inner = unsafe { inner::<B>(user_data) };
    if let Some((_, fields)) = &mut inner.head {
        fields.push(name, value, inner.head_fields, inner.head_bytes);
    }
    0
}

/// A field that RFC 9113 section 8.2.1 forbids and nghttp2 would leave out: the head is malformed, like one with any
/// other mistake, on which nghttp2 ends the connection.
pub unsafe extern "C" fn on_invalid_request_field<B>(
    session: *mut c::nghttp2_session,
    frame: *const c::nghttp2_frame,
    name: *const u8,
    name_len: usize,
    _value: *const u8,
    _value_len: usize,
    _flags: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes the bytes of the name, not null, a frame, and what it got as user data.
    let (name, stream, inner) = unsafe {
        let name = std::slice::from_raw_parts(name, name_len);
        (name, (*frame).hd.stream_id, inner::<B>(user_data))
    };
    inner.reason.get_or_insert_with(|| {
        let name = String::from_utf8_lossy(name);
        format!("a header field that is not valid: stream: {stream}, name: {name:?}")
    });
    // SAFETY: nghttp2 allows this call here.
    unsafe { c::nghttp2_session_terminate_session(session, Code::PROTOCOL_ERROR.0) }
}

/// The kind of a head that was received.
fn kind_of(category: c::nghttp2_headers_category, fields: &FieldList) -> HeadKind {
    if category == c::NGHTTP2_HCAT_REQUEST {
        return HeadKind::Request;
    }
    match fields.get(b":status") {
        Some([b'1', ..]) => HeadKind::Interim,
        Some(_) => HeadKind::Response,
        None => HeadKind::Trailers,
    }
}

/// The same in a response: only its stream ends.
pub unsafe extern "C" fn on_invalid_response_field<B>(
    _session: *mut c::nghttp2_session,
    _frame: *const c::nghttp2_frame,
    name: *const u8,
    name_len: usize,
    _value: *const u8,
    _value_len: usize,
    _flags: u8,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes the bytes of the name, and what it got as user data.
    let (name, inner) =
        unsafe { (std::slice::from_raw_parts(name, name_len), inner::<B>(user_data)) };
    let text = || format!("the field {:?} is not allowed", String::from_utf8_lossy(name));
    inner.reason.get_or_insert_with(text);
    c::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
}

pub unsafe extern "C" fn on_frame_recv<B>(
    _session: *mut c::nghttp2_session,
    frame: *const c::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a frame, each of which begins with its head, and what it got as user data.
    let (hd, inner) = unsafe { ((*frame).hd, inner::<B>(user_data)) };
    let stream = hd.stream_id;
    let ends = u32::from(hd.flags) & c::NGHTTP2_FLAG_END_STREAM != 0;
    match u32::from(hd.type_) {
        c::NGHTTP2_HEADERS => {
            // SAFETY: it is a frame of this type.
            let category = unsafe { (*frame).headers.cat };
            if let Some((_, fields)) = inner.head.take() {
                let kind = kind_of(category, &fields);
                inner.events.push(Event::Head { stream, kind, fields });
            }
            if ends {
                inner.events.push(Event::End { stream });
            }
        }
        c::NGHTTP2_DATA if ends => inner.events.push(Event::End { stream }),
        c::NGHTTP2_GOAWAY => {
            // SAFETY: it is a frame of this type.
            let (last_stream, code) =
                unsafe { ((*frame).goaway.last_stream_id, (*frame).goaway.error_code) };
            inner.events.push(Event::GoAway { last_stream, code: Code(code) });
        }
        c::NGHTTP2_SETTINGS if u32::from(hd.flags) & c::NGHTTP2_FLAG_ACK == 0 => {
            inner.events.push(Event::Settings);
        }
        _ => {}
    }
    0
}

pub unsafe extern "C" fn on_data_chunk_recv<B>(
    _session: *mut c::nghttp2_session,
    _flags: u8,
    stream: i32,
    data: *const u8,
    len: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes what it got as user data.
    let inner = unsafe { inner::<B>(user_data) };
    // nghttp2 copies no data: it is a part of the input.
    inner.events.push(Event::Data { stream, start: data.addr() - inner.input, len });
    0
}

pub unsafe extern "C" fn on_stream_close<B: AsRef<[u8]>>(
    _session: *mut c::nghttp2_session,
    stream: i32,
    code: u32,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes what it got as user data.
    let inner = unsafe { inner::<B>(user_data) };
    if let Some(mut body) = inner.bodies.remove(&stream) {
        body.clear(&mut inner.used);
    }
    if inner.head.as_ref().is_some_and(|(other, _)| *other == stream) {
        inner.head = None;
    }
    let by_us = inner.reset.iter().position(|other| *other == stream);
    if let Some(at) = by_us {
        inner.reset.swap_remove(at);
    }
    // Otherwise nghttp2 has reset it: more of it may be on its way.
    let has_ended = by_us.is_none() && Code(code) == Code::NO_ERROR;
    if let (true, Some(watch)) = (has_ended, &mut inner.watch) {
        watch.stream_over(stream);
    }
    inner.events.push(Event::Closed { stream, code: Code(code) });
    0
}

pub unsafe extern "C" fn on_error<B>(
    _session: *mut c::nghttp2_session,
    _code: c_int,
    text: *const c_char,
    len: usize,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes `len` bytes of text, and what it got as user data.
    let (text, inner) =
        unsafe { (std::slice::from_raw_parts(text.cast::<u8>(), len), inner::<B>(user_data)) };
    inner.reason.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
    0
}

/// The next DATA frame of a stream: how long it is.
pub unsafe extern "C" fn on_read<B: AsRef<[u8]>>(
    session: *mut c::nghttp2_session,
    stream: i32,
    _buffer: *mut u8,
    most: usize,
    flags: *mut u32,
    _source: *mut c::nghttp2_data_source,
    user_data: *mut c_void,
) -> isize {
    // SAFETY: nghttp2 passes what it got as user data.
    let inner = unsafe { inner::<B>(user_data) };
    let Some(body) = inner.bodies.get_mut(&stream) else {
        return c::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE as isize;
    };
    let len = body.len_bytes().min(most);
    if len == 0 && !body.is_complete {
        body.is_deferred = true;
        return c::NGHTTP2_ERR_DEFERRED as isize;
    }
    let mut set = c::NGHTTP2_DATA_FLAG_NO_COPY;
    if body.is_complete && len == body.len_bytes() {
        set |= c::NGHTTP2_DATA_FLAG_EOF;
        body.is_sent = true;
        if let Some(lines) = body.trailers.take() {
            set |= c::NGHTTP2_DATA_FLAG_NO_END_STREAM;
            let mut fields = fields_of(&lines);
            // SAFETY: nghttp2 allows this call here, and copies the fields.
            let submitted = unsafe {
                c::nghttp2_submit_trailer(session, stream, fields.as_mut_ptr(), fields.len())
            };
            if submitted != 0 {
                return c::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE as isize;
            }
        }
    }
    // SAFETY: nghttp2 passes a flag to set.
    unsafe { *flags |= set };
    isize::try_from(len).unwrap_or(0)
}

/// Frames what `on_read` has announced.
pub unsafe extern "C" fn on_send_data<B: AsRef<[u8]>>(
    _session: *mut c::nghttp2_session,
    frame: *mut c::nghttp2_frame,
    head: *const u8,
    len: usize,
    _source: *mut c::nghttp2_data_source,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a frame, nine bytes of its head, and what it got as user data.
    let (stream, head, inner) = unsafe {
        ((*frame).hd.stream_id, std::slice::from_raw_parts(head, 9), inner::<B>(user_data))
    };
    let Some(body) = inner.bodies.get_mut(&stream) else {
        return c::NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    };
    inner.out.extend_from_slice(head);
    body.take(len, &mut inner.out, &mut inner.used);
    if inner.out.len() >= inner.out_bytes { c::NGHTTP2_ERR_PAUSE } else { 0 }
}

/// A frame was made: whether it ends its stream on this side.
pub unsafe extern "C" fn on_frame_send<B>(
    _session: *mut c::nghttp2_session,
    frame: *const c::nghttp2_frame,
    user_data: *mut c_void,
) -> c_int {
    // SAFETY: nghttp2 passes a frame, each of which begins with its head, and what it got as user data.
    let (hd, inner) = unsafe { ((*frame).hd, inner::<B>(user_data)) };
    if u32::from(hd.type_) == c::NGHTTP2_HEADERS {
        inner.last_begun = inner.last_begun.max(hd.stream_id);
    }
    let ends = u32::from(hd.flags) & c::NGHTTP2_FLAG_END_STREAM != 0;
    if ends && matches!(u32::from(hd.type_), c::NGHTTP2_DATA | c::NGHTTP2_HEADERS) {
        inner.sent.push(hd.stream_id);
    }
    if u32::from(hd.type_) == c::NGHTTP2_GOAWAY {
        // SAFETY: it is a frame of this type.
        let code = Code(unsafe { (*frame).goaway.error_code });
        // nghttp2 names no reason for some errors. The last two are those of floods.
        let is_error = !matches!(code, Code::NO_ERROR | Code::INTERNAL_ERROR | Code::CALM);
        if is_error {
            inner.reason.get_or_insert_with(|| code.name().to_owned());
        }
    }
    0
}

/// Random bytes, for the hash of streams.
pub unsafe extern "C" fn on_random(room: *mut u8, len: usize) {
    // SAFETY: nghttp2 passes `len` bytes of room. They stay as they are if the kernel has none, which it always has
    // for a few.
    let _ = unsafe { libc::getrandom(room.cast(), len, libc::GRND_NONBLOCK) };
}
