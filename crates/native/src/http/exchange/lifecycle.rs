//! What connection and application tell an exchange: its start, more of its body, the client's end.

use super::compression::Packing;
use super::contract::{Application, Carrier, Exchange, Opening, State};
use super::request_body::{RequestBody, joined};
use super::response_state::{Framing, Response};
use super::service::Service;
use super::waiting::wake;
use crate::ffi::{Link, LoopCell, Object, recycled};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

impl State {
    fn new(opening: &mut Opening) -> Self {
        Self {
            body: RequestBody::new(!opening.has_body),
            is_disconnected: false,
            is_peer_done: false,
            moment: None,
            is_end_told: false,
            expects_continue: opening.expects_continue,
            receive_waiters: Vec::new(),
            response: Response::Awaited,
            status: 0,
            head: Vec::new(),
            framing: Framing::Unknown,
            packing: Packing::Plain,
            has_trailers: false,
            is_sending_file: false,
            says_connection: false,
            says_close: false,
            keeps_alive: opening.keeps_alive,
            sent_bytes: 0,
            is_recorded: false,
            is_cut: false,
            sent_in_a_row: 0,
            gone_tick: 0,
            dropped: 0,
            began_ns: opening.began_ns,
            task: None,
            unbegun: None,
            target: opening.target.take(),
            scope: None,
        }
    }

    /// The application waits in `receive`, or has done so since the last message.
    pub fn is_listening(&self) -> bool {
        !self.receive_waiters.is_empty()
    }

    /// The client has all of the response, although the application has not ended it.
    pub fn has_nothing_to_send(&self) -> bool {
        matches!(self.response, Response::Streaming | Response::Trailing)
            && self.framing.has_nothing_left()
    }
}

impl Exchange {
    /// For a request that has begun. `Service::begin_request` counts it, once nothing before its application can fail.
    pub fn begin<'py>(
        carrier: Link<dyn Carrier>,
        application: Link<dyn Application>,
        service: &Bound<'py, Service>,
        mut opening: Opening,
    ) -> PyResult<Bound<'py, Self>> {
        let py = service.py();
        let state = LoopCell::new(State::new(&mut opening));
        let exchange = Self {
            carrier,
            application,
            service: Object::new(service.clone()),
            is_head: opening.is_head,
            is_http10: opening.is_http10,
            tunnel: opening.tunnel,
            state,
        };
        recycled::make(py, exchange)
    }

    /// Marks the peer as gone: data sent from now on is lost. A response that is not complete ends here.
    pub fn disconnect(&self, py: Python<'_>) -> PyResult<()> {
        self.cut(py).and(self.record(py, false))
    }

    /// The same, for a connection that records the response when it knows how much of it was sent.
    pub fn cut(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(tunnel) = &self.tunnel {
            tunnel.lose(py);
        }
        let service = self.service.get();
        let tick = service.owner.get().tick_number(py);
        let (waiters, unbegun) = self.state.with(py, |s| {
            if !s.is_disconnected {
                s.gone_tick = tick;
            }
            s.is_disconnected |= s.response != Response::Complete;
            (std::mem::take(&mut s.receive_waiters), s.unbegun.take())
        });
        if unbegun.is_some() {
            service.end_request(py);
        }
        drop(unbegun);
        wake(py, waiters)
    }

    /// The server has cancelled the application, so its end by that is no error.
    pub fn is_cancelled_by_server(&self, py: Python<'_>) -> bool {
        self.service.get().serving.with(py, |serving| serving.is_cancelling)
    }

    pub fn wake_receivers(&self, py: Python<'_>) -> PyResult<()> {
        let waiters = self.state.with(py, |s| std::mem::take(&mut s.receive_waiters));
        if waiters.is_empty() { Ok(()) } else { wake(py, waiters) }
    }

    /// Tells the application at once that nothing can be sent to this client.
    pub fn tell_end(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |s| s.is_peer_done = true);
        self.wake_receivers(py)
    }

    /// The application wants the body: asks the peer for it if it waits for that and the response has not begun.
    pub fn ask_for_body(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let holds_heads = this.service.get().options.holds_heads;
        let asks = this.state.with(py, |s| {
            (s.response == Response::Awaited || (holds_heads && s.response == Response::Started))
                && !s.is_disconnected
                && std::mem::take(&mut s.expects_continue)
        });
        if asks { this.carrier.calls.ask_for_body(slf) } else { Ok(()) }
    }

    /// More of the body was received.
    pub fn add_body(slf: &Bound<'_, Self>, data: &[u8], ends: bool) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (waiters, is_unbegun) = this.state.with(py, |s| {
            if s.response != Response::Complete {
                s.body.push(py, data)?;
            }
            s.body.is_complete |= ends;
            s.expects_continue = false;
            PyResult::Ok((std::mem::take(&mut s.receive_waiters), s.unbegun.is_some()))
        })?;
        wake(py, waiters)?;
        if is_unbegun { this.application.calls.take_body(slf) } else { Ok(()) }
    }

    /// Takes all of the body received so far.
    pub fn take_body<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let pieces = self.state.with(py, |s| s.body.take(py))?;
        joined(py, &pieces)
    }
}
