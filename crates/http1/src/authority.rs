//! Authorities: the value of `Host`, the part before the path of an absolute target, and the target of CONNECT.

use crate::characters::is_host_byte;
use std::net::Ipv6Addr;

/// The value of the field Host, or of `:authority`: empty if the client's URL has no authority (RFC 9112 section 3.2). The
/// server then takes itself for the one that is meant, as section 3.3 allows.
#[inline]
pub fn is_host(value: &[u8]) -> bool {
    value.is_empty() || is_authority(value)
}

/// uri-host [ ":" port ] of the schemes http and https: the host is never empty (RFC 9110 section 4.2.1), and there
/// is no userinfo (section 4.2.4). A port is empty or a number up to 65535 (RFC 3986 section 3.2.3).
#[inline]
pub fn is_authority(text: &[u8]) -> bool {
    host_end(text).is_some_and(|end| match text.get(end..) {
        Some([]) => true,
        Some([b':', port @ ..]) => port.is_empty() || is_port(port),
        _ => false,
    })
}

/// authority-form = uri-host ":" port (RFC 9112 section 3.2.3).
pub fn is_host_and_port(text: &[u8]) -> bool {
    is_authority(text) && host_end(text).is_some_and(|end| text.len() > end + 1)
}

/// The end of the host; `None` if it is missing or malformed.
#[inline]
fn host_end(text: &[u8]) -> Option<usize> {
    if let [b'[', rest @ ..] = text {
        let len = memchr::memchr(b']', rest)?;
        let (address, zone) = match memchr::memchr(b'%', &rest[..len]) {
            Some(at) => (&rest[..at], Some(&rest[at + 1..len])),
            None => (&rest[..len], None),
        };
        let address = std::str::from_utf8(address).ok()?;
        // IPvFuture, the other form, has no meaning yet (RFC 3986 section 3.2.2).
        let is_good = address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(is_zone);
        return is_good.then_some(len + 2);
    }
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|byte| is_host_byte(**byte)).count();
        if text.get(at) != Some(&b'%') {
            return (at > 0).then_some(at);
        }
        let encoded = text.get(at + 1..at + 3)?;
        if !encoded.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        at += 3;
    }
}

/// The zone of a link-local address, behind `%25` (RFC 6874) or a bare `%`. It means something to the client only, which
/// should remove it; some do not.
#[cold]
fn is_zone(text: &[u8]) -> bool {
    let name = text.strip_prefix(b"25").unwrap_or(text);
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte))
}

fn is_port(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{is_authority, is_host, is_host_and_port};

    #[test]
    fn hosts_with_and_without_a_port() {
        for good in [
            "a",
            "a.b-c_d",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8080",
            "a:",
            "%41",
            "a:65535",
            "xn--a",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]:80",
            "[fe80::1%2]",
            "[fe80::1%25eth0.1_-~]",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a:b",
            "a:65536",
            "a:80:80",
            "u@a",
            "u:p@a",
            "a/b",
            "a b",
            "a\tb",
            "[::1",
            "::1",
            "[a]",
            "[::1]x",
            "[v1.a]",
            "%4",
            "%zz",
            "a?b",
            "a#b",
            "\u{e4}",
            "a\\b",
            "a:+80",
            "a: 80",
            "[::1%]",
            "[::1%25]",
            "[::1%25a/b]",
            "[::1%25a%2f]",
            "[::1%25a@b]",
            "[%25eth0]",
            "<a>",
            "a,b:80,c:80",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_host_may_be_empty() {
        assert!(is_host(b""));
        assert!(is_host(b"a:80"));
        assert!(!is_host(b":80"));
        assert!(!is_host(b" "));
    }

    #[test]
    fn connect_needs_a_port() {
        assert!(is_host_and_port(b"a:443"));
        assert!(is_host_and_port(b"[::1]:443"));
        for bad in ["a", "a:", ":443", "", "http://a:443", "/", "*"] {
            assert!(!is_host_and_port(bad.as_bytes()), "{bad}");
        }
    }
}
