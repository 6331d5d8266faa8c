//! permessage-deflate (RFC 7692): the RFC's examples, the limits while inflating, windows and contexts.

#![allow(clippy::unwrap_used, reason = "also the functions beside the tests are tests")]

mod support;

use oneloop_websocket::{Config, Connection, DeflateParams, Receiver, Sender};
use support::{Random, Said, accepted, bare, client, deflating, feed, frame, refused, server};
use zlib_rs::{Inflate, InflateFlush};

const WIDE: DeflateParams = DeflateParams {
    server_no_context_takeover: false,
    client_no_context_takeover: false,
    server_max_window_bits: 15,
    client_max_window_bits: 15,
};
const NO_CONTEXT: DeflateParams =
    DeflateParams { server_no_context_takeover: true, client_no_context_takeover: true, ..WIDE };

fn hello() -> Said {
    Said::Text("Hello".to_owned())
}

/// The payload that a client sends for this message.
fn compressed(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Sender::new(&deflating(server(), WIDE)).binary(&mut out, payload).unwrap();
    let head = match out[1] {
        0x7E => 4,
        0x7F => 10,
        _ => 2,
    };
    assert_eq!(out[0], 0xC2);
    out.split_off(head)
}

#[test]
fn the_examples_of_the_rfc() {
    let config = deflating(server(), WIDE);
    let first = b"\xF2\x48\xCD\xC9\xC9\x07\x00";
    assert_eq!(accepted(&config, &frame(0xC1, first)), [hello()]);
    let fragments = [frame(0x41, &first[..3]), frame(0x80, &first[3..])].concat();
    assert_eq!(accepted(&config, &fragments), [hello()]);
    // The second message refers to the first.
    let second = b"\xF2\x00\x11\x00\x00";
    let both = [frame(0xC1, first), frame(0xC1, second)].concat();
    assert_eq!(accepted(&config, &both), [hello(), hello()]);
    assert_eq!(refused(&config, &frame(0xC1, second)), 1007);
    assert_eq!(refused(&deflating(server(), NO_CONTEXT), &both), 1007);
    let stored = b"\x00\x05\x00\xFA\xFF\x48\x65\x6C\x6C\x6F\x00";
    let two_blocks = b"\xF2\x48\x05\x00\x00\x00\xFF\xFF\xCA\xC9\xC9\x07\x00";
    let final_block = b"\xF3\x48\xCD\xC9\xC9\x07\x00\x00";
    for payload in [&stored[..], two_blocks, final_block] {
        let bytes = [frame(0xC1, payload), frame(0x81, b"x"), frame(0xC1, first)].concat();
        assert_eq!(accepted(&config, &bytes), [hello(), Said::Text("x".to_owned()), hello()]);
    }
}

#[test]
fn what_a_sender_writes() {
    let mut sender = Sender::new(&deflating(server(), WIDE));
    let mut out = Vec::new();
    sender.text(&mut out, "Hello").unwrap();
    assert_eq!(out, bare(0xC1, b"\xF2\x48\xCD\xC9\xC9\x07\x00"));
    out.clear();
    sender.text(&mut out, "Hello").unwrap();
    assert_eq!(out, bare(0xC1, b"\xF2\x00\x11\x00\x00"));
    out.clear();
    // Empty and short messages are sent uncompressed.
    sender.text(&mut out, "").unwrap();
    let mut config = deflating(server(), WIDE);
    config.compress_from_bytes = 6;
    Sender::new(&config).text(&mut out, "Hello").unwrap();
    assert_eq!(out, [bare(0x81, b""), bare(0x81, b"Hello")].concat());
}

#[test]
fn a_final_block_with_more_behind_it() {
    let config = deflating(server(), WIDE);
    // "Hello" in a final block, then a block that refers to it, final or not.
    let more = b"\xF3\x48\xCD\xC9\xC9\x07\x00\xF2\x00\x11\x00\x00";
    assert_eq!(accepted(&config, &frame(0xC1, more)), [Said::Text("HelloHello".to_owned())]);
    let many = b"\x03\x00".repeat(60);
    assert_eq!(accepted(&config, &frame(0xC1, &many)), [Said::Text(String::new())]);
    assert_eq!(refused(&config, &frame(0xC1, &b"\x03\x00".repeat(70))), 1007);
    let messages = frame(0xC1, b"\xF3\x48\xCD\xC9\xC9\x07\x00\x00").repeat(70);
    assert_eq!(accepted(&config, &messages), vec![hello(); 70]);
}

#[test]
fn empty_compressed_messages() {
    let config = deflating(server(), WIDE);
    for payload in [&b""[..], b"\x00", b"\x02\x00", b"\x00\x00\x00\xFF\xFF\x00"] {
        assert_eq!(accepted(&config, &frame(0xC2, payload)), [Said::Binary(vec![])]);
    }
    let fragments = [frame(0x42, b""), frame(0x00, b""), frame(0x80, b"\x00")].concat();
    assert_eq!(accepted(&config, &fragments), [Said::Binary(vec![])]);
}

#[test]
fn reserved_bit_1_belongs_to_first_frames_of_messages() {
    let config = deflating(server(), WIDE);
    for opcode in [0x8, 0x9, 0xA] {
        assert_eq!(refused(&config, &frame(0xC0 | opcode, b"")), 1002);
    }
    let continued = [frame(0x41, b"\xF2\x48\xCD"), frame(0xC0, b"\xC9\xC9\x07\x00")].concat();
    assert_eq!(refused(&config, &continued), 1002);
    assert_eq!(refused(&config, &[frame(0x01, b"a"), frame(0xC0, b"b")].concat()), 1002);
    assert_eq!(refused(&config, &frame(0xA1, b"")), 1002);
    assert_eq!(refused(&config, &frame(0xD1, b"")), 1002);
    // Without compression it is reserved.
    assert_eq!(refused(&server(), &frame(0xC1, b"\xF2\x48\xCD\xC9\xC9\x07\x00")), 1002);
    // Control frames between compressed fragments are not compressed.
    let between =
        [frame(0x41, b"\xF2\x48\xCD"), frame(0x89, b"p"), frame(0x80, b"\xC9\xC9\x07\x00")];
    assert_eq!(accepted(&config, &between.concat()), [Said::Ping(b"p".to_vec()), hello()]);
}

#[test]
fn what_is_no_deflate_stream() {
    let config = deflating(server(), WIDE);
    for payload in [&b"\xFF\xFF\xFF\xFF"[..], b"\x07", b"\x00\x05\x00\xFA\xFE", b"\x06\x00"] {
        assert_eq!(refused(&config, &frame(0xC2, payload)), 1007, "{payload:?}");
    }
}

#[test]
fn compressed_text_is_refused_at_the_first_impossible_byte() {
    let config = deflating(server(), WIDE);
    let payload = compressed(&[b"abc\xFF", &[b'x'; 5000][..]].concat());
    assert_eq!(refused(&config, &frame(0xC1, &payload)), 1007);
    // In the first of many frames, with the text flushed.
    let bytes = [&b"\x41\xFE\x10\x00"[..], &support::KEY].concat();
    let flushed = [&compressed(b"abc\xFF")[..], b"\x00\x00\xFF\xFF"].concat();
    let masked = frame(0x82, &flushed).split_off(6);
    assert_eq!(refused(&config, &[bytes, masked].concat()), 1007);
    let cut = [frame(0xC1, &compressed(b"a\xE2\x82")), vec![]].concat();
    assert_eq!(refused(&config, &cut), 1007);
}

#[test]
fn a_bomb_costs_the_limit() {
    let bomb = compressed(&vec![0; 20 << 20]);
    assert!(bomb.len() < 64 << 10, "{}", bomb.len());
    let limit = 1 << 20;
    let config = Config { max_message_bytes: limit, ..deflating(server(), WIDE) };
    let bytes = frame(0xC2, &bomb);
    for piece_bytes in [bytes.len(), 100, 1] {
        let mut receiver = Receiver::new(&config);
        let mut failure = None;
        for piece in bytes.chunks(piece_bytes) {
            failure = failure.or(feed(&mut receiver, [piece]).1);
            assert!(receiver.buffered_bytes() <= limit + 1, "{}", receiver.buffered_bytes());
        }
        assert_eq!(failure.map(|failure| failure.code), Some(1009));
        assert_eq!(receiver.buffered_bytes(), 0);
    }
    // Exactly the limit is accepted.
    let fits = frame(0xC2, &compressed(&vec![0; limit]));
    assert_eq!(feed(&mut Receiver::new(&config), [&fits[..]]).0, [Said::Binary(vec![0; limit])]);
    let one_more = frame(0xC2, &compressed(&vec![0; limit + 1]));
    assert_eq!(feed(&mut Receiver::new(&config), [&one_more[..]]).1.unwrap().code, 1009);
}

#[test]
fn a_message_that_says_nothing_ends_too() {
    // Empty blocks inflate to nothing, so the received bytes have a separate limit.
    let config = Config { max_message_bytes: 1000, ..deflating(server(), WIDE) };
    let empty = b"\x00\x00\x00\xFF\xFF".repeat(40);
    let mut bytes = frame(0x42, &empty);
    for _ in 0..4 {
        bytes.extend(frame(0x00, &empty));
    }
    assert_eq!(accepted(&config, &bytes), []);
    bytes.extend(frame(0x00, &empty));
    assert_eq!(refused(&config, &bytes), 1009);
}

#[test]
fn what_does_not_compress_fits_all_the_same() {
    let mut random = Random::new(1);
    let payload: Vec<u8> = (0..100_000).map(|_| random.next() as u8).collect();
    let config = Config { max_message_bytes: payload.len(), ..deflating(server(), WIDE) };
    let mut out = Vec::new();
    Sender::new(&deflating(client(), WIDE)).binary(&mut out, &payload).unwrap();
    assert!(out.len() > payload.len());
    assert_eq!(feed(&mut Receiver::new(&config), [&out[..]]).0, [Said::Binary(payload)]);
}

/// Inflates one byte at a time, with nothing but the window to refer to.
fn inflate_strictly(payload: &[u8], window_bits: u8) -> Vec<u8> {
    let mut stream = Inflate::new(false, window_bits);
    let mut all = Vec::new();
    let mut rest = payload;
    loop {
        let (mut byte, before) = ([0], stream.total_in());
        let had = stream.total_out();
        stream.decompress(rest, &mut byte, InflateFlush::SyncFlush).unwrap();
        rest = &rest[(stream.total_in() - before) as usize..];
        if stream.total_out() == had {
            return all;
        }
        all.push(byte[0]);
    }
}

#[test]
fn a_sender_keeps_to_its_window() {
    for window_bits in 8..=15 {
        for level in [1, 2, 4, 6, 9] {
            let params = DeflateParams { server_max_window_bits: window_bits, ..WIDE };
            let mut config = deflating(server(), params);
            config.compression_level = level;
            let mut sender = Sender::new(&config);
            let mut random = Random::new(u64::from(window_bits) * 10 + u64::from(level));
            let (mut stream, mut said) = (Vec::new(), Vec::new());
            for _ in 0..40 {
                let payload = random.payload(3000);
                let mut out = Vec::new();
                sender.binary(&mut out, &payload).unwrap();
                if !payload.is_empty() {
                    let head = if out[1] == 0x7E { 4 } else { 2 };
                    stream.extend_from_slice(&out[head..]);
                    stream.extend_from_slice(b"\x00\x00\xFF\xFF");
                    said.extend(payload);
                }
            }
            assert!(inflate_strictly(&stream, window_bits) == said, "{window_bits} {level}");
        }
    }
}

#[test]
fn a_smaller_window_is_kept_by_the_receiver() {
    // A client whose back-references across messages exceed its limit is refused.
    let params = DeflateParams { client_max_window_bits: 8, ..WIDE };
    let mut random = Random::new(3);
    let first: Vec<u8> = (0..1000).map(|_| random.next() as u8).collect();
    let mut sender = Sender::new(&deflating(client(), WIDE));
    let mut bytes = Vec::new();
    sender.binary(&mut bytes, &first).unwrap();
    sender.binary(&mut bytes, &first).unwrap();
    let (said, failure) = feed(&mut Receiver::new(&deflating(server(), params)), [&bytes[..]]);
    assert_eq!((said, failure.unwrap().code), (vec![Said::Binary(first)], 1007));
}

#[test]
fn more_connections_than_states() {
    // Each message is similar to the previous one on the same connection, and different from all others.
    let params = DeflateParams::default();
    let mut random = Random::new(5);
    let mut pairs: Vec<_> = (0..12)
        .map(|_| {
            let here = Sender::new(&deflating(server(), params));
            let there = Receiver::new(&deflating(client(), params));
            let text: Vec<u8> = (0..300).map(|_| random.next() as u8).collect();
            (here, there, text)
        })
        .collect();
    for round in 0..30 {
        let place = if round % 3 == 0 { round % 12 } else { random.below(12) };
        let (here, there, text) = &mut pairs[place];
        let mut out = Vec::new();
        for _ in 0..2 {
            let start = out.len();
            here.binary(&mut out, text).unwrap();
            assert!(out.len() - start < if start == 0 { 320 } else { 50 });
        }
        assert_eq!(feed(there, [&out[..]]).0, [text.clone(), text.clone()].map(Said::Binary));
        assert!(here.window_bytes() <= 1 << 10 && there.window_bytes() <= 4 << 10);
    }
    let second_time = pairs.iter_mut().map(|(here, _, text)| {
        let mut out = Vec::new();
        here.binary(&mut out, text).unwrap();
        out.len()
    });
    assert!(second_time.filter(|len| *len < 50).count() >= 10, "the last KiB is not referred to");
}

#[test]
fn a_sender_that_changes_its_thread() {
    let params = DeflateParams::default();
    let mut here = Sender::new(&deflating(server(), params));
    let mut there = Receiver::new(&deflating(client(), params));
    // Every second message is similar to the previous one: a state that has missed that one refers to the wrong
    // place.
    let mut random = Random::new(6);
    for _ in 0..5 {
        let mut payload: Vec<u8> = (0..300).map(|_| random.next() as u8).collect();
        for is_elsewhere in [false, true, false] {
            payload.rotate_left(1);
            let payload = payload.clone();
            let mut out = Vec::new();
            if is_elsewhere {
                std::thread::scope(|scope| {
                    scope.spawn(|| here.binary(&mut out, &payload).unwrap());
                });
            } else {
                here.binary(&mut out, &payload).unwrap();
            }
            assert_eq!(feed(&mut there, [&out[..]]), (vec![Said::Binary(payload)], None));
        }
    }
}

#[test]
fn both_sides_of_every_agreement() {
    let mut random = Random::new(4);
    for case in 0..64 {
        let params = DeflateParams {
            server_no_context_takeover: case & 1 != 0,
            client_no_context_takeover: case & 2 != 0,
            server_max_window_bits: 8 + (case >> 2) % 8,
            client_max_window_bits: 15 - (case >> 3) % 8,
        };
        let mut there = Connection::new(&deflating(client(), params));
        let mut here = Connection::new(&deflating(server(), params));
        for _ in 0..10 {
            let payload = random.payload(6000);
            let mut out = Vec::new();
            there.sender.binary(&mut out, &payload).unwrap();
            let said = feed(&mut here.receiver, [&out[..]]);
            assert_eq!(said, (vec![Said::Binary(payload.clone())], None));
            out.clear();
            here.sender.binary(&mut out, &payload).unwrap();
            let said = feed(&mut there.receiver, random.cut(&out, 2000));
            assert_eq!(said, (vec![Said::Binary(payload)], None));
        }
    }
}
