//! `Input`: `wsgi.input`, the body of a request as a file.
//!
//! It ends where the body ends; a body that was cut off or malformed raises an exception. Reading waits: a green
//! thread parks, a pool thread blocks.

use crate::event_loop::LoopCore;
use crate::ffi::buffer::View;
use crate::ffi::bytes::as_uninit;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use crate::http::exchange::contract::{self, Exchange};
use crate::http::exchange::error_log::client_gone;
use crate::http::exchange::response_state::Response;
use crate::http::exchange::waiting::{is_here, pause};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3::{PyTraverseError, PyVisit};
use std::ffi::CStr;

#[derive(Default)]
struct State {
    /// Taken from the connection and not yet read.
    held: Option<Object<PyBytes>>,
    /// The position in it.
    at: usize,
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Input {
    exchange: Object<Exchange>,
    state: LoopCell<State>,
}

impl Recycled for Input {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

/// The state of the request's body.
enum News {
    Data,
    End,
    Cut,
    /// Nothing yet.
    Nothing {
        expects_continue: bool,
    },
}

impl Input {
    pub fn make<'py>(exchange: &Bound<'py, Exchange>) -> PyResult<Bound<'py, Self>> {
        let input = Self { exchange: Object::new(exchange.clone()), state: LoopCell::default() };
        recycled::make(exchange.py(), input)
    }

    fn news(s: &contract::State) -> News {
        if !s.body.is_empty() {
            News::Data
        } else if s.body.is_complete {
            News::End
        } else if s.is_disconnected || s.response == Response::Complete {
            News::Cut
        } else {
            News::Nothing { expects_continue: s.expects_continue }
        }
    }

    /// Returns all received data, at least one byte; `None` at the end of the body. OSError if the rest will not
    /// arrive.
    fn fetch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let exchange = self.exchange.bind(py);
        let owner = exchange.get().service.get().owner.bind(py);
        loop {
            match exchange.get().state.with(py, |s| Self::news(s)) {
                News::Data => {
                    let data = exchange.get().take_body(py)?;
                    if exchange.get().carrier.calls.is_reading_paused(py, exchange.get()) {
                        on_loop(owner, exchange, read_on)?;
                    }
                    return Ok(Some(data));
                }
                News::End => return Ok(None),
                News::Cut => {
                    let text = "the client has not sent all of the request's body";
                    return Err(client_gone(py, text));
                }
                News::Nothing { expects_continue } => {
                    if expects_continue {
                        on_loop(owner, exchange, ask_for_body)?;
                    }
                    pause(owner, |waiter| {
                        exchange.get().state.with(py, |s| {
                            let waits = matches!(Self::news(s), News::Nothing { .. });
                            if waits {
                                s.receive_waiters.push(waiter);
                            }
                            waits
                        })
                    })?;
                }
            }
        }
    }

    /// The held data with the position of its unread part; fetches more if there is none. `None` at the end.
    fn hold<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, usize)>> {
        let held = |s: &mut State| s.held.as_ref().map(|held| (held.bind(py).clone(), s.at));
        if let Some((held, at)) = self.state.with(py, held)
            && at < held.as_bytes().len()
        {
            return Ok(Some((held, at)));
        }
        let data = self.fetch(py)?;
        let kept = data.as_ref().map(|data| Object::new(data.clone()));
        let old = self.state.with(py, |s| {
            s.at = 0;
            std::mem::replace(&mut s.held, kept)
        });
        drop(old);
        Ok(data.map(|data| (data, 0)))
    }

    /// Records that the held data was read up to `to`.
    fn advance(&self, py: Python<'_>, to: usize, is_all: bool) {
        let old = self.state.with(py, |s| {
            s.at = to;
            if is_all { s.held.take() } else { None }
        });
        drop(old);
    }

    /// Passes parts of the body to `take`, which returns how much it has read of each part and whether it wants more.
    fn each<'py>(
        &self,
        py: Python<'py>,
        mut take: impl FnMut(&Bound<'py, PyBytes>, usize) -> (usize, bool),
    ) -> PyResult<()> {
        while let Some((held, at)) = self.hold(py)? {
            let (used, wants_more) = take(&held, at);
            self.advance(py, at + used, at + used == held.as_bytes().len());
            if !wants_more {
                break;
            }
        }
        Ok(())
    }

    /// Returns `limit` bytes, or fewer at the end of the body; all of it without a limit.
    fn read_up_to<'py>(
        &self,
        py: Python<'py>,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let limit = limit.unwrap_or(usize::MAX);
        if limit == 0 {
            return fallible::bytes(py, b"");
        }
        let mut whole = None;
        let mut read = Vec::new();
        self.each(py, |held, at| {
            let data = &held.as_bytes()[at..];
            let used = data.len().min(limit - read.len() - len_of(whole.as_ref()));
            if at == 0 && used == data.len() && read.is_empty() && whole.is_none() {
                // A body in one piece, the usual case, is returned without a copy.
                whole = Some(held.clone());
                return (used, used < limit);
            }
            if let Some(first) = whole.take() {
                read.extend_from_slice(first.as_bytes());
            }
            read.extend_from_slice(&data[..used]);
            (used, read.len() < limit)
        })?;
        whole.map_or_else(|| fallible::bytes(py, &read), Ok)
    }

    fn read_line<'py>(
        &self,
        py: Python<'py>,
        limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let limit = limit.unwrap_or(usize::MAX);
        let mut line = Vec::new();
        if limit == 0 {
            return fallible::bytes(py, b"");
        }
        self.each(py, |held, at| {
            let data = &held.as_bytes()[at..];
            let end = memchr::memchr(b'\n', data).map_or(data.len(), |end| end + 1);
            let used = end.min(limit - line.len());
            line.extend_from_slice(&data[..used]);
            (used, line.last() != Some(&b'\n') && line.len() < limit)
        })?;
        fallible::bytes(py, &line)
    }
}

fn len_of(data: Option<&Bound<'_, PyBytes>>) -> usize {
    data.map_or(0, |data| data.as_bytes().len())
}

/// Calls the function now if this is the loop's thread; otherwise queues it on the loop.
fn on_loop(
    owner: &Bound<'_, LoopCore>,
    exchange: &Bound<'_, Exchange>,
    run: crate::event_loop::Run,
) -> PyResult<()> {
    if is_here(owner) {
        return run(owner, exchange.as_any());
    }
    owner.get().run_soon(owner.py(), exchange.clone().into_any().unbind(), run);
    Ok(())
}

fn read_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let exchange = object.cast_exact::<Exchange>()?;
    exchange.get().carrier.calls.read_on(exchange)
}

fn ask_for_body(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    Exchange::ask_for_body(object.cast_exact::<Exchange>()?)
}

/// The only argument, a number; `None` if it is missing, None or negative.
fn limit(arguments: &Arguments<'_, '_>, function: &str) -> PyResult<Option<usize>> {
    if let Some((names, _)) = arguments.named()
        && !names.is_empty()
    {
        return Err(PyTypeError::new_err(format!("{function}() takes no keyword arguments")));
    }
    match arguments.positional() {
        [] => Ok(None),
        [given] if given.is_none() => Ok(None),
        [given] => {
            let given: isize = given.extract()?;
            Ok(usize::try_from(given).ok())
        }
        _ => Err(PyTypeError::new_err(format!("{function}() takes at most one argument"))),
    }
}

#[pymethods]
impl Input {
    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(&self, py: Python<'py>, hint: Option<isize>) -> PyResult<Bound<'py, PyList>> {
        let hint = hint.and_then(|hint| usize::try_from(hint).ok()).filter(|hint| *hint > 0);
        let lines = fallible::list(py)?;
        let mut len_bytes = 0;
        loop {
            let line = self.read_line(py, None)?;
            if line.as_bytes().is_empty() {
                return Ok(lines);
            }
            len_bytes += line.as_bytes().len();
            lines.append(line)?;
            if hint.is_some_and(|hint| len_bytes >= hint) {
                return Ok(lines);
            }
        }
    }

    /// Read into a writable buffer until it is full. Returns the number of bytes.
    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<Value<usize>> {
        let py = buffer.py();
        let mut room = View::writable(buffer)?;
        let data = self.read_up_to(py, Some(room.len()))?;
        let data = data.as_bytes();
        room.as_mut_slice(py)[..data.len()].copy_from_slice(as_uninit(data));
        Ok(Value(data.len()))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.read_line(py, None)?;
        Ok((!line.as_bytes().is_empty()).then_some(line))
    }

    /// Does nothing, because the connection owns the body.
    #[expect(clippy::unused_self, reason = "a method of files")]
    fn close(&self) {}

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)
    }
}

struct Read;

impl FastMethod for Read {
    type Class = Input;
    const NAME: &'static CStr = c"read";
    const DOC: &'static CStr =
        c"read($self, size=-1, /)\n--\n\nRead up to `size` bytes, fewer only at the end of the body; everything if `size` is negative or None.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, Input>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = limit(&arguments, "read")?;
        Ok(slf.get().read_up_to(slf.py(), limit)?.into_any())
    }
}

struct ReadLine;

impl FastMethod for ReadLine {
    type Class = Input;
    const NAME: &'static CStr = c"readline";
    const DOC: &'static CStr =
        c"readline($self, size=-1, /)\n--\n\nRead one line with its end, or its first `size` bytes.";

    fn call<'py>(
        slf: Borrowed<'_, 'py, Input>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = limit(&arguments, "readline")?;
        Ok(slf.get().read_line(slf.py(), limit)?.into_any())
    }
}

/// Adds the methods that run for each request.
pub fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<Read>(py)?;
    method::add::<ReadLine>(py)
}
