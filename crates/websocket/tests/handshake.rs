//! The server's handshake: RFC 6455 section 4.2, and which offers of permessage-deflate are accepted.

#![allow(clippy::unwrap_used, reason = "also the functions beside the tests are tests")]

mod support;

use oneloop_websocket::DeflateParams;
use oneloop_websocket::handshake::{
    Refusal, Upgrade, accept_key, asks_for, write_accept, write_agreed,
};
use oneloop_websocket::negotiation::negotiate;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const GOOD: [(&str, &str); 5] = [
    ("Host", "server.example.com"),
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Version", "13"),
];

fn check<'a>(fields: &[(&'a str, &'a str)]) -> Result<Upgrade<'a>, Refusal> {
    Upgrade::check("GET", true, fields.iter().map(|(name, value)| (*name, value.as_bytes())))
}

/// The valid request with one field replaced or left out.
fn with<'a>(name: &'a str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let others = GOOD.into_iter().filter(|(other, _)| !other.eq_ignore_ascii_case(name));
    others.chain(value.map(|value| (name, value))).collect()
}

fn status(fields: &[(&str, &str)]) -> u16 {
    check(fields).map_or_else(|refusal| refusal.status, |_| 101)
}

#[test]
fn the_example_of_the_rfc() {
    let upgrade = check(&GOOD).unwrap();
    assert_eq!(upgrade.key, KEY.as_bytes());
    assert_eq!(&accept_key(upgrade.key), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(upgrade.protocols.is_empty() && upgrade.extensions.is_empty());
}

#[test]
fn other_hashes() {
    // Computed with Python's hashlib and base64.
    assert_eq!(&accept_key(b"x3JJHMbDL1EzLkh9GBhXDw=="), b"HSmrc0sMlYUkAGmm5OPpG2HaGWk=");
    assert_eq!(&accept_key(b"AAAAAAAAAAAAAAAAAAAAAA=="), b"ICX+Yqv66kxgM0FcWaLWlFLwTAI=");
}

#[test]
fn what_is_refused() {
    let get = |method, is_http_1_1| {
        Upgrade::check(method, is_http_1_1, GOOD.map(|(name, value)| (name, value.as_bytes())))
            .map_or_else(|refusal| refusal.status, |_| 101)
    };
    assert_eq!((get("GET", true), get("POST", true), get("get", true)), (101, 405, 405));
    assert_eq!(get("GET", false), 400);
    for (name, value, expected) in [
        ("Upgrade", None, 400),
        ("Upgrade", Some("h2c"), 400),
        ("Upgrade", Some("websockets"), 400),
        ("Upgrade", Some("h2c, WebSocket"), 101),
        ("Connection", None, 400),
        ("Connection", Some("close"), 400),
        ("connection", Some("keep-alive, ,\tupgrade"), 101),
        ("Sec-WebSocket-Version", None, 426),
        ("Sec-WebSocket-Version", Some("8"), 426),
        ("Sec-WebSocket-Version", Some("013"), 426),
        ("Sec-WebSocket-Version", Some("13, 8"), 426),
        ("Sec-WebSocket-Key", None, 400),
        ("Sec-WebSocket-Key", Some(""), 400),
        ("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25jZQ="), 400),
        ("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25jZQ"), 400),
        ("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25jZTE="), 400),
        ("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25j Q=="), 400),
        ("Sec-WebSocket-Key", Some("dGhlIHNhbXBsZSBub25j=Q=="), 400),
        ("Sec-WebSocket-Protocol", Some("chat, superchat"), 101),
        ("Sec-WebSocket-Protocol", Some("chat, chat"), 400),
        ("Sec-WebSocket-Protocol", Some("a b"), 400),
        ("Sec-WebSocket-Protocol", Some("caf\u{e9}"), 400),
        ("Content-Length", Some("0"), 101),
        ("Content-Length", Some("5"), 400),
        ("Transfer-Encoding", Some("chunked"), 400),
    ] {
        assert_eq!(status(&with(name, value)), expected, "{name}: {value:?}");
    }
    for twice in [("sec-websocket-key", KEY), ("Sec-WebSocket-Version", "13")] {
        let fields: Vec<_> = GOOD.into_iter().chain([twice]).collect();
        assert_eq!(status(&fields), 400);
    }
}

#[test]
fn subprotocols_of_several_fields() {
    let more = [("Sec-WebSocket-Protocol", "chat, superchat"), ("sec-websocket-protocol", "mqtt,")];
    let fields: Vec<_> = GOOD.into_iter().chain(more).collect();
    assert_eq!(check(&fields).unwrap().protocols, ["chat", "superchat", "mqtt"]);
    let many = (0..65).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(status(&with("Sec-WebSocket-Protocol", Some(&many))), 400);
}

#[test]
fn an_upgrade_that_asks_for_something_else() {
    assert!(asks_for(b"WebSocket") && asks_for(b"h2c,websocket"));
    assert!(!asks_for(b"h2c") && !asks_for(b"") && !asks_for(b"websocket/13"));
}

/// The answer's value and the parameters; `None` if no offer is accepted.
fn accept(offers: &[&str], allowed: DeflateParams) -> Option<(String, DeflateParams)> {
    let fields = offers.iter().map(|offer| offer.as_bytes());
    negotiate(fields, allowed).unwrap().map(|agreement| (agreement.response, agreement.params))
}

const WIDE: DeflateParams = DeflateParams {
    server_no_context_takeover: false,
    client_no_context_takeover: false,
    server_max_window_bits: 15,
    client_max_window_bits: 15,
};

#[test]
fn offers_that_are_accepted() {
    let narrow = DeflateParams::default();
    for (offer, allowed, response, bits) in [
        ("permessage-deflate", WIDE, "", (15, 15)),
        ("Permessage-Deflate", WIDE, "", (15, 15)),
        ("permessage-deflate", narrow, "; server_max_window_bits=12", (12, 15)),
        ("permessage-deflate; client_max_window_bits", WIDE, "", (15, 15)),
        (
            "permessage-deflate; client_max_window_bits",
            narrow,
            "; server_max_window_bits=12; client_max_window_bits=12",
            (12, 12),
        ),
        (
            "permessage-deflate; client_max_window_bits=10; server_max_window_bits=9",
            narrow,
            "; server_max_window_bits=9; client_max_window_bits=10",
            (9, 10),
        ),
        (
            "permessage-deflate;server_max_window_bits=\"15\"",
            WIDE,
            "; server_max_window_bits=15",
            (15, 15),
        ),
        (
            "permessage-deflate ; server_max_window_bits = \"\\1\\0\"",
            WIDE,
            "; server_max_window_bits=10",
            (10, 15),
        ),
        (
            "permessage-deflate; server_max_window_bits=8; client_max_window_bits=8",
            WIDE,
            "; server_max_window_bits=8; client_max_window_bits=8",
            (8, 8),
        ),
    ] {
        let (found, params) = accept(&[offer], allowed).expect(offer);
        assert_eq!(found, format!("permessage-deflate{response}"), "{offer}");
        assert_eq!((params.server_max_window_bits, params.client_max_window_bits), bits);
    }
    let takeover = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    let (response, params) = accept(&[takeover], WIDE).unwrap();
    assert_eq!(response, takeover);
    assert!(params.server_no_context_takeover && params.client_no_context_takeover);
    let without = DeflateParams {
        server_no_context_takeover: true,
        client_no_context_takeover: true,
        ..WIDE
    };
    assert_eq!(accept(&["permessage-deflate"], without), Some((takeover.to_owned(), without)));
}

#[test]
fn offers_that_are_declined() {
    for parameters in [
        "; server_max_window_bits",
        "; server_max_window_bits=7",
        "; server_max_window_bits=16",
        "; server_max_window_bits=08",
        "; server_max_window_bits=a",
        "; server_max_window_bits=\"1\\6\"",
        "; client_max_window_bits=7",
        "; client_max_window_bits=16",
        "; client_max_window_bits=010",
        "; server_no_context_takeover=1",
        "; client_no_context_takeover=true",
        "; unknown",
        "; unknown=1",
        "; server_no_context_takeover; server_no_context_takeover",
        "; client_max_window_bits; client_max_window_bits=10",
        "; server_max_window_bits=10; server_max_window_bits=10",
    ] {
        let offer = format!("permessage-deflate{parameters}");
        assert_eq!(accept(&[&offer], WIDE), None, "{offer}");
        let second = format!("{offer}, permessage-deflate; server_max_window_bits=11");
        let (response, _) = accept(&[&second], WIDE).expect(&second);
        assert_eq!(response, "permessage-deflate; server_max_window_bits=11");
    }
    assert_eq!(accept(&["x-webkit-deflate-frame", "foo; bar=1, baz"], WIDE), None);
    assert_eq!(accept(&[], WIDE), None);
    assert_eq!(accept(&["", " , "], WIDE), None);
}

#[test]
fn the_first_acceptable_offer_counts() {
    let offers = ["foo", "permessage-deflate; server_max_window_bits=10, permessage-deflate"];
    let (response, _) = accept(&offers, WIDE).unwrap();
    assert_eq!(response, "permessage-deflate; server_max_window_bits=10");
}

#[test]
fn what_is_no_list_of_extensions() {
    for field in [
        ";",
        "permessage-deflate;",
        "permessage-deflate; =1",
        "permessage-deflate; a=",
        "permessage-deflate; a=\"",
        "permessage-deflate; a=\"\"",
        "permessage-deflate; a=\"b c\"",
        "permessage-deflate; a=\"b\\",
        "permessage-deflate a",
        "permessage-deflate; a b",
        "permessage-deflate, ;",
        "\"permessage-deflate\"",
        "permessage-deflate; caf\u{e9}",
    ] {
        let refusal = negotiate([field.as_bytes()], WIDE).expect_err(field);
        assert_eq!(refusal.status, 400);
    }
}

#[test]
fn random_offers() {
    const WORDS: [&str; 20] = [
        "permessage-deflate",
        "permessage-deflate",
        "server_max_window_bits",
        "; ",
        "client_max_window_bits",
        ";",
        "=",
        "server_no_context_takeover",
        "client_no_context_takeover",
        ",",
        "10",
        "15",
        "8",
        "7",
        "\"",
        "\\",
        " ",
        "\t",
        "x",
        "\u{e9}",
    ];
    let mut random = support::Random::new(10);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut offer = String::new();
        for _ in 0..random.below(12) {
            offer.push_str(WORDS[random.below(WORDS.len())]);
        }
        if let Ok(Some(agreement)) = negotiate([offer.as_bytes()], WIDE) {
            accepted += 1;
            // A client that offers exactly the answer gets it.
            assert_eq!(
                accept(&[&agreement.response], WIDE).unwrap().1,
                agreement.params,
                "{offer}"
            );
        }
    }
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn the_answer() {
    let mut out = Vec::new();
    write_accept(&mut out, KEY.as_bytes());
    write_agreed(&mut out, None, None);
    assert_eq!(
        out,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
    );
    let agreement = negotiate([&b"permessage-deflate"[..]], WIDE).unwrap();
    out.clear();
    write_agreed(&mut out, Some("chat"), agreement.as_ref());
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "sec-websocket-protocol: chat\r\nsec-websocket-extensions: permessage-deflate\r\n"
    );
}

/// RFC 8441: neither a key nor the fields of a connection.
#[test]
fn a_handshake_of_http2() {
    let fields = [("sec-websocket-version", &b"13"[..]), ("sec-websocket-protocol", b"a, b")];
    let upgrade = Upgrade::check_connect(fields).unwrap();
    assert_eq!((upgrade.key, upgrade.protocols), (&b""[..], vec!["a", "b"]));
    let refused = Upgrade::check_connect([("sec-websocket-version", &b"8"[..])]);
    assert_eq!(refused.unwrap_err().status, 426);
    assert_eq!(Upgrade::check_connect([]).unwrap_err().status, 426);
}
