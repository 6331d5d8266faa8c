//! `Chunk`: a bytes or str object that is cut into pieces.
//!
//! Nothing here runs Python code: it may be used while loop state is borrowed (S2).

use super::Object;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

enum Kind {
    Bytes,
    /// A str with ASCII characters alone: a character is a byte.
    Ascii,
    Text,
}

pub struct Chunk {
    object: Object,
    kind: Kind,
    /// Where the bytes of `Bytes` and `Ascii` lie: for as long as the object lives.
    data: *const u8,
    len: usize,
}

// SAFETY: the pointer is into an immutable object that this keeps alive.
unsafe impl Send for Chunk {}

impl Chunk {
    /// Of exactly bytes or str; TypeError for others.
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
        // SAFETY: a live str object.
        let len = unsafe { ffi::PyUnicode_GetLength(text.as_ptr()) }.cast_unsigned();
        // SAFETY: as above.
        let is_ascii = unsafe { ffi::PyUnicode_IS_ASCII(text.as_ptr()) } != 0;
        let (kind, data) = if is_ascii {
            (Kind::Ascii, text.to_str()?.as_ptr())
        } else {
            (Kind::Text, std::ptr::null())
        };
        Ok(Self { object: object.clone().into(), kind, data, len })
    }

    /// Bytes or characters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where an ASCII character stands first, from `start` on.
    #[inline]
    pub fn find(&self, character: u8, start: usize) -> Option<usize> {
        if matches!(self.kind, Kind::Text) {
            return self.find_in_text(character, start);
        }
        // SAFETY: the object lives, never changes, and has that many bytes; the slice ends here.
        let bytes = unsafe { std::slice::from_raw_parts(self.data, self.len) };
        Some(start + memchr::memchr(character, &bytes[start..])?)
    }

    fn find_in_text(&self, character: u8, start: usize) -> Option<usize> {
        let (text, end) = (self.object.as_ptr(), self.len.cast_signed());
        // SAFETY: a live str object; the range is cut to its length. -1: not there; -2, which tells
        // of a str that is not ready, does not come since Python 3.12 and from a decoder before.
        let found =
            unsafe { ffi::PyUnicode_FindChar(text, character.into(), start.cast_signed(), end, 1) };
        usize::try_from(found).ok()
    }

    /// `object[start:end]`; MemoryError as always.
    #[inline]
    pub fn slice<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        end: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (start, end) = (start.min(self.len), end.min(self.len));
        let part = if matches!(self.kind, Kind::Bytes) {
            let len = end.saturating_sub(start).cast_signed();
            // SAFETY: `start` is inside the object, or at its end.
            let data = unsafe { self.data.add(start) };
            // SAFETY: that many bytes of the object lie there.
            unsafe { ffi::PyBytes_FromStringAndSize(data.cast(), len) }
        } else {
            let (start, end) = (start.cast_signed(), end.cast_signed());
            // SAFETY: a live str object; the range is inside of it.
            unsafe { ffi::PyUnicode_Substring(self.object.as_ptr(), start, end) }
        };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, part) }
    }
}
