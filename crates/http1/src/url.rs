//! `UrlParts`: splits a URL or a path, as tolerantly as programs that show paths to users need it.
//!
//! Not for request targets, which `parse_request` reads strictly: this accepts any scheme, fragments and userinfo.

use crate::characters::is_visible;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct UrlParts<'a> {
    pub schema: Option<&'a [u8]>,
    pub userinfo: Option<&'a [u8]>,
    pub host: Option<&'a [u8]>,
    pub port: Option<u16>,
    pub path: Option<&'a [u8]>,
    pub query: Option<&'a [u8]>,
    pub fragment: Option<&'a [u8]>,
}

/// A path with query and fragment, or `scheme://` with a host; `None` if it is neither. Empty parts are absent.
pub fn split_url(url: &[u8]) -> Option<UrlParts<'_>> {
    if !url.iter().all(|byte| is_visible(*byte)) {
        return None;
    }
    let mut parts = UrlParts::default();
    let mut rest = url;
    if !matches!(url.first()?, b'/' | b'*') {
        let end = url.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        rest = url[end..].strip_prefix(b"://")?;
        parts.schema = Some(filled(&url[..end])?);
        let end =
            rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        // The request form of a URL does not allow a fragment directly after the host.
        if rest.get(end) == Some(&b'#') {
            return None;
        }
        split_authority(&rest[..end], &mut parts)?;
        rest = &rest[end..];
    }
    if let Some(at) = memchr::memchr(b'#', rest) {
        let hashes = rest[at..].iter().take_while(|byte| **byte == b'#').count();
        parts.fragment = filled(&rest[at + hashes..]);
        rest = &rest[..at];
    }
    if let Some(at) = memchr::memchr(b'?', rest) {
        parts.query = filled(&rest[at + 1..]);
        rest = &rest[..at];
    }
    parts.path = filled(rest);
    Some(parts)
}

fn filled(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty()).then_some(text)
}

fn split_authority<'a>(authority: &'a [u8], parts: &mut UrlParts<'a>) -> Option<()> {
    let mut rest = authority;
    if let Some(at) = memchr::memchr(b'@', authority) {
        parts.userinfo = filled(&authority[..at]);
        rest = &authority[at + 1..];
        if !authority[..at].iter().all(|byte| is_userinfo_byte(*byte)) {
            return None;
        }
    }
    let after = if let Some(inner) = rest.strip_prefix(b"[") {
        let end = memchr::memchr(b']', inner)?;
        let (address, zone) =
            inner[..end].split_at(memchr::memchr(b'%', &inner[..end]).unwrap_or(end));
        if !address.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')) {
            return None;
        }
        if !zone.iter().all(|byte| byte.is_ascii_alphanumeric() || b"%.-_~".contains(byte)) {
            return None;
        }
        parts.host = Some(filled(&inner[..end])?);
        &inner[end + 1..]
    } else {
        let end = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
            .count();
        parts.host = Some(filled(&rest[..end])?);
        &rest[end..]
    };
    if !after.is_empty() {
        let digits = after.strip_prefix(b":")?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        parts.port = Some(std::str::from_utf8(digits).ok()?.parse().ok()?);
    }
    Some(())
}

fn is_userinfo_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.!~*'()%;:&=+$,".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::{UrlParts, split_url};

    #[test]
    fn parts() {
        let all = UrlParts {
            schema: Some(b"dsf"),
            userinfo: Some(b"i:n"),
            host: Some(b"aaa"),
            port: Some(88),
            path: Some(b"/b/c"),
            query: Some(b"aa"),
            fragment: Some(b"123"),
        };
        assert_eq!(split_url(b"dsf://i:n@aaa:88/b/c?aa#123"), Some(all));
        let path = |path| UrlParts { path: Some(path), ..UrlParts::default() };
        assert_eq!(split_url(b"////"), Some(path(b"////")));
        assert_eq!(split_url(b"*"), Some(path(b"*")));
        assert_eq!(split_url(b"/?"), Some(path(b"/")));
        assert_eq!(split_url(b"/a?b?c"), Some(UrlParts { query: Some(b"b?c"), ..path(b"/a") }));
        let address = UrlParts {
            schema: Some(b"http"),
            host: Some(b"1:2::3:4"),
            port: Some(67),
            ..path(b"/")
        };
        assert_eq!(split_url(b"http://[1:2::3:4]:67/"), Some(address));
        assert_eq!(split_url(b"http://a?b").and_then(|parts| parts.query), Some(&b"b"[..]));
    }

    #[test]
    fn what_is_no_url() {
        for bad in [
            "",
            " ",
            ":///1",
            "a",
            "http:/a",
            "http://",
            "http:///a",
            "http://a:",
            "http://a:b",
            "http://a:65536",
            "http://a b",
            "http://[g]/",
            "http://[::1",
            "http://[]",
            "dsf://a\0aa",
            "/a\n",
            "//a\u{7f}",
            "h1://a",
            "http://a@b@c",
            "http://a,b",
            "http://a_b",
            "/\u{e4}",
        ] {
            assert_eq!(split_url(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
