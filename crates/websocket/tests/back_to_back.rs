//! Random messages between two connections, with random fragments, splits and parameters; and corrupted streams.
//!
//! Every message sent on one side must be received on the other, in order. A corrupted stream fails or continues; it
//! never panics, never holds more than the limit, and its outcome does not depend on how it is split.

#![allow(clippy::unwrap_used, reason = "also the functions beside the tests are tests")]

mod support;

use oneloop_websocket::{Config, Connection, DeflateParams, Receiver, Sender};
use support::{KEY, Outcome, Random, Said, client, feed, server};

fn random_params(random: &mut Random) -> Option<DeflateParams> {
    (!random.is(3)).then(|| DeflateParams {
        server_no_context_takeover: random.is(2),
        client_no_context_takeover: random.is(2),
        server_max_window_bits: 8 + random.below(8) as u8,
        client_max_window_bits: 8 + random.below(8) as u8,
    })
}

fn random_config(base: Config, random: &mut Random, deflate: Option<DeflateParams>) -> Config {
    Config {
        deflate,
        compress_from_bytes: random.below(300),
        compression_level: 1 + random.below(9) as u8,
        compression_memory: 1 + random.below(9) as u8,
        ..base
    }
}

/// Splits one frame, as written by a sender, into fragments with pings between them.
fn fragments(bytes: &[u8], random: &mut Random, said: &mut Vec<Said>) -> Vec<u8> {
    let is_masked = bytes[1] & 0x80 != 0;
    let len_bytes = match bytes[1] & 0x7F {
        0x7E => 2,
        0x7F => 8,
        _ => 0,
    };
    let start = 2 + len_bytes + if is_masked { 4 } else { 0 };
    let mut payload = bytes[start..].to_vec();
    if is_masked {
        payload.iter_mut().zip(KEY.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    }
    let write = |first: u8, payload: &[u8]| {
        if is_masked { support::frame(first, payload) } else { support::bare(first, payload) }
    };
    let mut out = write(bytes[0] & 0x7F, b"");
    let most = 1 + random.below(payload.len() + 1);
    for piece in random.cut(&payload, most) {
        if random.is(4) {
            let ping = random.payload(125);
            out.extend(write(0x89, &ping));
            said.push(Said::Ping(ping));
        }
        out.extend(write(0x00, piece));
    }
    out.extend(write(0x80, b""));
    out
}

/// A stream of messages, and its content.
fn stream(sender: &mut Sender, random: &mut Random) -> (Vec<u8>, Vec<Said>) {
    let (mut out, mut said) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(8) {
        let mut bytes = Vec::new();
        let message = match random.below(6) {
            0 | 1 => {
                let text = random.text(400);
                sender.text(&mut bytes, &text).unwrap();
                Said::Text(text)
            }
            2 | 3 => {
                let most = [10, 200, 70_000][random.below(3)];
                let payload = random.payload(most);
                sender.binary(&mut bytes, &payload).unwrap();
                Said::Binary(payload)
            }
            4 => {
                let payload = random.payload(125);
                sender.ping(&mut bytes, &payload).unwrap();
                Said::Ping(payload)
            }
            _ => {
                let payload = random.payload(125);
                sender.pong(&mut bytes, &payload).unwrap();
                Said::Pong(payload)
            }
        };
        if matches!(message, Said::Text(_) | Said::Binary(_)) && random.is(2) {
            bytes = fragments(&bytes, random, &mut said);
        }
        said.push(message);
        out.extend(bytes);
    }
    (out, said)
}

#[test]
fn what_is_said_is_heard() {
    let mut random = Random::new(7);
    for _ in 0..400 {
        let params = random_params(&mut random);
        let here = random_config(server(), &mut random, params);
        let there = random_config(client(), &mut random, params);
        let (mut here, mut there) = (Connection::new(&here), Connection::new(&there));
        for _ in 0..3 {
            let (bytes, said) = stream(&mut there.sender, &mut random);
            let most = [1, 10, 100_000][random.below(3)];
            let heard = feed(&mut here.receiver, random.cut(&bytes, most));
            assert_eq!(heard, (said, None));
            let (bytes, said) = stream(&mut here.sender, &mut random);
            assert_eq!(feed(&mut there.receiver, [&bytes[..]]), (said, None));
            assert_eq!(here.receiver.buffered_bytes(), 0);
        }
        let mut bytes = Vec::new();
        there.sender.close(&mut bytes, Some(4321), "over").unwrap();
        let heard = feed(&mut here.receiver, [&bytes[..]]);
        assert_eq!(heard, (vec![Said::Close(Some(4321), "over".to_owned())], None));
    }
}

/// The outcome, with the memory checked after every piece.
fn bounded<'a>(config: &Config, pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let mut receiver = Receiver::new(config);
    let mut all = Vec::new();
    for piece in pieces {
        let (said, failure) = feed(&mut receiver, [piece]);
        all.extend(said);
        assert!(receiver.buffered_bytes() <= config.max_message_bytes + 1 + 256);
        if failure.is_some() {
            return (all, failure);
        }
    }
    (all, None)
}

#[test]
fn broken_streams() {
    let mut random = Random::new(8);
    let (mut failed, mut passed) = (0, 0);
    for _ in 0..3000 {
        let params = random_params(&mut random);
        let there = random_config(client(), &mut random, params);
        let mut here = random_config(server(), &mut random, params);
        here.max_message_bytes = 20_000;
        let (mut bytes, _) = stream(&mut Sender::new(&there), &mut random);
        for _ in 0..=random.below(4) {
            let place = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[place] = random.next() as u8,
                1 => bytes[place] ^= 1 << random.below(8),
                2 => drop(bytes.remove(place)),
                _ => bytes.insert(place, random.next() as u8),
            }
        }
        let whole = bounded(&here, [&bytes[..]]);
        let cut = bounded(&here, random.cut(&bytes, 50));
        assert_eq!(whole.0, cut.0);
        let codes = [&whole, &cut].map(|outcome| outcome.1.map(|failure| failure.code));
        // Text that is invalid both in its compression and in itself is refused for the error found first.
        if codes.iter().all(Option::is_some) && params.is_some() {
            let is_data = codes.iter().all(|code| matches!(code, Some(1007 | 1009)));
            assert!(is_data || codes[0] == codes[1], "{codes:?}");
        } else {
            assert_eq!(codes[0], codes[1]);
        }
        if whole.1.is_some() { failed += 1 } else { passed += 1 }
    }
    assert!(failed > 500 && passed > 100, "{failed} {passed}");
}

#[test]
fn noise() {
    let mut random = Random::new(9);
    for _ in 0..20_000 {
        let params = random_params(&mut random);
        let mut config = random_config(server(), &mut random, params);
        config.max_message_bytes = 1000;
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
        // With a plausible head the noise is processed further.
        if bytes.len() > 2 && !random.is(4) {
            bytes[0] = [0x81, 0xC1, 0x01, 0x42, 0x89, 0x88][random.below(6)];
            bytes[1] = 0x80 | random.below(127) as u8;
        }
        let whole = bounded(&config, [&bytes[..]]);
        assert_eq!(whole.0, bounded(&config, bytes.chunks(1)).0);
    }
}

#[test]
fn connections_go_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<Sender>();
    is_send::<Receiver>();
}
