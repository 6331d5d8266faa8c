//! `FileAnswer`: sends a file to a client, if that takes more than one send or has to wait.
//!
//! | course  | waits for                                   | next state on                     |
//! |---------|---------------------------------------------|-----------------------------------|
//! | Looking | a thread that finds and opens the file      | its result                        |
//! | Sending | a piece of the file, or the client          | the last piece, or a failure      |
//! | Ended   | –                                           | –                                 |
//!
//! For `StaticFiles` it writes the whole answer. For `http.response.pathsend` it works for the application, which
//! waits for a future. It runs as the callback of the future it waits for. One piece at a time is in memory, and the
//! next one is read only when the client has taken the last one. Upholds S2: no borrow of the course is held during a
//! call.

use super::answer::Framing;
use super::connection::HttpConnection;
use super::exchange::{Answer, Exchange, wake};
use super::journal::{self, client_gone};
use super::static_files::Lookup;
use super::static_reply::{FilePart, Outcome, Reply};
use crate::event_loop::LoopCore;
use crate::ffi::{LoopCell, Object};
use crate::file::Files;
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

enum Course {
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

struct Sending {
    fd: OwnedFd,
    at: u64,
    left: u64,
    piece_bytes: u64,
    /// The awaited future returns a piece.
    is_reading: bool,
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct FileAnswer {
    exchange: Object<Exchange>,
    files: Object<Files>,
    /// The future of the application, for `pathsend`.
    waiter: Option<Object>,
    course: LoopCell<Course>,
}

/// Logs a failure of the operating system.
pub fn log_failure(py: Python<'_>, path: &[u8], error: &io::Error) -> PyResult<()> {
    let text =
        format!("A static file cannot be sent: {:?}: {error}", String::from_utf8_lossy(path));
    journal::log(py, &text, None)
}

/// Writes the head of an answer, and the body as far as it is available. `scope`: for the access log.
pub fn start_reply(
    exchange: &Bound<'_, Exchange>,
    reply: Reply,
    scope: Option<Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = exchange.py();
    let this = exchange.get();
    let mut head = this.spare(py);
    super::fields::write_status_line(&mut head, reply.status);
    let http = this.connection.get().http.get();
    http.write_defaults(py, &mut head);
    let is_told = http.options.on_response.is_some();
    let scope = scope.filter(|_| is_told).map(|scope| scope.into_any().unbind());
    head.extend_from_slice(&reply.fields);
    let len_bytes = reply.part.as_ref().map_or(0, |part| part.len_bytes);
    this.state.with(py, |s| {
        s.status = reply.status;
        s.framing = if this.is_head || reply.status == 304 {
            Framing::NoBody
        } else {
            Framing::Length(len_bytes)
        };
        // As after an application's start.
        s.keeps_alive &= !s.expects_continue || s.body.is_complete;
        // The access log does not use a WSGI application's environ.
        s.scope = s.scope.take().or(scope);
        s.head = head;
        s.answer = Answer::Started;
    });
    let Some(part) = reply.part else {
        end_request(exchange);
        return Exchange::write_body(exchange, &PyBytes::new(py, b""), false);
    };
    FileAnswer::send(exchange, part, None)
}

/// Counts one request less in progress.
fn end_request(exchange: &Bound<'_, Exchange>) {
    let http = exchange.get().connection.get().http.get();
    http.serving.with(exchange.py(), |serving| serving.requests -= 1);
}

/// No thread or no file engine is available.
fn give_up(exchange: &Bound<'_, Exchange>, error: &PyErr) -> PyResult<()> {
    end_request(exchange);
    journal::log(exchange.py(), FAILED, Some(error))?;
    Exchange::answer_at_once(exchange, 500, "Internal Server Error")
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
    let course = Course::Looking { slot, scope: scope.map(Bound::unbind), path };
    let begun = FileAnswer::make(exchange, None, course).and_then(|(answer, files)| {
        let future = Files::run_far(&files, move || leave(&theirs, lookup.run()))?;
        FileAnswer::wait(&answer, &future)
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

impl FileAnswer {
    fn make<'py>(
        exchange: &Bound<'py, Exchange>,
        waiter: Option<&Bound<'py, PyAny>>,
        course: Course,
    ) -> PyResult<(Bound<'py, Self>, Bound<'py, Files>)> {
        let py = exchange.py();
        let owner = exchange.get().connection.get().http.get().owner.bind(py);
        let files = Files::of_loop(owner)?;
        let made = Self {
            exchange: Object::new(exchange.clone()),
            files: Object::new(files.clone()),
            waiter: waiter.map(|waiter| Object::new(waiter.clone())),
            course: LoopCell::new(course),
        };
        Ok((Bound::new(py, made)?, files))
    }

    /// Sends a part of a file, after the head of its answer was written.
    pub fn send(
        exchange: &Bound<'_, Exchange>,
        part: FilePart,
        waiter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (answer, files) = match Self::make(exchange, waiter, Course::Ended) {
            Ok(made) => made,
            Err(error) if waiter.is_none() => return give_up(exchange, &error),
            Err(error) => return Err(error),
        };
        files.get().adopt(exchange.py(), &part.opened);
        let sending = Sending {
            fd: part.opened.fd,
            at: part.first,
            left: part.len_bytes,
            piece_bytes: PIECE_BYTES,
            is_reading: false,
        };
        answer.get().set(exchange.py(), Course::Sending(sending));
        Self::drive(&answer, Self::go_on)
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
        let (answer, files) = Self::make(exchange, Some(waiter), Course::Opening { slot, path })?;
        let open = move || leave(&theirs, oneloop_engine::files::served::open(&c_path));
        let future = Files::run_far(&files, open)?;
        Self::wait(&answer, &future)
    }

    fn set(&self, py: Python<'_>, course: Course) -> Course {
        self.course.with(py, |now| std::mem::replace(now, course))
    }

    /// Continues when a future is done.
    fn wait(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        future.call_method1(intern!(slf.py(), "add_done_callback"), (slf,)).map(drop)
    }

    /// Runs a step. A failure ends the answer in any state.
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
            end_request(exchange);
            return Ok(());
        }
        let scope = scope.map(|scope| scope.into_bound(py));
        let reply = match (found, &scope) {
            (Ok(Outcome::Reply(reply)), _) => reply,
            (Ok(Outcome::Application), Some(scope)) => {
                let connection = exchange.get().connection.bind(py);
                return HttpConnection::start_application(connection, exchange, scope);
            }
            (Ok(Outcome::Application), None) => Reply::plain(404, ""),
            (Err(error), _) => {
                log_failure(py, path, &error)?;
                Reply::of_error(&error)
            }
        };
        start_reply(exchange, reply, scope)
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
        super::pathsend::frame(exchange, opened.status.len)?;
        this.files.get().adopt(py, &opened);
        let sending = Sending {
            left: opened.status.len,
            fd: opened.fd,
            at: 0,
            piece_bytes: PIECE_BYTES,
            is_reading: false,
        };
        this.set(py, Course::Sending(sending));
        Self::go_on(slf)
    }

    /// Reads and sends until it has to wait.
    fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let connection = exchange.get().connection.get();
        let mut turn = 0;
        loop {
            if let Some(waiter) = &this.waiter
                && waiter.bind(py).call_method0(intern!(py, "done"))?.is_truthy()?
            {
                // The application was cancelled.
                return Self::end(slf);
            }
            if exchange.get().state.with(py, |s| s.is_disconnected) {
                let gone = "the client has closed the connection";
                return Err(client_gone(py, gone));
            }
            if connection.state.with(py, |s| s.is_writing_paused && !s.is_lost) {
                return Self::wait_for_client(slf, connection);
            }
            if turn >= TURN_BYTES {
                let owner = connection.http.get().owner.get();
                owner.run_soon(py, slf.clone().into_any().unbind(), Self::run);
                return Ok(());
            }
            let place = this.course.with(py, |course| match course {
                Course::Sending(s) => Some((s.fd.as_raw_fd(), s.at, s.left.min(s.piece_bytes))),
                _ => None,
            });
            let Some((fd, at, len)) = place else { return Ok(()) };
            let piece = if len == 0 {
                PyBytes::new(py, b"").into_any()
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
            if Self::write(slf, piece)? {
                return Self::end(slf);
            }
        }
    }

    fn set_reading(&self, py: Python<'_>, is_reading: bool) -> bool {
        self.course.with(py, |course| match course {
            Course::Sending(s) => std::mem::replace(&mut s.is_reading, is_reading),
            _ => false,
        })
    }

    fn wait_for_client(slf: &Bound<'_, Self>, connection: &HttpConnection) -> PyResult<()> {
        let py = slf.py();
        slf.get().course.with(py, |course| {
            if let Course::Sending(s) = course {
                s.piece_bytes = SMALL_PIECE_BYTES;
            }
        });
        let owner = connection.http.get().owner.bind(py);
        let future = owner.call_method0(intern!(py, "create_future"))?;
        let kept = future.clone().unbind();
        connection.state.with(py, |s| s.drain_waiters.push(kept));
        Self::wait(slf, &future)
    }

    /// Sends a piece. Returns whether it was the last one.
    fn write(slf: &Bound<'_, Self>, piece: &Bound<'_, PyBytes>) -> PyResult<bool> {
        let py = slf.py();
        let len = piece.as_bytes().len() as u64;
        let left = slf.get().course.with(py, |course| match course {
            Course::Sending(s) => {
                let is_cut = len == 0 && s.left > 0;
                s.at += len;
                s.left = s.left.saturating_sub(len);
                (!is_cut).then_some(s.left)
            }
            _ => None,
        });
        let Some(left) = left else {
            return Err(PyOSError::new_err("the file was truncated while it was sent"));
        };
        Exchange::write_body(slf.get().exchange.bind(py), piece, left > 0)?;
        Ok(left == 0)
    }

    fn run(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::drive(object.cast_exact::<Self>()?, Self::go_on)
    }

    /// Closes the file and resolves the application's future.
    fn end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let closed = match this.set(py, Course::Ended) {
            Course::Sending(sending) => Files::end(this.files.bind(py), sending.fd),
            Course::Ended => return Ok(()),
            Course::Looking { .. } | Course::Opening { .. } => Ok(()),
        };
        let exchange = this.exchange.bind(py);
        let Some(waiter) = &this.waiter else {
            end_request(exchange);
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
        let (answer, is_gone) = exchange.get().state.with(py, |s| (s.answer, s.is_disconnected));
        if is_gone || answer == Answer::Complete {
            return Ok(());
        }
        journal::log(py, FAILED, Some(&error))?;
        if answer == Answer::Streaming {
            exchange.get().tell_end(py)?;
            return HttpConnection::break_off(exchange.get().connection.bind(py), exchange);
        }
        Exchange::answer_at_once(exchange, 500, "Internal Server Error")
    }
}

#[pymethods]
impl FileAnswer {
    /// The awaited future is done.
    fn __call__(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match this.set(py, Course::Ended) {
            // `drive` must not handle exceptions from an application.
            Course::Looking { slot, scope, path } => Self::looked(slf, take(&slot), scope, &path),
            Course::Opening { slot, path } => {
                // A course that `end` can end.
                let kept = Course::Opening { slot: Arc::default(), path: path.clone() };
                this.set(py, kept);
                Self::drive(slf, |slf| Self::opened(slf, take(&slot), &path))
            }
            Course::Sending(sending) => {
                this.set(py, Course::Sending(sending));
                let is_reading = this.set_reading(py, false);
                Self::drive(slf, |slf| {
                    if is_reading {
                        let piece = future.call_method0(intern!(py, "result"))?;
                        let is_gone = this.exchange.get().state.with(py, |s| s.is_disconnected);
                        if !is_gone && Self::write(slf, &piece.cast_into::<PyBytes>()?)? {
                            return Self::end(slf);
                        }
                    }
                    Self::go_on(slf)
                })
            }
            Course::Ended => Ok(()),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.files.visit(&visit)?;
        if let Some(waiter) = &self.waiter {
            waiter.visit(&visit)?;
        }
        self.course
            .peek(|course| match course {
                Course::Looking { scope, .. } => visit.call(scope),
                _ => Ok(()),
            })
            .unwrap_or(Ok(()))
    }
}
