//! `ReadAhead`, what was read and not yet taken by the program, and `Lines`, which iterates over it.
//!
//! The native twin of the classes of those names in `oneloop.files.readahead`, which say more; only
//! for lines that end with one character. Pure memory: knows neither files nor encodings.

use crate::ffi::awaitable::{Iterate, Ready};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object, call, text};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3::{PyTraverseError, PyVisit};

/// A bytes or str object.
#[derive(Clone)]
enum Chunk<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
}

impl<'py> Chunk<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        match object.cast_exact::<PyString>() {
            Ok(text) => Ok(Self::Text(text.clone())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "bytes or str expected, got {}",
                object.get_type().name()?
            ))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes().len(),
            Self::Text(text) => text::len(text),
        }
    }

    fn find(&self, newline: u8, start: usize) -> PyResult<Option<usize>> {
        match self {
            Self::Bytes(bytes) => {
                let found = memchr::memchr(newline, &bytes.as_bytes()[start..]);
                Ok(found.map(|index| start + index))
            }
            Self::Text(text) => text::find(text, newline.into(), start),
        }
    }

    fn slice(&self, start: usize, end: usize) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Bytes(bytes) => {
                Ok(PyBytes::new(bytes.py(), &bytes.as_bytes()[start..end]).into_any())
            }
            Self::Text(text) => text::slice(text, start, end),
        }
    }
}

/// Where the program has got to in the chunk; one owner, `ReadAhead`.
#[derive(Default)]
struct State {
    chunk: Option<Object>,
    at: usize,
    len: usize,
    /// No newline before here.
    searched: usize,
    is_held: bool,
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct ReadAhead {
    newline: u8,
    /// b"" or "".
    empty: Object,
    state: LoopCell<State>,
}

impl ReadAhead {
    fn chunk<'py>(&self, py: Python<'py>) -> PyResult<Chunk<'py>> {
        let chunk = self.state.with(py, |state| state.chunk.as_ref().map(|c| c.clone_ref(py)));
        Chunk::of(chunk.as_ref().unwrap_or(&self.empty).bind(py))
    }

    fn position(&self, py: Python<'_>) -> (usize, usize, usize) {
        self.state.with(py, |state| (state.at, state.len, state.searched))
    }

    fn advance(&self, py: Python<'_>, at: usize) {
        self.state.with(py, |state| state.at = at);
    }

    fn line<'py>(&self, py: Python<'py>, limit: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (at, len, searched) = self.position(py);
        if at == len {
            return Ok(None);
        }
        let chunk = self.chunk(py)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let end = if let Some(index) = chunk.find(self.newline, searched.max(at))? {
            (index + 1).min(at.saturating_add(limit))
        } else {
            self.state.with(py, |state| state.searched = len);
            if len - at < limit {
                return Ok(None);
            }
            at + limit
        };
        self.advance(py, end);
        chunk.slice(at, end).map(Some)
    }
}

#[pymethods]
impl ReadAhead {
    #[new]
    fn new(newline: &Bound<'_, PyAny>) -> PyResult<Self> {
        let chunk = Chunk::of(newline)?;
        let character = match &chunk {
            Chunk::Bytes(bytes) => bytes.as_bytes().to_vec(),
            Chunk::Text(text) => text.to_str()?.as_bytes().to_vec(),
        };
        let &[newline] = &character[..] else {
            return Err(PyValueError::new_err("a newline of one character expected"));
        };
        let empty = Object::new(chunk.slice(0, 0)?);
        Ok(Self { newline, empty, state: LoopCell::default() })
    }

    /// How much can be taken.
    #[getter]
    fn remaining(&self, py: Python<'_>) -> usize {
        let (at, len, _) = self.position(py);
        len - at
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
        let py = data.py();
        let (at, len, searched) = self.position(py);
        let (chunk, searched) = if at == len {
            (data.clone(), 0)
        } else {
            let rest = self.chunk(py)?.slice(at, len)?;
            (rest.add(data)?, searched.saturating_sub(at))
        };
        let len = Chunk::of(&chunk)?.len();
        let chunk = Some(Object::new(chunk));
        let old = self.state.with(py, |state| {
            (state.at, state.len, state.searched) = (0, len, searched);
            std::mem::replace(&mut state.chunk, chunk)
        });
        drop(old);
        Ok(())
    }

    /// Up to `size` of it; all when negative.
    #[pyo3(signature = (size = -1))]
    fn take<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyAny>> {
        let (at, len, _) = self.position(py);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let end = at.saturating_add(size).min(len);
        let taken = self.chunk(py)?.slice(at, end)?;
        self.advance(py, end);
        Ok(taken)
    }

    /// A line with its end, or its first `limit`; None if neither is there yet.
    #[pyo3(signature = (limit = -1))]
    fn take_line<'py>(&self, py: Python<'py>, limit: isize) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.line(py, limit)
    }

    /// Everything that `take()` would give, which stays.
    fn peek<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (at, len, _) = self.position(py);
        self.chunk(py)?.slice(at, len)
    }

    /// Skip, or go back if it is still here. False if it is not, and nothing has changed.
    fn r#move(&self, py: Python<'_>, distance: isize) -> bool {
        self.state.with(py, |state| match state.at.checked_add_signed(distance) {
            Some(at) if at <= state.len => {
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
            (state.at, state.len, state.searched) = (0, 0, 0);
            state.chunk.take()
        });
        drop(old);
    }
}

/// A line that was there: awaiting it does not wait.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Line(LoopCell<Option<Object>>);

impl Recycled for Line {
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
#[pyclass(frozen, module = "oneloop._native")]
pub struct Lines {
    /// Called when there is no line: an awaitable of the next, or of StopAsyncIteration.
    more: Py<PyAny>,
    ahead: Py<ReadAhead>,
}

impl Iterate for Lines {
    fn next<'py>(slf: Borrowed<'_, 'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let ahead = this.ahead.get();
        if !ahead.state.with(py, |state| state.is_held)
            && let Some(line) = ahead.line(py, -1)?
        {
            let line = Line(LoopCell::new(Some(Object::new(line))));
            return Ok(recycled::make(py, line)?.into_any());
        }
        this.more.bind(py).call0()
    }
}

#[pymethods]
impl Lines {
    #[new]
    fn new(more: Py<PyAny>, ahead: Py<ReadAhead>) -> Self {
        Self { more, ahead }
    }

    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::next(slf.as_borrowed())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.more)
    }
}
