//! Random frames of right lengths, from both sides: no panic, no spin, no growth. ONELOOP_HTTP2_FRAMES: how many.

use crate::{Chunk, Code, Config, Event, Failure, HeadKind, Role, Session};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A request's head, as any client's first one: GET, http, /, and a name and value of their own.
const HEAD: &[u8] = b"\x82\x86\x84\x01\x01a\x40\x01x\x01y";

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize) % bound
    }

    /// Often what a peer would send, so that streams are opened; else anything.
    fn frame(&mut self, opened: &mut u32, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let (kind, mut flags, mut stream) = match self.below(60) {
            0..=24 => {
                payload.extend_from_slice(HEAD);
                *opened += 2;
                (1, 4 | self.below(2) as u8, *opened - 2)
            }
            25..=39 if *opened > 1 => {
                (0, self.below(2) as u8, *opened - 2 * (1 + self.below(3) as u32).min(*opened / 2))
            }
            40..=44 if *opened > 1 => (8, 0, *opened - 2),
            45..=49 if *opened > 1 => (3, 0, *opened - 2),
            50 => (self.below(12) as u8, self.below(256) as u8, self.below(40) as u32),
            51 => (2, 0, self.below(9) as u32),
            52..=54 => (4, 0, 0),
            _ => (6, self.below(2) as u8, 0),
        };
        if payload.is_empty() {
            let len = match kind {
                2 => 5,
                3 | 8 => 4,
                4 => 6 * self.below(3),
                6 => 8,
                _ => self.below(60),
            };
            payload.extend(
                (0..len).map(|_| if self.below(3) == 0 { self.below(256) as u8 } else { 0 }),
            );
        }
        match self.below(500) {
            0 => payload.truncate(self.below(payload.len() + 1)),
            1 => flags = self.below(256) as u8,
            2 => stream = self.below(1 << 20) as u32,
            _ => {}
        }
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(&payload);
    }
}

fn answer(session: &mut Session<Vec<u8>>, event: &Event, how: usize) -> Result<(), Failure> {
    match event {
        Event::Head { stream, kind: HeadKind::Request, .. } => match how {
            0 => session.reset(*stream, Code::CANCEL),
            1 => session.respond(*stream, 200, b"a: b\r\n", true),
            2 => session.respond(*stream, 200, b"", false),
            _ => {
                session.respond(*stream, 200, b"", false)?;
                session.push(*stream, Chunk::Shared(vec![b'x'; 1000]), false)?;
                session.push_trailers(*stream, b"t: u\r\n".to_vec()).map(drop)
            }
        },
        Event::Data { stream, len, .. } => {
            session.consume(*stream, *len)?;
            session.consume_connection(*len)
        }
        _ => Ok(()),
    }
}

/// One connection, until it is over. Returns the numbers of frames that were sent and of requests that were heard.
fn connection(random: &mut Random) -> Result<(usize, usize), Failure> {
    let mut session = Session::<Vec<u8>>::new(&Config::new(Role::Server))?;
    let mut input = PREFACE.to_vec();
    input.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    let (mut opened, mut frames, mut heard, mut out) = (1_u32, 1, 0, Vec::new());
    let mut events = Vec::new();
    while frames < 5000 {
        let count = 1 + random.below(5);
        (0..count).for_each(|_| random.frame(&mut opened, &mut input));
        frames += count;
        let received = session.receive(&input);
        input.clear();
        session.take_events(&mut events);
        for event in events.drain(..) {
            heard += usize::from(matches!(event, Event::Head { .. }));
            // A stream may be over by now.
            let _refused = answer(&mut session, &event, random.below(4));
        }
        out.clear();
        let sent = session.send(&mut out, usize::MAX);
        assert!(out.len() <= 100_000 + count * 100_000, "{} bytes", out.len());
        if received.is_err() || sent.is_err() || !session.wants_read() {
            break;
        }
    }
    Ok((frames, heard))
}

/// The resident memory in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[test]
fn any_frames() -> Result<(), Failure> {
    let most: usize =
        std::env::var("ONELOOP_HTTP2_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(30_000);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut frames, mut heard, mut connections, mut half) = (0, 0, 0, None);
    while frames < most {
        let (sent, requests) = connection(&mut random)?;
        frames += sent;
        heard += requests;
        connections += 1;
        if half.is_none() && frames > most / 2 {
            half = Some(resident());
        }
    }
    let grown = resident().saturating_sub(half.unwrap_or_default());
    println!("{frames} frames in {connections} connections, {heard} requests, {grown} KiB more");
    assert!(heard > connections, "the frames reach no stream");
    // A sanitizer keeps what was freed, and finds leaks itself.
    let is_sanitized = std::env::var_os("ONELOOP_SANITIZED").is_some();
    assert!(is_sanitized || grown < 8192, "{grown} KiB more after half of the frames");
    Ok(())
}
