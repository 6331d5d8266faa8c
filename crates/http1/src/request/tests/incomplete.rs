//! Limits, heads in pieces, and random input.

use super::super::may_say_more;
use super::{answer_to, read, status_of};
use crate::cuts::{Random, outcome_of_prefixes};
use crate::limits::Limits;

/// Limits apply to incomplete heads: input above one is refused at the first byte above it.
#[test]
fn limits() {
    let limits = Limits { line_bytes: 20, head_bytes: 60, headers: 3, body_bytes: u64::MAX };
    let host = "\r\nHost: a\r\n";
    for (input, status) in [
        (format!("GET /1234567 HTTP/1.1{host}\r\n"), 414),
        (format!("GET /123456 HTTP/1.1{host}\r\n"), 200),
        ("GET /123456789012345678901234567890".to_owned(), 414),
        ("M".repeat(22), 414),
        (format!("GET / HTTP/1.1{host}{}", "A: b\r\n".repeat(3)), 431),
        (format!("GET / HTTP/1.1{host}{}\r\n", "A: b\r\n".repeat(2)), 200),
        (format!("GET / HTTP/1.1{host}A: {}\r\n\r\n", "b".repeat(28)), 200),
        (format!("GET / HTTP/1.1{host}A: {}\r\n\r\n", "b".repeat(29)), 431),
        (format!("GET / HTTP/1.1{host}A: {}", "b".repeat(90)), 431),
        (format!("GET / HTTP/1.1{host}{}: b", "A".repeat(90)), 431),
        ("\r\n".repeat(40), 400),
        (format!("GET /12345678901234567890\u{7f} HTTP/1.1{host}\r\n"), 414),
        (format!("GET /1\u{7f}2345678901234567890 HTTP/1.1{host}\r\n"), 400),
        (format!("GET / HTTP/1.1{host}A: {}\u{7f}\r\n\r\n", "b".repeat(60)), 431),
        (format!("GET / HTTP/1.1{host}A: \u{7f}{}\r\n\r\n", "b".repeat(60)), 400),
        (format!("GET /1234567890\r{}", "b".repeat(60)), 400),
        (format!("GET /123456 HTTP/1.1\r{}", "b".repeat(60)), 414),
        (format!("GET /123456 HTTP/1.1\n{}", "b".repeat(60)), 431),
        (format!("GET /1234567 HTTP/2.0{host}\r\n"), 505),
        (format!("GET /12345678 HTTP/2.0{host}\r\n"), 414),
    ] {
        let answer = answer_to(input.as_bytes(), &limits)
            .map(|answer| answer.map_or_else(|status| status, |_| 200));
        assert_eq!(answer, Some(status), "{input:?}");
    }
    assert_eq!(answer_to(b"GET / HTTP/1.1\r\nHost: a\r\n", &limits), None);
    assert_eq!(answer_to(b"", &limits), None);
    assert_eq!(answer_to(b"\r\n", &limits), None);
}

/// RFC 9112 section 2.2: one empty line is skipped, and a few more.
#[test]
fn empty_lines() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(status_of(&format!("{}{request}", "\r\n".repeat(8))), Some(200));
    assert_eq!(status_of(&format!("{}{request}", "\r\n".repeat(9))), Some(400));
}

/// A caller that first checks whether a head may be complete gets the same answers with few calls.
#[test]
fn small_pieces() {
    for case in 0..Random::cases(3_000) {
        let mut random = Random::new(case);
        let mut input = random.pick(&CORPUS).as_bytes().to_vec();
        random.mutate(&mut input);
        let limits = Limits {
            line_bytes: 10 + random.below(40),
            head_bytes: 40 + random.below(90),
            headers: random.below(6),
            body_bytes: 100,
        };
        let (mut end, mut seen_bytes, mut answer) = (0, 0, None);
        while answer.is_none() && end < input.len() {
            end = (end + 1 + random.below(5)).min(input.len());
            if may_say_more(&input[..end], seen_bytes, &limits) {
                answer = read(&input[..end], &limits);
                seen_bytes = end;
            }
        }
        let whole = read(&input, &limits);
        // An error inside a line may be reported only when the line ends.
        assert!(
            answer == whole || (answer.is_none() && matches!(whole, Some(Err(_)))),
            "{}",
            input.escape_ascii()
        );
    }
}

const CORPUS: [&str; 8] = [
    "GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nUser-Agent: x\r\nAccept: */*\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET http://a:80/b HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
    "OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "\r\n\r\nPUT /x HTTP/1.1\r\nHost: [::1]:8000\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
];

/// Mutated requests: splitting never changes the answer, and nothing panics. The limits are small, so that they are
/// reached.
#[test]
fn random_mutations_and_cuts() {
    for case in 0..Random::cases(3_000) {
        let mut random = Random::new(case);
        let mut input = random.pick(&CORPUS).as_bytes().to_vec();
        random.mutate(&mut input);
        let limits = Limits {
            line_bytes: 10 + random.below(40),
            head_bytes: 40 + random.below(90),
            headers: random.below(6),
            body_bytes: 100,
        };
        outcome_of_prefixes(&input, |prefix| read(prefix, &limits));
        outcome_of_prefixes(&input, |prefix| read(prefix, &Limits::default()));
    }
}

/// Streams of random bytes: each gets an answer in bounded time.
#[test]
fn random_bytes() {
    for case in 0..Random::cases(20_000) {
        let mut random = Random::new(case);
        let len = random.below(80);
        let input: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let limits = Limits { line_bytes: 30, head_bytes: 60, headers: 4, body_bytes: 100 };
        if let Some(Ok(request)) = read(&input, &limits) {
            panic!("a request of random bytes: {request}");
        }
    }
}
