//! How a call's response reaches its connection: directly on the loop's thread, through the outbox from others.

use super::call::WsgiCall;
use super::outbox::{HIGH_BYTES, Item};
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::green::HubCore;
use crate::http::application::ending::ended;
use crate::http::application::file_response::FileResponse;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log::client_gone;
use crate::http::exchange::reply::FilePart;
use crate::http::exchange::response_state::Framed;
use crate::http::exchange::waiting::{is_here, pause, wake};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// After this many parts sent without waiting, a green thread lets others run.
const PARTS_IN_A_ROW: usize = 16;

impl WsgiCall {
    /// Passes a part of the response to the connection, and waits if the connection has enough for now.
    pub fn put(slf: &Bound<'_, Self>, framed: Framed, body: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let owner = exchange.get().service.get().owner.bind(py);
        let ends = framed.ends;
        if is_here(owner) && this.state.with(py, |s| s.outbox.is_empty()) {
            Exchange::put(exchange, framed, body)?;
            return if ends { Ok(()) } else { Self::rest(slf) };
        }
        let kept = Object::new(body.clone());
        let (merged, is_full) = this.state.with(py, |s| {
            let merged = s.outbox.push(framed, kept, body.as_bytes().len());
            (merged, s.outbox.len_bytes > HIGH_BYTES)
        });
        drop(merged);
        let is_full = is_full || exchange.get().carrier.calls.is_paused(py, exchange.get());
        // The end of the application follows immediately, and is delivered with it.
        if !ends {
            Self::deliver_soon(slf);
        }
        if ends || !is_full {
            return Ok(());
        }
        pause(owner, |waiter| {
            this.state.with(py, |s| s.outbox.waiters.push(waiter));
            Self::deliver_soon(slf);
            true
        })
    }

    /// Passes a file to the connection as the whole body, and waits until it is sent. It is sent like a static file: a
    /// client that leaves, or does not read, ends it in the same way.
    pub fn put_file(slf: &Bound<'_, Self>, part: FilePart) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.exchange.get().service.get().owner.bind(py);
        pause(owner, |waiter| {
            this.state.with(py, |s| {
                s.outbox.file_waiter = Some(waiter);
                s.outbox.items.push_back(Item::File(part));
            });
            Self::deliver_soon(slf);
            true
        })?;
        match this.state.with(py, |s| s.outbox.file_error.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// On the loop: begins to send a file.
    fn start_file(slf: &Bound<'_, Self>, part: FilePart) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.bind(py);
        let begun = if exchange.get().state.with(py, |s| s.is_disconnected) {
            Err(client_gone(py, "the client has closed the connection"))
        } else {
            Self::file_future(slf)
                .and_then(|future| FileResponse::send(exchange, part, Some(&future)))
        };
        begun.or_else(|error| Self::file_ended(slf, Some(error)))
    }

    /// A future that ends the wait for a file.
    fn file_future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let owner = slf.get().exchange.get().service.get().owner.bind(py);
        let future = owner.call_method0(intern!(py, "create_future"))?;
        let file_sent = slf.getattr(intern!(py, "_file_sent"))?;
        future.call_method1(intern!(py, "add_done_callback"), (file_sent,))?;
        Ok(future)
    }

    pub fn file_ended(slf: &Bound<'_, Self>, error: Option<PyErr>) -> PyResult<()> {
        let py = slf.py();
        let waiter = slf.get().state.with(py, |s| {
            s.outbox.file_error = error;
            s.outbox.file_waiter.take()
        });
        wake(py, waiter.into_iter().collect())
    }

    /// A green thread has sent a part: it is sent immediately (PEP 3333), and other green threads run now and then.
    fn rest(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let owner = exchange.service.get().owner.bind(py);
        owner.get().lap(owner, slf.as_any())?;
        if exchange.carrier.calls.is_paused(py, exchange) {
            slf.get().state.with(py, |s| s.parts_in_a_row = 0);
            return pause(owner, |waiter| {
                let mut waiter = Some(waiter);
                exchange.carrier.calls.with_waiters(py, exchange, &mut |list, is_paused| {
                    if is_paused {
                        list.extend(waiter.take());
                    }
                });
                waiter.is_none()
            });
        }
        let is_turn_over = slf.get().state.with(py, |s| {
            s.parts_in_a_row = (s.parts_in_a_row + 1) % PARTS_IN_A_ROW;
            s.parts_in_a_row == 0
        });
        if is_turn_over { HubCore::pause(&HubCore::here(py)?) } else { Ok(()) }
    }

    /// Queues the end of the application.
    pub fn tell_end(slf: &Bound<'_, Self>) {
        slf.get().state.with(slf.py(), |s| s.outbox.items.push_back(Item::End));
        Self::deliver_soon(slf);
    }

    pub fn deliver_soon(slf: &Bound<'_, Self>) {
        let py = slf.py();
        let is_new =
            slf.get().state.with(py, |s| !std::mem::replace(&mut s.outbox.is_queued, true));
        if is_new {
            let owner = slf.get().exchange.get().service.get().owner.get();
            owner.run_soon(py, slf.clone().into_any().unbind(), deliver);
        }
    }
}

/// On the loop: passes everything queued to the connection.
fn deliver(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<WsgiCall>()?;
    let py = slf.py();
    let this = slf.get();
    let exchange = this.exchange.bind(py);
    let (items, waiters) = this.state.with(py, |s| {
        s.outbox.is_queued = false;
        s.outbox.len_bytes = 0;
        (std::mem::take(&mut s.outbox.items), std::mem::take(&mut s.outbox.waiters))
    });
    let mut outcome = Ok(());
    for item in items {
        let done = match item {
            Item::Part(framed, body) => {
                if exchange.get().state.with(py, |s| s.is_disconnected) {
                    continue;
                }
                Exchange::put(exchange, framed, body.bind(py))
            }
            Item::File(part) => WsgiCall::start_file(slf, part),
            Item::End => ended(exchange, None),
        };
        outcome = outcome.and(done);
    }
    if waiters.is_empty() {
        return outcome;
    }
    let mut waiters = waiters;
    exchange.get().carrier.calls.with_waiters(py, exchange.get(), &mut |list, is_paused| {
        if is_paused {
            list.append(&mut waiters);
        }
    });
    outcome.and(wake(py, waiters))
}
