//! `Site`: what a server serves: its static files, then the program's application.
//!
//! Connections and exchanges know it as an `Application`.

use super::asgi::{scope, task};
use super::file_response::send_reply;
use super::options::{ApplicationOptions, Interface};
use super::redirect;
use super::static_files::folders;
use super::websocket::{self, WebSocket};
use super::wsgi::environ;
use super::wsgi::start::{self, Wsgi};
use crate::ffi::{Link, Object};
use crate::http::exchange::contract::{Application, Exchange, Found, Tunnel};
use crate::http::exchange::reply::Reply;
use crate::http::exchange::request_view::Ends;
use crate::http::exchange::service::Service;
use oneloop_http1::{Refusal, Request};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

/// How the program's application is called.
enum Style {
    Asgi(task::Asgi),
    Wsgi(Wsgi),
}

#[pyclass(frozen, module = "oneloop._native")]
pub struct Site {
    service: Py<Service>,
    options: ApplicationOptions,
    style: Style,
}

struct Calls;

impl Site {
    pub fn new(
        service: &Bound<'_, Service>,
        app: Py<PyAny>,
        options: ApplicationOptions,
    ) -> PyResult<Self> {
        let style = match options.interface {
            Interface::Asgi => Style::Asgi(task::Asgi::new(service, app, &options)?),
            Interface::Wsgi => Style::Wsgi(Wsgi::new(service, app, &options)?),
        };
        Ok(Self { service: service.clone().unbind(), options, style })
    }

    pub fn link(slf: &Bound<'_, Self>) -> Link<dyn Application> {
        Link { object: Object::new(slf.clone().into_any()), calls: &Calls }
    }

    /// WSGI: makes the threads end after their current request. Returns those that are still running.
    pub fn end_threads<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match &self.style {
            Style::Wsgi(wsgi) => wsgi.end_threads(py),
            Style::Asgi(_) => Ok(Vec::new()),
        }
    }

    fn is_health_check(&self, request: &Request<'_, '_>) -> bool {
        let options = &self.options;
        options.health.as_ref().is_some_and(|health| {
            *folders::path_of(&options.root_path, request.path) == *health.as_bytes()
        })
    }

    /// The response to a check of the server's health.
    fn health(&self, py: Python<'_>, method: &str) -> Reply {
        if !matches!(method, "GET" | "HEAD") {
            return Reply::plain(405, "allow: GET, HEAD\r\n");
        }
        let is_ending = self.service.get().serving.with(py, |s| s.is_shutting_down);
        Reply::plain(if is_ending { 503 } else { 200 }, "cache-control: no-store\r\n")
    }

    /// The site behind a link that `link` has made.
    #[inline]
    fn of<'a>(application: &'a Bound<'_, PyAny>) -> &'a Self {
        let site = application.cast_exact::<Self>();
        site.expect("these calls are linked with nothing but a Site").get()
    }

    fn of_exchange<'a>(exchange: &'a Bound<'_, Exchange>) -> &'a Self {
        Self::of(exchange.get().application.object.bind(exchange.py()))
    }
}

impl Application for Calls {
    fn find(&self, application: &Bound<'_, PyAny>, request: &Request<'_, '_>) -> PyResult<Found> {
        let py = application.py();
        let site = Site::of(application);
        let options = &site.options;
        if site.is_health_check(request) {
            return Ok(Found::Reply(site.health(py, request.method)));
        }
        let found = match &options.static_files {
            Some(files) => {
                folders::find(site.service.bind(py), files, &options.root_path, request)?
            }
            None => Found::Nothing,
        };
        Ok(match options.redirect_https {
            Some(port) => redirect::unless_secure(found, request, port, options.interface),
            None => found,
        })
    }

    fn is_health_check(&self, application: &Bound<'_, PyAny>, request: &Request<'_, '_>) -> bool {
        Site::of(application).is_health_check(request)
    }

    fn tunnel(
        &self,
        application: &Bound<'_, PyAny>,
        request: &Request<'_, '_>,
    ) -> Result<Option<Box<dyn Tunnel>>, Refusal> {
        if !request.upgrade.is_some_and(oneloop_websocket::handshake::asks_for) {
            return Ok(None);
        }
        let options = &Site::of(application).options;
        if options.interface != Interface::Asgi {
            return Ok(None);
        }
        match WebSocket::of_request(request, options) {
            Ok(websocket) => Ok(websocket.map(|websocket| Box::new(websocket) as _)),
            Err(refusal) => Err(Refusal::new(refusal.status, refusal.reason)),
        }
    }

    fn view<'py>(
        &self,
        exchange: &Bound<'py, Exchange>,
        request: &Request<'_, '_>,
        ends: &Ends<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let site = Site::of_exchange(exchange);
        if exchange.get().tunnel.is_none() {
            exchange.get().note_codings(exchange.py(), request.headers);
        }
        let asgi = match &site.style {
            Style::Wsgi(wsgi) => {
                return environ::of_request(&wsgi.template, exchange, request, ends);
            }
            Style::Asgi(asgi) => asgi,
        };
        let scope = scope::of_request(&asgi.template, exchange, request, ends)?;
        if let Some(websocket) = websocket::of(exchange.get()) {
            websocket.amend_scope(&scope)?;
        }
        if site.service.get().options.on_response.is_some() {
            exchange.get().keep_scope(&scope);
        }
        Ok(scope)
    }

    fn start(&self, exchange: &Bound<'_, Exchange>, view: &Bound<'_, PyDict>) -> PyResult<()> {
        let site = Site::of_exchange(exchange);
        let options = &site.options;
        if options.redirect_https.is_some()
            && redirect::refuse_tunnel(exchange, view, options.interface)?
        {
            return Ok(());
        }
        match &site.style {
            Style::Asgi(asgi) => asgi.start(exchange, view),
            Style::Wsgi(wsgi) => start::start(wsgi, exchange, view),
        }
    }

    fn send_reply(&self, exchange: &Bound<'_, Exchange>, reply: Reply) -> PyResult<()> {
        send_reply(exchange, reply)
    }

    fn take_body(&self, exchange: &Bound<'_, Exchange>) -> PyResult<()> {
        match &Site::of_exchange(exchange).style {
            Style::Wsgi(wsgi) => start::take_body(wsgi, exchange),
            Style::Asgi(_) => Ok(()),
        }
    }
}

#[pymethods]
impl Site {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.service)?;
        visit.call(&self.options.state)?;
        match &self.style {
            Style::Asgi(asgi) => asgi.visit(&visit),
            Style::Wsgi(wsgi) => wsgi.visit(&visit),
        }
    }
}
