//! `Exchange`: one request and its response, and the traits by which it knows its neighbours.
//!
//! ```text
//! connection  ── Carrier ──  Exchange  ── Application ──  asgi, wsgi, static files
//!             ── TunnelCarrier ─────────── Tunnel ──────  websocket
//! ```
//! `lifecycle` and `response` have the methods of an exchange. No type of a neighbour may be named in this folder.

use super::compression::Packing;
use super::reply::Reply;
use super::request_body::RequestBody;
use super::request_view::Ends;
use super::response_state::{Framed, Framing, Response};
use super::service::Service;
use crate::ffi::recycled::{Pool, Recycled};
use crate::ffi::{Link, LoopCell, Object};
use oneloop_http1::{Refusal, Request};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{PyTraverseError, PyVisit};
use std::any::Any;

/// The connection of an exchange, as the exchange and its application use it.
pub trait Carrier: TunnelCarrier {
    /// Starts a head, before its fields. `reason`: the application's own.
    fn begin_head(&self, head: &mut Vec<u8>, status: u16, reason: Option<&[u8]>);

    /// Sends the head of a response whose body comes later.
    fn send_head(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// `103 Early Hints` with these fields.
    fn send_early_hints(&self, exchange: &Bound<'_, Exchange>, fields: &[u8]) -> PyResult<()>;

    /// Frames a part of the body, together with the head if that was not sent yet. Parts must be sent in the order in
    /// which they were framed. From any thread.
    fn frame(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        data: &[u8],
        more: bool,
    ) -> PyResult<Framed>;

    /// Sends a framed part; `body` is its data.
    fn send_body(
        &self,
        exchange: &Bound<'_, Exchange>,
        framed: &Framed,
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()>;

    /// Sends trailers in their written form; the last of them if `ends` is set.
    fn send_trailers(
        &self,
        exchange: &Bound<'_, Exchange>,
        fields: Vec<u8>,
        ends: bool,
    ) -> PyResult<()>;

    /// Sends a whole response by the server.
    fn send_text(&self, exchange: &Bound<'_, Exchange>, status: u16, text: &str) -> PyResult<()>;

    /// All of the response is written. True if a part of it waits for the client: then the carrier records it, when that
    /// part is sent or lost.
    fn records_later(&self, exchange: &Bound<'_, Exchange>) -> bool;

    /// So many bytes of what was written were never sent: the connection, or its stream, was lost before.
    fn lost_bytes(&self, py: Python<'_>, exchange: &Exchange) -> usize;

    /// The response is complete.
    fn end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// Ends within the response, so that the peer can detect that it is incomplete.
    fn abort(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// The peer has to read before more is sent. From any thread.
    fn is_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool;

    /// Changes the list of those who wait for that; the flag says whether there is something to wait for. Runs no
    /// Python code.
    fn with_waiters(
        &self,
        py: Python<'_>,
        exchange: &Exchange,
        change: &mut dyn FnMut(&mut Vec<Py<PyAny>>, bool),
    );

    /// What is sent from now on is lost.
    fn is_ending(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool>;

    /// The application wants the body, for which the peer waits to be asked.
    fn ask_for_body(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// More of the body is received only after `read_on`. From any thread.
    fn is_reading_paused(&self, py: Python<'_>, exchange: &Exchange) -> bool;

    /// The application has taken what was received of the body.
    fn read_on(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// The application listens, or nothing more can be sent: it is to be told of a client that has left.
    fn watch_for_end(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;
}

/// The deadlines of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunnelDeadline {
    /// The time for the next ping.
    Ping,
    /// The pong for the last ping.
    Pong,
    /// The peer's end.
    End,
}

/// The connection of an exchange that has become a tunnel: bytes in both directions.
pub trait TunnelCarrier: Sync {
    /// Starts the head that accepts a tunnel, before its fields. `key`: of the client's handshake.
    fn begin_tunnel_head(&self, head: &mut Vec<u8>, key: &[u8]);

    /// Sends that head. Received bytes are for the tunnel from now on.
    fn start_tunnel(&self, exchange: &Bound<'_, Exchange>, head: Vec<u8>) -> PyResult<()>;

    fn write(&self, exchange: &Bound<'_, Exchange>, data: &[u8]) -> PyResult<()>;

    /// Like `write`, for a long body after a short head.
    fn write_after(
        &self,
        exchange: &Bound<'_, Exchange>,
        head: &[u8],
        body: &Bound<'_, PyBytes>,
    ) -> PyResult<()>;

    fn set_deadline(&self, exchange: &Bound<'_, Exchange>, deadline: TunnelDeadline);

    /// Receives nothing more until `take_input`.
    fn hold_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// Passes on what was received and not taken, in the next tick, and receives more.
    fn take_input(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// The peer has to read before more is sent.
    fn is_stuck(&self, exchange: &Bound<'_, Exchange>) -> bool;

    /// The peer has read some of the sent data since the last question.
    fn has_taken(&self, exchange: &Bound<'_, Exchange>) -> PyResult<bool>;

    /// Closes after the written data is sent.
    fn end_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// Closes immediately.
    fn abort_tunnel(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;
}

/// Starts to look for a response. Called with the application's view of the request, for the case that none is found.
pub type Look = Box<dyn for<'py> FnOnce(&Bound<'py, Exchange>, View<'py>) -> PyResult<()>>;

type View<'py> = Option<Bound<'py, PyDict>>;

/// What to do with a request before the program's application is asked.
pub enum Found {
    /// Nothing: it is the application's.
    Nothing,
    Reply(Reply),
    /// Finding it may block.
    Later(Look),
}

/// The application of a server, as connections and exchanges use it. `application` is its own object.
pub trait Application: Sync {
    /// Looks for a response that needs no call of the program.
    fn find(&self, application: &Bound<'_, PyAny>, request: &Request<'_, '_>) -> PyResult<Found>;

    /// Whether the request asks if the server is alive.
    fn is_health_check(&self, application: &Bound<'_, PyAny>, request: &Request<'_, '_>) -> bool;

    /// The tunnel that the request opens, if any.
    fn tunnel(
        &self,
        application: &Bound<'_, PyAny>,
        request: &Request<'_, '_>,
    ) -> Result<Option<Box<dyn Tunnel>>, Refusal>;

    /// The program's view of a request.
    fn view<'py>(
        &self,
        exchange: &Bound<'py, Exchange>,
        request: &Request<'_, '_>,
        ends: &Ends<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>>;

    fn start(&self, exchange: &Bound<'_, Exchange>, view: &Bound<'_, PyDict>) -> PyResult<()>;

    /// Sends a response that was found.
    fn send_reply(&self, exchange: &Bound<'_, Exchange>, reply: Reply) -> PyResult<()>;

    /// More of the body has arrived, for an application that was not called yet.
    fn take_body(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;
}

/// What replaces the bodies of an exchange that becomes a tunnel.
pub trait Tunnel: Any + Send + Sync {
    /// Processes received bytes and returns how many were used. The rest waits for `TunnelCarrier::take_input`.
    fn take(&self, exchange: &Bound<'_, Exchange>, input: &mut [u8]) -> PyResult<usize>;

    /// There may be room for more.
    fn read_on(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    fn time_out(&self, exchange: &Bound<'_, Exchange>, deadline: TunnelDeadline) -> PyResult<()>;

    /// The server shuts down.
    fn go_away(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()>;

    /// The client is gone. Runs no Python code.
    fn lose(&self, py: Python<'_>);
}

/// What was sent of a response.
pub type Progress = (Response, u64);

#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct State {
    pub body: RequestBody,
    /// The peer is gone, or the request was rejected while it arrived.
    pub is_disconnected: bool,
    /// The application is told that the client is gone, which may still read.
    pub is_peer_done: bool,
    /// For the connection: what was sent when it began to watch for the client's end.
    pub moment: Option<Progress>,
    /// The application was told that the client is gone.
    pub is_end_told: bool,
    /// The peer waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    pub receive_waiters: Vec<Py<PyAny>>,
    pub response: Response,
    pub status: u16,
    /// The head, while it was not sent.
    pub head: Vec<u8>,
    pub framing: Framing,
    pub packing: Packing,
    pub has_trailers: bool,
    /// A file of the application is being sent.
    pub is_sending_file: bool,
    /// The head already has a `connection` field.
    pub says_connection: bool,
    /// It says that the connection closes.
    pub says_close: bool,
    /// The connection serves another request after this one.
    pub keeps_alive: bool,
    /// The length of the body that was written.
    pub sent_bytes: u64,
    /// It is in the access log and in the counts: `access_record`.
    pub is_recorded: bool,
    /// A part of the response was lost, because the connection had ended.
    pub is_cut: bool,
    /// For the application: its messages since other tasks were allowed to run.
    pub sent_in_a_row: u8,
    /// The iteration in which the peer was found to be gone, and messages that were dropped since then.
    pub gone_tick: u64,
    pub dropped: u32,
    pub began_ns: u64,
    /// The application's task.
    pub task: Option<Object>,
    /// An application that is called when enough of the body was received.
    pub unbegun: Option<Object>,
    /// For the access log.
    pub target: Option<Py<PyBytes>>,
    pub scope: Option<Py<PyAny>>,
}

/// What a connection knows of a request when it makes an exchange.
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
pub struct Opening {
    pub is_head: bool,
    pub is_http10: bool,
    pub has_body: bool,
    pub expects_continue: bool,
    pub keeps_alive: bool,
    pub began_ns: u64,
    pub target: Option<Py<PyBytes>>,
    pub tunnel: Option<Box<dyn Tunnel>>,
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Exchange {
    pub carrier: Link<dyn Carrier>,
    pub application: Link<dyn Application>,
    pub service: Object<Service>,
    pub is_head: bool,
    pub is_http10: bool,
    pub tunnel: Option<Box<dyn Tunnel>>,
    pub state: LoopCell<State>,
}

impl Recycled for Exchange {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

#[pymethods]
impl Exchange {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.carrier.object.visit(&visit)?;
        self.application.object.visit(&visit)?;
        self.service.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(task) = &s.task {
                    task.visit(&visit)?;
                }
                if let Some(unbegun) = &s.unbegun {
                    unbegun.visit(&visit)?;
                }
                s.packing.visit(&visit)?;
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
