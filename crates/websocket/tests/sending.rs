//! The bytes that a sender writes, and what it refuses to send.

mod support;

use oneloop_websocket::{Connection, DeflateParams, SendError};
use support::{bare, client, deflating, frame, server};

#[test]
fn frames_of_both_roles() {
    for len in [0, 1, 125, 126, 65_535, 65_536] {
        let text = "t".repeat(len);
        let (mut out, mut masked) = (Vec::new(), Vec::new());
        Connection::new(&server()).sender.text(&mut out, &text).unwrap();
        Connection::new(&client()).sender.text(&mut masked, &text).unwrap();
        assert_eq!(out, bare(0x81, text.as_bytes()));
        assert_eq!(masked, frame(0x81, text.as_bytes()));
    }
    let mut connection = Connection::new(&server());
    let mut out = Vec::new();
    connection.sender.binary(&mut out, &[1, 2]).unwrap();
    connection.sender.ping(&mut out, b"p").unwrap();
    connection.sender.pong(&mut out, b"").unwrap();
    connection.sender.close(&mut out, Some(1001), "bye").unwrap();
    assert_eq!(out, b"\x82\x02\x01\x02\x89\x01p\x8A\x00\x88\x05\x03\xE9bye");
}

#[test]
fn the_head_alone() {
    let mut out = Vec::new();
    assert_eq!(Connection::new(&server()).sender.head(&mut out, true, 300), Ok(true));
    assert_eq!(out, [0x81, 0x7E, 0x01, 0x2C]);
    out.clear();
    let mut compressed = deflating(server(), DeflateParams::default());
    compressed.compress_from_bytes = 200;
    let mut connection = Connection::new(&compressed);
    assert_eq!(connection.sender.head(&mut out, false, 200), Ok(false));
    assert_eq!(Connection::new(&client()).sender.head(&mut out, false, 1), Ok(false));
    assert_eq!(out, []);
    assert_eq!(connection.sender.head(&mut out, false, 199), Ok(true));
    assert_eq!(out, [0x82, 0x7E, 0x00, 199]);
}

#[test]
fn close_frames() {
    let close = |code, reason: &str| {
        let mut out = Vec::new();
        Connection::new(&server()).sender.close(&mut out, code, reason).map(|()| out)
    };
    assert_eq!(close(None, "left out"), Ok(vec![0x88, 0]));
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535] {
        assert_eq!(close(Some(code), ""), Err(SendError::BadCode(code)));
    }
    // 123 bytes at most, without splitting a character.
    assert_eq!(close(Some(4000), &"r".repeat(200)).unwrap().len(), 2 + 125);
    assert_eq!(close(Some(4000), &"é".repeat(100)).unwrap().len(), 2 + 2 + 122);
}

#[test]
fn nothing_follows_a_close_frame() {
    let mut connection = Connection::new(&server());
    let mut out = Vec::new();
    connection.sender.close(&mut out, Some(1000), "").unwrap();
    let len = out.len();
    assert_eq!(connection.sender.text(&mut out, "late"), Err(SendError::Closed));
    assert_eq!(connection.sender.binary(&mut out, b""), Err(SendError::Closed));
    assert_eq!(connection.sender.pong(&mut out, b""), Err(SendError::Closed));
    assert_eq!(connection.sender.head(&mut out, true, 4), Err(SendError::Closed));
    assert_eq!(connection.sender.close(&mut out, None, ""), Err(SendError::Closed));
    assert_eq!(out.len(), len);
    assert!(connection.sender.is_closed());
}

#[test]
fn long_pings_are_refused() {
    let mut out = Vec::new();
    let mut connection = Connection::new(&server());
    assert_eq!(connection.sender.ping(&mut out, &[0; 126]), Err(SendError::TooLong));
    assert_eq!(out, []);
}
