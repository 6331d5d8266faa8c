//! `Agreement`: the offer of permessage-deflate that a server accepts (RFC 6455 section 9.1, RFC 7692 section 7.1).
//!
//! A field that violates the grammar ends the handshake. An offer with an unknown or repeated parameter or an invalid
//! value is declined, and the next one is tried.

use crate::deflate::DeflateParams;
use crate::refusal::Refusal;
use crate::token::{is_token, is_token_byte};
use std::cmp;
use std::fmt::Write;

const BAD: Refusal = Refusal::bad("bad Sec-WebSocket-Extensions");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    pub params: DeflateParams,
    /// The value of the response's `Sec-WebSocket-Extensions`.
    pub response: String,
}

/// Accepts the first acceptable offer, within the server's limits; `None` without one.
pub fn negotiate<'a>(
    fields: impl IntoIterator<Item = &'a [u8]>,
    allowed: DeflateParams,
) -> Result<Option<Agreement>, Refusal> {
    let mut agreement = None;
    for field in fields {
        let mut rest = Rest { bytes: field };
        loop {
            rest.skip_spaces();
            if rest.bytes.is_empty() {
                break;
            }
            // A list may have empty elements (RFC 9110 section 5.6.1.2).
            if !rest.skip(b',') {
                let offer = Offer::parse(&mut rest)?;
                agreement = agreement.or_else(|| offer.and_then(|offer| offer.accept(allowed)));
            }
        }
    }
    Ok(agreement)
}

/// The parameters of one offer of permessage-deflate.
#[derive(Default)]
struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// 15 if it has no value.
    client_max_window_bits: Option<u8>,
}

impl Offer {
    /// Parses one element of the list; `None` if it is another extension or not acceptable.
    fn parse(rest: &mut Rest<'_>) -> Result<Option<Self>, Refusal> {
        let mut offer = Self::default();
        let mut is_acceptable = rest.token()?.eq_ignore_ascii_case(b"permessage-deflate");
        loop {
            rest.skip_spaces();
            if rest.bytes.is_empty() || rest.skip(b',') {
                return Ok(is_acceptable.then_some(offer));
            }
            if !rest.skip(b';') {
                return Err(BAD);
            }
            rest.skip_spaces();
            let name = rest.token()?;
            rest.skip_spaces();
            let value = if rest.skip(b'=') { Some(rest.value()?) } else { None };
            is_acceptable = is_acceptable && offer.take(name, value.as_deref());
        }
    }

    /// Whether the parameter is known, not repeated, and has a valid value.
    fn take(&mut self, name: &[u8], value: Option<&[u8]>) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let bits = value.and_then(window_bits);
        if is("server_no_context_takeover") {
            return value.is_none()
                && !std::mem::replace(&mut self.server_no_context_takeover, true);
        }
        if is("client_no_context_takeover") {
            return value.is_none()
                && !std::mem::replace(&mut self.client_no_context_takeover, true);
        }
        if is("server_max_window_bits") {
            return bits.is_some()
                && self.server_max_window_bits.replace(bits.unwrap_or(15)).is_none();
        }
        if is("client_max_window_bits") {
            let is_right = bits.is_some() || value.is_none();
            return is_right && self.client_max_window_bits.replace(bits.unwrap_or(15)).is_none();
        }
        false
    }

    fn accept(&self, allowed: DeflateParams) -> Option<Agreement> {
        let mut response = String::from("permessage-deflate");
        let server_bits = cmp::min(
            self.server_max_window_bits.unwrap_or(15),
            allowed.server_max_window_bits.clamp(8, 15),
        );
        // Only a client that offers the parameter can limit itself to a smaller window.
        let client_bits = self
            .client_max_window_bits
            .map_or(15, |bits| cmp::min(bits, allowed.client_max_window_bits.clamp(8, 15)));
        let params = DeflateParams {
            server_no_context_takeover: self.server_no_context_takeover
                || allowed.server_no_context_takeover,
            client_no_context_takeover: self.client_no_context_takeover
                || allowed.client_no_context_takeover,
            server_max_window_bits: server_bits,
            client_max_window_bits: client_bits,
        };
        if params.server_no_context_takeover {
            response.push_str("; server_no_context_takeover");
        }
        if params.client_no_context_takeover {
            response.push_str("; client_no_context_takeover");
        }
        // An offer with this parameter is accepted by including it (RFC 7692 section 7.1.2.1).
        if server_bits < 15 || self.server_max_window_bits.is_some() {
            write!(response, "; server_max_window_bits={server_bits}").ok()?;
        }
        if client_bits < 15 {
            write!(response, "; client_max_window_bits={client_bits}").ok()?;
        }
        Some(Agreement { params, response })
    }
}

/// A decimal number from 8 to 15 without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

/// The rest of a field.
struct Rest<'a> {
    bytes: &'a [u8],
}

impl<'a> Rest<'a> {
    fn skip_spaces(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.bytes {
            self.bytes = rest;
        }
    }

    fn skip(&mut self, byte: u8) -> bool {
        let Some(rest) = self.bytes.strip_prefix(&[byte]) else { return false };
        self.bytes = rest;
        true
    }

    fn token(&mut self) -> Result<&'a [u8], Refusal> {
        let end = self.bytes.iter().position(|byte| !is_token_byte(*byte));
        let (token, rest) = self.bytes.split_at(end.unwrap_or(self.bytes.len()));
        self.bytes = rest;
        if token.is_empty() { Err(BAD) } else { Ok(token) }
    }

    /// A token, or a quoted string that contains one.
    fn value(&mut self) -> Result<Vec<u8>, Refusal> {
        self.skip_spaces();
        if !self.skip(b'"') {
            return Ok(self.token()?.to_vec());
        }
        let mut value = Vec::new();
        loop {
            let (&byte, rest) = self.bytes.split_first().ok_or(BAD)?;
            self.bytes = rest;
            match byte {
                b'"' if is_token(&value) => return Ok(value),
                b'"' => return Err(BAD),
                b'\\' => {
                    let (&escaped, rest) = self.bytes.split_first().ok_or(BAD)?;
                    self.bytes = rest;
                    value.push(escaped);
                }
                byte => value.push(byte),
            }
        }
    }
}
