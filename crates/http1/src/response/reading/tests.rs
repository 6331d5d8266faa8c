//! Every rule of a response's head; each case whole, split at every byte, and with bytes after it.

use super::{Asked, Response, parse_response};
use crate::cuts::{Random, outcome_of_prefixes};
use crate::head::{Framing, Header};
use crate::limits::Limits;
use std::mem::MaybeUninit;

type Seen = (u16, String, Framing, bool, bool, usize);

fn read(input: &[u8], asked: Asked) -> Option<Result<Seen, u16>> {
    let mut fields = [MaybeUninit::<Header>::uninit(); 8];
    let look = |head: Response| {
        (
            head.status,
            head.reason.to_owned(),
            head.framing,
            head.keeps_alive,
            head.is_tunnel,
            head.len,
        )
    };
    parse_response(input, &mut fields, asked, &Limits::default())
        .transpose()
        .map(|answer| answer.map(look).map_err(|refusal| refusal.status))
}

fn answer_to(input: &str, asked: Asked) -> Option<Result<Seen, u16>> {
    let answer = outcome_of_prefixes(input.as_bytes(), |prefix| read(prefix, asked));
    if answer.is_some() {
        assert_eq!(read(&[input.as_bytes(), b"\0more"].concat(), asked), answer);
    }
    answer
}

/// RFC 9112 section 6.3.
#[test]
fn framing() {
    use Framing::{Chunked, Length, UntilClose};
    for (status, fields, asked, framing) in [
        ("200 OK", "", Asked::Other, UntilClose),
        ("200 OK", "Content-Length: 3\r\n", Asked::Other, Length(3)),
        ("200 OK", "Transfer-Encoding: chunked\r\n", Asked::Other, Chunked),
        ("200 OK", "Transfer-Encoding: gzip, chunked\r\n", Asked::Other, Chunked),
        ("200 OK", "Transfer-Encoding: gzip\r\n", Asked::Other, UntilClose),
        ("200 OK", "Content-Length: 3\r\n", Asked::Head, Framing::None),
        ("204 No Content", "Content-Length: 3\r\n", Asked::Other, Framing::None),
        ("304 Not Modified", "", Asked::Other, Framing::None),
        ("100 Continue", "", Asked::Other, Framing::None),
        ("101 Switching", "", Asked::Other, Framing::None),
        ("200 OK", "", Asked::Connect, Framing::None),
        ("404 No", "Content-Length: 3\r\n", Asked::Connect, Length(3)),
    ] {
        let input = format!("HTTP/1.1 {status}\r\n{fields}\r\n");
        let seen = answer_to(&input, asked).expect("complete").expect("accepted");
        assert_eq!((seen.2, seen.3), (framing, framing != UntilClose), "{input:?}");
        assert_eq!(
            seen.4,
            status.starts_with("101") || (asked == Asked::Connect && status.starts_with('2')),
            "{input:?}"
        );
    }
}

#[test]
fn status_lines() {
    for (line, status, reason) in [
        ("HTTP/1.1 200 OK", 200, "OK"),
        ("HTTP/1.0 404 Not Found", 404, "Not Found"),
        ("HTTP/1.1 200 ", 200, ""),
        ("HTTP/1.1 200", 200, ""),
        ("HTTP/1.1 999 x", 999, "x"),
        ("HTTP/1.1 200 \u{e4}", 200, ""),
    ] {
        let seen = answer_to(&format!("{line}\r\n\r\n"), Asked::Other)
            .expect("complete")
            .expect("accepted");
        assert_eq!((seen.0, &seen.1[..]), (status, reason), "{line:?}");
    }
    for bad in [
        "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1  200 OK\r\n",
        "HTTP/2.0 200 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "HTTP/1.1 200 O\0K\r\n",
        "HTTP/1.1 200 OK\n",
        "http/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n",
        "\nHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert_eq!(answer_to(&format!("{bad}\r\n"), Asked::Other), Some(Err(400)), "{bad:?}");
    }
}

/// Found by tests/fuzz: the reason was another one until the whole head had arrived.
#[test]
fn a_long_status_line_is_the_reason_with_and_without_its_end() {
    let limits = Limits { line_bytes: 20, ..Limits::default() };
    let reason = |input: &[u8]| {
        let mut fields = [const { MaybeUninit::uninit() }; 4];
        parse_response(input, &mut fields, Asked::Other, &limits).map_err(|e| e.reason).err()
    };
    let head = b"HTTP/1.1 200 quite a long reason\r\n\r\n";
    assert_eq!(reason(head), Some("the status line is too long"));
    assert_eq!(reason(&head[..30]), reason(head));
}

#[test]
fn random_mutations() {
    for case in 0..Random::cases(5_000) {
        let mut random = Random::new(case);
        let mut input =
            b"HTTP/1.1 200 OK\r\nServer: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
                .to_vec();
        random.mutate(&mut input);
        outcome_of_prefixes(&input, |prefix| read(prefix, Asked::Other));
    }
}
