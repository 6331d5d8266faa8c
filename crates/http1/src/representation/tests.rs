//! Conditions, ranges and codings, according to RFC 9110.

use super::{Decision, MOST_PARTS, Part, Preferences, Validators};
use crate::head::Header;

const FILE: Validators<'_> =
    Validators { etag: b"\"a,b\"", modified_s: 784_111_777, len_bytes: 100 };
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn decide(fields: &[(&str, &str)]) -> Decision {
    let headers: Vec<_> =
        fields.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
    let asked = Preferences::of(&headers);
    let decision = asked.decide(&FILE, true, FILE.modified_s + 1);
    assert_eq!(decision, asked.into_owned().decide(&FILE, true, FILE.modified_s + 1));
    decision
}

fn part(first: u64, len_bytes: u64) -> Decision {
    Decision::Part(Part { first, len_bytes })
}

#[test]
fn one_range_is_a_part_and_nonsense_the_whole() {
    for (range, decision) in [
        ("bytes=0-0", part(0, 1)),
        ("bytes=10-19", part(10, 10)),
        ("Bytes=90-", part(90, 10)),
        ("bytes=90-1000", part(90, 10)),
        ("bytes=-10", part(90, 10)),
        ("bytes=-1000", part(0, 100)),
        ("bytes=0-99999999999999999999999999", part(0, 100)),
        ("bytes=100-", Decision::Unsatisfiable),
        ("bytes=99999999999999999999999999-", Decision::Unsatisfiable),
        ("bytes=-0", Decision::Unsatisfiable),
        ("bytes=19-10", Decision::Whole),
        ("bytes=0-0,19-10", Decision::Whole),
        ("bytes=-", Decision::Whole),
        ("bytes=", Decision::Whole),
        ("bytes", Decision::Whole),
        ("bytes=+1-2", Decision::Whole),
        ("bytes=a-b", Decision::Whole),
        ("lines=1-2", Decision::Whole),
        ("", Decision::Whole),
    ] {
        assert_eq!(decide(&[("Range", range)]), decision, "{range}");
    }
    assert_eq!(decide(&[("range", "bytes=0-0"), ("range", "bytes=2-3")]), Decision::Whole);
}

#[test]
fn several_ranges_are_parts_unless_they_overlap() {
    let parts = |list: &[(u64, u64)]| {
        Decision::Parts(list.iter().map(|&(first, len_bytes)| Part { first, len_bytes }).collect())
    };
    let many = |count: usize| {
        let list: Vec<_> = (0..count).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
        format!("bytes={}", list.join(","))
    };
    for (range, decision) in [
        ("bytes=0-0,5-6", parts(&[(0, 1), (5, 2)])),
        ("bytes=50-59 , 0-9,, -10,", parts(&[(50, 10), (0, 10), (90, 10)])),
        ("bytes=0-9,10-", parts(&[(0, 10), (10, 90)])),
        ("bytes=0-9,100-", part(0, 10)),
        ("bytes=100-,200-300", Decision::Unsatisfiable),
        ("bytes=0-9,9-", Decision::Whole),
        ("bytes=0-9,5-6", Decision::Whole),
        ("bytes=5-6,0-9", Decision::Whole),
        ("bytes=0-,0-", Decision::Whole),
        ("bytes=0-1,x", Decision::Whole),
        ("bytes=,", Decision::Whole),
        (&many(MOST_PARTS + 1), Decision::Whole),
        (&"bytes=0-0,".repeat(2), Decision::Whole),
        (&format!("bytes={}", "200-,".repeat(MOST_PARTS + 1)), Decision::Whole),
    ] {
        assert_eq!(decide(&[("Range", range)]), decision, "{range}");
    }
    assert!(matches!(decide(&[("Range", &many(MOST_PARTS))]), Decision::Parts(p) if p.len() == 16));
}

#[test]
fn conditions_hold_or_not() {
    for (name, value, decision) in [
        ("If-None-Match", "\"a,b\"", Decision::NotModified),
        ("If-None-Match", "W/\"a,b\"", Decision::NotModified),
        ("If-None-Match", "\"x\", \"a,b\"", Decision::NotModified),
        ("If-None-Match", "*", Decision::NotModified),
        ("If-None-Match", "\"a\", \"b\"", Decision::Whole),
        ("If-None-Match", "nonsense", Decision::Whole),
        ("If-Modified-Since", DATE, Decision::NotModified),
        ("If-Modified-Since", LATER, Decision::NotModified),
        ("If-Modified-Since", EARLIER, Decision::Whole),
        ("If-Modified-Since", "yesterday", Decision::Whole),
        ("If-Match", "\"a,b\"", Decision::Whole),
        ("If-Match", "*", Decision::Whole),
        ("If-Match", "W/\"a,b\"", Decision::Failed),
        ("If-Match", "\"other\"", Decision::Failed),
        ("If-Unmodified-Since", DATE, Decision::Whole),
        ("If-Unmodified-Since", EARLIER, Decision::Failed),
        ("If-Unmodified-Since", "yesterday", Decision::Whole),
    ] {
        assert_eq!(decide(&[(name, value)]), decision, "{name}: {value}");
    }
}

#[test]
fn tags_go_before_dates_and_failing_before_not_modified() {
    let decision = decide(&[("If-None-Match", "\"x\""), ("If-Modified-Since", LATER)]);
    assert_eq!(decision, Decision::Whole);
    let decision = decide(&[("If-Match", "\"a,b\""), ("If-Unmodified-Since", EARLIER)]);
    assert_eq!(decision, Decision::Whole);
    let decision = decide(&[("If-Match", "\"x\""), ("If-None-Match", "\"a,b\"")]);
    assert_eq!(decision, Decision::Failed);
    let decision = decide(&[("If-None-Match", "\"a,b\""), ("Range", "bytes=500-")]);
    assert_eq!(decision, Decision::NotModified);
}

#[test]
fn a_range_of_another_file_is_the_whole_one() {
    for (condition, decision) in [
        ("\"a,b\"", part(1, 2)),
        ("\"x\"", Decision::Whole),
        ("W/\"a,b\"", Decision::Whole),
        (DATE, part(1, 2)),
        (EARLIER, Decision::Whole),
        (LATER, Decision::Whole),
    ] {
        assert_eq!(decide(&[("Range", "bytes=1-2"), ("If-Range", condition)]), decision);
    }
    let headers = [
        Header { name: "range", value: b"bytes=1-2" },
        Header { name: "if-range", value: DATE.as_bytes() },
    ];
    let asked = Preferences::of(&headers);
    assert_eq!(asked.decide(&FILE, true, FILE.modified_s), Decision::Whole);
    assert_eq!(Preferences::of(&headers[..1]).decide(&FILE, false, 0), Decision::Whole);
}

#[test]
fn codings_are_named_with_a_quality() {
    let quality = |value: &str, coding: &str| {
        let headers = [Header { name: "Accept-Encoding", value: value.as_bytes() }];
        Preferences::of(&headers).quality(coding.as_bytes())
    };
    for (value, coding, wanted) in [
        ("gzip, br", "br", 1000),
        ("GZIP", "gzip", 1000),
        ("br;q=0.001", "br", 1),
        ("gzip ; q = 1.000", "gzip", 1000),
        ("br;x=1;Q=0.25, gzip;q=0.5", "br", 250),
        ("br;q=0.5, br", "br", 1000),
        ("br;q=0.", "br", 0),
        ("br;q=0", "br", 0),
        ("br; Q = 0.000", "br", 0),
        ("br;q=x", "br", 0),
        ("br;q=2", "br", 0),
        ("br;q=1.1", "br", 0),
        ("br;q=0.5x", "br", 0),
        ("br;q=", "br", 0),
        ("*", "br", 0),
        ("", "br", 0),
        ("brotli", "br", 0),
    ] {
        assert_eq!(quality(value, coding), wanted, "{value:?}");
    }
    assert_eq!(Preferences::default().quality(b"br"), 0);
    assert!(!Preferences::default().names_codings() && !Preferences::default().names_ranges());
}
