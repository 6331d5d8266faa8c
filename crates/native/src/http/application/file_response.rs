//! `FileResponse`: sends a file to a client, if that takes more than one send or has to wait.
//!
//! | state   | waits for                                   | next state on                     |
//! |---------|---------------------------------------------|-----------------------------------|
//! | Looking | a thread that finds and opens the file      | its result                        |
//! | Sending | a piece of the file, or the client          | the last piece, or a failure      |
//! | Ended   | –                                           | –                                 |
//!
//! For `StaticFiles` it writes the whole response. For `http.response.pathsend` it works for the application, which
//! waits for a future. It runs as the callback of the future it waits for. One piece at a time is in memory, and the
//! next one is read only when the client has taken the last one. Upholds S2: no borrow of the state is held during a
//! call.

use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::ffi::{LoopCell, Object};
use crate::file::Files;
use crate::http::application::static_files::lookup::Lookup;
use crate::http::application::static_files::wanted::Outcome;
use crate::http::exchange::compression::Packing;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log::{self, client_gone};
use crate::http::exchange::reply::{FilePart, Piece, Reply};
use crate::http::exchange::response_state::{Framing, Response};
use crate::http::exchange::waiting::wake;
use oneloop_engine::files::served::Opened;
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a file in memory at a time. Smaller for a client that has paused the transport, because there may be many
/// such clients.
const PIECE_BYTES: u64 = 128 * 1024;
const SMALL_PIECE_BYTES: u64 = 64 * 1024;
/// The number of bytes to send before other tasks run.
const TURN_BYTES: u64 = 1024 * 1024;

const FAILED: &str = "A static file cannot be sent";

/// Where a thread stores its result.
pub type Slot<T> = Arc<Mutex<Option<io::Result<T>>>>;

enum State {
    Looking {
        slot: Slot<Outcome>,
        scope: Option<Py<PyDict>>,
        /// The request's path, for messages.
        path: Vec<u8>,
    },
    /// Like `Looking`, for an application's path.
    Opening {
        slot: Slot<Opened>,
        path: std::path::PathBuf,
    },
    Sending(Sending),
    Ended,
}

/// `text` comes first, then `left` bytes of the file, then the further pieces.
struct Sending {
    fd: OwnedFd,
    text: Vec<u8>,
    at: u64,
    left: u64,
    further: std::vec::IntoIter<Piece>,
    piece_bytes: u64,
    /// The awaited future returns a piece.
    is_reading: bool,
}

impl Sending {
    fn new(fd: OwnedFd, at: u64, left: u64, pieces: Vec<Piece>) -> Self {
        let further = pieces.into_iter();
        let piece_bytes = PIECE_BYTES;
        let mut made =
            Self { fd, text: Vec::new(), at, left, further, piece_bytes, is_reading: false };
        made.advance(0);
        made
    }

    /// So much of the file was sent. Returns whether there is more to send.
    fn advance(&mut self, len: u64) -> bool {
        self.at += len;
        self.left = self.left.saturating_sub(len);
        while self.left == 0 && self.text.is_empty() {
            let Some(piece) = self.further.next() else { return false };
            self.text = piece.text;
            self.at = piece.first;
            self.left = piece.len_bytes;
        }
        true
    }
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct FileResponse {
    exchange: Object<Exchange>,
    files: Object<Files>,
    /// The future of the application, for `pathsend`.
    waiter: Option<Object>,
    state: LoopCell<State>,
}

/// Logs a failure of the operating system.
pub fn log_failure(py: Python<'_>, path: &[u8], error: &io::Error) -> PyResult<()> {
    let text =
        format!("A static file cannot be sent: {:?}: {error}", String::from_utf8_lossy(path));
    error_log::log(py, &text, None)
}

/// Writes the head of a response, and the body as far as it is available.
pub fn send_reply(exchange: &Bound<'_, Exchange>, reply: Reply) -> PyResult<()> {
    let py = exchange.py();
    let this = exchange.get();
    let service = this.service.get();
    let mut head = service.spare(py);
    this.carrier.calls.begin_head(&mut head, reply.status, None);
    service.write_defaults(py, &mut head);
    head.extend_from_slice(&reply.fields);
    let len_bytes = reply.part.as_ref().map_or(0, |part| part.len_bytes);
    this.state.with(py, |s| {
        s.status = reply.status;
        s.framing = if this.is_head || reply.status == 304 {
            Framing::NoBody
        } else {
            Framing::Length(len_bytes)
        };
        s.head = head;
        s.response = Response::Started;
        s.packing = Packing::Plain;
    });
    if let (Some(coding), Some(_)) = (reply.coding, &reply.part) {
        this.pack(py, coding)?;
    }
    let Some(part) = reply.part else {
        exchange.get().service.get().end_request(exchange.py());
        return Exchange::write_body(exchange, &fallible::bytes(py, b"")?, false);
    };
    FileResponse::send(exchange, part, None)
}

/// No thread or no file engine is available.
fn give_up(exchange: &Bound<'_, Exchange>, error: &PyErr) -> PyResult<()> {
    exchange.get().service.get().end_request(exchange.py());
    error_log::log(exchange.py(), FAILED, Some(error))?;
    Exchange::respond(exchange, 500, "Internal Server Error")
}

/// Starts a thread to find the file. `scope`: for the application, in case the request goes there.
pub fn start_lookup(
    exchange: &Bound<'_, Exchange>,
    lookup: Lookup,
    scope: Option<Bound<'_, PyDict>>,
) -> PyResult<()> {
    let slot: Slot<Outcome> = Arc::default();
    let theirs = Arc::clone(&slot);
    let path = lookup.path();
    let state = State::Looking { slot, scope: scope.map(Bound::unbind), path };
    let begun = FileResponse::make(exchange, None, state).and_then(|(made, files)| {
        let future = Files::run_remote(&files, move || leave(&theirs, lookup.run()))?;
        FileResponse::wait(&made, &future)
    });
    begun.or_else(|error| give_up(exchange, &error))
}

fn leave<T>(slot: &Slot<T>, found: io::Result<T>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
}

fn take<T>(slot: &Slot<T>) -> io::Result<T> {
    let found = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    found.unwrap_or_else(|| Err(io::Error::other("the thread that looked for a file has ended")))
}

impl FileResponse {
    fn make<'py>(
        exchange: &Bound<'py, Exchange>,
        waiter: Option<&Bound<'py, PyAny>>,
        state: State,
    ) -> PyResult<(Bound<'py, Self>, Bound<'py, Files>)> {
        let py = exchange.py();
        let owner = exchange.get().service.get().owner.bind(py);
        let files = Files::of_loop(owner)?;
        let made = Self {
            exchange: Object::new(exchange.clone()),
            files: Object::new(files.clone()),
            waiter: waiter.map(|waiter| Object::new(waiter.clone())),
            state: LoopCell::new(state),
        };
        Ok((Bound::new(py, made)?, files))
    }

    /// Sends a part of a file, after the head of its response was written.
    pub fn send(
        exchange: &Bound<'_, Exchange>,
        part: FilePart,
        waiter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (made, files) = match Self::make(exchange, waiter, State::Ended) {
            Ok(made) => made,
            Err(error) if waiter.is_none() => return give_up(exchange, &error),
            Err(error) => return Err(error),
        };
        files.get().adopt(exchange.py(), &part.opened);
        let (first, left) =
            if part.pieces.is_empty() { (part.first, part.len_bytes) } else { (0, 0) };
        let sending = Sending::new(part.opened.fd, first, left, part.pieces);
        made.get().set(exchange.py(), State::Sending(sending));
        Self::drive(&made, Self::go_on)
    }

    /// Opens a file of the application on a thread, and sends it.
    pub fn open_and_send(
        exchange: &Bound<'_, Exchange>,
        path: std::path::PathBuf,
        c_path: std::ffi::CString,
        waiter: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let slot: Slot<Opened> = Arc::default();
        let theirs = Arc::clone(&slot);
        let (made, files) = Self::make(exchange, Some(waiter), State::Opening { slot, path })?;
        let open = move || leave(&theirs, oneloop_engine::files::served::open(&c_path));
        let future = Files::run_remote(&files, open)?;
        Self::wait(&made, &future)
    }

    fn set(&self, py: Python<'_>, state: State) -> State {
        self.state.with(py, |now| std::mem::replace(now, state))
    }

    /// Continues when a future is done.
    fn wait(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        future.call_method1(intern!(slf.py(), "add_done_callback"), (slf,)).map(drop)
    }

    /// Runs a step. A failure ends the response in any state.
    fn drive(
        slf: &Bound<'_, Self>,
        step: impl FnOnce(&Bound<'_, Self>) -> PyResult<()>,
    ) -> PyResult<()> {
        step(slf).or_else(|error| Self::failed(slf, error))
    }

    fn looked(
        slf: &Bound<'_, Self>,
        found: io::Result<Outcome>,
        scope: Option<Py<PyDict>>,
        path: &[u8],
    ) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.bind(py);
        if exchange.get().state.with(py, |s| s.is_disconnected) {
            exchange.get().service.get().end_request(exchange.py());
            return Ok(());
        }
        let reply = match (found, scope) {
            (Ok(Outcome::Reply(reply)), _) => reply,
            (Ok(Outcome::Application), Some(scope)) => {
                let application = &exchange.get().application;
                return application.calls.start(exchange, scope.bind(py));
            }
            (Ok(Outcome::Application), None) => Reply::plain(404, ""),
            (Err(error), _) => {
                log_failure(py, path, &error)?;
                Reply::of_error(&error)
            }
        };
        send_reply(exchange, reply)
    }

    fn opened(
        slf: &Bound<'_, Self>,
        found: io::Result<Opened>,
        path: &std::path::Path,
    ) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let opened = found.map_err(|error| crate::errors::path_error(&error, path))?;
        let exchange = this.exchange.bind(py);
        let len_bytes = exchange.get().fit_file(py, opened.status.len)?;
        this.files.get().adopt(py, &opened);
        let sending = Sending::new(opened.fd, 0, len_bytes, Vec::new());
        this.set(py, State::Sending(sending));
        Self::go_on(slf)
    }

    /// Reads and sends until it has to wait.
    fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let carrier = exchange.get().carrier.calls;
        let mut turn = 0;
        loop {
            if let Some(waiter) = &this.waiter
                && waiter.bind(py).call_method0(intern!(py, "done"))?.is_truthy()?
            {
                // The application was cancelled.
                return Self::end(slf);
            }
            let is_gone = exchange.get().state.with(py, |s| s.is_disconnected);
            if is_gone || carrier.is_ending(exchange)? {
                // A send has failed; the connection's end is reported later, and it knows how much was sent.
                exchange.get().cut(py)?;
                return Err(client_gone(py, "the client has closed the connection"));
            }
            if carrier.is_paused(py, exchange.get()) {
                return Self::wait_for_client(slf);
            }
            if turn >= TURN_BYTES {
                let owner = exchange.get().service.get().owner.get();
                owner.run_soon(py, slf.clone().into_any().unbind(), Self::run);
                return Ok(());
            }
            let place = this.state.with(py, |state| match state {
                State::Sending(s) => {
                    let text = std::mem::take(&mut s.text);
                    let len = if text.is_empty() { s.left.min(s.piece_bytes) } else { 0 };
                    Some((text, s.fd.as_raw_fd(), s.at, len))
                }
                _ => None,
            });
            let Some((text, fd, at, len)) = place else { return Ok(()) };
            let piece = if len == 0 {
                fallible::bytes(py, &text)?.into_any()
            } else {
                let at =
                    i64::try_from(at).map_err(|_| PyOSError::new_err("the file is too large"))?;
                Files::read_piece(this.files.bind(py), fd, usize::try_from(len)?, at)?
            };
            let Ok(piece) = piece.cast_exact::<PyBytes>() else {
                this.set_reading(py, true);
                return Self::wait(slf, &piece);
            };
            turn += len;
            if Self::write(slf, piece, len == 0)? {
                return Self::end(slf);
            }
        }
    }

    fn set_reading(&self, py: Python<'_>, is_reading: bool) -> bool {
        self.state.with(py, |state| match state {
            State::Sending(s) => std::mem::replace(&mut s.is_reading, is_reading),
            _ => false,
        })
    }

    fn wait_for_client(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        slf.get().state.with(py, |state| {
            if let State::Sending(s) = state {
                s.piece_bytes = SMALL_PIECE_BYTES;
            }
        });
        let owner = exchange.service.get().owner.bind(py);
        let future = owner.call_method0(intern!(py, "create_future"))?;
        let mut kept = Some(future.clone().unbind());
        exchange.carrier.calls.with_waiters(py, exchange, &mut |list, _| list.extend(kept.take()));
        Self::wait(slf, &future)
    }

    /// Sends a piece of the file, or text. Returns whether it was the last one.
    fn write(slf: &Bound<'_, Self>, piece: &Bound<'_, PyBytes>, is_text: bool) -> PyResult<bool> {
        let py = slf.py();
        let len = if is_text { 0 } else { piece.as_bytes().len() as u64 };
        let more = slf.get().state.with(py, |state| match state {
            State::Sending(s) if !is_text && len == 0 => None,
            State::Sending(s) => Some(s.advance(len)),
            _ => None,
        });
        let Some(more) = more else {
            return Err(PyOSError::new_err("the file was truncated while it was sent"));
        };
        Exchange::write_body(slf.get().exchange.bind(py), piece, more)?;
        Ok(!more)
    }

    fn run(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::drive(object.cast_exact::<Self>()?, Self::go_on)
    }

    /// Closes the file and resolves the application's future.
    fn end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let closed = match this.set(py, State::Ended) {
            State::Sending(sending) => Files::end(this.files.bind(py), sending.fd),
            State::Ended => return Ok(()),
            State::Looking { .. } | State::Opening { .. } => Ok(()),
        };
        let exchange = this.exchange.bind(py);
        let Some(waiter) = &this.waiter else {
            exchange.get().service.get().end_request(exchange.py());
            return closed;
        };
        exchange.get().state.with(py, |s| s.is_sending_file = false);
        closed.and(wake(py, vec![waiter.as_ref().clone_ref(py)]))
    }

    fn failed(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        if let Some(waiter) = &this.waiter {
            let waiter = waiter.bind(py);
            if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
                waiter.call_method1(intern!(py, "set_exception"), (error,))?;
            }
            return Self::end(slf);
        }
        Self::end(slf)?;
        let (response, is_gone) =
            exchange.get().state.with(py, |s| (s.response, s.is_disconnected));
        if is_gone || response == Response::Complete {
            return Ok(());
        }
        error_log::log(py, FAILED, Some(&error))?;
        if response == Response::Streaming {
            return Exchange::abort(exchange);
        }
        Exchange::respond(exchange, 500, "Internal Server Error")
    }
}

#[pymethods]
impl FileResponse {
    /// The awaited future is done.
    fn __call__(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match this.set(py, State::Ended) {
            // `drive` must not handle exceptions from an application.
            State::Looking { slot, scope, path } => Self::looked(slf, take(&slot), scope, &path),
            State::Opening { slot, path } => {
                // A state that `end` can end.
                let kept = State::Opening { slot: Arc::default(), path: path.clone() };
                this.set(py, kept);
                Self::drive(slf, |slf| Self::opened(slf, take(&slot), &path))
            }
            State::Sending(sending) => {
                this.set(py, State::Sending(sending));
                let is_reading = this.set_reading(py, false);
                Self::drive(slf, |slf| {
                    if is_reading {
                        let piece = future.call_method0(intern!(py, "result"))?;
                        let is_gone = this.exchange.get().state.with(py, |s| s.is_disconnected);
                        if !is_gone && Self::write(slf, &piece.cast_into::<PyBytes>()?, false)? {
                            return Self::end(slf);
                        }
                    }
                    Self::go_on(slf)
                })
            }
            State::Ended => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.files.visit(&visit)?;
        if let Some(waiter) = &self.waiter {
            waiter.visit(&visit)?;
        }
        self.state
            .peek(|state| match state {
                State::Looking { scope, .. } => visit.call(scope),
                _ => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
