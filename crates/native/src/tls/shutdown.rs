//! The end of a TLS transport: close_notify in both directions, end of file, loss of the connection.

use super::session::{Plain, Session, Step};
use super::transport::{App, Phase, TlsTransport};
use crate::event_loop::LoopCore;
use crate::imports;
use crate::transport::Under;
use pyo3::exceptions::{PyException, PyOSError, PyTimeoutError};
use pyo3::intern;
use pyo3::prelude::*;
use std::mem::MaybeUninit;

/// The size of reads whose data is dropped.
const DROPPED: usize = 16 * 1024;

#[pymethods]
impl TlsTransport {
    /// The transport below has received the peer's end of file. Returns True if it must stay open.
    fn eof_received(slf: &Bound<'_, Self>) -> PyResult<bool> {
        Self::end_of_file(slf).inspect_err(|error| {
            // asyncio closes it for an `Exception` only.
            if error.is_instance_of::<PyException>(slf.py())
                && let Err(failed) = slf.get().call_under(slf.py(), "close")
            {
                failed.write_unraisable(slf.py(), Some(slf));
            }
        })
    }

    /// The transport below is closed.
    fn connection_lost(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut outcome = match exc.as_ref().map(is_of_socket) {
            Some(Ok(true)) => Self::take_rest(slf),
            Some(Err(error)) => Err(error),
            None => Self::take_last_buffers(slf),
            Some(Ok(false)) => Ok(()),
        };
        let (tells, protocol, timer, backlog) = this.state.with(py, |s| {
            let tells = s.phase != Phase::Handshake && matches!(s.app, App::Made | App::Eof);
            if tells {
                s.app = App::Lost;
            }
            s.phase = Phase::Unwrapped;
            s.is_closed = true;
            s.is_lost = true;
            s.out.writes_after_loss += 1;
            let backlog = std::mem::take(&mut s.out.backlog);
            // Here and below: the transport below may be forgotten before the protocol asks.
            let below = match &s.under {
                Some(Under::Stream(stream)) => stream.get().lost_bytes(py),
                _ => 0,
            };
            s.out.lost_bytes = backlog.len_bytes() + s.out.encrypted_bytes + below;
            (tells, s.protocol.take(), s.shutdown_timer.take(), backlog)
        });
        drop(backlog);
        if tells && let Some(protocol) = &protocol {
            let lost = protocol.object.bind(py).getattr(intern!(py, "connection_lost"));
            let told = lost.and_then(|lost| this.schedule(py, "call_soon", (lost, exc.as_ref())));
            outcome = outcome.and(told.map(drop));
        }
        drop(protocol);
        outcome = outcome.and(this.wake_waiter(py, exc.as_ref()));
        if let Some(timer) = timer {
            outcome = outcome.and(timer.call_method0(py, intern!(py, "cancel")).map(drop));
        }
        if this.state.with(py, |s| s.is_forgotten) {
            this.forget(py);
        }
        outcome
    }

    /// Called by the loop.
    fn _check_shutdown_timeout(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if !matches!(this.phase(py), Phase::Flushing | Phase::Shutdown) {
            return Ok(());
        }
        let error = PyTimeoutError::new_err("SSL shutdown timed out");
        this.force_close_under(py, Some(error.value(py).as_any()))
    }

    /// Called by the loop when reading is resumed.
    fn _resume(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().phase(slf.py()) {
            Phase::Wrapped => Self::read_on(slf),
            Phase::Flushing => Self::flush_and_shut_down(slf),
            Phase::Shutdown => Self::shut_down(slf),
            Phase::Unwrapped | Phase::Handshake => Ok(()),
        }
    }
}

impl TlsTransport {
    fn end_of_file(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let phase = this.state.with(py, |s| {
            s.has_eof = true;
            s.phase
        });
        Self::log_debug(slf, "%r received EOF", None)?;
        match phase {
            Phase::Handshake => Self::end_of_handshake(slf)?,
            Phase::Wrapped => {
                Self::flush_gathered(slf)?;
                if this.phase(py) != Phase::Wrapped {
                    return Ok(false);
                }
                this.set_phase(py, Phase::Flushing);
                if this.state.with(py, |s| s.is_reading_paused) {
                    return Ok(true);
                }
                Self::flush_and_shut_down(slf)?;
                // Otherwise what was received would be lost.
                return Ok(this.phase(py) == Phase::Flushing);
            }
            Phase::Flushing => {
                Self::flush_and_shut_down(slf)?;
                return Ok(this.phase(py) == Phase::Flushing);
            }
            Phase::Shutdown => Self::shut_down(slf)?,
            Phase::Unwrapped => {}
        }
        Ok(false)
    }

    /// What the program's protocol has not taken of what came before the end of a connection that is lost now.
    fn take_last_buffers(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_due = || {
            this.state.with(py, |s| {
                let may_take = s.has_eof && !s.is_closed && !s.is_reading_paused;
                may_take && s.phase == Phase::Flushing && std::mem::take(&mut s.is_read_due)
            })
        };
        if !is_due() {
            return Ok(());
        }
        Self::read_on(slf)?;
        while is_due() {
            Self::read_on(slf)?;
        }
        Self::call_eof_received(slf)
    }

    /// Starts the close, once. It may call the protocol, with data that was received.
    pub fn start_shutdown(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().in_context(slf.py(), || Self::start_own_shutdown(slf))
    }

    fn start_own_shutdown(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        Self::flush_gathered(slf)?;
        match this.phase(py) {
            Phase::Flushing if this.state.with(py, |s| s.is_reading_paused && s.is_closed) => {
                // The peer has ended the connection. The program has paused reading and now closes, so the rest is
                // dropped.
                this.start_shutdown_timer(slf)?;
                Self::flush_and_shut_down(slf)
            }
            Phase::Flushing if this.state.with(py, |s| s.is_closed) => {
                this.start_shutdown_timer(slf)
            }
            Phase::Unwrapped | Phase::Flushing | Phase::Shutdown => Ok(()),
            Phase::Handshake => {
                this.state.with(py, |s| {
                    s.is_closed = true;
                    s.phase = Phase::Unwrapped;
                });
                this.force_close_under(py, None)
            }
            Phase::Wrapped => {
                this.state.with(py, |s| {
                    s.is_closed = true;
                    s.phase = Phase::Flushing;
                });
                this.start_shutdown_timer(slf)?;
                Self::flush_and_shut_down(slf)
            }
        }
    }

    /// Reads received data and encrypts written data, then sends close_notify.
    pub fn flush_and_shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if Self::is_deferred(slf, go_on) {
            return Ok(());
        }
        if let Some(error) = this.state.with(py, |s| s.failure.take()) {
            Self::process_outgoing(slf)?;
            return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
        }
        Self::read_on(slf)?;
        // A callback of the program may have ended it meanwhile.
        if this.phase(py) != Phase::Flushing {
            return Ok(());
        }
        let has_more = this.state.with(py, |s| {
            let may_take = s.has_eof && !s.is_closed && matches!(s.app, App::Made);
            may_take && (s.is_read_due || s.is_reading_paused)
        });
        if has_more {
            // The peer has sent its last, and the program has not taken all of it.
            return Ok(());
        }
        Self::write_all(slf)?;
        if this.state.with(py, |s| s.is_reading_paused) {
            // Nobody will read it, but OpenSSL does not shut down before it is read.
            this.drop_unread(slf)?;
            this.control_reading(py)?;
        }
        if this.phase(py) != Phase::Flushing {
            return Ok(());
        }
        this.set_phase(py, Phase::Shutdown);
        Self::shut_down(slf)
    }

    fn drop_unread(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let mut room = [MaybeUninit::uninit(); DROPPED];
        loop {
            match self.library.read(py, &mut room) {
                Ok(Plain::Data(_)) => {}
                Ok(Plain::Nothing | Plain::Ended) => return Ok(()),
                Err(error) => {
                    return Self::fatal_if_exception(slf, error, "Fatal error on SSL protocol");
                }
            }
        }
    }

    pub fn shut_down(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.state.with(py, |s| s.drops_input) {
            this.drop_unread(slf)?;
            if this.phase(py) != Phase::Shutdown {
                return Ok(());
            }
        }
        if !this.state.with(py, |s| s.has_eof) {
            match this.library.shut_down(py) {
                Ok(Step::Done) => {}
                Ok(Step::Wanting) => return Self::process_outgoing(slf),
                Err(error) if error.matches(py, imports::ssl_error(py)?)? => {
                    return Self::fatal(slf, error, "Fatal error on transport");
                }
                Err(error) => return Err(error),
            }
        }
        Self::process_outgoing(slf)?;
        Self::call_eof_received(slf)?;
        let Some(under) = this.under(py) else { return Ok(()) };
        // The timer runs until the connection is lost, so that a peer that does not read the rest cannot keep it open
        // forever.
        this.start_shutdown_timer(slf)?;
        let close = under.object(py).getattr(intern!(py, "close"))?;
        this.owner.bind(py).call_method1(intern!(py, "call_soon"), (close,)).map(drop)
    }

    fn start_shutdown_timer(&self, slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        // Who lets it drop the input looks itself whether the peer reads: one that does, slowly, is not ended.
        if self.state.with(py, |s| s.shutdown_timer.is_some() || s.drops_input) {
            return Ok(());
        }
        let timer = Self::call_later(slf, self.timeouts.shutdown_s, "_check_shutdown_timeout")?;
        self.state.with(py, |s| s.shutdown_timer = Some(timer.unbind()));
        Ok(())
    }

    /// Calls `eof_received` of the program's protocol, once.
    pub fn call_eof_received(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let protocol = this.state.with(py, |s| match s.app {
            App::Made => {
                s.app = App::Eof;
                s.protocol.as_ref().map(|p| p.object.bind(py).clone())
            }
            _ => None,
        });
        let Some(protocol) = protocol else { return Ok(()) };
        let name = intern!(py, "eof_received");
        let told = protocol.call_method0(name).and_then(|keep| keep.is_truthy());
        let ended = this.owner.get().lap_method(this.owner.bind(py), &protocol, name);
        let done = match told {
            Ok(false) => Ok(()),
            // It takes the rest when it is told of the loss.
            Ok(true) if protocol.is_exact_instance_of::<Self>() => Ok(()),
            Ok(true) => {
                let text = "returning true from eof_received() has no effect when using ssl";
                imports::logger(py)?.call_method1(intern!(py, "warning"), (text,)).map(drop)
            }
            Err(error) if is_exit(py, &error) => Err(error),
            Err(error) => Self::fatal(slf, error, "Error calling eof_received()"),
        };
        done.and(ended)
    }
}

/// Whether an error is that of a system call. `SSLError` is an OSError too: behind it nothing can be decrypted.
fn is_of_socket(error: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(error.is_instance_of::<PyOSError>()
        && !error.is_instance(&imports::ssl_error(error.py())?)?)
}

/// Continues a step that another thread had delayed.
fn go_on(_owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let slf = object.cast_exact::<TlsTransport>()?;
    let py = slf.py();
    match slf.get().phase(py) {
        Phase::Flushing => slf.get().in_context(py, || TlsTransport::flush_and_shut_down(slf)),
        _ => Ok(()),
    }
}

/// KeyboardInterrupt and SystemExit leave the loop (S7).
pub fn is_exit(py: Python<'_>, error: &PyErr) -> bool {
    use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}
