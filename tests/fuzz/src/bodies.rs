//! A body is the same whole, in two pieces, in single bytes, and read by steps.

use oneloop_http1::{BodyReader, Event, Framing, Limits, Piece};

#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub data: Vec<u8>,
    pub consumed: usize,
    pub is_complete: bool,
    pub refusal: Option<String>,
    trailers: String,
}

fn outcome(
    reader: &BodyReader,
    data: Vec<u8>,
    consumed: usize,
    refusal: Option<String>,
) -> Outcome {
    // After a refusal nobody asks for the trailers or for where it was.
    let (trailers, consumed) = match refusal {
        Some(_) => (String::new(), 0),
        None => (format!("{:?}", reader.trailers()), consumed),
    };
    Outcome { data, consumed, is_complete: reader.is_complete(), refusal, trailers }
}

fn read<'a>(
    framing: Framing,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limits: &Limits,
) -> Outcome {
    let mut reader = match BodyReader::new(framing, limits) {
        Ok(reader) => reader,
        Err(refusal) => {
            return Outcome {
                data: Vec::new(),
                consumed: 0,
                is_complete: false,
                refusal: Some(format!("{refusal:?}")),
                trailers: String::new(),
            };
        }
    };
    let (mut data, mut taken) = (Vec::new(), 0);
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() && !reader.is_complete() {
            match reader.read(&piece[at..], limits) {
                Ok(Piece::Data { data: part, consumed, ends }) => {
                    assert!(consumed > 0, "it would be asked for ever");
                    assert_eq!(ends, reader.is_complete());
                    data.extend_from_slice(part);
                    at += consumed;
                    taken += consumed;
                }
                Ok(Piece::Incomplete) => break,
                Err(refusal) => return outcome(&reader, data, taken, Some(format!("{refusal:?}"))),
            }
        }
    }
    outcome(&reader, data, taken, None)
}

fn read_steps(framing: Framing, input: &[u8], limits: &Limits) -> Outcome {
    let mut reader = match BodyReader::new(framing, limits) {
        Ok(reader) => reader,
        Err(_) => return read(framing, [], limits),
    };
    let (mut data, mut at, mut open) = (Vec::new(), 0, 0_i32);
    while at < input.len() && !reader.is_complete() {
        match reader.read_event(&input[at..], limits) {
            Ok((event, consumed)) => {
                at += consumed;
                match event {
                    Event::Data(part) => data.extend_from_slice(part),
                    Event::ChunkBegins => open += 1,
                    Event::ChunkEnds => open -= 1,
                    Event::Incomplete => break,
                    _ => {}
                }
                assert!((0..=1).contains(&open), "a chunk in a chunk");
            }
            Err(refusal) => return outcome(&reader, data, at, Some(format!("{refusal:?}"))),
        }
    }
    outcome(&reader, data, at, None)
}

pub fn check(framing: Framing, input: &[u8], cut: usize, limits: &Limits) -> Outcome {
    let whole = read(framing, [input], limits);
    assert!(whole.data.len() as u64 <= limits.body_bytes);
    let (head, tail) = input.split_at(cut.min(input.len()));
    assert_eq!(read(framing, [head, tail], limits), whole, "in two pieces");
    if input.len() < 600 {
        assert_eq!(read(framing, input.chunks(1), limits), whole, "bytewise");
    }
    assert_eq!(read_steps(framing, input, limits), whole, "by steps");
    whole
}
