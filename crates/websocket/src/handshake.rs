//! The server's part of the opening handshake (RFC 6455 section 4.2): checks the request's fields, writes the response.
//!
//! The HTTP parser checks Host, duplicate fields in general and the limits of the head.

use crate::negotiation::Agreement;
pub use crate::refusal::Refusal;
use crate::token::is_token;

/// Appended to the key before it is hashed (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The maximum number of subprotocols, because each is compared with all previous ones.
const MAX_PROTOCOLS: usize = 64;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The client's request.
#[derive(Debug)]
pub struct Upgrade<'a> {
    pub key: &'a [u8],
    /// In the client's order of preference.
    pub protocols: Vec<&'a str>,
    /// The values of `Sec-WebSocket-Extensions`, for `negotiation::negotiate`.
    pub extensions: Vec<&'a [u8]>,
}

impl<'a> Upgrade<'a> {
    /// Checks a request whose `Upgrade` field names WebSocket; see `asks_for`.
    pub fn check(
        method: &str,
        is_http_1_1: bool,
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, Refusal> {
        if method != "GET" {
            return Err(Refusal { status: 405, reason: "WebSocket handshake is not a GET" });
        }
        if !is_http_1_1 {
            return Err(Refusal::bad("WebSocket handshake is not HTTP/1.1"));
        }
        let mut found = Found::default();
        for (name, value) in fields {
            found.take(name, value)?;
        }
        found.into_upgrade()
    }
}

impl<'a> Upgrade<'a> {
    /// Checks a request of HTTP/2 whose `:protocol` is `websocket` (RFC 8441 section 5): it has no key, and none of the
    /// fields that are about the connection.
    pub fn check_connect(
        fields: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, Refusal> {
        let mut found = Found::default();
        for (name, value) in fields {
            found.take(name, value)?;
        }
        if found.version != Some(b"13") {
            return Err(WRONG_VERSION);
        }
        Ok(Upgrade { key: b"", protocols: found.protocols, extensions: found.extensions })
    }
}

const WRONG_VERSION: Refusal = Refusal { status: 426, reason: "WebSocket version is not 13" };

#[derive(Default)]
struct Found<'a> {
    is_connection: bool,
    is_upgrade: bool,
    key: Option<&'a [u8]>,
    version: Option<&'a [u8]>,
    protocols: Vec<&'a str>,
    extensions: Vec<&'a [u8]>,
}

impl<'a> Found<'a> {
    fn take(&mut self, name: &str, value: &'a [u8]) -> Result<(), Refusal> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is("connection") {
            self.is_connection |= has_token(value, b"upgrade");
        } else if is("upgrade") {
            self.is_upgrade |= asks_for(value);
        } else if is("sec-websocket-key") {
            if self.key.replace(value).is_some() {
                return Err(Refusal::bad("Sec-WebSocket-Key twice"));
            }
        } else if is("sec-websocket-version") {
            if self.version.replace(value).is_some() {
                return Err(Refusal::bad("Sec-WebSocket-Version twice"));
            }
        } else if is("sec-websocket-protocol") {
            self.take_protocols(value)?;
        } else if is("sec-websocket-extensions") {
            self.extensions.push(value);
        } else if is("transfer-encoding") || (is("content-length") && value != b"0") {
            // It would be ambiguous whether body or frames follow the head.
            return Err(Refusal::bad("WebSocket handshake has a body"));
        }
        Ok(())
    }

    fn take_protocols(&mut self, value: &'a [u8]) -> Result<(), Refusal> {
        for item in elements(value) {
            let name = match std::str::from_utf8(item) {
                Ok(name) if is_token(item) => name,
                _ => return Err(Refusal::bad("bad Sec-WebSocket-Protocol")),
            };
            if self.protocols.contains(&name) {
                return Err(Refusal::bad("Sec-WebSocket-Protocol names a subprotocol twice"));
            }
            if self.protocols.len() == MAX_PROTOCOLS {
                return Err(Refusal::bad("too many subprotocols"));
            }
            self.protocols.push(name);
        }
        Ok(())
    }

    fn into_upgrade(self) -> Result<Upgrade<'a>, Refusal> {
        if !self.is_upgrade {
            return Err(Refusal::bad("Upgrade: websocket is missing"));
        }
        if !self.is_connection {
            return Err(Refusal::bad("Connection: upgrade is missing"));
        }
        if self.version != Some(b"13") {
            return Err(WRONG_VERSION);
        }
        let key = self.key.ok_or(Refusal::bad("no Sec-WebSocket-Key"))?;
        if !is_key(key) {
            return Err(Refusal::bad("bad Sec-WebSocket-Key"));
        }
        Ok(Upgrade { key, protocols: self.protocols, extensions: self.extensions })
    }
}

/// Whether the value of an `Upgrade` field includes WebSocket.
pub fn asks_for(upgrade: &[u8]) -> bool {
    has_token(upgrade, b"websocket")
}

/// The value of `Sec-WebSocket-Accept`: the hash of the key, in base64.
pub fn accept_key(key: &[u8]) -> [u8; 28] {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key);
    hash.update(GUID);
    let mut digest = [0; 21];
    digest[..20].copy_from_slice(&hash.digest().bytes());
    let mut accept = [0; 28];
    for (triple, quad) in digest.chunks(3).zip(accept.chunks_mut(4)) {
        let bits = triple.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        for (place, character) in quad.iter_mut().enumerate() {
            *character = BASE64[bits >> (18 - 6 * place) & 0x3F];
        }
    }
    // Twenty bytes leave two for the last triple.
    accept[27] = b'=';
    accept
}

/// Appends the start of the 101 response to `out`.
pub fn write_accept(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n");
    out.extend_from_slice(b"Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    out.extend_from_slice(&accept_key(key));
    out.extend_from_slice(b"\r\n");
}

/// Appends the fields that say what both sides have agreed on.
pub fn write_agreed(out: &mut Vec<u8>, protocol: Option<&str>, agreement: Option<&Agreement>) {
    if let Some(protocol) = protocol {
        out.extend_from_slice(b"sec-websocket-protocol: ");
        out.extend_from_slice(protocol.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Some(agreement) = agreement {
        out.extend_from_slice(b"sec-websocket-extensions: ");
        out.extend_from_slice(agreement.response.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Sixteen bytes in base64. The unused bits of the last character are ignored, as other servers do.
fn is_key(key: &[u8]) -> bool {
    key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(|byte| BASE64.contains(byte))
}

fn has_token(value: &[u8], token: &[u8]) -> bool {
    elements(value).any(|item| item.eq_ignore_ascii_case(token))
}

/// The elements of a list, without the empty ones (RFC 9110 section 5.6.1.2).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty())
}
