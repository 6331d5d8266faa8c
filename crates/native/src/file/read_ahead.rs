//! `ReadAhead`: bytes or text read ahead of the program, and split into lines.
//!
//! Works only in memory, without files or encodings. Taken data counts as read by the program. The tests compare it
//! with a simple implementation.

use crate::ffi::fallible;
use crate::ffi::text::{self, Chunk};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::ControlFlow;

/// The line end.
#[derive(Clone, Copy)]
enum Newline {
    One(u8),
    /// A carriage return and a line feed.
    Pair,
    /// Either of them, or the pair.
    Any,
}

/// A shorter rest is joined with the next data; a longer one is joined once a line end has arrived.
const SHORT: usize = 16 << 10;

/// The data and the program's position in it, owned by `ReadAhead`.
#[derive(Default)]
struct State {
    chunk: Option<Chunk>,
    at: usize,
    /// There is no newline before this position.
    searched: usize,
    /// Data fed after the chunk and not joined with it.
    tail: Vec<Object>,
    tail_len: usize,
    /// A line may end in the tail.
    has_end: bool,
}

impl State {
    fn len(&self) -> usize {
        self.chunk.as_ref().map_or(0, Chunk::len)
    }

    fn remaining(&self) -> usize {
        self.len() - self.at + self.tail_len
    }

    /// Takes everything from the position to `end`, which becomes the position.
    fn take<'py>(&mut self, py: Python<'py>, end: usize) -> Option<PyResult<Bound<'py, PyAny>>> {
        let chunk = self.chunk.as_ref()?;
        let end = end.min(chunk.len());
        let taken = chunk.slice(py, self.at, end);
        if taken.is_ok() {
            self.at = end;
        }
        Some(taken)
    }

    #[inline]
    fn line<'py>(
        &mut self,
        py: Python<'py>,
        newline: Newline,
        limit: usize,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        let chunk = self.chunk.as_ref()?;
        let (at, len) = (self.at, chunk.len());
        let end = match end_of_line(chunk, newline, self.searched.max(at)) {
            ControlFlow::Break(end) => end.min(at.saturating_add(limit)),
            ControlFlow::Continue(searched) => {
                self.searched = searched.max(at);
                if len - at < limit {
                    return None;
                }
                at + limit
            }
        };
        self.take(py, end)
    }
}

/// The position after the first line end from `start` on; or where to search once there is more.
#[inline]
fn end_of_line(chunk: &Chunk, newline: Newline, start: usize) -> ControlFlow<usize, usize> {
    let found = |end: Option<usize>| match end {
        Some(index) => ControlFlow::Break(index + 1),
        None => ControlFlow::Continue(chunk.len()),
    };
    match newline {
        Newline::One(character) => found(chunk.find(character, start)),
        Newline::Pair => {
            let mut from = start;
            while let Some(index) = chunk.find(b'\r', from) {
                if index + 1 == chunk.len() {
                    // The line feed may follow later.
                    return ControlFlow::Continue(index);
                }
                if chunk.is_at(b'\n', index + 1) {
                    return ControlFlow::Break(index + 2);
                }
                from = index + 1;
            }
            ControlFlow::Continue(chunk.len())
        }
        // A carriage return at the very end ends a line, because the decoder holds one back while a line feed may
        // follow.
        Newline::Any => found(chunk.find_either(b'\n', b'\r', start).map(|index| {
            let is_pair = chunk.is_at(b'\r', index) && chunk.is_at(b'\n', index + 1);
            index + usize::from(is_pair)
        })),
    }
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct ReadAhead {
    newline: Newline,
    /// b"" or "".
    empty: Object,
    state: LoopCell<State>,
}

impl ReadAhead {
    #[inline]
    pub(super) fn line<'py>(
        &self,
        py: Python<'py>,
        limit: isize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut line = self.state.with(py, |state| state.line(py, self.newline, limit));
        if line.is_none() && self.state.with(py, |state| state.tail_len > 0) {
            if self.state.with(py, |state| !state.has_end && state.remaining() < limit) {
                return Ok(None);
            }
            self.join(py)?;
            line = self.state.with(py, |state| state.line(py, self.newline, limit));
        }
        let line = line.transpose()?;
        // With a limit of 0, an empty line is available.
        Ok(if limit == 0 { line.or_else(|| Some(self.empty(py))) } else { line })
    }

    pub(super) fn forget(&self, py: Python<'_>) {
        let old = self.state.with(py, std::mem::take);
        drop(old);
    }

    pub(super) fn is_empty(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.remaining() == 0)
    }

    /// The first `size` bytes or characters, if they are available in one piece.
    #[inline]
    pub(super) fn exactly<'py>(
        &self,
        py: Python<'py>,
        size: usize,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.state.with(py, |state| {
            if state.len() - state.at < size { None } else { state.take(py, state.at + size) }
        });
        taken.transpose()
    }

    /// Replaces the chunk by one that begins with the rest of the old one.
    fn replace(&self, py: Python<'_>, chunk: Chunk) {
        let old = self.state.with(py, |state| {
            state.searched = state.searched.saturating_sub(state.at);
            state.at = 0;
            state.tail_len = 0;
            state.has_end = false;
            (state.chunk.replace(chunk), std::mem::take(&mut state.tail))
        });
        drop(old);
    }

    /// Joins the rest of the chunk with the tail.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        if self.state.with(py, |state| state.tail.is_empty()) {
            return Ok(());
        }
        let pieces = self.take_pieces(py)?.0;
        let chunk = Chunk::of(&text::joined(self.empty.bind(py), pieces)?)?;
        self.replace(py, chunk);
        Ok(())
    }

    /// For bytes, whose lines end with a line feed.
    pub(super) fn of_bytes(py: Python<'_>) -> PyResult<Self> {
        let empty = fallible::bytes(py, b"")?.into_any();
        let (newline, empty) = (Newline::One(b'\n'), Object::new(empty));
        Ok(Self { newline, empty, state: LoopCell::default() })
    }

    fn empty<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.empty.bind(py).clone()
    }
}

#[pymethods]
impl ReadAhead {
    #[new]
    fn new(newline: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = newline.py();
        let chunk = Chunk::of(newline)?;
        let has = |character: u8, index: usize| chunk.is_at(character, index);
        let newline = match chunk.len() {
            0 => Newline::Any,
            1 if has(b'\n', 0) => Newline::One(b'\n'),
            1 if has(b'\r', 0) => Newline::One(b'\r'),
            2 if has(b'\r', 0) && has(b'\n', 1) => Newline::Pair,
            _ => return Err(PyValueError::new_err("newline must be \\n, \\r, \\r\\n or empty")),
        };
        let empty = Object::new(chunk.slice(py, 0, 0)?);
        Ok(Self { newline, empty, state: LoopCell::default() })
    }

    /// The number of bytes or characters available.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |state| state.remaining()))
    }

    /// Append data that was read.
    fn feed(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = data.py();
        let fed = Chunk::of(data)?;
        if fed.len() == 0 {
            return Ok(());
        }
        let left = self.state.with(py, |state| state.remaining());
        if left == 0 {
            self.replace(py, fed);
            return Ok(());
        }
        // Long data is not copied again for every new piece.
        if left >= SHORT {
            // Either half of a pair may be at the boundary.
            let has_end = matches!(self.newline, Newline::Pair)
                || matches!(end_of_line(&fed, self.newline, 0), ControlFlow::Break(_));
            let piece = Object::new(data.clone());
            self.state.with(py, |state| {
                state.tail_len += fed.len();
                state.tail.push(piece);
                state.has_end |= has_end;
            });
            return Ok(());
        }
        self.join(py)?;
        let rest = self.peek(py)?;
        self.replace(py, Chunk::of(&rest.add(data)?)?);
        Ok(())
    }

    /// Append text as its encoded bytes. Returns False, and appends nothing, if they are empty, not pure ASCII, or
    /// have a carriage return that decoding would translate.
    fn feed_ascii(&self, data: &Bound<'_, PyBytes>, translates: bool) -> PyResult<bool> {
        let py = data.py();
        let bytes = data.as_bytes();
        let has_carriage = || translates && memchr::memchr(b'\r', bytes).is_some();
        if bytes.is_empty() || !bytes.is_ascii() || has_carriage() {
            return Ok(false);
        }
        let chunk = self.state.with(py, |state| {
            let rest = state.chunk.as_ref().filter(|chunk| state.at < chunk.len());
            let is_long =
                state.tail_len > 0 || rest.is_some_and(|chunk| chunk.len() - state.at >= SHORT);
            // Pieces of a long line are fed as text, which is not joined at every piece.
            if is_long {
                None
            } else {
                Chunk::with_ascii(rest.map(|chunk| (chunk, state.at)), data)
            }
        });
        match chunk {
            Some(chunk) => self.replace(py, chunk?),
            // The rest of the chunk is decoded text.
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Take up to `size` of it; all if negative.
    #[pyo3(signature = (size = -1), text_signature = "($self, size=-1)")]
    fn take<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyAny>> {
        self.join(py)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let taken = self.state.with(py, |state| state.take(py, state.at.saturating_add(size)));
        taken.unwrap_or_else(|| Ok(self.empty(py)))
    }

    /// Take a line with its end, or its first `limit`; None if neither is available yet.
    #[pyo3(signature = (limit = -1), text_signature = "($self, limit=-1)")]
    fn take_line<'py>(&self, py: Python<'py>, limit: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.line(py, limit)
    }

    /// Take everything, as the pieces it is stored in.
    fn take_pieces<'py>(&self, py: Python<'py>) -> PyResult<Value<Vec<Bound<'py, PyAny>>>> {
        let (rest, tail) = self.state.with(py, |state| {
            let rest = state.chunk.as_ref().map(|chunk| chunk.slice(py, state.at, chunk.len()));
            (rest, state.tail.iter().map(|piece| piece.clone_ref(py)).collect::<Vec<_>>())
        });
        let mut pieces = Vec::with_capacity(tail.len() + 1);
        pieces.extend(rest.transpose()?);
        pieces.extend(tail.iter().map(|piece| piece.bind(py).clone()));
        self.forget(py);
        Ok(Value(pieces))
    }

    /// Everything that `take()` would return, without taking it.
    fn peek<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.join(py)?;
        let rest = self.state.with(py, |state| {
            let chunk = state.chunk.as_ref()?;
            Some(chunk.slice(py, state.at, chunk.len()))
        });
        rest.unwrap_or_else(|| Ok(self.empty(py)))
    }

    /// Move the position forward, or back if the data is still available. Returns False, without any change, if it is
    /// not.
    fn r#move(&self, py: Python<'_>, distance: isize) -> PyResult<bool> {
        self.join(py)?;
        Ok(self.state.with(py, |state| match state.at.checked_add_signed(distance) {
            Some(at) if at <= state.len() => {
                state.at = at;
                if distance < 0 {
                    state.searched = 0;
                }
                true
            }
            _ => false,
        }))
    }

    /// Drop everything.
    fn clear(&self, py: Python<'_>) {
        self.forget(py);
    }
}
