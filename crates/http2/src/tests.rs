//! A client and a server in memory.

use crate::{Chunk, Code, Config, Event, Failure, HeadKind, Role, Session};

type End = Session<Vec<u8>>;

struct Pair {
    client: End,
    server: End,
    /// The server's events, each as a line; data are collected.
    told: Vec<String>,
    body: Vec<u8>,
    answers: Vec<String>,
    answer: Vec<u8>,
}

fn say(event: &Event, input: &[u8], body: &mut Vec<u8>) -> String {
    match event {
        Event::Head { stream, kind, fields } => {
            let text: Vec<_> = fields
                .iter()
                .map(|(name, value)| {
                    format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
                })
                .collect();
            format!("{stream} {kind:?} {}", text.join(" "))
        }
        Event::Data { start, len, .. } => {
            body.extend_from_slice(&input[*start..start + len]);
            String::new()
        }
        Event::End { stream } => format!("{stream} end"),
        Event::Closed { stream, code } => format!("{stream} closed {}", code.name()),
        Event::GoAway { last_stream, code } => format!("goaway {last_stream} {}", code.name()),
        Event::Settings => "settings".to_owned(),
    }
}

impl Pair {
    fn new(config: Config) -> Result<Self, Failure> {
        Ok(Self {
            client: End::new(&Config::new(Role::Client))?,
            server: End::new(&config)?,
            told: Vec::new(),
            body: Vec::new(),
            answers: Vec::new(),
            answer: Vec::new(),
        })
    }

    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            self.client.send(&mut there, usize::MAX)?;
            self.server.receive(&there)?;
            let mut events = Vec::new();
            self.server.take_events(&mut events);
            self.told.extend(events.iter().map(|event| say(event, &there, &mut self.body)));
            self.server.send(&mut back, usize::MAX)?;
            self.client.receive(&back)?;
            let mut events = Vec::new();
            self.client.take_events(&mut events);
            self.answers.extend(events.iter().map(|event| say(event, &back, &mut self.answer)));
            if there.is_empty() && back.is_empty() {
                self.told.retain(|line| !line.is_empty() && line != "settings");
                self.answers.retain(|line| !line.is_empty() && line != "settings");
                return Ok(());
            }
        }
    }
}

const GET: &[u8] =
    b":method: GET\r\n:scheme: http\r\n:authority: a\r\n:path: /x?y\r\naccept: *\r\n";
const POST: &[u8] = b":method: POST\r\n:scheme: http\r\n:authority: a\r\n:path: /\r\n";

#[test]
fn a_request_and_its_response() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let stream = pair.client.request(GET, true)?;
    pair.run()?;
    let head = "1 Request :method=GET :scheme=http :authority=a :path=/x?y accept=*";
    assert_eq!(pair.told, [head, "1 end"]);
    pair.server.inform(stream, 103, b"link: a\r\n")?;
    pair.server.respond(stream, 200, b"content-type: text/plain\r\n", false)?;
    assert!(pair.server.push(stream, Chunk::Copied(b"hello ".to_vec()), false)?);
    pair.run()?;
    assert_eq!(pair.server.unsent_bytes(stream), Some(0));
    assert!(pair.server.push(stream, Chunk::Shared(b"world".to_vec()), false)?);
    assert!(pair.server.push_trailers(stream, b"grpc-status: 0\r\n".to_vec())?);
    assert!(!pair.server.push(stream, Chunk::Shared(b"late".to_vec()), true)?);
    pair.run()?;
    assert_eq!(pair.answer, b"hello world");
    assert_eq!(
        pair.answers,
        [
            "1 Interim :status=103 link=a",
            "1 Response :status=200 content-type=text/plain",
            "1 Trailers grpc-status=0",
            "1 end",
            "1 closed NO_ERROR"
        ]
    );
    assert_eq!(pair.server.take_sent(), [1]);
    assert_eq!(pair.server.take_used(), [b"late".to_vec(), b"world".to_vec()]);
    assert_eq!(pair.server.unsent_bytes(stream), None);
    Ok(())
}

/// A client that gives up a stream which is over says nothing, and forgets it.
#[test]
fn what_is_over_is_not_reset() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let stream = pair.client.request(GET, true)?;
    pair.run()?;
    pair.server.respond(stream, 200, b"", true)?;
    pair.run()?;
    pair.client.reset(stream, Code::CANCEL)?;
    let mut out = Vec::new();
    pair.client.send(&mut out, usize::MAX)?;
    assert_eq!(out, b"");
    // One that was not sent yet is never seen.
    let stream = pair.client.request(GET, true)?;
    pair.client.reset(stream, Code::CANCEL)?;
    pair.run()?;
    assert!(
        !pair.told.iter().any(|line| line.starts_with(&format!("{stream} "))),
        "{:?}",
        pair.told
    );
    Ok(())
}

/// What an idle session gives back is there again when it is needed.
#[test]
fn a_session_that_rests_goes_on() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    pair.run()?;
    for _ in 0..3 {
        pair.server.rest();
        pair.client.rest();
        let stream = pair.client.request(POST, false)?;
        assert!(pair.client.push(stream, Chunk::Shared(vec![b'x'; 20_000]), true)?);
        // Something is to be sent: nothing is given back.
        pair.client.rest();
        pair.run()?;
        pair.server.respond(stream, 200, b"a: b\r\n", false)?;
        assert!(pair.server.push(stream, Chunk::Shared(b"answer".to_vec()), true)?);
        pair.run()?;
    }
    assert_eq!((pair.body.len(), pair.answer.len()), (60_000, 18));
    Ok(())
}

#[test]
fn a_sign_of_life() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    pair.run()?;
    pair.client.ping()?;
    let (mut there, mut back) = (Vec::new(), Vec::new());
    pair.client.send(&mut there, usize::MAX)?;
    pair.server.receive(&there)?;
    pair.server.send(&mut back, usize::MAX)?;
    assert_eq!((there[3], there[4], back[3], back[4]), (6, 0, 6, 1));
    Ok(())
}

/// A body goes no further than the window, until it is given back.
#[test]
fn flow_control() -> Result<(), Failure> {
    let config =
        Config { stream_window: 70_000, connection_window: 100_000, ..Config::new(Role::Server) };
    let mut pair = Pair::new(config)?;
    pair.run()?;
    let streams = [pair.client.request(POST, false)?, pair.client.request(POST, false)?];
    for stream in streams {
        assert!(pair.client.push(stream, Chunk::Shared(vec![b'x'; 80_000]), true)?);
    }
    pair.run()?;
    assert_eq!(pair.body.len(), 100_000);
    pair.server.consume_connection(100_000)?;
    pair.run()?;
    assert_eq!(pair.body.len(), 140_000);
    assert_eq!(pair.client.unsent_bytes(streams[0]), Some(10_000));
    pair.server.consume(streams[1], 70_000)?;
    pair.run()?;
    assert_eq!(pair.body.len(), 150_000);
    assert_eq!(pair.client.unsent_bytes(streams[1]), None);
    Ok(())
}

/// Output stops at the limit, a frame more at most, and goes on.
#[test]
fn output_in_pieces() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let stream = pair.client.request(GET, true)?;
    pair.run()?;
    pair.server.respond(stream, 200, b"", false)?;
    assert!(pair.server.push(stream, Chunk::Shared(vec![b'x'; 60_000]), true)?);
    let mut all = Vec::new();
    loop {
        let mut piece = Vec::new();
        pair.server.send(&mut piece, 10_000)?;
        assert!(piece.len() <= 10_000 + 16_384 + 9);
        if piece.is_empty() {
            break;
        }
        all.extend_from_slice(&piece);
    }
    pair.client.receive(&all)?;
    let mut events = Vec::new();
    pair.client.take_events(&mut events);
    for event in &events {
        say(event, &all, &mut pair.answer);
    }
    assert_eq!(pair.answer.len(), 60_000);
    Ok(())
}

/// Two long bodies of requests without a priority are sent in turns.
#[test]
fn streams_take_turns() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let streams = [pair.client.request(GET, true)?, pair.client.request(GET, true)?];
    pair.run()?;
    for stream in streams {
        pair.server.take_turns(stream)?;
        pair.server.respond(stream, 200, b"", false)?;
        assert!(pair.server.push(stream, Chunk::Shared(vec![b'x'; 32_000]), true)?);
    }
    let mut out = Vec::new();
    pair.server.send(&mut out, usize::MAX)?;
    pair.client.receive(&out)?;
    let mut events = Vec::new();
    pair.client.take_events(&mut events);
    let order: Vec<_> = events
        .iter()
        .filter_map(
            |event| if let Event::Data { stream, .. } = event { Some(*stream) } else { None },
        )
        .collect();
    assert_eq!(order.iter().filter(|stream| **stream == 1).count(), 2);
    assert_ne!(order[..2], [1, 1], "{order:?}");
    Ok(())
}

#[test]
fn a_long_head_is_cut() -> Result<(), Failure> {
    let mut pair = Pair::new(Config { head_bytes: 100, ..Config::new(Role::Server) })?;
    let lines = [GET, b"long: ", &[b'x'; 200], b"\r\n"].concat();
    pair.client.request(&lines, true)?;
    let mut there = Vec::new();
    pair.client.send(&mut there, usize::MAX)?;
    pair.server.receive(&there)?;
    let mut events = Vec::new();
    pair.server.take_events(&mut events);
    let cut = events.iter().any(
        |event| matches!(event, Event::Head { kind: HeadKind::Request, fields, .. } if fields.is_cut),
    );
    assert!(cut);
    Ok(())
}

#[test]
fn ends_in_two_steps() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let first = pair.client.request(GET, true)?;
    pair.run()?;
    pair.server.give_notice()?;
    pair.run()?;
    assert_eq!(pair.answers, ["goaway 2147483647 NO_ERROR"]);
    pair.server.go_away(Code::NO_ERROR)?;
    pair.run()?;
    assert_eq!(pair.answers[1], "goaway 1 NO_ERROR");
    assert!(pair.server.wants_read());
    pair.server.respond(first, 204, b"", true)?;
    pair.run()?;
    assert!(!pair.server.wants_read() && !pair.server.wants_write());
    Ok(())
}

#[test]
fn what_is_no_http2() -> Result<(), Failure> {
    let mut server = End::new(&Config::new(Role::Server))?;
    let failure = server.receive(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect_err("no preface");
    assert!(!failure.is_shortage());
    assert_eq!(failure.to_string(), "Received bad client magic byte string");
    Ok(())
}

#[test]
fn resets() -> Result<(), Failure> {
    let mut pair = Pair::new(Config::new(Role::Server))?;
    let stream = pair.client.request(GET, true)?;
    pair.run()?;
    pair.server.respond(stream, 200, b"", false)?;
    assert!(pair.server.push(stream, Chunk::Shared(vec![b'x'; 10]), false)?);
    pair.run()?;
    pair.server.reset(stream, Code::INTERNAL_ERROR)?;
    pair.run()?;
    assert_eq!(pair.answers.last().map(String::as_str), Some("1 closed INTERNAL_ERROR"));
    assert!(!pair.server.push(stream, Chunk::Shared(vec![b'y']), true)?);
    assert_eq!(pair.server.take_used().len(), 2);
    Ok(())
}
