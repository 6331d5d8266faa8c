//! `RequestTask`: an ASGI application's work on one request. It is the coroutine of the task and wraps the
//! application's own coroutine.

use super::connection::HttpConnection;
use super::exchange::{Answer, Exchange};
use super::journal;
use super::websocket::Phase;
use crate::ffi::awaitable::{self, Step, Steps};
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::exceptions::{PyException, PySystemExit};
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

/// Calls the application and starts a task for it.
pub fn start(
    connection: &Bound<'_, HttpConnection>,
    exchange: &Bound<'_, Exchange>,
    scope: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = connection.py();
    let http = connection.get().http.bind(py);
    let this = http.get();
    if this.options.on_response.is_some() {
        let kept = scope.clone().into_any().unbind();
        exchange.get().state.with(py, |s| s.scope = Some(kept));
    }
    // The application may keep its arguments in a reference cycle.
    recycled::track(py, &exchange.clone().unbind());
    let receive = exchange.getattr(intern!(py, "receive"))?;
    let send = exchange.getattr(intern!(py, "send"))?;
    let coroutine = match this.app.bind(py).call1((scope, receive, send)) {
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
    let task = make_task(http, &work)?;
    if work.get().coroutine.with(py, |c| c.is_some()) {
        recycled::track(py, &work.clone().unbind());
        this.tasks.bind(py).add(&task)?;
        exchange.get().state.with(py, |s| s.task = Some(Object::new(task)));
    }
    Ok(())
}

fn make_task<'py>(
    http: &Bound<'py, super::server::HttpServer>,
    work: &Bound<'py, RequestTask>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = http.py();
    let owner = http.get().owner.bind(py);
    // With a task factory, or in debug mode with its tracebacks: use the loop's method.
    if owner.get().is_debug() || !owner.getattr(intern!(py, "_task_factory"))?.is_none() {
        return owner.call_method1(intern!(py, "create_task"), (work,));
    }
    imports::task(py)?.call((work,), Some(&http.get().task_arguments(py)?))
}

/// Logs the exception that has ended the application, and completes or breaks off the response.
fn failed(exchange: &Bound<'_, Exchange>, error: PyErr) -> PyResult<()> {
    let py = exchange.py();
    if !is_of_application(py, &error) {
        // It was cancelled, or the program is interrupted.
        ended(exchange, None)?;
        return Err(error);
    }
    let is_gone = exchange.get().state.with(py, |s| s.is_disconnected)
        || exchange.get().websocket.as_deref().is_some_and(|websocket| websocket.is_gone(py));
    if !(is_gone && journal::is_of_client(py, &error)?) {
        journal::log(py, "Exception in ASGI application\n", Some(&error))?;
    }
    ended(exchange, None)
}

/// Whether an exception only concerns one request. SystemExit does: a view must not end other requests.
pub fn is_of_application(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// The application has ended. `complaint`: the log message if its response is not complete.
pub fn ended(exchange: &Bound<'_, Exchange>, complaint: Option<&str>) -> PyResult<()> {
    let py = exchange.py();
    let this = exchange.get();
    let (answer, is_gone, task) =
        this.state.with(py, |s| (s.answer, s.is_disconnected, s.task.take()));
    let http = this.connection.get().http.get();
    http.serving.with(py, |serving| serving.requests -= 1);
    if let Some(task) = task {
        http.tasks.bind(py).discard(task.bind(py))?;
    }
    if let Some(websocket) = &this.websocket {
        if complaint.is_some() && websocket.phase(py) == Phase::Connecting && !is_gone {
            journal::log(py, "ASGI callable returned without sending handshake.", None)?;
        }
        if let Some(complaint) = complaint
            && websocket.phase(py) == Phase::Denied
            && answer != Answer::Complete
            && !is_gone
        {
            journal::log(py, complaint, None)?;
        }
        if matches!(answer, Answer::Streaming | Answer::Trailing) {
            this.tell_end(py)?;
        }
        return if is_gone { Ok(()) } else { websocket.finish(exchange, complaint.is_none()) };
    }
    if is_gone || answer == Answer::Complete {
        return Ok(());
    }
    if let Some(complaint) = complaint {
        journal::log(py, complaint, None)?;
    }
    let connection = this.connection.bind(py);
    match answer {
        // Nothing of its response was sent.
        Answer::Awaited | Answer::Started => {
            Exchange::answer_at_once(exchange, 500, "Internal Server Error")
        }
        Answer::Streaming | Answer::Trailing => {
            this.tell_end(py)?;
            HttpConnection::break_off(connection, exchange)
        }
        Answer::Complete => Ok(()),
    }
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
            journal::log(py, &text, None)?;
        }
        let complaint = match exchange.get().state.with(py, |s| s.answer) {
            Answer::Awaited => "ASGI callable returned without starting response.",
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
        let step = call::send(&coroutine, value);
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
        let Some(coroutine) = slf.get().inner(py) else { return Err(call::raised(args)?) };
        let step = call::throw(&coroutine, args);
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

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match self.inner(py) {
            Some(inner) => Ok(format!("<request of {}>", inner.repr()?)),
            None => Ok("<request, answered>".to_owned()),
        }
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
