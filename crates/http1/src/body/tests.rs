//! Every rule of bodies; each case whole, byte by byte, and with bytes after it.

use super::{BodyReader, Event, Piece};
use crate::cuts::Random;
use crate::head::Framing;
use crate::limits::Limits;
use crate::trailers::TrailerField;

const LIMITS: Limits = Limits { line_bytes: 100, head_bytes: 60, headers: 3, body_bytes: 100 };

/// The result for a body: its bytes, how much input was used, its trailers, and its final state.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    data: Vec<u8>,
    consumed: usize,
    trailers: Vec<TrailerField>,
    ends: bool,
    refused: Option<u16>,
}

/// Feeds `input` in pieces of the given lengths; the last piece is the rest.
fn feed(framing: Framing, input: &[u8], lens: impl Iterator<Item = usize>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut reader = match BodyReader::new(framing, &LIMITS) {
        Ok(reader) => reader,
        Err(refusal) => return Outcome { refused: Some(refusal.status), ..outcome },
    };
    let mut known = 0;
    for len in lens {
        known = (known + len).min(input.len());
        while !reader.is_complete() {
            match reader.read(&input[outcome.consumed..known], &LIMITS) {
                Ok(Piece::Data { data, consumed, ends }) => {
                    assert!(consumed > 0 && consumed >= data.len());
                    outcome.data.extend_from_slice(data);
                    outcome.consumed += consumed;
                    assert_eq!(ends, reader.is_complete());
                }
                Ok(Piece::Incomplete) => {
                    assert_eq!(outcome.consumed, known, "all of the input is used");
                    break;
                }
                Err(refusal) => {
                    let again = reader.read(&input[outcome.consumed..known], &LIMITS);
                    assert_eq!(again, Err(refusal), "a refusal is final");
                    return Outcome {
                        refused: Some(refusal.status),
                        consumed: 0,
                        trailers: Vec::new(),
                        ..outcome
                    };
                }
            }
        }
    }
    outcome.trailers = reader.trailers().to_vec();
    outcome.ends = reader.is_complete();
    outcome
}

fn outcome_of(framing: Framing, input: &[u8]) -> Outcome {
    let whole = feed(framing, input, std::iter::once(input.len()));
    assert_eq!(
        feed(framing, input, std::iter::repeat_n(1, input.len())),
        whole,
        "{}",
        input.escape_ascii()
    );
    if whole.ends || whole.refused.is_some() {
        let more = [input, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(
            feed(framing, &more, std::iter::once(more.len())),
            whole,
            "{}",
            input.escape_ascii()
        );
    }
    whole
}

fn chunked(input: &str) -> Outcome {
    outcome_of(Framing::Chunked, input.as_bytes())
}

#[test]
fn lengths() {
    let outcome = outcome_of(Framing::Length(3), b"abcdef");
    assert_eq!((&outcome.data[..], outcome.consumed, outcome.ends), (&b"abc"[..], 3, true));
    let outcome = outcome_of(Framing::Length(3), b"ab");
    assert_eq!((&outcome.data[..], outcome.consumed, outcome.ends), (&b"ab"[..], 2, false));
    for framing in [Framing::None, Framing::Length(0)] {
        let outcome = outcome_of(framing, b"abc");
        assert_eq!((outcome.consumed, outcome.ends), (0, true));
    }
    assert_eq!(outcome_of(Framing::Length(100), b"").refused, None);
    assert_eq!(outcome_of(Framing::Length(101), b"").refused, Some(413));
}

#[test]
fn until_the_connection_ends() {
    let outcome = outcome_of(Framing::UntilClose, &[b'a'; 100]);
    assert_eq!((outcome.data.len(), outcome.ends, outcome.refused), (100, false, None));
    let mut reader = BodyReader::new(Framing::UntilClose, &LIMITS).expect("no length");
    assert_eq!((reader.is_complete(), reader.left()), (false, None));
    assert_eq!(reader.read(&[b'a'; 101], &LIMITS).map_err(|refusal| refusal.status), Err(413));
}

/// The server uses this to decide whether to drop a body, or the connection.
#[test]
fn what_is_left() {
    let mut reader = BodyReader::new(Framing::Length(5), &LIMITS).expect("short");
    assert_eq!(reader.left(), Some(5));
    for (input, left) in [(&b"abc"[..], 2), (b"deGET", 0), (b"GET", 0)] {
        let piece = reader.read(input, &LIMITS);
        assert_eq!(reader.left(), Some(left));
        assert_eq!(
            piece == Ok(Piece::Incomplete),
            input == b"GET",
            "nothing is taken behind the end"
        );
    }
    assert_eq!(BodyReader::new(Framing::None, &LIMITS).map(|reader| reader.left()), Ok(Some(0)));
    let mut reader = BodyReader::new(Framing::Chunked, &LIMITS).expect("chunked");
    for (input, left) in [(&b"3\r\nab"[..], None), (b"c\r\n0\r\n\r\n", Some(0))] {
        assert!(reader.read(input, &LIMITS).is_ok());
        assert_eq!(reader.left(), left);
    }
    assert_eq!(reader.read(b"GET", &LIMITS), Ok(Piece::Incomplete));
}

#[test]
fn chunks() {
    for size in ["0f", "F", "f", "000F"] {
        let outcome = chunked(&format!("3\r\nabc\r\n{size}\r\n0123456789abcde\r\n0\r\n\r\n"));
        assert_eq!((&outcome.data[..], outcome.ends), (&b"abc0123456789abcde"[..], true));
    }
    for end in ["0\r\n\r\n", "000\r\n\r\n", "0;a=b\r\n\r\n", "0000000000000000\r\n\r\n"] {
        let outcome = chunked(end);
        assert_eq!((outcome.ends, outcome.consumed), (true, end.len()), "{end:?}");
    }
    for cut in [
        "3\r\nabc\r\n0\r\n",
        "3\r\nabc\r\n0\r\n\r",
        "3\r\nabc",
        "3\r\nabc\r\n",
        "3",
        "",
        "0\r\na: b\r\n",
    ] {
        let outcome = chunked(cut);
        assert_eq!((outcome.ends, outcome.refused), (false, None), "{cut:?}");
    }
}

/// Data, framing and end are returned in one piece if all are available.
#[test]
fn a_short_body_is_one_piece() {
    let mut reader = BodyReader::new(Framing::Chunked, &LIMITS).expect("chunked");
    let piece = reader.read(b"3\r\nabc\r\n0\r\n\r\nGET", &LIMITS);
    assert_eq!(piece, Ok(Piece::Data { data: b"abc", consumed: 13, ends: true }));
    assert!(reader.trailers().is_empty());
}

/// RFC 9112 section 7.1: chunk-size = 1*HEXDIG; exactly CRLF after it, and after the data.
#[test]
fn malformed_chunks() {
    for bad in [
        "\r\n",
        "x\r\n",
        "+3\r\nabc\r\n",
        "-3\r\n",
        "0x3\r\nabc\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3\t\r\nabc\r\n",
        "3\nabc\r\n",
        "3\rabc\r\n",
        "3\r\r\nabc\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc\r0\r\n\r\n",
        "3\r\nabc\r\n\r\n0\r\n\r\n",
        "1_0\r\n",
        "00000000000000003\r\nabc\r\n",
        "10000000000000000\r\n",
        "g\r\n",
        ";a\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\n\r\r\n",
        "3;\r\nabc\r\n",
        "3;a=\r\n",
        "3;=b\r\n",
        "3;a b\r\n",
        "3;a\n",
        "3;a=\"b\r\n",
        "3;a=\"b\"c\r\n",
        "3;a\0\r\n",
        "3;a=\"\0\"\r\n",
        "3;a\rb\r\n",
        "3;a;\r\n",
        "3; \r\n",
        "3;a=b c\r\n",
        "3;a=\"\\\r\n\"",
        "3\0\r\n",
        "\u{663}\r\n",
        "3,3\r\n",
        "3;a \r\nabc\r\n",
        "3;a=b \r\nabc\r\n",
    ] {
        assert_eq!(chunked(bad).refused, Some(400), "{bad:?}");
    }
}

#[test]
fn chunk_extensions() {
    for good in [
        "3;a",
        "3;a=b",
        "3;a=\"b;\\\"\t\u{e4}\"",
        "3;a;b=c",
        "3 ; a = b ; c",
        "3;a=\"b\" ;c",
        "3;a ;b",
        "03",
    ] {
        let outcome = chunked(&format!("{good}\r\nabc\r\n0\r\n\r\n"));
        assert_eq!((&outcome.data[..], outcome.ends), (&b"abc"[..], true), "{good:?}");
    }
    let long = format!("3;{}\r\nabc\r\n", "a".repeat(1024));
    assert_eq!(chunked(&long).refused, Some(400));
    assert_eq!(chunked(&long.replacen("aa", "", 1)).refused, None);
}

/// 413 as soon as a chunk's size shows that the body exceeds the limit.
#[test]
fn long_chunked_bodies() {
    let first = format!("60\r\n{}\r\n", "a".repeat(0x60));
    assert_eq!(chunked(&format!("{first}4\r\n")).refused, None);
    let outcome = chunked(&format!("{first}5\r\n"));
    assert_eq!((outcome.refused, outcome.data.len()), (Some(413), 0x60));
    assert_eq!(chunked("ffffffffffffffff\r\n").refused, Some(413));
    assert_eq!(chunked(&format!("{first}ffffffffffffffff\r\n")).refused, Some(413));
}

/// RFC 9112 section 7.1.2, RFC 9110 section 6.5.1.
#[test]
fn trailers() {
    let outcome = chunked("0\r\nA: b\r\nc:\t d \t\r\n\r\n");
    assert_eq!(outcome.trailers, [(b"A".to_vec(), b"b".to_vec()), (b"c".to_vec(), b"d".to_vec())]);
    let outcome = chunked("0\r\nAuthorization: b\r\nc: d\r\n\r\n");
    assert_eq!(outcome.trailers, [(b"c".to_vec(), b"d".to_vec())], "no field of a head");
    for bad in [
        "A\r\n",
        "A : b\r\n",
        " A: b\r\n",
        "A: b\r\n c\r\n",
        ": b\r\n",
        "A: b\n",
        "A: \0\r\n",
        "A: b\rc\r\n",
        "A: \x7f\r\n",
        "Content-Length: 3\r\n",
        "transfer-encoding: chunked\r\n",
        "HOST: a\r\n",
        "\n",
        "GET / HTTP/1.1\r\n",
    ] {
        assert_eq!(chunked(&format!("0\r\n{bad}\r\n")).refused, Some(400), "{bad:?}");
    }
    assert_eq!(chunked(&format!("0\r\n{}", "A: b\r\n".repeat(4))).refused, Some(431));
    assert_eq!(chunked(&format!("0\r\n{}\r\n", "A: b\r\n".repeat(3))).refused, None);
    assert_eq!(chunked(&format!("0\r\nA: {}\r\n\r\n", "b".repeat(53))).refused, None);
    assert_eq!(chunked(&format!("0\r\nA: {}\r\n\r\n", "b".repeat(54))).refused, Some(431));
    assert_eq!(
        chunked(&format!("0\r\n{}", "A".repeat(90))).refused,
        Some(431),
        "before the line ends"
    );
}

#[test]
fn steps() {
    let input = b"3;a\r\nabc\r\n0\r\nA: b\r\n\r\nGET";
    for step in [1, input.len()] {
        let mut reader = BodyReader::new(Framing::Chunked, &LIMITS).expect("chunked");
        let (mut at, mut seen) = (0, String::new());
        while !reader.is_complete() {
            let end = (at + step).min(input.len());
            let (event, used) = reader.read_event(&input[at..end], &LIMITS).expect("good");
            at += used;
            match event {
                Event::ChunkBegins => seen.push('<'),
                Event::Data(data) => seen.push_str(std::str::from_utf8(data).expect("ASCII")),
                Event::ChunkEnds => seen.push('>'),
                Event::Ends => seen.push('.'),
                Event::Incomplete => {}
            }
        }
        assert_eq!((&seen[..], &input[at..]), ("<abc><.", &b"GET"[..]));
    }
}

/// Mutated bodies in random pieces have the same outcome as in one piece.
#[test]
fn random_mutations_and_cuts() {
    const CORPUS: [&str; 4] = [
        "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
        "1;a=b\r\nx\r\n0;c=\"d\\\"e\"\r\nTrailer-A: b\r\nB: c\r\n\r\n",
        "10\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n",
        "0\r\n\r\n",
    ];
    for case in 0..Random::cases(20_000) {
        let mut random = Random::new(case);
        let mut input = random.pick(&CORPUS).as_bytes().to_vec();
        random.mutate(&mut input);
        let whole = feed(Framing::Chunked, &input, std::iter::once(input.len()));
        let lens: Vec<usize> = (0..input.len()).map(|_| 1 + random.below(9)).collect();
        assert_eq!(
            feed(Framing::Chunked, &input, lens.into_iter()),
            whole,
            "{}",
            input.escape_ascii()
        );
    }
}
