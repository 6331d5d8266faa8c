//! The handshake of a TLS transport, from its `connection_made` to that of the program's protocol, and its failures.

use super::own_context::context_over;
use super::session::{Session, Step};
use super::transport::{App, Phase, TlsTransport};
use crate::event_loop::report;
use crate::ffi::fallible;
use crate::imports;
use crate::transport::Under;
use pyo3::exceptions::{
    PyConnectionAbortedError, PyConnectionResetError, PyException, PyOSError, PyRuntimeError,
};
use pyo3::intern;
use pyo3::prelude::*;

#[pymethods]
impl TlsTransport {
    /// The transport below has connected.
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = Under::from(transport);
        let context = context_over(&under, py)?;
        let is_over = match &under {
            Under::Stream(stream) => stream.get().is_closed(py),
            Under::Other(other) => other
                .bind(py)
                .cast_exact::<Self>()
                .is_ok_and(|below| below.get().state.with(py, |s| s.is_lost)),
        };
        let old = this.state.with(py, |s| {
            s.phase = Phase::Handshake;
            (s.under.replace(under), std::mem::replace(&mut s.context, context))
        });
        drop(old);
        Self::log_debug(slf, "%r starts SSL handshake", None)?;
        if is_over {
            // Nothing will come any more, not even its end.
            this.state.with(py, |s| s.is_closed = true);
            return Self::end_of_handshake(slf);
        }
        let timer = Self::call_later(slf, this.timeouts.handshake_s, "_check_handshake_timeout")?;
        let timer = Some(timer.unbind());
        let now_s = if this.owner.get().is_debug() {
            Some(this.owner.bind(py).call_method0(intern!(py, "time"))?.extract()?)
        } else {
            None
        };
        this.state.with(py, |s| {
            if let Some(opening) = &mut s.opening {
                opening.timer = timer;
                opening.started_s = now_s;
            }
        });
        Self::shake_hands(slf)
    }

    /// Called by the loop.
    fn _check_handshake_timeout(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        if this.phase(slf.py()) != Phase::Handshake {
            return Ok(());
        }
        let text = format!(
            "SSL handshake is taking longer than {} seconds: aborting the connection",
            python_number(slf.py(), this.timeouts.handshake_s)
        );
        Self::fatal(slf, PyConnectionAbortedError::new_err(text), "Fatal error on transport")
    }
}

impl TlsTransport {
    pub fn shake_hands(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match slf.get().library.shake_hands(py) {
            Ok(Step::Wanting) => Self::process_outgoing(slf),
            Ok(Step::Done) if slf.get().phase(py) != Phase::Handshake => {
                // A callback of the library has closed it in the handshake's last step.
                let text = "the TLS transport was closed in the last step of its handshake";
                let error = PyRuntimeError::new_err(text);
                slf.get().wake_waiter(py, Some(error.value(py).as_any()))
            }
            Ok(Step::Done) => Self::shaken(slf),
            Err(error) if error.matches(py, imports::ssl_error(py)?)? => {
                Self::handshake_failed(slf, error)
            }
            Err(error) => Err(error),
        }
    }

    /// The transport below has ended before the handshake.
    pub fn end_of_handshake(slf: &Bound<'_, Self>) -> PyResult<()> {
        Self::handshake_failed(slf, PyConnectionResetError::new_err(()))
    }

    fn handshake_failed(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.stop_handshake_timer(py)?;
        // Sends the alert that tells the peer what was wrong (asyncio does not send it).
        Self::process_outgoing(slf)?;
        this.set_phase(py, Phase::Unwrapped);
        let text = if error.matches(py, imports::certificate_error(py)?)? {
            "SSL handshake failed on verifying the certificate"
        } else {
            "SSL handshake failed"
        };
        let value = error.clone_ref(py);
        let told = Self::fatal(slf, error, text);
        told.and(this.wake_waiter(py, Some(value.value(py).as_any())))
    }

    fn shaken(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if let Err(error) = this.remember_handshake(py) {
            return Self::handshake_failed(slf, error);
        }
        this.stop_handshake_timer(py)?;
        let (is_new, started_s) = this.state.with(py, |s| {
            s.phase = Phase::Wrapped;
            s.is_shaken = true;
            let is_new = s.app == App::Init;
            if is_new {
                s.app = App::Made;
            }
            (is_new, s.opening.as_ref().and_then(|opening| opening.started_s))
        });
        if let Some(started_s) = started_s {
            let now_s: f64 = this.owner.bind(py).call_method0(intern!(py, "time"))?.extract()?;
            let text = format!("%r: SSL handshake took {:.1} ms", (now_s - started_s) * 1e3);
            Self::log_debug(slf, &text, None)?;
        }
        if is_new && let Some(protocol) = this.protocol(py) {
            // Its exceptions go to the transport below, as in asyncio.
            let name = intern!(py, "connection_made");
            let made = protocol.call_method1(name, (slf,)).map(drop);
            let ended = this.owner.get().lap_method(this.owner.bind(py), &protocol, name);
            made.and(ended)?;
        }
        this.wake_waiter(py, None)?;
        Self::read_on(slf)
    }

    fn stop_handshake_timer(&self, py: Python<'_>) -> PyResult<()> {
        let timer =
            self.state.with(py, |s| s.opening.as_mut().and_then(|opening| opening.timer.take()));
        match timer {
            Some(timer) => timer.call_method0(py, intern!(py, "cancel")).map(drop),
            None => Ok(()),
        }
    }

    /// Resolves the future that waits for the handshake, and drops the handshake's state.
    pub fn wake_waiter(&self, py: Python<'_>, exc: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(opening) = self.state.with(py, |s| s.opening.take()) else { return Ok(()) };
        if let Some(timer) = &opening.timer {
            timer.call_method0(py, intern!(py, "cancel"))?;
        }
        let Some(waiter) = &opening.waiter else { return Ok(()) };
        let waiter = waiter.bind(py);
        if waiter.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
            return Ok(());
        }
        match exc {
            Some(exc) => waiter.call_method1(intern!(py, "set_exception"), (exc,)),
            None => waiter.call_method1(intern!(py, "set_result"), (py.None(),)),
        }
        .map(drop)
    }

    /// Drops the connection after an error, and logs it; network errors only in debug mode.
    pub fn fatal(slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let under = this.under(py);
        this.force_close_under(py, Some(error.value(py).as_any()))?;
        if error.is_instance_of::<PyOSError>(py) {
            return Self::log_debug(slf, &format!("%r: {message}"), Some(&error));
        }
        if error.matches(py, imports::cancelled_error(py)?)? {
            return Ok(());
        }
        let none = py.None().into_bound(py);
        let transport = under.as_ref().map_or(&none, |under| under.object(py));
        let extra =
            [(intern!(py, "transport"), transport), (intern!(py, "protocol"), slf.as_any())];
        this.in_context(py, || report(this.owner.bind(py), message, error, &extra))
    }

    /// For exceptions of the program's callbacks and the library: an `Exception` is fatal; others are returned to the
    /// transport below.
    pub fn fatal_if_exception(slf: &Bound<'_, Self>, error: PyErr, message: &str) -> PyResult<()> {
        if error.is_instance_of::<PyException>(slf.py()) {
            return Self::fatal(slf, error, message);
        }
        Err(error)
    }
}

/// Formatted like Python's `str()`.
fn python_number(py: Python<'_>, number: f64) -> String {
    let text = fallible::float(py, number).and_then(|object| object.str());
    text.map_or_else(|_no_memory| number.to_string(), |text| text.to_string())
}
