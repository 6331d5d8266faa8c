//! Every rule of a request's head; each case whole, split at every byte, and with bytes after it.

mod incomplete;

use super::{Request, parse_request};
use crate::cuts::outcome_of_prefixes;
use crate::head::{Framing, Header, Version};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::target::Target;
use std::mem::MaybeUninit;

/// The values to compare: the request's parts as text, or the refusal's status.
type Answer = Result<String, u16>;

fn read(input: &[u8], limits: &Limits) -> Option<Answer> {
    with_request(input, limits, |request| {
        format!(
            "{} {} {} {:?} {:?} {:?} {} {} {:?} {} {:?}",
            request.method,
            request.path.escape_ascii(),
            request.query.escape_ascii(),
            request.target,
            request.version,
            request.framing,
            request.keeps_alive,
            request.expects_continue,
            request.upgrade.map(|value| value.escape_ascii().to_string()),
            request.len,
            request.headers,
        )
    })
    .map(|answer| answer.map_err(|refusal| refusal.status))
}

fn with_request<T>(
    input: &[u8],
    limits: &Limits,
    look: impl Fn(&Request) -> T,
) -> Option<Result<T, Refusal>> {
    let mut fields = [MaybeUninit::<Header>::uninit(); 20];
    parse_request(input, &mut fields, limits)
        .transpose()
        .map(|answer| answer.map(|request| look(&request)))
}

/// The answer, which must not depend on how the input is split or on the bytes after the head.
fn answer_to(input: &[u8], limits: &Limits) -> Option<Answer> {
    let answer = outcome_of_prefixes(input, |prefix| read(prefix, limits));
    if answer.is_some() {
        for tail in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\r\n", b"\n", b"\0\xff"] {
            assert_eq!(read(&[input, tail].concat(), limits), answer, "{}", input.escape_ascii());
        }
    }
    answer
}

fn status_of(input: &str) -> Option<u16> {
    match answer_to(input.as_bytes(), &Limits::default())? {
        Ok(_) => Some(200),
        Err(status) => Some(status),
    }
}

fn check<T: PartialEq + std::fmt::Debug>(input: &str, look: impl Fn(&Request) -> T, wanted: T) {
    assert_eq!(status_of(input), Some(200), "{input:?}");
    let seen = with_request(input.as_bytes(), &Limits::default(), look);
    assert_eq!(seen.expect("complete").expect("accepted"), wanted, "{input:?}");
}

/// A head with these fields, which include their line ends.
fn with_fields(fields: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_usual_request() {
    let input = "GET /a/b?c=d HTTP/1.1\r\nHost: x:80\r\nAccept: */*\r\n\r\n";
    check(
        input,
        |request| (request.method.to_owned(), request.path.to_vec(), request.query.to_vec()),
        ("GET".into(), b"/a/b".to_vec(), b"c=d".to_vec()),
    );
    check(
        input,
        |request| (request.version, request.framing, request.keeps_alive),
        (Version::Http11, Framing::None, true),
    );
    check(input, |request| (request.headers.len(), request.len), (2, input.len()));
    check(input, |request| request.target == Target::Origin, true);
    // RFC 9112 section 2.2: empty lines before the request line are skipped.
    check(&format!("\r\n\r\n{input}"), |request| request.len, input.len() + 4);
}

/// RFC 9112 section 2.2: a recipient may accept a bare LF as a line end; this one does not. A bare CR is never one.
#[test]
fn line_ends() {
    let good = "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
    for (at, _) in good.match_indices('\r') {
        let mut bare = good.to_owned();
        bare.remove(at);
        assert_eq!(status_of(&bare), Some(400), "{bare:?}");
        let mut doubled = good.to_owned();
        doubled.insert(at, '\r');
        assert_eq!(status_of(&doubled), Some(400), "{doubled:?}");
    }
    for bad in [
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\rGET / HTTP/1.1\r\n",
    ] {
        assert_eq!(status_of(bad), Some(400), "{bad:?}");
    }
    for bad in
        ["A: b\rc\r\n", "A\r: b\r\n", "A: b\r", "\rA: b\r\n", "A:\n", "A:\r", "A: b\nC: d\r\n"]
    {
        assert_eq!(status_of(&with_fields(bad)), Some(400), "{bad:?}");
    }
}

/// RFC 9112 section 5.1: no white space before the colon; 5.2: obs-fold is refused; RFC 9110 section 5.5: values.
#[test]
fn field_lines() {
    for bad in [
        "A : b\r\n",
        "A\t: b\r\n",
        " A: b\r\n",
        "\tA: b\r\n",
        "A: b\r\n c\r\n",
        "A: b\r\n\tc\r\n",
        ": b\r\n",
        "A\r\n",
        "A b: c\r\n",
        "(A): b\r\n",
        "A\0: b\r\n",
        "A: \0\r\n",
        "A: b\0c\r\n",
        "A: \x01\r\n",
        "A: b\x0bc\r\n",
        "A: \x7f\r\n",
        "\u{e4}: b\r\n",
        "A@: b\r\n",
        "A[]: b\r\n",
        "\"A\": b\r\n",
        "A/: b\r\n",
        "A=b\r\n",
    ] {
        assert_eq!(status_of(&with_fields(bad)), Some(400), "{bad:?}");
    }
    for (line, value) in [
        ("A:b", "b"),
        ("A: \t b \t", "b"),
        ("A:", ""),
        ("A: \t ", ""),
        ("A: b\tc", "b\tc"),
        ("A: \u{e4}", "\u{e4}"),
    ] {
        check(
            &with_fields(&format!("{line}\r\n")),
            |request| request.headers[1].value.to_vec(),
            value.as_bytes().to_vec(),
        );
    }
}

/// Every byte at every position of the vectors that httparse uses.
#[test]
fn every_byte_at_many_places() {
    for byte in 0..=255_u8 {
        for before in [0, 1, 7, 8, 15, 16, 31, 32, 40] {
            let pad = vec![b'p'; before];
            let tail = [b'p'; 40];
            let value =
                [b"GET / HTTP/1.1\r\nHost: a\r\nA: ", &pad[..], &[byte], &tail, b"\r\n\r\n"]
                    .concat();
            let is_good = byte == b'\t' || (byte >= b' ' && byte != 0x7f);
            assert_eq!(
                read(&value, &Limits::default()).map(|answer| answer.is_ok()),
                Some(is_good),
                "value {byte} {before}"
            );
            let name = [b"GET / HTTP/1.1\r\nHost: a\r\n", &pad[..], &[byte], &tail, b": b\r\n\r\n"]
                .concat();
            let is_good = crate::characters::is_token_byte(byte) || (byte == b':' && before > 0);
            assert_eq!(
                read(&name, &Limits::default()).map(|answer| answer.is_ok()),
                Some(is_good),
                "name {byte} {before}"
            );
            let target =
                [b"GET /", &pad[..], &[byte], &tail, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            let is_good = crate::characters::is_visible(byte) && byte != b'#';
            assert_eq!(
                read(&target, &Limits::default()).map(|answer| answer.is_ok()),
                Some(is_good),
                "target {byte} {before}"
            );
        }
    }
}

/// RFC 9112 section 3.2: exactly one valid Host in HTTP/1.1, at most one before it. It may be empty.
#[test]
fn hosts() {
    for (fields, status) in [
        ("Host: a\r\n", 200),
        ("hOST: a:80\r\n", 200),
        ("Host: [::1]:80\r\n", 200),
        ("", 400),
        ("Host:\r\n", 200),
        ("Host: [fe80::1%25eth0]\r\n", 200),
        ("Host: :80\r\n", 400),
        ("Host: a\r\nHost: a\r\n", 400),
        ("Host: a\r\nhost: b\r\n", 400),
        ("Host: u@a\r\n", 400),
        ("Host: a b\r\n", 400),
        ("Host: a/b\r\n", 400),
        ("Host: a,b\r\n", 200),
        ("Host: http://a\r\n", 400),
        ("Host: a:b\r\n", 400),
        ("Host: a:99999\r\n", 400),
        ("Host: \u{e4}\r\n", 400),
        ("Host : a\r\n", 400),
    ] {
        assert_eq!(
            status_of(&format!("GET / HTTP/1.1\r\n{fields}\r\n")),
            Some(status),
            "{fields:?}"
        );
        let before = if fields.is_empty() { 200 } else { status };
        assert_eq!(
            status_of(&format!("GET / HTTP/1.0\r\n{fields}\r\n")),
            Some(before),
            "{fields:?}"
        );
    }
}

/// RFC 9112 section 3.2.
#[test]
fn targets() {
    for (line, status) in [
        ("GET /", 200),
        ("GET //a", 200),
        ("GET /?", 200),
        ("GET /a?b?c", 200),
        ("GET /%zz", 200),
        ("GET /a#b", 400),
        ("GET /a?b#c", 400),
        ("GET a", 400),
        ("GET ?a", 400),
        ("GET *", 400),
        ("OPTIONS *", 200),
        ("OPTIONS /", 200),
        ("OPTIONS **", 400),
        ("OPTIONS *?a", 400),
        ("GET a:80", 400),
        ("CONNECT a:80", 200),
        ("CONNECT a", 400),
        ("CONNECT /", 400),
        ("CONNECT http://a:80", 400),
        ("CONNECT *", 400),
        ("CONNECT u@a:80", 400),
        ("GET http://a", 200),
        ("GET HTTPS://A/b", 200),
        ("GET http://b/", 200),
        ("GET http://", 400),
        ("GET http:///a", 400),
        ("GET http://u@a/", 400),
        ("GET http://a/#b", 400),
        ("GET ftp://a/", 400),
        ("GET http:/a", 400),
        ("GET http:a", 400),
        ("GET http://a#", 400),
        ("GET /\u{e4}", 400),
        ("GET ", 400),
        ("GET  /", 400),
        ("GET /  ", 400),
        ("GET\t/", 400),
        ("GET /a b", 400),
        (" GET /", 400),
        ("G@T /", 400),
        ("/ GET", 400),
        ("get /", 200),
        ("M-SEARCH /", 200),
        ("G\u{e4}T /", 400),
    ] {
        let host = if line.starts_with("CONNECT") { "a:80" } else { "a" };
        let input = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(status_of(&input), Some(status), "{line:?}");
    }
}

/// RFC 9112 section 3.2.2: the target's, whatever the Host says.
#[test]
fn hosts_of_absolute_targets() {
    for (line, fields, host) in [
        ("GET http://b:80/", "Host: a\r\n", Some("b:80")),
        ("GET http://B/", "X: y\r\nhOST: b\r\n", Some("B")),
        ("GET http://b/", "Host:\r\n", Some("b")),
        ("GET /", "Host: a\r\n", Some("a")),
        ("OPTIONS *", "Host: a\r\n", Some("a")),
    ] {
        for version in ["1.1", "1.0"] {
            let input = format!("{line} HTTP/{version}\r\n{fields}\r\n");
            let found = with_request(input.as_bytes(), &Limits::default(), |request| {
                let mut hosts =
                    request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
                let host = hosts.next().map(|field| field.value.escape_ascii().to_string());
                assert!(hosts.next().is_none());
                host
            });
            assert_eq!(found, Some(Ok(host.map(str::to_owned))), "{input:?}");
        }
    }
    // Which one was meant is not clear, or it is no host.
    for fields in ["", "Host: a b\r\n", "Host: a\r\nHost: b\r\n"] {
        let input = format!("GET http://b/ HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(status_of(&input), Some(400), "{input:?}");
    }
}

#[test]
fn parts_of_targets() {
    let parts = |request: &Request| {
        (request.path.escape_ascii().to_string(), request.query.escape_ascii().to_string())
    };
    for (line, path, query) in [
        ("GET http://a", "/", ""),
        ("GET http://a?b", "/", "b"),
        ("GET http://a/b?c", "/b", "c"),
        ("GET /?", "/", ""),
        ("OPTIONS *", "*", ""),
    ] {
        check(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"), parts, (path.into(), query.into()));
    }
    let authority = |request: &Request| match request.target {
        Target::Absolute { authority } | Target::Authority { authority } => {
            Some(authority.to_vec())
        }
        Target::Origin | Target::Asterisk => None,
    };
    check("GET http://A:1/ HTTP/1.1\r\nHost: a:1\r\n\r\n", authority, Some(b"A:1".to_vec()));
    check("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", authority, Some(b"a:1".to_vec()));
}

/// RFC 9110 section 15.6.6 and 9112 section 2.3; RFC 9110 section 15.6.2 for methods.
#[test]
fn versions_and_methods() {
    for (line, status) in [
        ("GET / HTTP/1.0", 200),
        ("GET / HTTP/1.1", 200),
        ("GET / HTTP/1.2", 505),
        ("GET / HTTP/2.0", 505),
        ("PRI * HTTP/2.0", 505),
        ("GET / HTTP/0.9", 505),
        ("GET / HTTP/3.0", 505),
        ("GET /", 400),
        ("GET HTTP/1.1", 400),
        ("GET / HTTP/2", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/1.1 ", 400),
        ("GET / HTTP/1.10", 400),
        ("GET / HTTP/1", 400),
        ("GET / HTTP 1.1", 400),
        ("GET / HTTP/ 1.1", 400),
        ("GET / HTTP/+1.1", 400),
        ("GET / HTTP/01.1", 400),
        ("GET / HTPP/1.1", 400),
        ("GET / ", 400),
        ("GET", 400),
        ("", 200),
    ] {
        let input = format!("{line}\r\nHost: a\r\n\r\n");
        if line.is_empty() {
            assert_eq!(status_of(&input), Some(400), "a field without a request line");
        } else {
            assert_eq!(status_of(&input), Some(status), "{line:?}");
        }
    }
    let method = "M".repeat(32);
    assert_eq!(status_of(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")), Some(200));
    assert_eq!(status_of(&format!("{method}M / HTTP/1.1\r\nHost: a\r\n\r\n")), Some(400));
    // TLS, SSH or SMTP are recognised immediately.
    for foreign in [&b"\x16\x03\x01"[..], b"\0", b"SSH-2.0-x\r\n", b"EHLO a\r\nx"] {
        let answer = outcome_of_prefixes(foreign, |prefix| read(prefix, &Limits::default()));
        assert!(matches!(answer, Some(Err(400))), "{}", foreign.escape_ascii());
    }
}

/// RFC 9112 section 6, RFC 9110 section 8.6.
#[test]
fn framing() {
    use Framing::{Chunked, Length};
    for (fields, framing) in [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Length(0)),
        ("content-length:  007 \r\n", Length(7)),
        ("Content-Length: 18446744073709551615\r\n", Length(u64::MAX)),
        ("Transfer-Encoding: chunked\r\n", Chunked),
        ("TRANSFER-ENCODING: ChunkeD\t\r\n", Chunked),
        ("X-Content-Length: a\r\n", Framing::None),
    ] {
        check(&with_fields(fields), |request| request.framing, framing);
    }
    for (fields, status) in [
        ("Content-Length:\r\n", 400),
        ("Content-Length: +1\r\n", 400),
        ("Content-Length: -1\r\n", 400),
        ("Content-Length: 1,1\r\n", 400),
        ("Content-Length: 1, 2\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 1\r\n", 400),
        ("Content-Length: 0x1\r\n", 400),
        ("Content-Length: 1 1\r\n", 400),
        ("Content-Length: 18446744073709551616\r\n", 400),
        ("Content-Length: 1_0\r\n", 400),
        ("Content-Length: \u{661}\r\n", 400),
        ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400),
        ("Transfer-Encoding:\r\n", 400),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501),
        ("Transfer-Encoding: gzip;q=1, chunked\r\n", 501),
        ("Transfer-Encoding: gzip\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
        ("Transfer-Encoding: xchunked\r\n", 400),
        ("Transfer-Encoding: chunked, chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: chunked, gzip\r\n", 400),
        ("Transfer-Encoding: chunked,\r\n", 400),
        ("Transfer-Encoding: ,chunked\r\n", 400),
        ("Transfer-Encoding: chunked;a=b\r\n", 400),
        ("Transfer-Encoding: \"chunked\"\r\n", 400),
        ("Transfer-Encoding: \x0bchunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\n chunked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        ("Transfer-Encoding: 'chunked'\r\n", 400),
        ("Transfer-Encoding: chunked x\r\n", 400),
        ("Transfer-Encoding: \u{130}chunked\r\n", 400),
    ] {
        assert_eq!(status_of(&with_fields(fields)), Some(status), "{fields:?}");
    }
    // RFC 9112 section 6.1.
    assert_eq!(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(400));
}

/// RFC 9112 sections 9.3 and 9.6, RFC 9110 section 7.6.1.
#[test]
fn persistence() {
    for (fields, current, before) in [
        ("", true, false),
        ("Connection: close\r\n", false, false),
        ("Connection: CLOSE\r\n", false, false),
        ("Connection: keep-alive\r\n", true, true),
        ("Connection: foo, Keep-Alive\r\n", true, true),
        ("Connection: keep-alive\r\nConnection: x ,\tclose\r\n", false, false),
        ("Connection: closed\r\n", true, false),
        ("Connection:\r\n", true, false),
        ("Connection: close-not\r\n", true, false),
        ("Connection: ,,close\r\n", false, false),
    ] {
        check(&with_fields(fields), |request| request.keeps_alive, current);
        check(&with_fields(fields).replace("/1.1", "/1.0"), |request| request.keeps_alive, before);
    }
}

/// RFC 9110 sections 10.1.1 and 7.8.
#[test]
fn expectations_and_upgrades() {
    let body = "Content-Length: 3\r\n";
    for (fields, expects) in [
        (format!("Expect: 100-continue\r\n{body}"), true),
        (format!("expect: 100-CONTINUE\r\n{body}"), true),
        ("Expect: 100-continue\r\n".to_owned(), false),
        ("Expect: 100-continue\r\nContent-Length: 0\r\n".to_owned(), false),
        ("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n".to_owned(), true),
    ] {
        check(&with_fields(&fields), |request| request.expects_continue, expects);
    }
    check(
        &with_fields(&format!("Expect: 100-continue\r\n{body}")).replace("/1.1", "/1.0"),
        |request| request.expects_continue,
        false,
    );
    for bad in ["200-ok", "", "100-continue, x", "100-continue;a"] {
        assert_eq!(status_of(&with_fields(&format!("Expect: {bad}\r\n"))), Some(417), "{bad:?}");
    }
    for (fields, upgrade) in [
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", Some("websocket")),
        ("Upgrade: a, b\r\nConnection: x, upgrade\r\n", Some("a, b")),
        ("Connection: upgrade\r\n", None),
        ("Connection: upgrade\r\nReferer: websocket\r\n", None),
        ("Upgrade: websocket\r\n", None),
    ] {
        let look =
            |request: &Request| request.upgrade.map(|value| value.escape_ascii().to_string());
        check(&with_fields(fields), look, upgrade.map(str::to_owned));
        check(&with_fields(fields).replace("/1.1", "/1.0"), look, None);
    }
}
