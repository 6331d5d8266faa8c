//! `Wsgi`: a server's WSGI application: begins its calls.
//!
//! A green thread starts immediately, inside the loop's receive, and writes to the connection itself. A pool thread
//! puts its response into the outbox.

use super::call::{State, WsgiCall};
use super::environ::{self, Template};
use super::workers::Workers;
use crate::ffi::{LoopCell, Object, greenlet, recycled};
use crate::green::{HubCore, Turn, Waiter};
use crate::http::application::options::ApplicationOptions;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::service::Service;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

pub struct Wsgi {
    app: Py<PyAny>,
    pub template: Template,
    /// `None`: green threads.
    workers: Option<Py<Workers>>,
    /// The hub of the server's loop, after its first use.
    hub: LoopCell<Option<Py<HubCore>>>,
}

impl Wsgi {
    pub fn new(
        service: &Bound<'_, Service>,
        app: Py<PyAny>,
        options: &ApplicationOptions,
    ) -> PyResult<Self> {
        let py = service.py();
        let workers = if options.green {
            None
        } else {
            let owner = service.get().owner.bind(py);
            Some(Py::new(py, Workers::new(owner, options.threads))?)
        };
        let template = environ::template(py, options)?;
        Ok(Self { app, template, workers, hub: LoopCell::default() })
    }

    /// Makes the threads end after their current request. Returns those that are still running.
    pub fn end_threads<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match &self.workers {
            Some(workers) => workers.get().end(py),
            None => Ok(Vec::new()),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.app)?;
        self.template.visit(visit)?;
        visit.call(&self.workers)?;
        self.hub.peek(|hub| visit.call(hub)).unwrap_or(Ok(()))
    }

    /// From the loop's thread.
    fn hub<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, HubCore>> {
        if let Some(hub) = self.hub.with(py, |hub| hub.as_ref().map(|hub| hub.clone_ref(py))) {
            return Ok(hub.into_bound(py));
        }
        let hub = HubCore::here(py)?;
        let kept = hub.clone().unbind();
        let old = self.hub.with(py, |known| known.replace(kept));
        drop(old);
        Ok(hub)
    }
}

impl Drop for Wsgi {
    fn drop(&mut self) {
        if let Some(workers) = &self.workers {
            workers.get().close();
        }
    }
}

/// Starts the application, now or when enough of the body has arrived.
pub fn start(
    wsgi: &Wsgi,
    exchange: &Bound<'_, Exchange>,
    environ: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = exchange.py();
    let keeps_alive = exchange.get().state.with(py, |s| s.keeps_alive);
    let environ = Some(Object::new(environ.clone()));
    let call = recycled::make(
        py,
        WsgiCall {
            exchange: Object::new(exchange.clone()),
            app: Object::new(wsgi.app.bind(py).clone()),
            keeps_alive,
            state: LoopCell::new(State { environ, ..State::default() }),
        },
    )?;
    if wsgi.workers.is_none() {
        return begin_green(&call, &wsgi.hub(py)?);
    }
    recycled::track(py, &call.clone().unbind());
    recycled::track(py, &exchange.clone().unbind());
    let kept = Object::new(call.into_any());
    exchange.get().state.with(py, |s| s.unbegun = Some(kept));
    take_body(wsgi, exchange)
}

/// More of the body has arrived: the pool may take the request.
pub fn take_body(wsgi: &Wsgi, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
    let py = exchange.py();
    let call = exchange.get().state.with(py, |s| {
        let is_enough = s.body.is_complete || s.expects_continue || s.body.is_enough();
        if is_enough { s.unbegun.take() } else { None }
    });
    let Some(call) = call else { return Ok(()) };
    let call = Object::new(call.bind(py).cast_exact::<WsgiCall>()?.clone());
    match &wsgi.workers {
        Some(workers) => Workers::submit(workers.bind(py), call),
        None => Ok(()),
    }
}

fn begin_green(slf: &Bound<'_, WsgiCall>, hub: &Bound<'_, HubCore>) -> PyResult<()> {
    let py = slf.py();
    let green = greenlet::make(slf.as_any(), &greenlet::current(py)?)?;
    if !hub.get().is_at_home(py) {
        // The caller is another green thread.
        Waiter::resume_soon(&Waiter::of(hub, &green, true)?);
        return wait_green(slf, green);
    }
    HubCore::resume_within(hub, &Turn::beginning(Object::new(green.clone())))?;
    if slf.get().state.with(py, |s| s.is_ended) {
        return Ok(());
    }
    wait_green(slf, green)
}

/// The call continues later: adds it to the server's tasks.
fn wait_green(slf: &Bound<'_, WsgiCall>, green: Bound<'_, PyAny>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    recycled::track(py, &slf.clone().unbind());
    recycled::track(py, &this.exchange.bind(py).clone().unbind());
    let green = Object::new(green);
    this.state.with(py, |s| s.greenlet = Some(green));
    this.exchange.get().service.get().tasks.bind(py).add(slf)?;
    let task = Object::new(slf.clone().into_any());
    this.exchange.get().state.with(py, |s| s.task = Some(task));
    Ok(())
}
