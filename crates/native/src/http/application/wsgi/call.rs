//! `WsgiCall`: one call of a WSGI application (PEP 3333), in a green thread or a pool thread.
//!
//! ```text
//! unbegun → works → ended        unbegun: the pool takes a request when all or enough of its body has arrived
//! ```
//! `start` begins calls, `delivery` passes their parts to the connection. Upholds S2: no borrow is held during the application's code, which may switch.

use super::file_wrapper::FileWrapper;
use super::outbox::Outbox;
use crate::ffi::fallible;
use crate::ffi::recycled::{Pool, Recycled};
use crate::ffi::{LoopCell, Object, call, context};
use crate::green::HubCore;
use crate::http::application::ending::ended;
use crate::http::exchange::contract::Exchange;
use crate::http::exchange::error_log::{self, client_gone};
use crate::http::exchange::response_state::{Framing, Response};
use crate::http::exchange::waiting::is_here;
use crate::imports;
use pyo3::exceptions::{PyAssertionError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

#[derive(Default)]
pub struct State {
    pub environ: Option<Object<PyDict>>,
    /// The greenlet it runs in, once it waits.
    pub greenlet: Option<Object>,
    pub is_ended: bool,
    /// Its body was longer than the Content-Length: the end of the response was sent.
    pub is_cut: bool,
    /// Parts that a green thread has sent since others ran.
    pub parts_in_a_row: usize,
    pub outbox: Outbox,
}

/// How much of a part the response had room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    Whole,
    /// The body is longer than its Content-Length. The response is complete.
    Part,
}

/// One call of a WSGI application. Calling it runs the work of a green thread.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct WsgiCall {
    pub exchange: Object<Exchange>,
    pub app: Object,
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

impl WsgiCall {
    /// Calls the application, sends its response, and tells the connection that it has ended. Exceptions it raises are
    /// meant for the hub.
    pub fn work(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().exchange.get().service.get().fresh_context(py) {
            Ok(context) => context::run(&context, || {
                let outcome = Self::call(slf).and_then(|result| Self::send_result(slf, &result));
                Self::finish(slf, outcome, py)
            }),
            Err(no_memory) => Self::finish(slf, Err(no_memory), py),
        }
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
        call::call2(this.app.bind(py), environ.as_any(), &start_response)
    }

    /// Sends the application's result and closes it.
    #[inline(never)]
    fn send_result(slf: &Bound<'_, Self>, result: &Bound<'_, PyAny>) -> PyResult<()> {
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
                error_log::log(py, "Exception while closing a WSGI response\n", Some(&second))?;
                Err(first)
            }
            (sent, closed) => sent.and(closed),
        }
    }

    fn send_all(slf: &Bound<'_, Self>, result: &Bound<'_, PyAny>) -> PyResult<()> {
        let file = result.cast_exact::<FileWrapper>().ok();
        if let Some(wrapper) = file {
            FileWrapper::set_length(wrapper, slf.get().exchange.get());
            if let Some(part) = FileWrapper::part_for_connection(wrapper, slf.get().exchange.get())
            {
                return Self::put_file(slf, part);
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
            if is_first && exchange.is_length_unknown(slf.py()) && matches!(result.len(), Ok(1)) {
                exchange.set_length(slf.py(), data.as_bytes().len() as u64);
            }
            is_first = false;
            if Self::send(slf, data, true)? == Taken::Part {
                // PEP 3333: the server stops iterating when enough data has been sent.
                return if file.is_some() { Ok(()) } else { slf.get().warn_of_excess(slf.py()) };
            }
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
        slf.get().exchange.get().set_length(slf.py(), data.as_bytes().len() as u64);
        match Self::send(slf, data, false)? {
            Taken::Whole => Ok(()),
            Taken::Part => slf.get().warn_of_excess(slf.py()),
        }
    }

    /// Sends the end of the body.
    fn send_end(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        // If there was no data at all, the length is known to be 0.
        slf.get().exchange.get().set_length(py, 0);
        Self::send(slf, &fallible::bytes(py, b"")?, false).map(drop)
    }

    /// Sends a part of the body, the last one if `more` is false: as much of it as the Content-Length allows (PEP
    /// 3333). AssertionError before `start_response`.
    pub fn send(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>, more: bool) -> PyResult<Taken> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let (response, is_disconnected, framing) =
            exchange.state.with(py, |s| (s.response, s.is_disconnected, s.plain_framing()));
        if is_disconnected {
            // The client is gone. An application that writes without end must get an exception.
            let gone = client_gone(py, "the client has closed the connection");
            return if more { Err(gone) } else { Ok(Taken::Whole) };
        }
        let left = match framing {
            Framing::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let len = data.as_bytes().len();
        if left < len || (len == 0 && slf.get().state.with(py, |s| s.is_cut)) {
            return Self::send_allowed(slf, data, left);
        }
        match response {
            Response::Awaited => Err(PyAssertionError::new_err(
                "the WSGI application has not called start_response() before its body",
            )),
            Response::Complete => {
                Err(PyAssertionError::new_err("the response is complete: nothing can follow"))
            }
            Response::Started | Response::Streaming | Response::Trailing => {
                Self::send_framed(slf, data, more)?;
                Ok(Taken::Whole)
            }
        }
    }

    #[inline]
    fn send_framed(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>, more: bool) -> PyResult<()> {
        let exchange = slf.get().exchange.get();
        let data = exchange.packed(data, more)?;
        let framed = exchange.frame(slf.py(), data.as_bytes(), more)?;
        Self::put(slf, framed, &data)
    }

    /// The body is longer than the Content-Length says: the response ends with the `left` bytes that belong to it.
    /// What comes after them is dropped.
    #[cold]
    fn send_allowed(
        slf: &Bound<'_, Self>,
        data: &Bound<'_, PyBytes>,
        left: usize,
    ) -> PyResult<Taken> {
        let py = slf.py();
        if !slf.get().state.with(py, |s| std::mem::replace(&mut s.is_cut, true)) {
            let allowed = fallible::bytes(py, &data.as_bytes()[..left])?;
            Self::send_framed(slf, &allowed, false)?;
        }
        Ok(Taken::Part)
    }

    /// An application that sends too much has a mistake. A file may just have grown.
    #[cold]
    fn warn_of_excess(&self, py: Python<'_>) -> PyResult<()> {
        self.exchange.get().service.get().tell_once(py, "content-length", || {
            "The application has sent a body that is longer than its Content-Length. The rest was left out (PEP 3333)."
                .to_owned()
        })
    }

    /// The application has ended.
    #[inline(never)]
    fn finish(slf: &Bound<'_, Self>, outcome: PyResult<()>, py: Python<'_>) -> PyResult<()> {
        let this = slf.get();
        let exchange = this.exchange.bind(py);
        let owner = exchange.get().service.get().owner.bind(py);
        let is_here = is_here(owner);
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
            return left.and(ended(exchange, None));
        }
        Self::tell_end(slf);
        left
    }

    /// Logs an application's exception. One that interrupts the program is raised on the loop's thread.
    #[cold]
    fn judge(slf: &Bound<'_, Self>, error: PyErr, is_here: bool) -> PyResult<()> {
        let py = slf.py();
        let exchange = slf.get().exchange.get();
        let is_gone = exchange.state.with(py, |s| s.is_disconnected);
        let is_expected = (is_gone && error_log::is_of_client(py, &error)?)
            || (is_here
                && exchange.is_cancelled_by_server(py)
                && error.is_instance(py, &imports::greenlet_exit(py)?));
        if !is_expected {
            error_log::log(py, "Exception in WSGI application\n", Some(&error))?;
        }
        if is_here && error_log::is_interrupt(py, &error)? { Err(error) } else { Ok(()) }
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

    /// The future of a file is done.
    fn _file_sent(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let error = future.call_method0(intern!(slf.py(), "exception"))?;
        Self::file_ended(slf, (!error.is_none()).then(|| PyErr::from_value(error)))
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
        self.app.visit(&visit)?;
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
