//! `RequestTask`: an ASGI application's work on one request. It is the coroutine of the task and wraps the
//! application's own coroutine.

use super::scope::Template;
use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::fallible;
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, class, context};
use crate::http::application::ending::ended;
use crate::http::application::options::ApplicationOptions;
use crate::http::application::websocket;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log;
use crate::http::exchange::response_state::Response;
use crate::http::exchange::service::Service;
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct RequestTask {
    exchange: Object<Exchange>,
    /// The application's coroutine, until it has ended.
    coroutine: LoopCell<Option<Object>>,
}

/// An ASGI application of a server.
pub struct Asgi {
    app: Py<PyAny>,
    pub template: Template,
    /// The methods of an exchange that an application gets.
    receive: Py<PyAny>,
    send: Py<PyAny>,
    /// The keyword arguments of `asyncio.Task`; `context` is each request's own.
    task_arguments: Py<PyDict>,
}

impl Asgi {
    pub fn new(
        service: &Bound<'_, Service>,
        app: Py<PyAny>,
        options: &ApplicationOptions,
    ) -> PyResult<Self> {
        let py = service.py();
        let state = options.state.as_ref().map(|state| state.clone_ref(py));
        let template = Template::new(py, &options.root_path, state)?;
        let task_arguments = fallible::dict(py)?;
        task_arguments.set_item(intern!(py, "loop"), &service.get().owner)?;
        if cfg!(Py_3_12) {
            task_arguments.set_item(intern!(py, "eager_start"), true)?;
        }
        let exchange = py.get_type::<Exchange>();
        let receive = exchange.getattr(intern!(py, "receive"))?.unbind();
        let send = exchange.getattr(intern!(py, "send"))?.unbind();
        Ok(Self { app, template, receive, send, task_arguments: task_arguments.unbind() })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.app)?;
        visit.call(&self.receive)?;
        visit.call(&self.send)?;
        self.template.visit(visit)?;
        visit.call(&self.task_arguments)
    }

    /// Calls the application and starts a task for it.
    pub fn start(&self, exchange: &Bound<'_, Exchange>, scope: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = exchange.py();
        // The application may keep its arguments in a reference cycle.
        recycled::track(py, &exchange.clone().unbind());
        let receive = class::bound(self.receive.bind(py), exchange)?;
        let send = class::bound(self.send.bind(py), exchange)?;
        let service = exchange.get().service.get();
        let context = service.fresh_context(py)?;
        let called = context::run(&context, || self.app.bind(py).call1((scope, receive, send)));
        let coroutine = match called {
            Ok(coroutine) => coroutine,
            Err(error) => return failed(exchange, error),
        };
        let work = recycled::make(
            py,
            RequestTask {
                exchange: Object::new(exchange.clone()),
                coroutine: LoopCell::new(Some(Object::new(coroutine))),
            },
        )?;
        let task = match self.make_task(service, &work, &context) {
            Ok(task) => task,
            Err(error) => {
                // The loop's task factory has raised it. Or the first step has, and has ended the request.
                let unbegun = work.get().coroutine.take(py);
                return if unbegun.is_some() { failed(exchange, error) } else { Err(error) };
            }
        };
        if work.get().coroutine.with(py, |c| c.is_some()) {
            recycled::track(py, &work.clone().unbind());
            service.tasks.bind(py).add(&task)?;
            exchange.get().state.with(py, |s| s.task = Some(Object::new(task)));
        }
        Ok(())
    }

    fn make_task<'py>(
        &self,
        service: &Service,
        work: &Bound<'py, RequestTask>,
        context: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = work.py();
        let owner = service.owner.bind(py);
        // With a task factory, or in debug mode with its tracebacks: use the loop's method.
        if owner.get().is_debug() || !owner.getattr(intern!(py, "_task_factory"))?.is_none() {
            // Not as an argument, which not every factory takes.
            let name = intern!(py, "create_task");
            return context::run(context, || owner.call_method1(name, (work,)));
        }
        let arguments = self.task_arguments.bind(py);
        arguments.set_item(intern!(py, "context"), context)?;
        let task = imports::task(py)?.call((work,), Some(arguments));
        // A request must not live longer for its context's sake.
        arguments.set_item(intern!(py, "context"), py.None())?;
        task
    }
}

/// Logs the exception that has ended the application, and completes or breaks off the response.
fn failed(exchange: &Bound<'_, Exchange>, error: PyErr) -> PyResult<()> {
    let py = exchange.py();
    let is_cancelled = error.is_instance(py, &imports::cancelled_error(py)?);
    let is_gone = exchange.get().state.with(py, |s| s.is_disconnected)
        || websocket::of(exchange.get()).is_some_and(|websocket| websocket.is_gone(py));
    let is_expected = (is_gone && error_log::is_of_client(py, &error)?)
        || (is_cancelled && exchange.get().is_cancelled_by_server(py));
    if !is_expected {
        error_log::log(py, "Exception in ASGI application\n", Some(&error))?;
    }
    let ended = ended(exchange, None);
    // Any other exception only concerns this request, also SystemExit: a view must not end other requests.
    if is_cancelled || error_log::is_interrupt(py, &error)? {
        return ended.and(Err(error));
    }
    ended
}

impl Recycled for RequestTask {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl RequestTask {
    fn stepped(slf: Borrowed<'_, '_, Self>, step: PyResult<Step>) -> PyResult<Step> {
        let py = slf.py();
        let this = slf.get();
        let value = match step {
            Ok(Step::Yielded(object)) => return Ok(Step::Yielded(object)),
            Ok(Step::Returned(value)) => value,
            Err(error) => {
                drop(this.coroutine.take(py));
                failed(this.exchange.bind(py), error)?;
                return Ok(Step::Returned(Object::from(py.None())));
            }
        };
        drop(this.coroutine.take(py));
        let exchange = this.exchange.bind(py);
        if !value.bind(py).is_none() {
            let text =
                format!("ASGI callable should return None, but returned '{}'.", value.bind(py));
            error_log::log(py, &text, None)?;
        }
        let complaint = match exchange.get().state.with(py, |s| s.response) {
            Response::Awaited => "ASGI callable returned without starting response.",
            _ => "ASGI callable returned without completing response.",
        };
        ended(exchange, Some(complaint))?;
        Ok(Step::Returned(Object::from(py.None())))
    }

    fn inner<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.coroutine.with(py, |c| c.as_ref().map(|c| c.bind(py).clone()))
    }

    fn attribute<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner(py).map(|inner| inner.getattr(name)).transpose()
    }
}

impl Steps for RequestTask {
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let Some(coroutine) = slf.get().inner(slf.py()) else {
            return Ok(Step::Returned(Object::from(slf.py().None())));
        };
        let step = coroutine::send(&coroutine, value);
        Self::stepped(slf, step)
    }
}

#[pymethods]
impl RequestTask {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    #[pyo3(signature = (*args))]
    fn throw(slf: &Bound<'_, Self>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let Some(coroutine) = slf.get().inner(py) else { return Err(coroutine::raised(args)?) };
        let step = coroutine::throw(&coroutine, args);
        awaitable::shown(py, Self::stepped(slf.as_borrowed(), step)?)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.coroutine.take(py) {
            Some(coroutine) => coroutine.bind(py).call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }

    // Tracebacks of tasks, their names, and asyncio's tools read these attributes.

    #[getter]
    fn __name__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attribute(py, "__name__")
    }

    #[getter]
    fn __qualname__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attribute(py, "__qualname__")
    }

    #[getter]
    fn cr_await<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attribute(py, "cr_await")
    }

    #[getter]
    fn cr_frame<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attribute(py, "cr_frame")
    }

    #[getter]
    fn cr_code<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.attribute(py, "cr_code")
    }

    #[getter]
    fn cr_running(&self, py: Python<'_>) -> PyResult<bool> {
        self.attribute(py, "cr_running")?.map_or(Ok(false), |running| running.is_truthy())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        match self.inner(py) {
            Some(inner) => Ok(format!("<request of {}>", inner.repr()?)),
            None => Ok("<request, answered>".to_owned()),
        }
        .map(Value)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.coroutine
            .peek(|coroutine| coroutine.as_ref().map_or(Ok(()), |c| c.visit(&visit)))
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.coroutine.take(py));
    }
}
