//! `parse`: the PROXY protocol, versions 1 and 2: a load balancer sends its client's address before a connection's
//! first bytes.
//!
//! <https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>. Strict: if a listener expects this header, a
//! connection without it is closed. The connection's own data (TLS or HTTP) begins after the header.

use crate::Refusal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The proxy's description of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// The client of the proxy and the address it connected to. Both have the same address family.
    Proxied { source: SocketAddr, destination: SocketAddr },
    /// The proxy connects for itself (a health check), or for a client without an internet address: use the peer's
    /// address.
    Local,
}

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Section 2.1: the maximum line of version 1, including CRLF.
const LONGEST_LINE: usize = 107;
/// A header of version 2 may have 64 KiB of extensions; proxies send at most a few hundred bytes.
const LONGEST_BLOCK: usize = 4096;
const FIXED_LEN: usize = 16;

/// The header at the beginning of `bytes`, and its length; `None` if more bytes are needed.
///
/// # Errors
/// The bytes do not begin with a valid header. Status 400, for the log: such a client gets no response.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Refusal> {
    let common = SIGNATURE.len().min(bytes.len());
    if bytes[..common] == SIGNATURE[..common] {
        return if bytes.len() < FIXED_LEN { check_beginning(bytes) } else { parse_block(bytes) };
    }
    let common = b"PROXY ".len().min(bytes.len());
    if bytes[..common] == b"PROXY "[..common] {
        return parse_line(bytes);
    }
    Err(Refusal::bad("the connection does not begin with a PROXY protocol header"))
}

/// Checks what can be checked of version 2 before its length is known.
fn check_beginning(bytes: &[u8]) -> Result<Option<(Header, usize)>, Refusal> {
    match bytes.get(12) {
        Some(version_command) => check_version(*version_command).map(|_| None),
        None => Ok(None),
    }
}

/// Whether the command is PROXY (and not LOCAL).
fn check_version(version_command: u8) -> Result<bool, Refusal> {
    match version_command {
        0x20 => Ok(false),
        0x21 => Ok(true),
        _ => Err(Refusal::bad("the PROXY protocol header has an unknown version or command")),
    }
}

fn parse_block(bytes: &[u8]) -> Result<Option<(Header, usize)>, Refusal> {
    let is_proxied = check_version(bytes[12])?;
    let len = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if len > LONGEST_BLOCK {
        return Err(Refusal::bad("the PROXY protocol header is too long"));
    }
    let Some(block) = bytes.get(FIXED_LEN..FIXED_LEN + len) else { return Ok(None) };
    // The high half is the address family, the low half the transport.
    let (header, addresses_len) = match bytes[13] {
        0x11 => (ipv4_block(block), 12),
        0x21 => (ipv6_block(block), 36),
        // Unspecified, and unix sockets: accepted and not used, as the specification requires.
        0x00 => (Some(Header::Local), 0),
        0x31 => (Some(Header::Local), 216),
        _ if is_proxied => {
            return Err(Refusal::bad("the PROXY protocol header has an unknown address family"));
        }
        _ => (Some(Header::Local), 0),
    };
    if !is_proxied {
        // Section 2.2: the addresses of LOCAL are discarded.
        check_extensions(block, addresses_len.min(block.len()))?;
        return Ok(Some((Header::Local, FIXED_LEN + len)));
    }
    let header = header.filter(|_| block.len() >= addresses_len);
    let header = header.ok_or(Refusal::bad("the PROXY protocol header has no addresses"))?;
    check_extensions(block, addresses_len)?;
    Ok(Some((header, FIXED_LEN + len)))
}

fn ipv4_block(block: &[u8]) -> Option<Header> {
    let (source, rest) = block.split_first_chunk::<4>()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let (ports, _) = rest.split_first_chunk::<4>()?;
    Some(proxied(Ipv4Addr::from(*source).into(), Ipv4Addr::from(*destination).into(), *ports))
}

fn ipv6_block(block: &[u8]) -> Option<Header> {
    let (source, rest) = block.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let (ports, _) = rest.split_first_chunk::<4>()?;
    Some(proxied(Ipv6Addr::from(*source).into(), Ipv6Addr::from(*destination).into(), *ports))
}

fn proxied(source: IpAddr, destination: IpAddr, ports: [u8; 4]) -> Header {
    let [a, b, c, d] = ports;
    Header::Proxied {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
    }
}

/// The extensions after the addresses: each has a type, two bytes of length, and a value. They must end with the
/// header.
fn check_extensions(block: &[u8], begin: usize) -> Result<(), Refusal> {
    let mut rest = &block[begin..];
    while !rest.is_empty() {
        let value_len = rest.get(1..3).map(|len| usize::from(u16::from_be_bytes([len[0], len[1]])));
        rest = value_len
            .and_then(|len| rest.get(3 + len..))
            .ok_or(Refusal::bad("the PROXY protocol header has malformed extensions"))?;
    }
    Ok(())
}

fn parse_line(bytes: &[u8]) -> Result<Option<(Header, usize)>, Refusal> {
    let looked_at = &bytes[..bytes.len().min(LONGEST_LINE)];
    let end = looked_at.iter().position(|byte| *byte == b'\n');
    // Only printable characters and spaces, and a carriage return as the last byte so far.
    let (last, others) =
        looked_at[..end.unwrap_or(looked_at.len())].split_last().unwrap_or((&b' ', &[]));
    let is_possible = others.iter().all(|b| (b' '..=b'~').contains(b))
        && ((b' '..=b'~').contains(last) || *last == b'\r');
    if !is_possible || (end.is_none() && bytes.len() >= LONGEST_LINE) {
        return Err(Refusal::bad("the PROXY protocol line is too long or has invalid characters"));
    }
    let Some(end) = end else { return Ok(None) };
    let wrong = Refusal::bad("the PROXY protocol line is malformed");
    let line = bytes[..end].strip_suffix(b"\r").ok_or(wrong)?;
    let line = std::str::from_utf8(line).map_err(|_| wrong)?;
    let header = header_of(line).ok_or(wrong)?;
    Ok(Some((header, end + 1)))
}

fn header_of(line: &str) -> Option<Header> {
    let rest = line.strip_prefix("PROXY ")?;
    // Section 2.1: the text after UNKNOWN is ignored.
    if rest == "UNKNOWN" || rest.starts_with("UNKNOWN ") {
        return rest.bytes().all(|byte| (b' '..=b'~').contains(&byte)).then_some(Header::Local);
    }
    let mut words = rest.split(' ');
    let family = words.next()?;
    let (source, destination) = (words.next()?, words.next()?);
    let (source_port, destination_port) = (port_of(words.next()?)?, port_of(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    let (source, destination): (IpAddr, IpAddr) = match family {
        "TCP4" => {
            (source.parse::<Ipv4Addr>().ok()?.into(), destination.parse::<Ipv4Addr>().ok()?.into())
        }
        "TCP6" => {
            (source.parse::<Ipv6Addr>().ok()?.into(), destination.parse::<Ipv6Addr>().ok()?.into())
        }
        _ => return None,
    };
    Some(Header::Proxied {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

/// Digits without leading zeros, up to 65535.
fn port_of(word: &str) -> Option<u16> {
    let is_canonical = word == "0" || !word.starts_with('0');
    (is_canonical && word.bytes().all(|byte| byte.is_ascii_digit())).then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests;
