//! A response's head and body: the answer does not depend on where the input is cut.

#![no_main]

mod bodies;

use libfuzzer_sys::fuzz_target;
use oneloop_http1::{Asked, Header, Limits, parse_response};
use std::mem::MaybeUninit;

const LIMITS: Limits =
    Limits { line_bytes: 300, head_bytes: 1000, headers: 20, body_bytes: 10_000 };

fn read(input: &[u8], asked: Asked) -> Option<String> {
    let mut fields: [MaybeUninit<Header<'_>>; 32] = [const { MaybeUninit::uninit() }; 32];
    match parse_response(input, &mut fields, asked, &LIMITS) {
        Ok(None) => None,
        Ok(Some(response)) => Some(format!("{response:?}")),
        // Which of several mistakes is found first may depend on what has arrived.
        Err(_) => Some("refused".to_owned()),
    }
}

fuzz_target!(|data: &[u8]| {
    let [how, cut, input @ ..] = data else { return };
    let asked = || match how % 3 {
        0 => Asked::Head,
        1 => Asked::Connect,
        _ => Asked::Other,
    };
    let cut = usize::from(*cut) * input.len() / 255;
    if let Some(early) = read(&input[..cut], asked()) {
        assert_eq!(Some(early), read(input, asked()), "more bytes change the answer");
    }
    let mut fields: [MaybeUninit<Header<'_>>; 32] = [const { MaybeUninit::uninit() }; 32];
    if let Ok(Some(response)) = parse_response(input, &mut fields, asked(), &LIMITS) {
        assert!((100..=999).contains(&response.status));
        assert!(response.len <= input.len());
        bodies::check(response.framing, &input[response.len..], cut, &LIMITS);
    }
});
