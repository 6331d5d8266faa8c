//! An HTTP/2 connection, with bytes as they are or as frames of right lengths, and calls of the other side between them:
//! no crash, no leak, no spin, and no more output than the input explains.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneloop_http2::{Chunk, Code, Config, Event, HeadKind, Role, Session};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Each frame of the input: length, type, flags, stream, payload.
fn frames(mut input: &[u8], out: &mut Vec<u8>) {
    while let [len, kind, flags, stream, rest @ ..] = input {
        let (payload, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        out.extend_from_slice(&[
            0,
            0,
            payload.len() as u8,
            kind % 12,
            *flags,
            0,
            0,
            0,
            stream % 16,
        ]);
        out.extend_from_slice(payload);
        input = rest;
    }
}

fn answer(session: &mut Session<Vec<u8>>, event: &Event, how: u8) {
    // A stream may be over by now: then the call fails, which is not a mistake.
    let _refused = match event {
        Event::Head { stream, kind: HeadKind::Request, .. } => match how & 3 {
            0 => session.respond(*stream, 200, b"a: b\r\n", true),
            1 => session.reset(*stream, Code::CANCEL),
            _ => session
                .inform(*stream, 103, b"link: x\r\n")
                .and_then(|()| session.respond(*stream, 200, b"", false))
                .and_then(|()| session.push(*stream, Chunk::Shared(vec![b'x'; 3000]), false))
                .and_then(|_| session.push_trailers(*stream, b"t: u\r\n".to_vec()))
                .map(drop),
        },
        Event::Data { stream, len, .. } => {
            session.consume(*stream, *len).and_then(|()| session.consume_connection(*len))
        }
        _ => Ok(()),
    };
}

fuzz_target!(|data: &[u8]| {
    let [how, step, input @ ..] = data else { return };
    let role = if how & 4 == 0 { Role::Server } else { Role::Client };
    let mut config = Config::new(role);
    config.streams = 4;
    config.head_fields = 10;
    config.head_bytes = 1000;
    let mut session = Session::<Vec<u8>>::new(&config).expect("there is memory");
    let mut bytes =
        if role == Role::Server && how & 16 == 0 { PREFACE.to_vec() } else { Vec::new() };
    if how & 8 == 0 {
        if how & 16 == 0 {
            bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        }
        frames(input, &mut bytes);
    } else {
        bytes.extend_from_slice(input);
    }
    if role == Role::Client {
        for ends in [true, false] {
            let lines = b":method: GET\r\n:scheme: http\r\n:authority: a\r\n:path: /\r\n";
            session.request(lines, ends).expect("the first ones");
        }
    }
    let mut events = Vec::new();
    let (mut sent, mut out) = (0, Vec::new());
    for piece in bytes.chunks(usize::from(*step).max(1)) {
        let received = session.receive(piece);
        session.take_events(&mut events);
        for event in events.drain(..) {
            if let Event::Data { start, len, .. } = &event {
                assert!(start + len <= piece.len(), "data outside of the input");
            }
            answer(&mut session, &event, *how);
        }
        let ended = session.send(&mut out, 2000);
        sent += out.len();
        out.clear();
        if received.is_err() || ended.is_err() {
            break;
        }
    }
    for _ in 0..100 {
        if !session.wants_write() || session.send(&mut out, 2000).is_err() || out.is_empty() {
            break;
        }
        sent += out.len();
        out.clear();
    }
    // A frame of 9 bytes is answered by at most one response of 3 KB.
    assert!(sent <= 1000 + bytes.len() * 500, "{sent} bytes for {}", bytes.len());
});
