//! The cost of parsing a usual request's head, for callgrind or `perf stat`: run it with two counts, and divide the
//! difference.

use oneloop_http1::{Header, Limits, parse_request};
use std::hint::black_box;
use std::mem::MaybeUninit;

const HEAD: &[u8] = b"GET /items/42?page=3 HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0\r\n\
    Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nConnection: keep-alive\r\n\r\n";

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000_u32);
    let is_bare = std::env::args().nth(2).is_some();
    let limits = Limits::default();
    for _ in 0..count {
        let mut fields = [const { MaybeUninit::<Header>::uninit() }; 100];
        if is_bare {
            // Only httparse's share of the cost.
            let mut request = httparse::Request::new(&mut []);
            assert!(request.parse_with_uninit_headers(black_box(HEAD), &mut fields).is_ok());
            black_box(&request);
        } else {
            let request = parse_request(black_box(HEAD), &mut fields, &limits);
            assert!(matches!(request, Ok(Some(_))));
            black_box(&request).as_ref().expect("a good head");
        }
    }
}
