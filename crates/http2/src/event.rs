//! `Event`: what was received.

use crate::fields::FieldList;

/// Error codes: RFC 9113 section 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub u32);

impl Code {
    pub const NO_ERROR: Self = Self(0);
    pub const PROTOCOL_ERROR: Self = Self(1);
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const STREAM_CLOSED: Self = Self(5);
    pub const REFUSED_STREAM: Self = Self(7);
    pub const CANCEL: Self = Self(8);
    /// ENHANCE_YOUR_CALM.
    pub const CALM: Self = Self(11);

    /// The name in the RFC.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("an unknown error")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadKind {
    Request,
    /// With a status below 200: another head follows.
    Interim,
    Response,
    Trailers,
}

#[derive(Debug)]
pub enum Event {
    Head {
        stream: i32,
        kind: HeadKind,
        fields: FieldList,
    },
    /// A part of a body: a range of the bytes that were given to `Session::receive`.
    Data {
        stream: i32,
        start: usize,
        len: usize,
    },
    /// The peer sends nothing more on this stream.
    End {
        stream: i32,
    },
    /// The stream is over: after the end of both sides, or because one has reset it.
    Closed {
        stream: i32,
        code: Code,
    },
    /// The peer opens no stream after this one, and takes none.
    GoAway {
        last_stream: i32,
        code: Code,
    },
    /// The peer's settings.
    Settings,
}
