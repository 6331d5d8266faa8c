//! `WsgiCall`: one call of a WSGI application (PEP 3333), in a green thread or a pool thread.
//!
//! ```text
//! unbegun → works → ended        unbegun: the pool takes a request when all or enough of its body has arrived
//! ```
//! A green thread starts immediately, inside the loop's receive, and writes to the connection itself. A pool thread
//! puts its response into the outbox. Upholds S2: no borrow is held during the application's code, which may switch.

use super::answer::Framing;
use super::asgi;
use super::exchange::{Answer, BODY_HIGH_BYTES, Exchange};
use super::file_wrapper::FileWrapper;
use super::journal::{self, client_gone};
use super::options::{Interface, Options};
use super::outbox::Outbox;
use super::workers::Workers;
use crate::event_loop::LoopCore;
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::{LoopCell, Object, call, greenlet};
use crate::green::{HubCore, Turn, Waiter};
use crate::imports;
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

/// The additional state of a server with a WSGI application.
pub struct Wsgi {
    /// The initial entries of every environ; copied for each request.
    pub template: Py<PyDict>,
    /// `None`: green threads.
    workers: Option<Py<Workers>>,
    /// The hub of the server's loop, after its first use.
    hub: LoopCell<Option<Py<HubCore>>>,
}

impl Wsgi {
    pub fn of(owner: &Bound<'_, LoopCore>, options: &Options) -> PyResult<Option<Self>> {
        if options.interface != Interface::Wsgi {
            return Ok(None);
        }
        let py = owner.py();
        let workers = if options.green {
            None
        } else {
            Some(Py::new(py, Workers::new(owner, options.threads))?)
        };
        let template = super::environ::template(py, options)?;
        Ok(Some(Self { template, workers, hub: LoopCell::default() }))
    }

    pub fn workers(&self) -> Option<&Py<Workers>> {
        self.workers.as_ref()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.template)?;
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

#[derive(Default)]
pub struct State {
    environ: Option<Object<PyDict>>,
    /// The greenlet it runs in, once it waits.
    greenlet: Option<Object>,
    is_ended: bool,
    /// Parts that a green thread has sent since others ran.
    pub parts_in_a_row: usize,
    pub outbox: Outbox,
}

/// One call of a WSGI application. Calling it runs the work of a green thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct WsgiCall {
    pub exchange: Object<Exchange>,
    /// The value before the application has changed it.
    pub keeps_alive: bool,
    pub state: LoopCell<State>,
}

impl Recycled for WsgiCall {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

/// Starts the application, now or when enough of the body has arrived.
pub fn start(exchange: &Bound<'_, Exchange>, environ: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = exchange.py();
    let keeps_alive = exchange.get().state.with(py, |s| s.keeps_alive);
    let environ = Some(Object::new(environ.clone()));
    let call = recycled::make(
        py,
        WsgiCall {
            exchange: Object::new(exchange.clone()),
            keeps_alive,
            state: LoopCell::new(State { environ, ..State::default() }),
        },
    )?;
    let http = exchange.get().connection.get().http.get();
    if http.options.green {
        let Some(wsgi) = &http.wsgi else { return Ok(()) };
        return begin_green(&call, &wsgi.hub(py)?);
    }
    recycled::track(py, &call.clone().unbind());
    recycled::track(py, &exchange.clone().unbind());
    let kept = Object::new(call);
    exchange.get().state.with(py, |s| s.unbegun = Some(kept));
    body_came(exchange)
}

/// More of the body has arrived: the pool may take the request.
pub fn body_came(exchange: &Bound<'_, Exchange>) -> PyResult<()> {
    let py = exchange.py();
    let call = exchange.get().state.with(py, |s| {
        let is_enough =
            s.body.is_complete || s.expects_continue || s.body.len_bytes > BODY_HIGH_BYTES;
        if is_enough { s.unbegun.take() } else { None }
    });
    let Some(call) = call else { return Ok(()) };
    match exchange.get().connection.get().http.get().wsgi.as_ref().and_then(Wsgi::workers) {
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
    this.exchange.get().connection.get().http.get().tasks.bind(py).add(slf)?;
    let task = Object::new(slf.clone().into_any());
    this.exchange.get().state.with(py, |s| s.task = Some(task));
    Ok(())
}

impl WsgiCall {
    /// Calls the application, sends its answer, and tells the connection that it has ended. Exceptions it raises are
    /// meant for the hub.
    pub fn work(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let outcome = match Self::call(slf) {
            Ok(result) => Self::answer(slf, &result),
            Err(error) => Err(error),
        };
        Self::finish(slf, outcome, py)
    }

    #[inline]
    fn call<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let environ = this.state.with(py, |s| s.environ.take());
        let Some(environ) = environ else {
            return Err(PyAssertionError::new_err("the application was already called"));
        };
        let environ = environ.bind(py).clone();
        let start_response = slf.getattr(intern!(py, "start_response"))?;
        let app = this.exchange.get().connection.get().http.get().app.bind(py);
        call::call2(app, environ.as_any(), &start_response)
    }

    /// Sends the application's result and closes it.
    #[inline(never)]
    fn answer(slf: &Bound<'_, Self>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if let Some(only) = only_item(result) {
            return match only? {
                Some(data) => Self::send_whole(slf, &data),
                None => Self::send_end(slf),
            };
        }
        let sent = Self::send_all(slf, result);
        let closed = match result.getattr_opt(intern!(py, "close")) {
            Ok(Some(close)) => close.call0().map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match (sent, closed) {
            (Err(first), Err(second)) => {
                journal::log(py, "Exception while closing a WSGI response\n", Some(&second))?;
                Err(first)
            }
            (sent, closed) => sent.and(closed),
        }
    }

    fn send_all(slf: &Bound<'_, Self>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(wrapper) = result.cast_exact::<FileWrapper>() {
            FileWrapper::set_length(wrapper, slf);
            if FileWrapper::send_by_kernel(wrapper, slf)? {
                return Self::send_end(slf);
            }
        }
        let exchange = slf.get().exchange.get();
        let mut is_first = true;
        for data in result.try_iter()? {
            let data = data?;
            let data = data_of(&data)?;
            if exchange.state.with(slf.py(), |s| s.is_disconnected) {
                return Ok(());
            }
            if data.as_bytes().is_empty() {
                continue;
            }
            if is_first && slf.get().is_length_unknown(slf.py()) && matches!(result.len(), Ok(1)) {
                slf.get().say_length(slf.py(), data.as_bytes().len() as u64);
            }
            is_first = false;
            Self::send(slf, data, true)?;
            if exchange.state.with(slf.py(), |s| s.framing == Framing::NoBody) {
                // Nobody receives the rest, which may be endless.
                break;
            }
        }
        Self::send_end(slf)
    }

    /// Sends the only item of a list.
    fn send_whole(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = data_of(data)?;
        if slf.get().is_length_unknown(slf.py()) {
            slf.get().say_length(slf.py(), data.as_bytes().len() as u64);
        }
        Self::send(slf, data, false)
    }

    /// Sends the end of the body.
    fn send_end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        // There was no data at all: the length is known to be 0.
        let is_empty = this.exchange.get().state.with(py, |s| s.answer == Answer::Started);
        if is_empty && this.is_length_unknown(py) {
            this.say_length(py, 0);
        }
        Self::send(slf, &PyBytes::new(py, b""), false)
    }

    /// Sends a part of the body, the last one if `more` is false. AssertionError before `start_response`.
    pub fn send(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>, more: bool) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let (answer, is_disconnected) = exchange.state.with(py, |s| {
            if s.answer == Answer::Started {
                // The client does not send its body, so no request can follow.
                s.keeps_alive &= !s.expects_continue || s.body.is_complete;
            }
            (s.answer, s.is_disconnected)
        });
        if is_disconnected {
            // The client is gone. An application that writes without end must get an exception.
            let gone = client_gone(py, "the client has closed the connection");
            return if more { Err(gone) } else { Ok(()) };
        }
        match answer {
            Answer::Awaited => Err(PyAssertionError::new_err(
                "the WSGI application has not called start_response() before its body",
            )),
            Answer::Complete => {
                Err(PyAssertionError::new_err("the response is complete: nothing can follow"))
            }
            Answer::Started | Answer::Streaming | Answer::Trailing => {
                let framed = exchange.frame(py, data.as_bytes(), more)?;
                Self::put(slf, framed, data)
            }
        }
    }

    /// Whether the head was not sent yet and has no length.
    pub fn is_length_unknown(&self, py: Python<'_>) -> bool {
        let is_unknown = |s: &mut super::exchange::State| {
            s.answer == Answer::Started && s.framing == Framing::Unknown
        };
        self.exchange.get().state.with(py, is_unknown)
    }

    pub fn say_length(&self, py: Python<'_>, len_bytes: u64) {
        self.exchange.get().state.with(py, |s| {
            s.head.extend_from_slice(b"content-length: ");
            s.head.extend_from_slice(len_bytes.to_string().as_bytes());
            s.head.extend_from_slice(b"\r\n");
            s.framing = Framing::Length(len_bytes);
        });
    }

    /// The application has ended.
    #[inline(never)]
    fn finish(slf: &Bound<'_, Self>, outcome: PyResult<()>, py: Python<'_>) -> PyResult<()> {
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let owner = exchange.get().connection.get().http.get().owner.bind(py);
        let is_here = super::pause::is_here(owner);
        let left = match outcome {
            Ok(()) => Ok(()),
            Err(error) => Self::judge(slf, error, is_here),
        };
        let green = this.state.with(py, |s| {
            s.is_ended = true;
            s.greenlet.take()
        });
        drop(green);
        if is_here && this.state.with(py, |s| s.outbox.is_empty()) {
            return left.and(asgi::ended(exchange, None));
        }
        Self::tell_end(slf);
        left
    }

    /// Logs an application's exception. Exceptions that kill a green thread or interrupt the program are raised.
    #[cold]
    fn judge(slf: &Bound<'_, Self>, error: PyErr, is_here: bool) -> PyResult<()> {
        let py = slf.py();
        if is_here && !asgi::is_of_application(py, &error) {
            let is_killed = error.is_instance(py, &imports::greenlet_exit(py)?);
            return if is_killed { Ok(()) } else { Err(error) };
        }
        let is_gone = slf.get().exchange.get().state.with(py, |s| s.is_disconnected);
        if is_gone && journal::is_of_client(py, &error)? {
            return Ok(());
        }
        journal::log(py, "Exception in WSGI application\n", Some(&error))
    }
}

/// The only item of a list or tuple, `None` inside if it is empty; `None` for other results, which may have a
/// `close`.
type Only<'py> = Option<PyResult<Option<Bound<'py, PyAny>>>>;

fn only_item<'py>(result: &Bound<'py, PyAny>) -> Only<'py> {
    if let Ok(list) = result.cast_exact::<PyList>() {
        return match list.len() {
            0 => Some(Ok(None)),
            1 => Some(list.get_item(0).map(Some)),
            _ => None,
        };
    }
    let tuple = result.cast_exact::<PyTuple>().ok()?;
    match tuple.len() {
        0 => Some(Ok(None)),
        1 => Some(tuple.get_item(0).map(Some)),
        _ => None,
    }
}

/// TypeError for anything but bytes.
pub fn data_of<'a, 'py>(data: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyBytes>> {
    data.cast::<PyBytes>().map_err(|_| {
        let name = data.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("the body of a WSGI response must be bytes, not '{name}'"))
    })
}

#[pymethods]
impl WsgiCall {
    #[pyo3(signature = ())]
    fn __call__(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::work(slf)
    }

    /// Like a task's `cancel`: kills the green thread where it waits.
    fn cancel(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let green = slf.get().state.with(py, |s| s.greenlet.as_ref().map(|g| g.clone_ref(py)));
        let Some(green) = green else { return Ok(false) };
        let exit = imports::greenlet_exit(py)?.call0()?;
        HubCore::here(py)?.call_method1(intern!(py, "throw_soon"), (green.bind(py), exit))?;
        Ok(true)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.exchange.visit(&visit)?;
        self.state
            .peek(|s| {
                if let Some(environ) = &s.environ {
                    environ.visit(&visit)?;
                }
                if let Some(green) = &s.greenlet {
                    green.visit(&visit)?;
                }
                Ok(())
            })
            .unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        let old = self.state.with(py, |s| (s.environ.take(), s.greenlet.take()));
        drop(old);
    }
}
