//! RFC 6455, rule by rule: what a server accepts, and the code for what it refuses. Each case whole and in pieces.

mod support;

use oneloop_websocket::{Config, Event, Failure, Receiver};
use support::{KEY, Said, accepted, bare, client, frame, head, outcome, refused, server};

fn text(text: &str) -> Said {
    Said::Text(text.to_owned())
}

#[test]
fn whole_messages_of_every_length_form() {
    for len in [0_usize, 1, 3, 4, 15, 16, 17, 125, 126, 127, 1000, 65_535, 65_536] {
        let payload: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
        let bytes = frame(0x82, &payload);
        let mut receiver = Receiver::new(&server());
        let (said, failure) = support::feed(&mut receiver, [&bytes[..]]);
        assert_eq!((said, failure), (vec![Said::Binary(payload.clone())], None));
        let (said, _) = support::feed(&mut receiver, bytes.chunks(7));
        assert_eq!(said, [Said::Binary(payload)]);
        assert_eq!(receiver.buffered_bytes(), 0);
    }
}

#[test]
fn a_whole_message_is_borrowed_from_the_input() {
    let mut bytes = frame(0x81, b"Hello");
    let place = bytes.as_ptr() as usize + 6;
    let mut receiver = Receiver::new(&server());
    let step = receiver.read(&mut bytes).unwrap();
    let Some(Event::Text(text)) = step.event else { panic!("{:?}", step.event) };
    assert_eq!((text, text.as_ptr() as usize), ("Hello", place));
}

#[test]
fn several_frames_in_one_input() {
    let bytes = [
        frame(0x81, b"one"),
        frame(0x89, b"p"),
        frame(0x8A, b""),
        frame(0x82, b""),
        frame(0x88, &[0x03, 0xE8, b'e']),
        frame(0x81, b"after the close frame nothing is read"),
        vec![0xFF; 40],
    ]
    .concat();
    let said = accepted(&server(), &bytes);
    assert_eq!(
        said,
        [
            text("one"),
            Said::Ping(b"p".to_vec()),
            Said::Pong(vec![]),
            Said::Binary(vec![]),
            Said::Close(Some(1000), "e".to_owned()),
        ]
    );
}

#[test]
fn fragments_with_control_frames_between() {
    let bytes = [
        frame(0x01, b"Hel"),
        frame(0x89, b"ping"),
        frame(0x00, b""),
        frame(0x8A, b"pong"),
        frame(0x00, b"l"),
        frame(0x80, b"o"),
        frame(0x02, b""),
        frame(0x80, b""),
        frame(0x01, b""),
        frame(0x80, b"end"),
    ]
    .concat();
    let (ping, pong) = (Said::Ping(b"ping".to_vec()), Said::Pong(b"pong".to_vec()));
    assert_eq!(
        accepted(&server(), &bytes),
        [ping, pong, text("Hello"), Said::Binary(vec![]), text("end")]
    );
}

#[test]
fn masks_belong_to_clients() {
    assert_eq!(refused(&server(), &bare(0x81, b"Hello")), 1002);
    assert_eq!(refused(&server(), &bare(0x88, b"")), 1002);
    assert_eq!(refused(&client(), &frame(0x81, b"Hello")), 1002);
    assert_eq!(accepted(&client(), &bare(0x81, b"Hello")), [text("Hello")]);
}

#[test]
fn reserved_bits_and_opcodes() {
    for bits in 1..8u8 {
        for opcode in [0x1, 0x2, 0x8, 0x9, 0xA] {
            assert_eq!(refused(&server(), &frame(0x80 | bits << 4 | opcode, b"")), 1002);
        }
        let continued = [frame(0x01, b"a"), frame(0x80 | bits << 4, b"b")].concat();
        assert_eq!(refused(&server(), &continued), 1002);
    }
    for opcode in [0x3, 0x4, 0x5, 0x6, 0x7, 0xB, 0xC, 0xD, 0xE, 0xF] {
        assert_eq!(refused(&server(), &frame(0x80 | opcode, b"")), 1002);
        assert_eq!(refused(&server(), &frame(opcode, b"")), 1002);
    }
}

#[test]
fn control_frames_are_short_and_whole() {
    for opcode in [0x8, 0x9, 0xA] {
        assert_eq!(refused(&server(), &frame(opcode, b"")), 1002);
        assert_eq!(refused(&server(), &frame(0x80 | opcode, &[b'x'; 126])), 1002);
        // The head of a long one is enough.
        assert_eq!(refused(&server(), &[0x80 | opcode, 0xFE]), 1002);
    }
    assert_eq!(accepted(&server(), &frame(0x89, &[b'x'; 125])), [Said::Ping(vec![b'x'; 125])]);
}

#[test]
fn fragments_in_order() {
    assert_eq!(refused(&server(), &frame(0x80, b"a")), 1002);
    assert_eq!(refused(&server(), &frame(0x00, b"a")), 1002);
    assert_eq!(refused(&server(), &[frame(0x01, b"a"), frame(0x81, b"b")].concat()), 1002);
    assert_eq!(refused(&server(), &[frame(0x01, b"a"), frame(0x02, b"b")].concat()), 1002);
    let ended = [frame(0x01, b"a"), frame(0x80, b"b"), frame(0x80, b"c")].concat();
    assert_eq!(outcome(&server(), &ended).0, [text("ab")]);
    assert_eq!(refused(&server(), &ended), 1002);
}

#[test]
fn lengths_in_their_shortest_form() {
    let with = |len: &[u8]| [&[0x82], len, &KEY[..]].concat();
    assert_eq!(refused(&server(), &with(&[0xFE, 0, 125])), 1002);
    assert_eq!(refused(&server(), &with(&[0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF])), 1002);
    assert_eq!(refused(&server(), &with(&[0xFF, 0x80, 0, 0, 0, 0, 1, 0, 0])), 1002);
    // The largest possible length; too large for the limit.
    let most = [0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF];
    assert_eq!(refused(&server(), &with(&most)), 1009);
}

#[test]
fn close_codes() {
    let codes = (0..=5100).chain([65_535]);
    for code in codes {
        let mut receiver = Receiver::new(&server());
        let bytes = frame(0x88, &u16::to_be_bytes(code));
        let (said, failure) = support::feed(&mut receiver, [&bytes[..]]);
        let is_valid = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        if is_valid {
            assert_eq!(said, [Said::Close(Some(code), String::new())]);
        } else {
            assert_eq!(failure.map(|failure| failure.code), Some(1002), "{code}");
        }
        assert!(receiver.is_done());
    }
}

#[test]
fn close_payloads() {
    assert_eq!(accepted(&server(), &frame(0x88, b"")), [Said::Close(None, String::new())]);
    assert_eq!(refused(&server(), &frame(0x88, &[0x03])), 1002);
    assert_eq!(refused(&server(), &frame(0x88, &[0x03, 0xE8, 0xFF])), 1007);
    assert_eq!(refused(&server(), &frame(0x88, &[0x03, 0xE8, 0xE2, 0x82])), 1007);
    let longest = [&[0x03, 0xE8][..], &[b'r'; 123]].concat();
    assert_eq!(
        accepted(&server(), &frame(0x88, &longest)),
        [Said::Close(Some(1000), "r".repeat(123))]
    );
    // Within a message: the message is dropped.
    let within = [frame(0x01, b"a"), frame(0x88, b""), frame(0x80, b"b")].concat();
    assert_eq!(accepted(&server(), &within), [Said::Close(None, String::new())]);
}

#[test]
fn text_is_utf8_across_fragments() {
    let all = "κόσμε \u{1F600} \u{10FFFF} \u{0} ÿ";
    for cut in 0..=all.len() {
        let (left, right) = all.as_bytes().split_at(cut);
        let bytes = [frame(0x01, left), frame(0x80, right)].concat();
        assert_eq!(accepted(&server(), &bytes), [text(all)]);
    }
    // A character that is incomplete at the end of the message.
    assert_eq!(refused(&server(), &frame(0x81, b"a\xE2\x82")), 1007);
    assert_eq!(refused(&server(), &[frame(0x01, b"\xE2"), frame(0x80, b"\x82")].concat()), 1007);
    // Binary data need not be valid text.
    assert_eq!(accepted(&server(), &frame(0x82, b"\xE2")), [Said::Binary(vec![0xE2])]);
}

#[test]
fn text_is_refused_at_the_first_impossible_byte() {
    let impossible: [&[u8]; 11] = [
        b"\x80",         // a continuation byte at the start
        b"\xC0",         // overlong
        b"\xC1",         // overlong
        b"\xE0\x9F",     // overlong
        b"\xF0\x8F",     // overlong
        b"\xED\xA0",     // a surrogate
        b"\xF4\x90",     // above U+10FFFF
        b"\xF5",         // above U+10FFFF
        b"\xE2\x82\x28", // not continued
        b"\xF1\x80\x80\x28",
        b"\xFF",
    ];
    for bytes in impossible {
        // In an incomplete frame of an incomplete message.
        let input = [head(0x01, 1000, true), masked(*b"abcd", bytes)].concat();
        assert_eq!(refused(&server(), &input), 1007, "{bytes:?}");
        let (said, failure) = outcome(&server(), &input[..input.len() - 1]);
        assert_eq!((said, failure), (vec![], None), "{bytes:?} is refused too early");
    }
}

/// The payload after four bytes, where the mask starts again.
fn masked(start: [u8; 4], rest: &[u8]) -> Vec<u8> {
    frame(0x82, &[&start, rest].concat()).split_off(6)
}

#[test]
fn a_message_too_long_is_refused_by_its_head() {
    let config = Config { max_message_bytes: 1000, ..server() };
    assert_eq!(refused(&config, &head(0x82, 1001, true)), 1009);
    assert_eq!(accepted(&config, &frame(0x82, &[7; 1000])).len(), 1);
    let fragments = [frame(0x02, &[7; 600]), head(0x80, 401, true)].concat();
    assert_eq!(refused(&config, &fragments), 1009);
    let fits = [frame(0x02, &[7; 600]), frame(0x80, &[7; 400])].concat();
    assert_eq!(accepted(&config, &fits), [Said::Binary(vec![7; 1000])]);
}

#[test]
fn a_head_alone_takes_little_memory() {
    let mut receiver = Receiver::new(&server());
    let input = [head(0x82, 16 << 20, true), vec![0]].concat();
    assert_eq!(support::feed(&mut receiver, [&input[..]]), (vec![], None));
    assert!(receiver.buffered_bytes() <= 80 << 10, "{}", receiver.buffered_bytes());
}

#[test]
fn a_long_message_takes_no_more_than_the_limit() {
    let config = Config { max_message_bytes: 1 << 20, ..server() };
    let mut receiver = Receiver::new(&config);
    let bytes = frame(0x82, &vec![5; 1 << 20]);
    let mut sizes = vec![0];
    for piece in bytes.chunks(1000) {
        support::feed(&mut receiver, [piece]);
        assert!(receiver.buffered_bytes() <= 1 << 20);
        sizes.push(receiver.buffered_bytes());
    }
    // It grows in few steps, because each may copy everything.
    sizes.dedup();
    assert!(sizes.len() < 12, "{sizes:?}");
}

#[test]
fn too_many_frames_in_a_message() {
    let config = Config { max_message_frames: 10, max_interleaved_frames: 5, ..server() };
    let mut bytes = frame(0x01, b"");
    bytes.extend(frame(0x00, b"").repeat(9));
    assert_eq!(accepted(&config, &bytes), []);
    bytes.extend(frame(0x80, b""));
    assert_eq!(refused(&config, &bytes), 1008);
    let mut bytes = frame(0x01, b"");
    bytes.extend(frame(0x89, b"").repeat(5));
    assert_eq!(accepted(&config, &bytes).len(), 5);
    bytes.extend(frame(0x8A, b""));
    assert_eq!(refused(&config, &bytes), 1008);
    // Outside of messages their number is not limited here.
    assert_eq!(accepted(&config, &frame(0x89, b"").repeat(30)).len(), 30);
}

#[test]
fn a_failure_ends_the_reading() {
    let mut receiver = Receiver::new(&server());
    let bytes = [frame(0x81, b"one"), vec![0x83], frame(0x81, b"two")].concat();
    let (said, failure) = support::feed(&mut receiver, [&bytes[..]]);
    assert_eq!(said, [text("one")]);
    assert_eq!(failure, Some(Failure { code: 1002, reason: "reserved opcode" }));
    assert_eq!(support::feed(&mut receiver, [&frame(0x81, b"three")[..]]), (vec![], None));
    assert_eq!(receiver.buffered_bytes(), 0);
}
