//! `Outbox`: a thread's response data for its connection, which belongs to the loop's thread.
//!
//! The thread that makes the parts frames them. The loop writes them, and is woken once for all parts queued by then.

use super::answer::Framed;
use super::exchange::Exchange;
use super::pause::{is_here, pause};
use super::wsgi::WsgiCall;
use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::green::HubCore;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// When this much is queued, the thread waits.
const HIGH_BYTES: usize = 64 * 1024;

/// After this many parts sent without waiting, a green thread lets others run.
const PARTS_IN_A_ROW: usize = 16;

enum Item {
    Part(Framed, Object<PyBytes>),
    /// The application has ended.
    End,
}

#[derive(Default)]
pub struct Outbox {
    items: VecDeque<Item>,
    len_bytes: usize,
    /// A delivery is queued on the loop.
    is_queued: bool,
    /// Threads waiting for room.
    waiters: Vec<Py<PyAny>>,
}

impl Outbox {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.is_queued
    }

    fn push(
        &mut self,
        framed: Framed,
        body: Object<PyBytes>,
        len_bytes: usize,
    ) -> Option<Object<PyBytes>> {
        self.len_bytes += framed.out.len() + if framed.tail.is_some() { len_bytes } else { 0 };
        if let Some(Item::Part(last, _)) = self.items.back_mut()
            && last.tail.is_none()
            && framed.tail.is_none()
            && !last.out.is_empty()
        {
            last.out.extend_from_slice(&framed.out);
            last.ends = framed.ends;
            return Some(body);
        }
        self.items.push_back(Item::Part(framed, body));
        None
    }
}

impl WsgiCall {
    /// Passes a part of the response to the connection, and waits if the connection has enough for now.
    pub fn put(slf: &Bound<'_, Self>, framed: Framed, body: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let connection = exchange.get().connection.get();
        let owner = connection.http.get().owner.bind(py);
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
        let is_full = is_full || connection.state.with(py, |s| s.is_writing_paused);
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

    /// A green thread has sent a part: it is sent immediately (PEP 3333), and other green threads run now and then.
    fn rest(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let connection = slf.get().exchange.get().connection.get();
        let owner = connection.http.get().owner.bind(py);
        owner.get().lap(owner, slf.as_any())?;
        let is_full = |s: &mut super::connection::State| s.is_writing_paused && !s.is_lost;
        if connection.state.with(py, is_full) {
            slf.get().state.with(py, |s| s.parts_in_a_row = 0);
            return pause(owner, |waiter| {
                connection.state.with(py, |s| {
                    let waits = is_full(s);
                    if waits {
                        s.drain_waiters.push(waiter);
                    }
                    waits
                })
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
            let owner = slf.get().exchange.get().connection.get().http.get().owner.get();
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
            Item::End => super::asgi::ended(exchange, None),
        };
        outcome = outcome.and(done);
    }
    if waiters.is_empty() {
        return outcome;
    }
    let connection = exchange.get().connection.get();
    let left = connection.state.with(py, |s| {
        if s.is_writing_paused && !s.is_lost {
            s.drain_waiters.extend(waiters);
            return Vec::new();
        }
        waiters
    });
    outcome.and(super::exchange::wake(py, left))
}
