//! `FastFile`: the native half of files: the operations that programs call for every line and record.
//!
//! Each call returns an `Operation`, which is a coroutine. When it is awaited, it is done from memory or the page cache
//! if that does not block. Otherwise it runs the file's own (slow) coroutine. Both have the same effects.

use super::Files;
use super::attempt::{Act, Attempt, Then};
use super::deferred::Work;
use super::handle::{FileHandle, Open, Sending};
use super::read_ahead::ReadAhead;
use crate::errors;
use crate::ffi::bytes::BytesRoom;
use crate::ffi::values::ToPython;
use crate::ffi::{LoopCell, Object, text};
use oneloop_engine::files::cached::{self, AtOnce, LONGEST};
use oneloop_engine::sys::file;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

/// The data that `write` accepts without its slow half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    Nothing,
    Bytes,
    /// Text that is encoded as UTF-8 without newline translation.
    Text,
    /// Like `Text`, but not text with a line end, which has to be flushed.
    TextWithinLine,
}

/// What `read` of a whole file can return without its slow half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Nothing,
    Bytes,
    /// ASCII text.
    Text,
    /// Like `Text`, but without carriage returns, which the decoder has to handle.
    TextWithAnyEnds,
}

struct Parts {
    handle: Py<FileHandle>,
    /// The text read ahead. `None`: the bytes of the handle.
    text: Option<Py<ReadAhead>>,
    writes: Writes,
    reads: Reads,
}

impl Parts {
    /// What was read ahead; `None` as long as nothing was.
    #[inline]
    fn ahead(&self) -> Option<&ReadAhead> {
        self.text.as_ref().map_or_else(|| self.handle.get().ahead(), |text| Some(text.get()))
    }

    fn is_nothing_ahead(&self, py: Python<'_>) -> bool {
        self.ahead().is_none_or(|ahead| ahead.is_empty(py))
    }

    fn forget_ahead(&self, py: Python<'_>) {
        if let Some(ahead) = self.ahead() {
            ahead.forget(py);
        }
    }

    fn line<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.ahead().map_or(Ok(None), |ahead| ahead.line(py, -1))
    }
}

/// Longer text is decoded on a thread.
const LONGEST_TEXT: usize = 256 << 10;
/// Longer text is encoded by the slow half.
const SHORT_TEXT: usize = 4096;

#[pyclass(subclass, frozen, weakref, module = "oneloop._native")]
pub struct FastFile {
    parts: Parts,
    /// Whether text that was read without a decoder, which would have recorded it, had a line feed.
    has_seen_line_feed: LoopCell<bool>,
}

impl FastFile {
    /// The next line, if it is available. `credit`: the number of lines until the clock is read again.
    #[inline]
    pub(super) fn next_line(&self, py: Python<'_>, credit: &mut u32) -> PyResult<Option<Object>> {
        let handle = self.parts.handle.get();
        if *credit == 0 {
            if !handle.may_work(py) {
                return Ok(None);
            }
            *credit = handle.credit(py);
        }
        *credit -= 1;
        match handle.peek(py) {
            Some(_) => Ok(self.parts.line(py)?.map(Object::new)),
            None => Ok(None),
        }
    }

    /// Does the operation if that needs no waiting, or starts it.
    pub(super) fn attempt(&self, py: Python<'_>, act: &Act) -> PyResult<Attempt> {
        let parts = &self.parts;
        let handle = parts.handle.get();
        let Some(open) = handle.peek(py) else { return Ok(Attempt::Slow) };
        if !handle.may_work(py) {
            return match (act, handle.native(py)) {
                (Act::ReadAt { size, offset }, Some(files))
                    if open.is_reading
                        && open.is_file
                        && open.pending == 0
                        && handle.is_ours(py) =>
                {
                    let (fd, size, offset) = (open.number, *size, *offset);
                    let future = Files::defer(files, Work::Read { fd, size, offset })?;
                    Attempt::wait(&future, Then::Read(size))
                }
                _ => Ok(Attempt::Slow),
            };
        }
        let done = match act {
            Act::Write(data) if open.is_writing => return write(py, parts, open, data.bind(py)),
            Act::Flush if open.pending == 0 => Some(py.None().into_bound(py)),
            Act::Flush => return send(py, parts, py.None().into_bound(py)),
            Act::Close if open.pending == 0 => return close(py, parts),
            Act::Close => return write_and_close(py, parts),
            _ if !open.is_reading || open.pending > 0 => None,
            Act::ReadLine => parts.line(py)?,
            Act::Read(size) => parts.ahead().map_or(Ok(None), |ahead| ahead.exactly(py, *size))?,
            Act::ReadAll => self.read_all(py, parts, open)?,
            Act::ReadAt { size, offset } if open.is_file => read_at(py, open, *size, *offset)?,
            Act::ReadAt { .. } | Act::Write(_) => None,
        };
        Ok(done.map_or(Attempt::Slow, |done| Attempt::Done(Object::new(done))))
    }

    /// Reads the whole file if it has the same length as when it was opened and the cache has it.
    fn read_all<'py>(
        &self,
        py: Python<'py>,
        parts: &Parts,
        open: Open,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let left = i64::try_from(open.len).unwrap_or(i64::MAX) - open.offset;
        let Ok(left) = usize::try_from(left) else { return Ok(None) };
        let is_plain = open.is_file && open.offset >= 0 && parts.is_nothing_ahead(py);
        // Text only from the beginning: the decoder may still hold a part of what was read before.
        let longest = match parts.reads {
            Reads::Nothing => 0,
            Reads::Bytes => LONGEST,
            _ if open.offset != 0 => 0,
            _ => LONGEST_TEXT,
        };
        if !is_plain || left == 0 || left > longest {
            return Ok(None);
        }
        let mut room = BytesRoom::new(py, left + 1)?;
        let data = match cached::read(open.number, room.as_mut_slice(py), open.offset) {
            Ok(AtOnce::Done(n)) if n == left => room.completed(py, n)?,
            // The slow half reports errors.
            _ => return Ok(None),
        };
        let read = match parts.reads {
            Reads::Bytes | Reads::Nothing => data.into_any(),
            reads => {
                let bytes = data.as_bytes();
                let looks = reads == Reads::TextWithAnyEnds;
                if !bytes.is_ascii() || (looks && memchr::memchr(b'\r', bytes).is_some()) {
                    return Ok(None);
                }
                if memchr::memchr(b'\n', bytes).is_some() {
                    self.has_seen_line_feed.set(py, true);
                }
                text::of_ascii(&data)?
            }
        };
        parts.handle.get().move_to(py, open.offset + left.cast_signed() as i64);
        Ok(Some(read))
    }

    /// Buffers data for which a write has made room.
    pub(super) fn put(&self, py: Python<'_>, data: &[u8]) {
        self.parts.handle.get().push(py, data);
    }

    /// Ends the turn that an operation has kept.
    pub(super) fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.parts.handle.get().pass_on(py)
    }
}

/// Writes into the buffer, and flushes it if necessary.
fn write<'py>(
    py: Python<'py>,
    parts: &Parts,
    open: Open,
    data: &Bound<'py, PyAny>,
) -> PyResult<Attempt> {
    if !parts.is_nothing_ahead(py) {
        return Ok(Attempt::Slow);
    }
    let handle = parts.handle.get();
    let (len, is_flushed) = match parts.writes {
        Writes::Nothing => return Ok(Attempt::Slow),
        Writes::Bytes => match data.cast_exact::<PyBytes>() {
            Ok(bytes) if handle.put(py, bytes.as_bytes()) => (bytes.as_bytes().len(), false),
            Ok(bytes) => {
                return make_room(py, parts, open, bytes.as_bytes(), bytes.as_bytes().len());
            }
            Err(_) => return Ok(Attempt::Slow),
        },
        Writes::Text | Writes::TextWithinLine => match short_text(data) {
            Some((text, len)) => {
                let is_flushed = parts.writes == Writes::TextWithinLine && has_line_end(text);
                if is_flushed && !open.is_file {
                    return Ok(Attempt::Slow);
                }
                if !handle.put(py, text) {
                    return if is_flushed {
                        Ok(Attempt::Slow)
                    } else {
                        make_room(py, parts, open, text, len)
                    };
                }
                (len, is_flushed)
            }
            None => return Ok(Attempt::Slow),
        },
    };
    let len = len.to_python(py)?;
    if is_flushed { send(py, parts, len) } else { Ok(Attempt::Done(Object::new(len))) }
}

/// Sends the pending data, because the new data does not fit after it.
fn make_room(
    py: Python<'_>,
    parts: &Parts,
    open: Open,
    data: &[u8],
    len: usize,
) -> PyResult<Attempt> {
    let handle = parts.handle.get();
    if !open.is_file || !handle.may_hold(py, data.len()) {
        return Ok(Attempt::Slow);
    }
    let len = len.to_python(py)?;
    match FileHandle::ship(parts.handle.bind(py))? {
        Sending::Done if handle.put(py, data) => Ok(Attempt::Done(Object::new(len))),
        Sending::Wait(future) => {
            handle.take_now(py);
            let then = Then::Put(data.into(), Object::new(len));
            Attempt::wait(&future, then)
        }
        Sending::Done | Sending::No => Ok(Attempt::Slow),
    }
}

/// Sends the pending data. `value` is the result of the await afterwards.
fn send<'py>(py: Python<'py>, parts: &Parts, value: Bound<'py, PyAny>) -> PyResult<Attempt> {
    match FileHandle::ship(parts.handle.bind(py))? {
        Sending::Done => Ok(Attempt::Done(Object::new(value))),
        Sending::Wait(future) => {
            parts.handle.get().take_now(py);
            Attempt::wait(&future, Then::Leave(Object::new(value)))
        }
        Sending::No => Ok(Attempt::Slow),
    }
}

/// Closes a file to which nothing was written, if the close does not block.
fn close(py: Python<'_>, parts: &Parts) -> PyResult<Attempt> {
    let handle = parts.handle.get();
    let Some(files) = handle.native(py) else { return Ok(Attempt::Slow) };
    let Some(open) = handle.peek(py) else { return Ok(Attempt::Slow) };
    if !Files::closes_at_once(files, open.number) {
        return Ok(Attempt::Slow);
    }
    let Some(fd) = handle.give_up(py) else { return Ok(Attempt::Slow) };
    parts.forget_ahead(py);
    files.get().descriptors.with(py, |descriptors| descriptors.forget(fd));
    file::close(fd).map_err(|e| errors::file_error(&e))?;
    Ok(Attempt::Done(Object::new(py.None().into_bound(py))))
}

/// Writes the pending data and closes the file, on a thread for whose end the loop waits a short time.
fn write_and_close(py: Python<'_>, parts: &Parts) -> PyResult<Attempt> {
    let handle = parts.handle.bind(py);
    if handle.get().is_watched(py) {
        return Ok(Attempt::Slow);
    }
    let closing = FileHandle::close_written(handle)?;
    if closing.is_none() {
        parts.forget_ahead(py);
        return Ok(Attempt::Done(Object::new(closing)));
    }
    if !closing.is_instance_of::<PyBool>() {
        // The slow half waits for it, and so do other calls.
        handle.setattr(intern!(py, "closing"), closing)?;
    }
    Ok(Attempt::Slow)
}

/// The UTF-8 bytes of a short str, and its length in characters. `None` for other objects, and for text that UTF-8
/// cannot encode.
#[inline]
fn short_text<'a>(data: &'a Bound<'_, PyAny>) -> Option<(&'a [u8], usize)> {
    let text = data.cast_exact::<PyString>().ok()?;
    let len = text::length(text);
    if len > SHORT_TEXT {
        return None;
    }
    Some((text.to_str().ok()?.as_bytes(), len))
}

fn has_line_end(text: &[u8]) -> bool {
    memchr::memchr2(b'\n', b'\r', text).is_some()
}

/// Everything requested, or the data up to the end of the file.
fn read_at(
    py: Python<'_>,
    open: Open,
    size: usize,
    offset: i64,
) -> PyResult<Option<Bound<'_, PyAny>>> {
    let mut room = BytesRoom::new(py, size)?;
    match cached::read(open.number, room.as_mut_slice(py), offset) {
        Ok(AtOnce::Done(n)) if n == size || n == 0 => Ok(Some(room.completed(py, n)?.into_any())),
        // The slow half reports errors.
        _ => Ok(None),
    }
}

#[pymethods]
impl FastFile {
    /// Make the file of a handle. Further arguments are for the subclass.
    ///
    /// `ahead`: the text read ahead; None: the bytes of the handle. `writes`: "bytes", "text", "text within lines", or
    /// anything else for the slow half only; `reads`: "bytes", "text", "text with any line ends", or anything else.
    #[new]
    #[pyo3(signature = (handle, ahead = None, writes = "bytes", reads = "bytes", /, *_rest))]
    fn new(
        handle: &Bound<'_, FileHandle>,
        ahead: Option<Py<ReadAhead>>,
        writes: &str,
        reads: &str,
        _rest: &Bound<'_, PyTuple>,
    ) -> Self {
        let reads = match reads {
            "bytes" => Reads::Bytes,
            "text" => Reads::Text,
            "text with any line ends" => Reads::TextWithAnyEnds,
            _ => Reads::Nothing,
        };
        let writes = match writes {
            "bytes" => Writes::Bytes,
            "text" => Writes::Text,
            "text within lines" => Writes::TextWithinLine,
            _ => Writes::Nothing,
        };
        let parts = Parts { handle: handle.clone().unbind(), text: ahead, writes, reads };
        Self { parts, has_seen_line_feed: LoopCell::new(false) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.parts.handle)?;
        visit.call(&self.parts.text)
    }

    #[getter]
    fn _handle(&self, py: Python<'_>) -> Py<FileHandle> {
        self.parts.handle.clone_ref(py)
    }

    #[getter]
    fn _has_seen_line_feed(&self, py: Python<'_>) -> bool {
        self.has_seen_line_feed.get(py)
    }
}
