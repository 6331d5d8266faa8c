//! A request's head, whole and in two pieces, and its body: the answer does not depend on where the input is cut.

#![no_main]

mod bodies;

use libfuzzer_sys::fuzz_target;
use oneloop_http1::{Header, Limits, may_say_more, parse_request};
use std::mem::MaybeUninit;

const LIMITS: Limits =
    Limits { line_bytes: 300, head_bytes: 1000, headers: 20, body_bytes: 10_000 };

/// What a head says, in words; `None` while it is incomplete.
fn read(input: &[u8]) -> Option<(String, usize)> {
    let mut fields: [MaybeUninit<Header<'_>>; 32] = [const { MaybeUninit::uninit() }; 32];
    match parse_request(input, &mut fields, &LIMITS) {
        Ok(None) => None,
        Ok(Some(request)) => Some((format!("{request:?}"), request.len)),
        // Which of several mistakes is named may depend on what has arrived; the status does not.
        Err(refusal) => Some((format!("{}", refusal.status), 0)),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, input)) = data.split_first() else { return };
    let whole = read(input);
    let cut = usize::from(*cut) * input.len() / 255;
    if let Some(early) = read(&input[..cut]) {
        assert_eq!(Some(early), whole, "more bytes change the answer");
    } else if whole.as_ref().is_some_and(|(_, len)| *len > 0) {
        // A refusal may come with the end of its line.
        assert!(may_say_more(input, cut, &LIMITS), "the answer is not looked for");
    }
    let mut fields: [MaybeUninit<Header<'_>>; 32] = [const { MaybeUninit::uninit() }; 32];
    if let Ok(Some(request)) = parse_request(input, &mut fields, &LIMITS) {
        assert!(request.len <= input.len() && input[..request.len].ends_with(b"\r\n\r\n"));
        assert!(!request.path.is_empty());
        bodies::check(request.framing, &input[request.len..], cut, &LIMITS);
    }
});
