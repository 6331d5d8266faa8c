//! `FastFile`: the native half of files: the operations that programs call for every line and record.
//!
//! Each call returns an `Operation`, which is a coroutine. When it is awaited, it is done from memory or the page cache
//! if that does not block. Otherwise it runs the file's own (slow) coroutine. Both have the same effects.

use super::Files;
use super::deferred::Work;
use super::handle::{FileHandle, Open, Sending};
use super::operation::{Act, Attempt, Operation, Then};
use super::read_ahead::ReadAhead;
use crate::errors;
use crate::ffi::bytes::BytesRoom;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::{LoopCell, Object, recycled, text};
use oneloop_engine::files::cached::{self, AtOnce, LONGEST};
use oneloop_engine::sys::file;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyString, PyTuple};
use pyo3::{IntoPyObjectExt, PyTraverseError, PyVisit};
use std::ffi::CStr;
use std::sync::OnceLock;

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
    ahead: Py<ReadAhead>,
    writes: Writes,
    reads: Reads,
}

/// Longer text is decoded on a thread.
const LONGEST_TEXT: usize = 256 << 10;
/// Longer text is encoded by the slow half.
const SHORT_TEXT: usize = 4096;

#[pyclass(subclass, frozen, weakref, module = "oneloop._native")]
pub struct FastFile {
    parts: OnceLock<Parts>,
    /// Whether text that was read without a decoder, which would have recorded it, had a line feed.
    has_seen_line_feed: LoopCell<bool>,
}

impl FastFile {
    /// The next line, if it is available. `credit`: the number of lines until the clock is read again.
    #[inline]
    pub(super) fn next_line(&self, py: Python<'_>, credit: &mut u32) -> PyResult<Option<Object>> {
        let Some(parts) = self.parts.get() else { return Ok(None) };
        let handle = parts.handle.get();
        if *credit == 0 {
            if !handle.may_work(py) {
                return Ok(None);
            }
            *credit = handle.credit(py);
        }
        *credit -= 1;
        match handle.peek(py) {
            Some(_) => Ok(parts.ahead.get().line(py, -1)?.map(Object::new)),
            None => Ok(None),
        }
    }

    /// Does the operation if that needs no waiting, or starts it.
    pub(super) fn attempt(&self, py: Python<'_>, act: &Act) -> PyResult<Attempt> {
        let Some(parts) = self.parts.get() else { return Ok(Attempt::Slow) };
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
            _ if !open.is_reading || open.pending > 0 => None,
            Act::ReadLine => parts.ahead.get().line(py, -1)?,
            Act::Read(size) => parts.ahead.get().exactly(py, *size)?,
            Act::ReadAll => self.read_all(py, parts, open)?,
            Act::ReadAt { size, offset } if open.is_file => read_at(py, open, *size, *offset)?,
            Act::ReadAt { .. } | Act::Write(_) | Act::Close => None,
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
        let is_plain = open.is_file && open.offset >= 0 && parts.ahead.get().is_empty(py);
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
        if let Some(parts) = self.parts.get() {
            parts.handle.get().push(py, data);
        }
    }

    /// Ends the turn that an operation has kept.
    pub(super) fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.parts.get().map_or(Ok(()), |parts| parts.handle.get().pass_on(py))
    }
}

/// Writes into the buffer, and flushes it if necessary.
fn write<'py>(
    py: Python<'py>,
    parts: &Parts,
    open: Open,
    data: &Bound<'py, PyAny>,
) -> PyResult<Attempt> {
    if !parts.ahead.get().is_empty(py) {
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
    let len = len.into_bound_py_any(py)?;
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
    let len = len.into_bound_py_any(py)?;
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
    parts.ahead.get().forget(py);
    files.get().descriptors.with(py, |descriptors| descriptors.forget(fd));
    file::close(fd).map_err(|e| errors::file_error(&e))?;
    Ok(Attempt::Done(Object::new(py.None().into_bound(py))))
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
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { parts: OnceLock::new(), has_seen_line_feed: LoopCell::new(false) }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(parts) = self.parts.get() {
            visit.call(&parts.handle)?;
            visit.call(&parts.ahead)?;
        }
        Ok(())
    }

    /// Called once, by the subclass. `writes`: "bytes", "text", "text within lines", or anything else for the slow
    /// half only; `reads`: "bytes", "text", "text with any line ends", or anything else.
    #[pyo3(signature = (handle, ahead, writes, reads, /))]
    fn _attach(
        &self,
        handle: Py<FileHandle>,
        ahead: Py<ReadAhead>,
        writes: &str,
        reads: &str,
    ) -> PyResult<()> {
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
        let parts = Parts { handle, ahead, writes, reads };
        self.parts.set(parts).map_err(|_| PyRuntimeError::new_err("the file is already attached"))
    }

    #[getter]
    fn _has_seen_line_feed(&self, py: Python<'_>) -> bool {
        self.has_seen_line_feed.get(py)
    }
}

/// A method with a slow half.
trait Halved {
    const NAME: &'static CStr;
    const DOC: &'static CStr;
    const SLOW: &'static str;

    /// `None`: only the slow half supports these arguments.
    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act>;
}

fn size_of(argument: Borrowed<'_, '_, PyAny>) -> Option<i64> {
    argument.cast_exact::<PyInt>().ok()?.extract().ok()
}

struct Method<H>(std::marker::PhantomData<H>);

impl<H: Halved> FastMethod for Method<H> {
    type Class = FastFile;

    const NAME: &'static CStr = H::NAME;
    const DOC: &'static CStr = H::DOC;

    fn call<'py>(
        slf: Borrowed<'_, 'py, FastFile>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let act = match arguments.named() {
            None => H::act(arguments.positional()),
            Some(_) => None,
        };
        let object: &Bound<'py, PyAny> = slf.as_any();
        if let Some(act) = act {
            let file = slf.to_owned().unbind();
            return Ok(recycled::make(py, Operation::new(file, act, H::SLOW))?.into_any());
        }
        let slow = object.getattr(PyString::intern(py, H::SLOW))?;
        arguments.call(&slow)
    }
}

struct Read;
impl Halved for Read {
    const NAME: &'static CStr = c"read";
    const DOC: &'static CStr =
        c"read($self, size=-1, /, *, timeout=None)\n--\n\nRead up to `size` bytes or characters, fewer only at the end; everything left if `size` is -1 or None.";
    const SLOW: &'static str = "_read";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        match arguments {
            [] => Some(Act::ReadAll),
            [size] => usize::try_from(size_of(*size)?).ok().filter(|size| *size > 0).map(Act::Read),
            _ => None,
        }
    }
}

struct ReadLine;
impl Halved for ReadLine {
    const NAME: &'static CStr = c"readline";
    const DOC: &'static CStr =
        c"readline($self, size=-1, /, *, timeout=None)\n--\n\nRead one line with its end, or its first `size` bytes or characters; empty at the end of the file.";
    const SLOW: &'static str = "_readline";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::ReadLine)
    }
}

struct Write;
impl Halved for Write {
    const NAME: &'static CStr = c"write";
    const DOC: &'static CStr =
        c"write($self, data, /, *, timeout=None)\n--\n\nWrite all of `data`, into the buffer if there is room; returns its length.";
    const SLOW: &'static str = "_write";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        match arguments {
            [data] => Some(Act::Write(Object::new((*data).to_owned()))),
            _ => None,
        }
    }
}

struct ReadAt;
impl Halved for ReadAt {
    const NAME: &'static CStr = c"pread";
    const DOC: &'static CStr =
        c"pread($self, size, offset, *, timeout=None)\n--\n\nRead up to `size` bytes from `offset` on, fewer only at the end of the file. Does not move the cursor.";
    const SLOW: &'static str = "_pread";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        let [size, offset] = arguments else { return None };
        let size = usize::try_from(size_of(*size)?).ok().filter(|size| *size <= LONGEST)?;
        let offset = size_of(*offset).filter(|offset| *offset >= 0)?;
        Some(Act::ReadAt { size, offset })
    }
}

struct Flush;
impl Halved for Flush {
    const NAME: &'static CStr = c"flush";
    const DOC: &'static CStr = c"flush($self, *, timeout=None)\n--\n\nPass all written data to the kernel; `fsync` also writes it to the disk.\n\nRaises:\n    OSError: the write failed. Data that was not written stays buffered and is tried again.";
    const SLOW: &'static str = "_flush";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::Flush)
    }
}

struct Close;
impl Halved for Close {
    const NAME: &'static CStr = c"close";
    const DOC: &'static CStr = c"close($self, *, timeout=None)\n--\n\nWrite buffered data and close the descriptor. A second call does nothing.\n\nA cancelled close continues in the background, and another call waits for the same close. A read that waits for a\npipe ends with ValueError.\n\nRaises:\n    OSError: buffered data could not be written, or the close failed; the file is closed nevertheless.";
    const SLOW: &'static str = "_close";

    fn act(arguments: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        arguments.is_empty().then_some(Act::Close)
    }
}

/// The end of `async with`: closes the file, with or without an exception.
struct Exit;
impl Halved for Exit {
    const NAME: &'static CStr = c"__aexit__";
    const DOC: &'static CStr = c"__aexit__($self, kind, error, trace, /)\n--\n\nClose the file.";
    const SLOW: &'static str = "_close";

    fn act(_: &[Borrowed<'_, '_, PyAny>]) -> Option<Act> {
        Some(Act::Close)
    }
}

/// Called once, when the module is loaded.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Method<Read>>(py)?;
    method::add::<Method<ReadLine>>(py)?;
    method::add::<Method<Write>>(py)?;
    method::add::<Method<Flush>>(py)?;
    method::add::<Method<Close>>(py)?;
    method::add::<Method<Exit>>(py)?;
    method::add::<Method<ReadAt>>(py)
}
