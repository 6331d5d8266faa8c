//! Long texts on a thread without the GIL, so that the loop can run meanwhile: decoding UTF-8, joining pieces.

use super::bytes::BytesRoom;
use super::detach::detached;
use super::fallible;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::string::PyStringData;
use pyo3::types::{PyBytes, PyBytesMethods, PyList, PyString};

/// Properties of the text, found by a first pass.
struct Plan {
    chars: usize,
    largest: char,
    has: Ends,
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
struct Ends {
    line_feed: bool,
    carriage_return: bool,
    both: bool,
    /// Some line ends are written differently.
    translates: bool,
}

/// The characters to write, with translated line ends.
fn translated(text: &str) -> impl Iterator<Item = char> {
    let mut last = '\0';
    text.chars().filter_map(move |character| {
        let is_second = last == '\r' && character == '\n';
        last = character;
        match character {
            '\n' if is_second => None,
            '\r' => Some('\n'),
            character => Some(character),
        }
    })
}

fn plan(text: &str, translates: bool) -> Plan {
    let bytes = text.as_bytes();
    let mut has = Ends::default();
    for at in memchr::memchr_iter(b'\r', bytes) {
        let is_pair = bytes.get(at + 1) == Some(&b'\n');
        has.both |= is_pair;
        has.carriage_return |= !is_pair;
    }
    // A line feed that is not the second half of "\r\n".
    let mut feeds = memchr::memchr_iter(b'\n', bytes);
    has.line_feed = feeds.any(|at| at == 0 || bytes[at - 1] != b'\r');
    has.translates = translates && (has.both || has.carriage_return);
    if !has.translates && text.is_ascii() {
        return Plan { chars: text.len(), largest: '\x7f', has };
    }
    let count = |(chars, largest): (usize, char), c: char| (chars + 1, largest.max(c));
    let (chars, largest) = if has.translates {
        translated(text).fold((0, '\x7f'), count)
    } else {
        text.chars().fold((0, '\x7f'), count)
    };
    Plan { chars, largest, has }
}

/// The memory of a new str's characters.
#[derive(Clone, Copy)]
struct Room {
    data: *mut std::ffi::c_void,
    chars: usize,
    largest: char,
}

// SAFETY: the memory of a str that nobody else has seen; only one thread at a time uses it.
unsafe impl Send for Room {}

impl Room {
    /// # Safety
    /// `data` must have room for `chars` characters of type `T`.
    unsafe fn fill<T>(self, found: impl Iterator<Item = char>, cast: impl Fn(char) -> T) {
        let data = self.data.cast::<T>();
        for (index, character) in found.take(self.chars).enumerate() {
            // SAFETY: `index` is below `chars`, for which there is room.
            let place = unsafe { data.add(index) };
            // SAFETY: as above; nobody else has seen the memory.
            unsafe { place.write(cast(character)) };
        }
    }

    fn fill_all(self, text: &str, translates: bool) {
        if !translates && self.largest <= '\x7f' {
            // SAFETY: ASCII has one byte per character, and the str has room for them.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.data.cast(), text.len()) };
        } else if translates {
            self.fill_with(|| translated(text));
        } else {
            self.fill_with(|| text.chars());
        }
    }

    fn fill_with<I: Iterator<Item = char>>(self, found: impl Fn() -> I) {
        match self.largest {
            // SAFETY: PyUnicode_New has allocated room for characters up to the largest (PEP 393).
            '\0'..='\u{ff}' => unsafe { self.fill(found(), |c| c as u8) },
            // SAFETY: as above.
            '\u{100}'..='\u{ffff}' => unsafe { self.fill(found(), |c| c as u16) },
            // SAFETY: as above.
            _ => unsafe { self.fill(found(), |c| c as u32) },
        }
    }
}

/// Decode UTF-8 on a thread. Returns the text and the kinds of line ends, as bytes; None if the data is not UTF-8.
/// With `translates`, lines end with "\n". Holds the GIL only briefly. May be called from any thread.
#[pyfunction]
#[pyo3(signature = (data, translates, /))]
pub fn decode_utf8<'py>(
    data: &Bound<'py, PyBytes>,
    translates: bool,
) -> PyResult<Option<(Bound<'py, PyString>, Bound<'py, PyList>)>> {
    let py = data.py();
    let bytes = data.as_bytes();
    let planned =
        detached(py, || std::str::from_utf8(bytes).ok().map(|text| (text, plan(text, translates))));
    let Some((text, Plan { chars, largest, has })) = planned else { return Ok(None) };
    // SAFETY: called with a length and the largest character.
    let made = unsafe { ffi::PyUnicode_New(chars.cast_signed(), largest as u32) };
    // SAFETY: a new reference, or null with MemoryError set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    if chars > 0 {
        // SAFETY: the str was made just above.
        let start = unsafe { ffi::PyUnicode_DATA(made.as_ptr()) };
        let room = Room { data: start, chars, largest };
        detached(py, move || room.fill_all(text, has.translates));
    }
    let ends = [(has.line_feed, "\n"), (has.carriage_return, "\r"), (has.both, "\r\n")];
    let ends = ends.into_iter().filter(|(is_there, _)| *is_there);
    let ends: Vec<_> = ends
        .map(|(_, end)| fallible::bytes(py, end.as_bytes()).map(Bound::into_any))
        .collect::<PyResult<_>>()?;
    let ends = fallible::list_of(py, ends.into_iter())?;
    // SAFETY: PyUnicode_New makes exactly str.
    Ok(Some((unsafe { made.cast_into_unchecked() }, ends)))
}

/// One of the pieces, whose characters have one, two or four bytes.
#[derive(Clone, Copy)]
enum Piece<'a> {
    One(&'a [u8]),
    Two(&'a [u16]),
    Four(&'a [u32]),
}

impl Piece<'_> {
    fn len(self) -> usize {
        match self {
            Self::One(piece) => piece.len(),
            Self::Two(piece) => piece.len(),
            Self::Four(piece) => piece.len(),
        }
    }

    fn largest(self) -> u32 {
        let largest = match self {
            Self::One(piece) => piece.iter().max().map(|c| u32::from(*c)),
            Self::Two(piece) => piece.iter().max().map(|c| u32::from(*c)),
            Self::Four(piece) => piece.iter().max().copied(),
        };
        largest.unwrap_or(0).max(0x7f)
    }

    /// # Safety
    /// `to` must have room for this piece's characters of type `T` after the first `at`.
    unsafe fn copy<T>(self, to: *mut T, at: usize, cast: impl Fn(u32) -> T) {
        let put = |index: usize, character: u32| {
            // SAFETY: `index` is below the piece's length.
            let place = unsafe { to.add(at + index) };
            // SAFETY: the caller's promise.
            unsafe { place.write(cast(character)) };
        };
        match self {
            Self::One(piece) => piece.iter().enumerate().for_each(|(i, c)| put(i, (*c).into())),
            Self::Two(piece) => piece.iter().enumerate().for_each(|(i, c)| put(i, (*c).into())),
            Self::Four(piece) => piece.iter().enumerate().for_each(|(i, c)| put(i, *c)),
        }
    }
}

fn fill_pieces(room: Room, pieces: &[Piece<'_>]) {
    let mut at = 0;
    for &piece in pieces {
        match room.largest as u32 {
            // SAFETY: the pieces have as many characters as there is room for, and none is larger (PEP 393).
            0..=0xff => unsafe { piece.copy(room.data.cast::<u8>(), at, |c| c as u8) },
            // SAFETY: as above.
            0x100..=0xffff => unsafe { piece.copy(room.data.cast::<u16>(), at, |c| c as u16) },
            // SAFETY: as above.
            _ => unsafe { piece.copy(room.data.cast::<u32>(), at, |c| c) },
        }
        at += piece.len();
    }
}

/// `b"".join(pieces)`, for exactly bytes. Holds the GIL only briefly. May be called from any thread.
#[pyfunction]
#[pyo3(signature = (pieces, /))]
pub fn join_bytes<'py>(
    py: Python<'py>,
    pieces: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let seen: Vec<&[u8]> = pieces.iter().map(PyBytesMethods::as_bytes).collect();
    let len = seen.iter().map(|piece| piece.len()).sum();
    let mut room = BytesRoom::new(py, len)?;
    let target = room.as_mut_slice(py);
    detached(py, move || {
        let mut at = 0;
        for piece in seen {
            for (place, byte) in target[at..at + piece.len()].iter_mut().zip(piece) {
                place.write(*byte);
            }
            at += piece.len();
        }
    });
    // SAFETY: all bytes were written above.
    unsafe { room.finish(py, len) }
}

/// `"".join(pieces)`, for exactly str. Holds the GIL only briefly. May be called from any thread.
#[pyfunction]
#[pyo3(signature = (pieces, /))]
pub fn join_text<'py>(
    py: Python<'py>,
    pieces: Vec<Bound<'py, PyString>>,
) -> PyResult<Bound<'py, PyString>> {
    let mut seen = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        // SAFETY: a complete str, which `pieces` keeps alive.
        seen.push(match unsafe { piece.data() }? {
            PyStringData::Ucs1(data) => Piece::One(data),
            PyStringData::Ucs2(data) => Piece::Two(data),
            PyStringData::Ucs4(data) => Piece::Four(data),
        });
    }
    let (chars, largest) = detached(py, || {
        let largest = seen.iter().map(|piece| piece.largest()).max().unwrap_or(0x7f);
        (seen.iter().map(|piece| piece.len()).sum::<usize>(), largest)
    });
    // SAFETY: called with a length and the largest character.
    let made = unsafe { ffi::PyUnicode_New(chars.cast_signed(), largest) };
    // SAFETY: a new reference, or null with MemoryError set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    if chars > 0 {
        // SAFETY: the str was made just above.
        let data = unsafe { ffi::PyUnicode_DATA(made.as_ptr()) };
        // Surrogates are not Rust characters; only their width matters.
        let largest = char::from_u32(largest).unwrap_or('\u{ffff}');
        let room = Room { data, chars, largest };
        let seen = &seen[..];
        detached(py, move || fill_pieces(room, seen));
    }
    // SAFETY: PyUnicode_New makes exactly str.
    Ok(unsafe { made.cast_into_unchecked() })
}
