//! `HttpServer`: puts the layers together, and serves as the factory of connections.

use super::options::Options;
use crate::event_loop::LoopCore;
use crate::ffi::values::Value;
use crate::http::application::site::Site;
use crate::http::connection::h1::connection::HttpConnection;
use crate::http::connection::open_connections::OpenConnections;
use crate::http::exchange::service::{Service, Serving};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

/// A factory of HTTP connections, for `loop.create_server()`.
///
/// Use it only in the loop's thread. `app` is called for every request.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct HttpServer {
    service: Py<Service>,
    site: Py<Site>,
    open: Py<OpenConnections>,
}

impl HttpServer {
    fn serving<R>(&self, py: Python<'_>, look: impl FnOnce(&mut Serving) -> R) -> R {
        self.service.get().serving.with(py, look)
    }
}

#[pymethods]
impl HttpServer {
    /// Args: the loop, the application, `interface` "asgi" or "wsgi", and the options by name.
    #[new]
    #[pyo3(signature = (owner, app, *, interface = "asgi", **options))]
    fn new(
        owner: &Bound<'_, LoopCore>,
        app: Py<PyAny>,
        interface: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = owner.py();
        let Options { response, connection, application } = Options::new(interface, options)?;
        let service = Bound::new(py, Service::new(owner, response)?)?;
        let site = Bound::new(py, Site::new(&service, app, application)?)?;
        let open = OpenConnections::new(service.clone().unbind(), Site::link(&site), connection);
        Ok(Self { service: service.unbind(), site: site.unbind(), open: Py::new(py, open)? })
    }

    fn __call__(&self, py: Python<'_>) -> PyResult<Py<HttpConnection>> {
        Py::new(py, HttpConnection::new(self.open.bind(py)))
    }

    /// The number of open connections.
    #[getter]
    fn connections(&self, py: Python<'_>) -> Value<usize> {
        Value(self.open.get().count(py))
    }

    /// The number of requests in progress.
    #[getter]
    fn requests(&self, py: Python<'_>) -> Value<usize> {
        Value(self.serving(py, |s| s.requests))
    }

    /// The number of answered requests.
    #[getter]
    fn total_requests(&self, py: Python<'_>) -> Value<u64> {
        Value(self.serving(py, |s| s.total_requests))
    }

    /// The length of all messages that were sent to WebSockets.
    #[getter]
    fn websocket_bytes(&self, py: Python<'_>) -> Value<u64> {
        Value(self.serving(py, |s| s.websocket_bytes))
    }

    /// Start a graceful shutdown: connections close after their response; idle ones after a short time, in which a
    /// request already on its way is still answered.
    fn shut_down(&self, py: Python<'_>) -> PyResult<()> {
        self.serving(py, |s| s.is_shutting_down = true);
        OpenConnections::shut_down(self.open.bind(py))
    }

    /// Close all connections immediately, and cancel their applications.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.cancel(py)?;
        self.open.get().abort(py)
    }

    /// Cancel the applications. A request without a response gets a 500 in the loop's next tick.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.serving(py, |s| {
            s.is_shutting_down = true;
            s.is_cancelling = true;
        });
        let tasks = self.service.get().tasks.bind(py);
        for task in tasks.call_method0(intern!(py, "copy"))?.try_iter()? {
            task?.call_method0(intern!(py, "cancel"))?;
        }
        Ok(())
    }

    /// WSGI: make the threads end after their current request. Returns the threads that are still running, to be
    /// joined.
    fn end_threads<'py>(&self, py: Python<'py>) -> PyResult<Value<Vec<Bound<'py, PyAny>>>> {
        self.site.get().end_threads(py).map(Value)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.service)?;
        visit.call(&self.site)?;
        visit.call(&self.open)
    }
}
