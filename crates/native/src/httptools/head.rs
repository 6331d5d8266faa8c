//! `Head`: the common parts of request and response heads, and the values for the parser's query methods.

use oneloop_http1::{
    Asked, Framing, Header, Limits, Refusal, Request, Response, Version, parse_request,
    parse_response,
};
use std::mem::MaybeUninit;

/// The limits of a head; httptools has none.
pub const LIMITS: Limits =
    Limits { line_bytes: 65_535, head_bytes: 256 * 1024, headers: 256, body_bytes: u64::MAX };

pub type Room<'a> = [MaybeUninit<Header<'a>>; 256];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Request,
    Response,
}

/// Describes the last message, for the query methods.
#[derive(Clone, Copy, Default)]
pub struct Info {
    pub version: Option<Version>,
    method: [u8; 32],
    method_len: u8,
    pub status: u16,
    pub keeps_alive: bool,
    pub upgrades: bool,
}

impl Info {
    pub fn method(&self) -> &[u8] {
        &self.method[..usize::from(self.method_len)]
    }

    /// The method was already checked, and known methods are short.
    pub fn set_method(&mut self, method: &[u8]) {
        let len = method.len().min(self.method.len());
        self.method[..len].copy_from_slice(&method[..len]);
        self.method_len = len as u8;
    }
}

/// A complete head.
pub struct Head<'a, 'h> {
    pub method: &'a [u8],
    /// The target as it was sent; empty for a response.
    pub target: &'a [u8],
    pub status: u16,
    pub version: Version,
    pub headers: &'h [Header<'a>],
    pub framing: Framing,
    pub keeps_alive: bool,
    pub upgrades: bool,
    pub len: usize,
}

#[inline]
pub fn parse<'a, 'h>(
    side: Side,
    input: &'a [u8],
    room: &'h mut Room<'a>,
) -> Result<Option<Head<'a, 'h>>, Refusal> {
    match side {
        Side::Request => {
            Ok(parse_request(input, room, &LIMITS)?.map(|request| of_request(&request)))
        }
        Side::Response => Ok(parse_response(input, room, Asked::Other, &LIMITS)?
            .map(|response| of_response(&response))),
    }
}

#[inline]
fn of_request<'a, 'h>(request: &Request<'a, 'h>) -> Head<'a, 'h> {
    Head {
        method: request.method.as_bytes(),
        target: request.target_text,
        status: 0,
        version: request.version,
        headers: request.headers,
        framing: request.framing,
        keeps_alive: request.keeps_alive,
        upgrades: request.upgrade.is_some() || request.method == "CONNECT",
        len: request.len,
    }
}

fn of_response<'a, 'h>(response: &Response<'a, 'h>) -> Head<'a, 'h> {
    Head {
        method: b"",
        target: b"",
        status: response.status,
        version: response.version,
        headers: response.headers,
        framing: response.framing,
        keeps_alive: response.keeps_alive,
        upgrades: response.is_tunnel && response.upgrade.is_some(),
        len: response.len,
    }
}
