//! The PROXY protocol: whole headers, every prefix of them, and invalid ones.

use super::{Header, LONGEST_BLOCK, SIGNATURE, parse};

fn proxied(source: &str, destination: &str) -> Header {
    let address = |text: &str| text.parse().expect("an address");
    Header::Proxied { source: address(source), destination: address(destination) }
}

/// A header of version 2: version and command, family, and the rest.
fn block(version_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).expect("a short header");
    let mut made = SIGNATURE.to_vec();
    made.extend([version_command, family]);
    made.extend(len.to_be_bytes());
    made.extend(rest);
    made
}

const IPV4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xDD, 0xD5, 1, 0xBB];

fn ipv6() -> Vec<u8> {
    let mut made = vec![0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    made.extend([0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    made.extend([0xDD, 0xD5, 1, 0xBB]);
    made
}

fn good() -> Vec<(Vec<u8>, Header)> {
    let ipv4 = proxied("192.0.2.1:56789", "198.51.100.2:443");
    let with_extensions = [&IPV4[..], &[0x04, 0, 2, 1, 2, 0x20, 0, 0]].concat();
    vec![
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 56789 443\r\n".to_vec(), ipv4.clone()),
        (
            b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n".to_vec(),
            proxied("[2001:db8::1]:1", "[2001:db8::2]:65535"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), Header::Local),
        (b"PROXY UNKNOWN ffff::1 whatever 1 2\r\n".to_vec(), Header::Local),
        (block(0x21, 0x11, &IPV4), ipv4.clone()),
        (block(0x21, 0x11, &with_extensions), ipv4),
        (block(0x21, 0x21, &ipv6()), proxied("[2001:db8::1]:56789", "[2001:db8::2]:443")),
        (block(0x20, 0x00, &[]), Header::Local),
        (block(0x20, 0x11, &IPV4), Header::Local),
        (block(0x21, 0x00, &[]), Header::Local),
        (block(0x21, 0x31, &[0; 216]), Header::Local),
    ]
}

#[test]
fn headers_are_read_and_what_follows_is_left() {
    for (bytes, expected) in good() {
        let len = bytes.len();
        assert_eq!(parse(&bytes), Ok(Some((expected.clone(), len))));
        let followed = [&bytes[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(parse(&followed), Ok(Some((expected, len))));
    }
}

#[test]
fn every_beginning_of_a_header_needs_more() {
    for (bytes, _) in good() {
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(None), "{:?}", &bytes[..end]);
        }
    }
}

#[test]
fn wrong_lines_are_refused() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56789 443\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56789\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56789 443 1\r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 56789 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 56789 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 01 443\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 1 443\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 198.51.100.2 1 2\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY \r\n",
        "PROXY UNKNOWN a\rb\r\n",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line:?}");
    }
    assert!(parse(b"PROXY UNKNOWN \xff").and(parse(b"PROXY UNKNOWN \xff\r\n")).is_err());
}

#[test]
fn a_line_that_does_not_end_is_refused_at_its_limit() {
    let line = format!("PROXY UNKNOWN {}", "x".repeat(200));
    assert_eq!(parse(&line.as_bytes()[..106]), Ok(None));
    assert!(parse(&line.as_bytes()[..107]).is_err());
}

/// Found by tests/fuzz: the reason changed when the line's end arrived.
#[test]
fn a_wrong_character_is_the_reason_with_and_without_the_lines_end() {
    let line = b"PROXY TCP4 192.0\xff.2.1 198.51.100.2 1 2\r\n";
    let early = parse(&line[..20]).map_err(|refusal| refusal.reason);
    assert!(early.is_err());
    assert_eq!(parse(line).map_err(|refusal| refusal.reason), early);
}

#[test]
fn wrong_blocks_are_refused() {
    let short = &IPV4[..11];
    let cut_extension = [&IPV4[..], &[0x04, 0, 9, 1]].concat();
    let cut_head = [&IPV4[..], &[0x04, 0]].concat();
    for bytes in [
        block(0x11, 0x11, &IPV4),
        block(0x31, 0x11, &IPV4),
        block(0x22, 0x11, &IPV4),
        block(0x21, 0x12, &IPV4),
        block(0x21, 0x41, &IPV4),
        block(0x21, 0x11, short),
        block(0x21, 0x21, &IPV4),
        block(0x21, 0x31, &[0; 215]),
        block(0x21, 0x11, &cut_extension),
        block(0x21, 0x11, &cut_head),
        block(0x21, 0x11, &[0; LONGEST_BLOCK + 1]),
    ] {
        assert!(parse(&bytes).is_err(), "{bytes:?}");
    }
    // As soon as it can be detected.
    assert!(parse(&block(0x11, 0x11, &IPV4)[..13]).is_err());
    assert!(parse(&block(0x21, 0x11, &[0; LONGEST_BLOCK + 1])[..16]).is_err());
    assert!(parse(b"\r\n\r\n\0\r\nQUIX").is_err());
}

#[test]
fn no_bytes_make_it_panic() {
    // A linear congruential generator: the same bytes in every run.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for (bytes, _) in good() {
        for _ in 0..2000 {
            let mut changed = bytes.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let place = usize::try_from(state >> 40).expect("24 bits") % changed.len();
                changed[place] = (state >> 32) as u8;
            }
            if let Ok(Some((_, len))) = parse(&changed) {
                assert!(len <= changed.len());
            }
        }
    }
}
