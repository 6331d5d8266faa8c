//! A request's preferences for a file: conditions (RFC 9110 section 13), a range (section 14), codings (section
//! 12.5.3).
//!
//! Pure decisions: the caller describes the file, and nothing here accesses files.

use crate::head::Header;
use crate::response::parse_date;
use std::borrow::Cow;

/// The most ranges that are answered as such.
pub const MOST_PARTS: usize = 16;

/// The fields of a request that decide which part of a file is the response.
#[derive(Clone, Debug, Default)]
pub struct Preferences<'a> {
    if_match: Option<Cow<'a, [u8]>>,
    if_none_match: Option<Cow<'a, [u8]>>,
    if_modified_since: Option<Cow<'a, [u8]>>,
    if_unmodified_since: Option<Cow<'a, [u8]>>,
    if_range: Option<Cow<'a, [u8]>>,
    range: Option<Cow<'a, [u8]>>,
    accept_encoding: Option<Cow<'a, [u8]>>,
}

/// The properties of a file used in comparisons.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// A strong entity tag, with its quotes.
    pub etag: &'a [u8],
    pub modified_s: u64,
    pub len_bytes: u64,
}

/// A part of a file; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub first: u64,
    pub len_bytes: u64,
}

/// The kind of response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Whole,
    Part(Part),
    /// Several parts that do not overlap, in the order of the request.
    Parts(Vec<Part>),
    /// 304
    NotModified,
    /// 412
    Failed,
    /// 416
    Unsatisfiable,
}

/// Further fields of the same name continue the list: RFC 9110 section 5.3.
fn add<'a>(place: &mut Option<Cow<'a, [u8]>>, value: &'a [u8]) {
    match place {
        None => *place = Some(Cow::Borrowed(value)),
        Some(list) => {
            let list = list.to_mut();
            list.extend_from_slice(b", ");
            list.extend_from_slice(value);
        }
    }
}

impl<'a> Preferences<'a> {
    pub fn of(headers: &[Header<'a>]) -> Self {
        let mut found = Self::default();
        for header in headers {
            let name = header.name.as_bytes();
            // Most fields are none of these.
            let place = match (name.len(), name.first().map(u8::to_ascii_lowercase)) {
                (8, Some(b'i')) if name.eq_ignore_ascii_case(b"if-range") => &mut found.if_range,
                (8, Some(b'i')) if name.eq_ignore_ascii_case(b"if-match") => &mut found.if_match,
                (13, Some(b'i')) if name.eq_ignore_ascii_case(b"if-none-match") => {
                    &mut found.if_none_match
                }
                (17, Some(b'i')) if name.eq_ignore_ascii_case(b"if-modified-since") => {
                    &mut found.if_modified_since
                }
                (19, Some(b'i')) if name.eq_ignore_ascii_case(b"if-unmodified-since") => {
                    &mut found.if_unmodified_since
                }
                (5, Some(b'r')) if name.eq_ignore_ascii_case(b"range") => &mut found.range,
                (15, Some(b'a')) if name.eq_ignore_ascii_case(b"accept-encoding") => {
                    &mut found.accept_encoding
                }
                _ => continue,
            };
            add(place, header.value);
        }
        found
    }

    /// A copy that does not borrow from the request.
    pub fn into_owned(self) -> Preferences<'static> {
        let own = |field: Option<Cow<'_, [u8]>>| field.map(|value| Cow::Owned(value.into_owned()));
        Preferences {
            if_match: own(self.if_match),
            if_none_match: own(self.if_none_match),
            if_modified_since: own(self.if_modified_since),
            if_unmodified_since: own(self.if_unmodified_since),
            if_range: own(self.if_range),
            range: own(self.range),
            accept_encoding: own(self.accept_encoding),
        }
    }

    /// The quality of a content coding, in thousandths: 0 if it is not named, or not accepted. `*` does not count,
    /// because it states no preference.
    pub fn quality(&self, coding: &[u8]) -> u16 {
        self.accept_encoding.as_deref().map_or(0, |accepted| quality_in(accepted, coding))
    }

    /// Whether a range is named.
    pub fn names_ranges(&self) -> bool {
        self.range.is_some()
    }

    /// Whether any coding is named.
    pub fn names_codings(&self) -> bool {
        self.accept_encoding.as_ref().is_some_and(|accepted| !accepted.trim_ascii().is_empty())
    }

    /// Decides in the order of RFC 9110 section 13.2.2. `now_s`: a modification date this recent is not a strong
    /// validator.
    pub fn decide(&self, file: &Validators<'_>, is_get: bool, now_s: u64) -> Decision {
        let date = |field: &Option<Cow<'_, [u8]>>| field.as_deref().and_then(parse_date);
        if let Some(tags) = self.if_match.as_deref() {
            if !has_tag(tags, file.etag, true) {
                return Decision::Failed;
            }
        } else if date(&self.if_unmodified_since).is_some_and(|since_s| file.modified_s > since_s) {
            return Decision::Failed;
        }
        if let Some(tags) = self.if_none_match.as_deref() {
            if has_tag(tags, file.etag, false) {
                return Decision::NotModified;
            }
        } else if date(&self.if_modified_since).is_some_and(|since_s| file.modified_s <= since_s) {
            return Decision::NotModified;
        }
        match &self.range {
            Some(ranges) if is_get && self.holds_range(file, now_s) => {
                parts_of(ranges, file.len_bytes)
            }
            _ => Decision::Whole,
        }
    }

    /// Whether the file is the one that the range refers to: If-Range, RFC 9110 section 13.1.5.
    fn holds_range(&self, file: &Validators<'_>, now_s: u64) -> bool {
        match self.if_range.as_deref() {
            None => true,
            Some(tag) if tag.starts_with(b"\"") => tag == file.etag,
            Some(date) => parse_date(date) == Some(file.modified_s) && file.modified_s < now_s,
        }
    }
}

/// The highest quality of a coding in an `Accept-Encoding` list, in thousandths: RFC 9110 sections 12.4.2 and 12.5.3.
pub fn quality_in(accepted: &[u8], coding: &[u8]) -> u16 {
    let quality = |item: &[u8]| {
        let mut parts = item.split(|byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        if !name.eq_ignore_ascii_case(coding) {
            return 0;
        }
        parts.find_map(weight).unwrap_or(1000)
    };
    accepted.split(|byte| *byte == b',').map(quality).max().unwrap_or(0)
}

/// A parameter `q`, in thousandths; `None` for another one. A malformed value accepts nothing.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (name, value) = split(parameter, b'=')?;
    if !name.trim_ascii().eq_ignore_ascii_case(b"q") {
        return None;
    }
    let (whole, decimals) = split(value.trim_ascii(), b'.').unwrap_or((value.trim_ascii(), b""));
    if !decimals.iter().all(u8::is_ascii_digit) {
        return Some(0);
    }
    Some(match whole {
        b"1" if decimals.iter().all(|digit| *digit == b'0') => 1000,
        b"0" => {
            let digits = decimals.iter().chain(b"000").take(3);
            digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        }
        _ => 0,
    })
}

/// Whether a list of entity tags contains this one. With `is_strong`, weak tags never match.
fn has_tag(list: &[u8], etag: &[u8], is_strong: bool) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let is_weak = rest.starts_with(b"W/");
        let tag = if is_weak { &rest[2..] } else { rest };
        // A tag may contain commas between its quotes.
        let Some(len) =
            tag.strip_prefix(b"\"").and_then(|tag| memchr::memchr(b'"', tag)).map(|end| end + 2)
        else {
            return false;
        };
        if &tag[..len] == etag && !(is_strong && is_weak) {
            return true;
        }
        rest = tag[len..].trim_ascii_start();
        rest = rest.strip_prefix(b",").unwrap_or_default().trim_ascii_start();
    }
    false
}

/// The parts requested by a `Range` field. Other units and invalid values are ignored. So are ranges that overlap, and
/// more of them than a reader has use for: RFC 9110 sections 14.2 and 17.15.
fn parts_of(ranges: &[u8], len_bytes: u64) -> Decision {
    let Some((unit, set)) = split(ranges.trim_ascii(), b'=') else { return Decision::Whole };
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return Decision::Whole;
    }
    let mut parts: Vec<Part> = Vec::with_capacity(1);
    let mut count = 0;
    // Section 5.6.1.2: empty elements of a list are skipped.
    for range in set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|r| !r.is_empty()) {
        let Ok(part) = part_of(range, len_bytes) else { return Decision::Whole };
        count += 1;
        if count > MOST_PARTS {
            return Decision::Whole;
        }
        // A range behind the end is left out.
        let Some(part) = part else { continue };
        let ends_before = |a: &Part, b: &Part| a.first + a.len_bytes <= b.first;
        if parts.iter().any(|other| !ends_before(other, &part) && !ends_before(&part, other)) {
            return Decision::Whole;
        }
        parts.push(part);
    }
    match (count, parts.as_slice()) {
        (0, _) => Decision::Whole,
        (_, []) => Decision::Unsatisfiable,
        (_, [part]) => Decision::Part(*part),
        _ => Decision::Parts(parts),
    }
}

struct Malformed;

/// One range; `None` if it is behind the end.
fn part_of(range: &[u8], len_bytes: u64) -> Result<Option<Part>, Malformed> {
    let (first, last) = split(range, b'-').ok_or(Malformed)?;
    if first.is_empty() {
        let len = number(last).ok_or(Malformed)?.min(len_bytes);
        return Ok((len > 0).then(|| Part { first: len_bytes - len, len_bytes: len }));
    }
    let first = number(first).ok_or(Malformed)?;
    let last = if last.is_empty() { u64::MAX } else { number(last).ok_or(Malformed)? };
    if last < first {
        return Err(Malformed);
    }
    let is_inside = first < len_bytes;
    Ok(is_inside.then(|| Part { first, len_bytes: last.min(len_bytes - 1) - first + 1 }))
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr::memchr(at, text)?;
    Some((&text[..place], &text[place + 1..]))
}

/// A decimal number; larger than any file becomes the maximum.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests;
