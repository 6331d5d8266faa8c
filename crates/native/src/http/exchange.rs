//! `Exchange`: one request and its answer, shared by its connection and its application.
//!
//! | answer    | the application may send               | next state on            |
//! |-----------|----------------------------------------|--------------------------|
//! | Awaited   | the start                              | the start                |
//! | Started   | the body; its head was not sent yet    | the body, or a flush     |
//! | Streaming | the rest of the body                   | its last part            |
//! | Trailing  | the trailers it has announced          | the last of them         |
//! | Complete  | nothing                                | –                        |

use super::answer::Framing;
use super::connection::{Awaited, HttpConnection};
use super::websocket::WebSocket;
use crate::event_loop::LoopCore;
use crate::ffi::recycled::{Pool, Recycled};
use crate::ffi::{LoopCell, Object};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Awaited,
    Started,
    Streaming,
    Trailing,
    Complete,
}

/// The request's body that the application has not taken yet.
#[derive(Default)]
pub struct Body {
    pub pieces: VecDeque<Object<PyBytes>>,
    pub len_bytes: usize,
    /// The whole body was received.
    pub is_complete: bool,
    /// The application was told so.
    pub is_told: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub body: Body,
    /// The peer is gone, or the request was rejected while it arrived.
    pub is_disconnected: bool,
    /// The peer sends nothing more, but may still read.
    pub is_peer_done: bool,
    /// The peer waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    pub receive_waiters: Vec<Py<PyAny>>,
    pub answer: Answer,
    pub status: u16,
    /// The head, while it was not sent.
    pub head: Vec<u8>,
    pub framing: Framing,
    pub has_trailers: bool,
    /// A file of the application is being sent: `pathsend`.
    pub is_sending_file: bool,
    /// The head already has a `connection` field.
    pub says_connection: bool,
    /// The connection serves another request after this one.
    pub keeps_alive: bool,
    pub sent_bytes: u64,
    pub began_ns: u64,
    pub task: Option<Object>,
    /// A WSGI application that is called when enough of the body was received.
    pub unbegun: Option<Object<super::wsgi::WsgiCall>>,
    /// For the access log.
    pub target: Option<Py<PyBytes>>,
    pub scope: Option<Py<PyAny>>,
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Exchange {
    pub connection: Object<HttpConnection>,
    pub is_head: bool,
    pub is_http10: bool,
    pub websocket: Option<Box<WebSocket>>,
    pub state: LoopCell<State>,
}

/// When this much of a body is buffered, reading is paused.
pub const BODY_HIGH_BYTES: usize = 64 * 1024;

/// Resolves pending futures, and ends the waits of threads and green threads.
pub fn wake(py: Python<'_>, waiters: Vec<Py<PyAny>>) -> PyResult<()> {
    let wake = |waiter: Py<PyAny>| -> PyResult<()> {
        let waiter = waiter.bind(py);
        if super::pause::end(waiter) {
            return Ok(());
        }
        if !waiter.call_method0(intern!(py, "done"))?.is_truthy()? {
            waiter.call_method1(intern!(py, "set_result"), (py.None(),))?;
        }
        Ok(())
    };
    waiters.into_iter().map(wake).fold(Ok(()), PyResult::and)
}

/// Adds a future to the waiters and returns its `__await__()`. Waiters that are done are dropped, because
/// applications that repeatedly check for a disconnect cancel each of their waits.
pub fn with_waiter(
    owner: &Bound<'_, LoopCore>,
    waiters: Vec<Py<PyAny>>,
) -> PyResult<(Vec<Py<PyAny>>, Object)> {
    let py = owner.py();
    let future = owner.call_method0(intern!(py, "create_future"))?;
    let mut waiting = Vec::with_capacity(1);
    for waiter in waiters {
        if !waiter.bind(py).call_method0(intern!(py, "done"))?.is_truthy()? {
            waiting.push(waiter);
        }
    }
    let steps = Object::new(future.call_method0(intern!(py, "__await__"))?);
    waiting.push(future.unbind());
    Ok((waiting, steps))
}

impl Recycled for Exchange {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl Exchange {
    /// Marks the peer as gone: data sent from now on is lost.
    pub fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(websocket) = &self.websocket {
            websocket.lose(py);
        }
        let (waiters, unbegun) = self.state.with(py, |s| {
            s.is_disconnected |= s.answer != Answer::Complete;
            (std::mem::take(&mut s.receive_waiters), s.unbegun.take())
        });
        if unbegun.is_some() {
            self.connection.get().http.get().serving.with(py, |serving| serving.requests -= 1);
        }
        drop(unbegun);
        wake(py, waiters)
    }

    pub fn wake_receivers(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.state.with(py, |s| std::mem::take(&mut s.receive_waiters));
        if waiters.is_empty() { Ok(()) } else { wake(py, waiters) }
    }

    /// A WebSocket's deadline has passed.
    pub fn time_out(slf: &Bound<'_, Self>, awaited: Awaited) -> PyResult<()> {
        match &slf.get().websocket {
            Some(websocket) => websocket.time_out(slf, awaited),
            None => Ok(()),
        }
    }

    /// More of the body was received.
    pub fn add_body(&self, py: Python<'_>, data: &[u8], ends: bool) -> PyResult<()> {
        let piece = (!data.is_empty()).then(|| Object::new(PyBytes::new(py, data)));
        let waiters = self.state.with(py, |s| {
            if s.answer != Answer::Complete {
                s.body.len_bytes += data.len();
                s.body.pieces.extend(piece);
            }
            s.body.is_complete |= ends;
            s.expects_continue = false;
            std::mem::take(&mut s.receive_waiters)
        });
        wake(py, waiters)
    }

    /// Takes all of the body received so far.
    pub fn take_body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let pieces = self.state.with(py, |s| {
            s.body.len_bytes = 0;
            std::mem::take(&mut s.body.pieces)
        });
        if let [piece] = pieces.as_slices().0
            && pieces.len() == 1
        {
            return Ok(piece.bind(py).clone());
        }
        let parts: Vec<_> =
            pieces.iter().map(|piece| std::io::IoSlice::new(piece.bind(py).as_bytes())).collect();
        crate::ffi::bytes::joined(py, &parts)
    }
}

#[pymethods]
impl Exchange {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.connection.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(task) = &s.task {
                    task.visit(&visit)?;
                }
                if let Some(unbegun) = &s.unbegun {
                    unbegun.visit(&visit)?;
                }
                visit.call(&s.scope)?;
                s.receive_waiters.iter().try_for_each(|waiter| visit.call(waiter))
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| {
            (
                s.task.take(),
                s.unbegun.take(),
                s.scope.take(),
                std::mem::take(&mut s.receive_waiters),
            )
        });
        drop(old);
    }
}
