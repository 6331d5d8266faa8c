//! WebSocket frames with and without deflate: events and refusals do not depend on how the input is cut, memory is
//! bounded, and what is answered is what the other side reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneloop_websocket::{Config, Connection, DeflateParams, Event, Receiver, Role};

const MOST: usize = 2000;
const CLIENT: Role = Role::Client { mask: || [1, 2, 3, 4] };

fn config(how: u8, window: u8, role: Role) -> Config {
    let mut config = Config::new(role);
    config.max_message_bytes = MOST;
    config.max_message_frames = 8;
    config.max_interleaved_frames = 8;
    config.compress_from_bytes = 0;
    if how & 2 != 0 {
        config.deflate = Some(DeflateParams {
            server_no_context_takeover: how & 4 != 0,
            client_no_context_takeover: how & 8 != 0,
            server_max_window_bits: 9 + window % 7,
            client_max_window_bits: 9 + window / 7 % 7,
        });
    }
    config
}

fn words(event: &Event<'_>) -> String {
    format!("{event:?}")
}

/// All events, and the failure's code if one ends it.
fn read(config: &Config, pieces: &[&[u8]]) -> (Vec<String>, Option<u16>) {
    let mut receiver = Receiver::new(config);
    let mut events = Vec::new();
    for piece in pieces {
        let mut input = piece.to_vec();
        let mut rest: &mut [u8] = &mut input;
        loop {
            let consumed = match receiver.read(rest) {
                Ok(step) => {
                    let Some(event) = step.event else { break };
                    events.push(words(&event));
                    step.consumed
                }
                Err(failure) => return (events, Some(failure.code)),
            };
            rest = &mut rest[consumed..];
            assert!(receiver.window_bytes() <= 1 << 15);
        }
        assert!(receiver.buffered_bytes() <= 4 * MOST + 70_000, "{}", receiver.buffered_bytes());
    }
    (events, None)
}

/// Sends each event back; the other side reads the same.
fn echo(how: u8, window: u8, config: &Config, input: &[u8]) {
    let Connection { mut receiver, mut sender } = Connection::new(config);
    let other = if how & 1 == 0 { CLIENT } else { Role::Server };
    let mut input = input.to_vec();
    let mut rest: &mut [u8] = &mut input;
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    while let Ok(step) = receiver.read(rest) {
        let consumed = step.consumed;
        let Some(event) = step.event else { break };
        let done = match &event {
            Event::Text(text) => sender.text(&mut out, text),
            Event::Binary(bytes) => sender.binary(&mut out, bytes),
            Event::Ping(payload) | Event::Pong(payload) => sender.ping(&mut out, payload),
            Event::Close { .. } => break,
        };
        done.expect("nothing was closed");
        sent.push(words(&event).replace("Pong", "Ping"));
        rest = &mut rest[consumed..];
    }
    let (heard, failure) = read(&self::config(how, window, other), &[&out]);
    assert_eq!((heard, failure), (sent, None), "the echo");
}

fuzz_target!(|data: &[u8]| {
    let [how, window, cut, input @ ..] = data else { return };
    let role = if how & 1 == 0 { Role::Server } else { CLIENT };
    let config = config(*how, *window, role);
    let whole = read(&config, &[input]);
    let cut = usize::from(*cut) * input.len() / 255;
    let (head, tail) = input.split_at(cut);
    // A compressed text with two errors is refused for the one that is found first.
    let same = |mut outcome: (Vec<String>, Option<u16>)| {
        if config.deflate.is_some() && outcome.1.is_some() {
            outcome.1 = Some(0);
        }
        outcome
    };
    assert_eq!(same(read(&config, &[head, tail])), same(whole), "in two pieces");
    echo(*how, *window, &config, input);
});
