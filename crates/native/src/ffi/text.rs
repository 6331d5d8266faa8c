//! `Chunk`: a bytes or str object that is cut into pieces.
//!
//! Nothing here except `Chunk::of` runs Python code, so it can be used while loop state is borrowed (S2).

use super::Object;
use super::bytes::BytesRoom;
use super::fallible;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3::{ffi, intern};

enum Kind {
    Bytes,
    /// A str with only ASCII characters: one byte per character.
    Ascii,
    /// A bytes object with only ASCII characters, whose pieces are str.
    Encoded,
    Text,
}

pub struct Chunk {
    object: Object,
    kind: Kind,
    /// The bytes of `Bytes` and `Ascii`, valid as long as the object lives.
    data: *const u8,
    len: usize,
}

// SAFETY: the pointer is into an immutable object that this struct keeps alive.
unsafe impl Send for Chunk {}

impl Chunk {
    /// From exactly bytes or str; TypeError for other types.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            let bytes = bytes.as_bytes();
            let (data, len) = (bytes.as_ptr(), bytes.len());
            return Ok(Self { object: object.clone().into(), kind: Kind::Bytes, data, len });
        }
        let Ok(text) = object.cast_exact::<PyString>() else {
            let class = object.get_type();
            let text = format!("bytes or str expected, got {}", class.name()?);
            return Err(PyTypeError::new_err(text));
        };
        let len = length(text);
        let is_ascii = object.call_method0(intern!(object.py(), "isascii"))?.is_truthy()?;
        let (kind, data) = if is_ascii {
            (Kind::Ascii, text.to_str()?.as_ptr())
        } else {
            (Kind::Text, std::ptr::null())
        };
        Ok(Self { object: object.clone().into(), kind, data, len })
    }

    /// From bytes that the caller has checked to be ASCII. The pieces are str, as after decoding, but without the
    /// copy.
    fn encoded(bytes: &Bound<'_, PyBytes>) -> PyResult<Self> {
        Ok(Self { kind: Kind::Encoded, ..Self::of(bytes.as_any())? })
    }

    /// A chunk of ASCII text: the rest of an ASCII chunk from `start` on, followed by `more`, which the caller has
    /// checked to be ASCII. `None` if the rest is of another kind.
    pub fn with_ascii(
        rest: Option<(&Self, usize)>,
        more: &Bound<'_, PyBytes>,
    ) -> Option<PyResult<Self>> {
        let Some((chunk, start)) = rest else { return Some(Self::encoded(more)) };
        if !matches!(chunk.kind, Kind::Encoded) {
            return None;
        }
        let joined = joined_bytes(more.py(), &chunk.bytes()[start..], more.as_bytes());
        Some(joined.and_then(|joined| Self::encoded(&joined)))
    }

    fn bytes(&self) -> &[u8] {
        if matches!(self.kind, Kind::Text) {
            return &[];
        }
        // SAFETY: the object is alive and immutable and has `len` bytes; the slice ends with the borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// In bytes or characters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first position of an ASCII character, from `start` on.
    #[inline]
    pub fn find(&self, character: u8, start: usize) -> Option<usize> {
        if matches!(self.kind, Kind::Text) {
            return self.find_in_text(character, start);
        }
        Some(start + memchr::memchr(character, &self.bytes()[start..])?)
    }

    /// The first position of either of two ASCII characters, from `start` on.
    #[inline]
    pub fn find_either(&self, first: u8, second: u8, start: usize) -> Option<usize> {
        if matches!(self.kind, Kind::Text) {
            let found = self.find_in_text(first, start);
            // The nearer one: search for the second only up to the first.
            let end = found.unwrap_or(self.len);
            return self.find_in_part(second, start, end).or(found);
        }
        Some(start + memchr::memchr2(first, second, &self.bytes()[start..])?)
    }

    /// Whether the given ASCII character is at `index`.
    #[inline]
    pub fn is_at(&self, character: u8, index: usize) -> bool {
        if matches!(self.kind, Kind::Text) {
            return self.find_in_part(character, index, index.saturating_add(1)).is_some();
        }
        self.bytes().get(index) == Some(&character)
    }

    fn find_in_text(&self, character: u8, start: usize) -> Option<usize> {
        self.find_in_part(character, start, self.len)
    }

    fn find_in_part(&self, character: u8, start: usize, end: usize) -> Option<usize> {
        if start >= end {
            return None;
        }
        let (text, end) = (self.object.as_ptr(), end.min(self.len).cast_signed());
        // SAFETY: a live str object; the range is cut to its length. -1: not found. -2 (the str is not ready) does
        // not occur since Python 3.12, and before that not for a str from a decoder.
        let found =
            unsafe { ffi::PyUnicode_FindChar(text, character.into(), start.cast_signed(), end, 1) };
        usize::try_from(found).ok()
    }

    /// `object[start:end]`, or MemoryError.
    #[inline]
    pub fn slice<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        end: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (start, end) = (start.min(self.len), end.min(self.len));
        let part = match self.kind {
            Kind::Bytes => return Ok(fallible::bytes(py, &self.bytes()[start..end])?.into_any()),
            Kind::Encoded => ascii_text(&self.bytes()[start..end]),
            Kind::Ascii | Kind::Text => {
                let (start, end) = (start.cast_signed(), end.cast_signed());
                // SAFETY: a live str object; the range is inside of it.
                unsafe { ffi::PyUnicode_Substring(self.object.as_ptr(), start, end) }
            }
        };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, part) }
    }
}

/// The length in characters.
#[inline]
pub fn length(text: &Bound<'_, PyString>) -> usize {
    // SAFETY: a live str object.
    unsafe { ffi::PyUnicode_GetLength(text.as_ptr()) }.cast_unsigned()
}

/// The str of bytes that the caller has checked to be ASCII, or MemoryError.
pub fn of_ascii<'py>(bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(bytes.py(), ascii_text(bytes.as_bytes())) }
}

/// `empty.join(pieces)`, for exactly bytes or str.
pub fn joined<'py>(
    empty: &Bound<'py, PyAny>,
    pieces: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    empty.call_method1(intern!(empty.py(), "join"), (pieces,))
}

/// `first + second`
fn joined_bytes<'py>(
    py: Python<'py>,
    first: &[u8],
    second: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let len = first.len() + second.len();
    let mut room = BytesRoom::new(py, len)?;
    let (head, tail) = room.as_mut_slice(py).split_at_mut(first.len());
    for (target, source) in [(head, first), (tail, second)] {
        // SAFETY: two distinct objects; the target has as many bytes as the source.
        unsafe {
            std::ptr::copy_nonoverlapping(
                source.as_ptr(),
                target.as_mut_ptr().cast(),
                source.len(),
            );
        }
    }
    // SAFETY: all bytes were written above.
    unsafe { room.finish(py, len) }
}

/// A str of ASCII characters: a new reference, or null with MemoryError set.
#[inline]
fn ascii_text(bytes: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: the maximum 127 allocates one byte per character.
    let text = unsafe { ffi::PyUnicode_New(bytes.len().cast_signed(), 127) };
    // The empty str is shared.
    if !text.is_null() && !bytes.is_empty() {
        // SAFETY: the str was made with one byte per character.
        let data = unsafe { ffi::PyUnicode_DATA(text) };
        // SAFETY: nobody else has seen this str, and it has room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast::<u8>(), bytes.len()) };
    }
    text
}

/// A str whose characters are these bytes.
#[inline]
pub fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let (data, len) = (bytes.as_ptr().cast(), bytes.len().cast_signed());
    // SAFETY: `len` bytes are copied. Null means strict, which does not matter for this codec.
    let text = unsafe { ffi::PyUnicode_DecodeLatin1(data, len, std::ptr::null()) };
    // SAFETY: a new reference, or null with an exception set.
    let text = unsafe { Bound::from_owned_ptr_or_err(py, text) }?;
    // SAFETY: the decoder makes a str.
    Ok(unsafe { text.cast_into_unchecked() })
}
