//! `ReadAhead`, what was read and not yet taken by the program, and `Lines`, which iterates over it.
//!
//! The native twin of the classes of those names in `oneloop.files.readahead`, which say more; only
//! for lines that end with one character. Pure memory: knows neither files nor encodings.

use crate::ffi::awaitable::{Iterate, Ready};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::text::Chunk;
use crate::ffi::{LoopCell, Object, call};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};

/// Where the program has got to in the chunk; one owner, `ReadAhead`.
#[derive(Default)]
struct State {
    chunk: Option<Chunk>,
    at: usize,
    /// No newline before here.
    searched: usize,
    is_held: bool,
}

impl State {
    fn len(&self) -> usize {
        self.chunk.as_ref().map_or(0, Chunk::len)
    }

    /// From the position to `end`, which becomes the position.
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
        newline: u8,
        limit: usize,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        let chunk = self.chunk.as_ref()?;
        let (at, len) = (self.at, chunk.len());
        let end = if let Some(index) = chunk.find(newline, self.searched.max(at)) {
            (index + 1).min(at.saturating_add(limit))
        } else {
            self.searched = len;
            if len - at < limit {
                return None;
            }
            at + limit
        };
        self.take(py, end)
    }
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct ReadAhead {
    newline: u8,
    /// b"" or "".
    empty: Object,
    state: LoopCell<State>,
}

impl ReadAhead {
    #[inline]
    fn line<'py>(&self, py: Python<'py>, limit: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let line = self.state.with(py, |state| state.line(py, self.newline, limit)).transpose()?;
        // Nothing of nothing: what was asked for is there.
        Ok(if limit == 0 { line.or_else(|| Some(self.empty(py))) } else { line })
    }

    /// A line with its end, if one is there and nobody waits in the middle of an operation.
    #[inline]
    fn next_line(&self, py: Python<'_>) -> PyResult<Option<Object>> {
        let line = self.state.with(py, |state| {
            if state.is_held { None } else { state.line(py, self.newline, usize::MAX) }
        });
        Ok(line.transpose()?.map(Object::new))
    }

    /// Puts a chunk that begins with what was left in the place of the old one.
    fn replace(&self, py: Python<'_>, chunk: Chunk) {
        let old = self.state.with(py, |state| {
            state.searched = state.searched.saturating_sub(state.at);
            state.at = 0;
            state.chunk.replace(chunk)
        });
        drop(old);
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
        let is_it = |character: &u8| chunk.find(*character, 0).is_some();
        match b"\n\r".iter().find(|character| is_it(character)) {
            Some(&newline) if chunk.len() == 1 => {
                let empty = Object::new(chunk.slice(py, 0, 0)?);
                Ok(Self { newline, empty, state: LoopCell::default() })
            }
            _ => Err(PyValueError::new_err("\\n or \\r expected")),
        }
    }

    /// How much can be taken.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.len() - state.at)
    }

    #[getter]
    fn is_held(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_held)
    }

    #[setter]
    fn set_is_held(&self, py: Python<'_>, value: bool) {
        self.state.with(py, |state| state.is_held = value);
    }

    /// Append what was read.
    fn feed(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let rest = self.peek(data.py())?;
        let chunk = if rest.is_truthy()? { Chunk::of(&rest.add(data)?) } else { Chunk::of(data) }?;
        self.replace(data.py(), chunk);
        Ok(())
    }

    /// Append text that was read, as the bytes that it is encoded in. False, and nothing is appended,
    /// if they are not ASCII characters alone, or none, or one of them is a carriage return that
    /// decoding would translate.
    fn feed_ascii(&self, data: &Bound<'_, PyBytes>, translates: bool) -> PyResult<bool> {
        let py = data.py();
        let bytes = data.as_bytes();
        let has_carriage = || translates && memchr::memchr(b'\r', bytes).is_some();
        if bytes.is_empty() || !bytes.is_ascii() || has_carriage() {
            return Ok(false);
        }
        let chunk = self.state.with(py, |state| {
            let rest = state.chunk.as_ref().filter(|chunk| state.at < chunk.len());
            Chunk::with_ascii(rest.map(|chunk| (chunk, state.at)), data)
        });
        match chunk {
            Some(chunk) => self.replace(py, chunk?),
            // What is left was decoded.
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Up to `size` of it; all when negative.
    #[pyo3(signature = (size = -1), text_signature = "($self, size=-1)")]
    fn take<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyAny>> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let taken = self.state.with(py, |state| state.take(py, state.at.saturating_add(size)));
        taken.unwrap_or_else(|| Ok(self.empty(py)))
    }

    /// A line with its end, or its first `limit`; None if neither is there yet.
    #[pyo3(signature = (limit = -1), text_signature = "($self, limit=-1)")]
    fn take_line<'py>(&self, py: Python<'py>, limit: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.line(py, limit)
    }

    /// Everything that `take()` would give, which stays.
    fn peek<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rest = self.state.with(py, |state| {
            let chunk = state.chunk.as_ref()?;
            Some(chunk.slice(py, state.at, chunk.len()))
        });
        rest.unwrap_or_else(|| Ok(self.empty(py)))
    }

    /// Skip, or go back if it is still here. False if it is not, and nothing has changed.
    fn r#move(&self, py: Python<'_>, distance: isize) -> bool {
        self.state.with(py, |state| match state.at.checked_add_signed(distance) {
            Some(at) if at <= state.len() => {
                state.at = at;
                if distance < 0 {
                    state.searched = 0;
                }
                true
            }
            _ => false,
        })
    }

    /// Forget everything.
    fn clear(&self, py: Python<'_>) {
        let old = self.state.with(py, |state| {
            (state.at, state.searched) = (0, 0);
            state.chunk.take()
        });
        drop(old);
    }
}

/// A line that was there: awaiting it does not wait.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Line(LoopCell<Option<Object>>);

impl Recycled for Line {
    const IS_COLLECTED: bool = false;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl Ready for Line {
    fn take(slf: Borrowed<'_, '_, Self>) -> PyResult<Object> {
        let line = slf.get().0.take(slf.py());
        line.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited line"))
    }
}

#[pymethods]
impl Line {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let line = Self::take(slf.as_borrowed())?;
        Err(call::stop_iteration(line.bind(slf.py()))?)
    }
}

/// The lines of a file, most of them straight out of what was read ahead.
///
/// It is the awaitable of its next line itself, unless that of the line before was not awaited yet.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Lines {
    /// Called when there is no line: an awaitable of the next, or of StopAsyncIteration.
    more: Py<PyAny>,
    ahead: Py<ReadAhead>,
    /// What awaiting this object gives.
    next: LoopCell<Option<Object>>,
}

impl Iterate for Lines {
    #[inline]
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let Some(line) = this.ahead.get().next_line(py)? else {
            return this.more.bind(py).call0();
        };
        let crossed = this.next.with(py, |next| match next {
            None => {
                *next = Some(line);
                None
            }
            Some(_) => Some(line),
        });
        match crossed {
            None => Ok(slf.to_owned().into_any()),
            Some(line) => Ok(recycled::make(py, Line(LoopCell::new(Some(line))))?.into_any()),
        }
    }
}

impl Ready for Lines {
    #[inline]
    fn take(slf: Borrowed<'_, '_, Self>) -> PyResult<Object> {
        let line = slf.get().next.take(slf.py());
        line.ok_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited line"))
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new(more: Py<PyAny>, ahead: Py<ReadAhead>) -> Self {
        Self { more, ahead, next: LoopCell::new(None) }
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::next(slf.as_borrowed())
    }

    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let line = Self::take(slf.as_borrowed())?;
        Err(call::stop_iteration(line.bind(slf.py()))?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.more)
    }
}
