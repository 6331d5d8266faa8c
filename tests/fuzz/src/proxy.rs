//! The PROXY protocol's header, versions 1 and 2: the answer does not depend on how much has arrived.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oneloop_http1::proxy_protocol::parse;

fuzz_target!(|data: &[u8]| {
    let input = &data[..data.len().min(600)];
    let mut first = None;
    for end in 0..=input.len() {
        let answer = match parse(&input[..end]) {
            Ok(None) => None,
            Ok(Some((header, len))) => {
                assert!(len <= end);
                Some(format!("{header:?} {len}"))
            }
            Err(refusal) => Some(format!("{refusal:?}")),
        };
        if first.is_some() {
            assert_eq!(answer, first, "after {end} bytes");
        } else {
            first = answer;
        }
    }
});
