//! `Ending`: the life cycle that all transports share, from the first callback to the last.
//!
//! Every end of a transport passes through `mark_lost` once. Then `finish` runs once, in the next tick or, from
//! `end_now`, immediately. Both are infallible (S9): errors on the way are reported, and the following steps are still
//! done. The registration ends first, so that the descriptor's number is no longer registered when it is closed (S4).

use super::descriptor::Descriptor;
use super::life::{self, Life};
use super::own_context::OwnContext;
use super::registration::Registration;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use crate::ffi::values::ToPython;
use pyo3::PyClass;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

/// The state that every transport owns.
pub struct Body {
    pub owner: Py<LoopCore>,
    pub context: OwnContext,
    /// The tick in which reading was resumed. Events that this tick's poll returned belong to the reader before it.
    resumed_in_tick: LoopCell<u64>,
    pub descriptor: Descriptor,
    pub registration: Registration,
    /// The meter counts it, and `connection_made` was called or is in the ready queue, where the end can follow it.
    pub(super) has_begun: LoopCell<bool>,
    /// `Some` once `connection_lost` is scheduled.
    lost_with: LoopCell<Option<Lost>>,
}

/// The argument of `connection_lost`.
struct Lost(Option<Py<PyAny>>);

impl Body {
    /// `context`: `None` for a copy of the current one.
    pub fn new(
        owner: &Bound<'_, LoopCore>,
        descriptor: Descriptor,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(Self {
            owner: owner.clone().unbind(),
            context: OwnContext::new(owner.py(), context)?,
            resumed_in_tick: LoopCell::new(0),
            descriptor,
            registration: Registration::default(),
            has_begun: LoopCell::new(false),
            lost_with: LoopCell::new(None),
        })
    }

    /// Raises RuntimeError where asyncio raises it when a transport schedules its end: on a closed loop, and in debug
    /// mode in a thread other than the loop's.
    fn refuse_ending(&self) -> PyResult<()> {
        let owner = self.owner.get();
        owner.check_closed()?;
        if owner.is_debug() {
            Python::attach(|py| self.owner.call_method0(py, intern!(py, "_check_thread")))?;
        }
        Ok(())
    }

    /// True while the loop serves events that were polled before reading was resumed.
    pub fn has_just_resumed(&self, py: Python<'_>) -> bool {
        self.resumed_in_tick.get(py) >= self.owner.get().event_tick()
    }

    /// Resumes reading from the next poll on.
    pub fn resume_reading(&self, py: Python<'_>) {
        self.resumed_in_tick.set(py, self.owner.get().tick_number(py));
    }

    pub fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.owner)?;
        self.context.visit(visit)?;
        self.lost_with
            .peek(|lost| lost.as_ref().map_or(Ok(()), |Lost(exc)| visit.call(exc)))
            .unwrap_or(Ok(()))?;
        self.descriptor.visit(visit)
    }
}

pub trait Ending: PyClass<Frozen = True> + Sync {
    fn body(&self) -> &Body;
    fn life(&self, py: Python<'_>) -> Life;
    fn set_life(&self, py: Python<'_>, life: Life);
    fn protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>>;
    /// Drops the protocol, after its last callback.
    fn forget_protocol(&self, py: Python<'_>);
    /// Sends gathered data that was never tried. Runs callbacks of the protocol, and may lose the transport.
    fn send_gathered(_slf: &Bound<'_, Self>) -> PyResult<()> {
        Ok(())
    }
    /// True if there is nothing left to send.
    fn is_drained(&self, _py: Python<'_>) -> bool {
        true
    }
    /// Tries once to send what was never tried, and drops the rest. Runs no callbacks and returns no error, because
    /// no callback is left that could receive it.
    fn clear_queue(&self, _py: Python<'_>) {}
    /// True for errors that are only logged in debug mode.
    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool;
    /// Updates the transport's interest in the poller.
    fn watch(&self, slf: &Bound<'_, Self>) -> std::io::Result<()>;
    /// Called after `connection_lost`, while the descriptor is still open.
    fn before_close(&self, _py: Python<'_>) {}
    /// Called when the descriptor is closed: notifies others that wait for the end.
    fn closed(_slf: &Bound<'_, Self>) -> PyResult<()> {
        Ok(())
    }
}

/// Adds the transport to the loop: `connection_made`, reading and the waiter follow in the next tick.
pub fn begin<T: Ending>(slf: &Bound<'_, T>, waiter: Option<Py<PyAny>>) -> PyResult<()> {
    let py = slf.py();
    if let Some(protocol) = slf.get().protocol(py) {
        // The AttributeError is raised where the transport is made, as in asyncio, and not later in the loop.
        protocol.getattr(intern!(py, "connection_made"))?;
    }
    let start = (slf.clone(), waiter).to_python(py)?;
    let owner = slf.get().body().owner.get();
    owner.meter.with(py, |meter| meter.open_transports += 1);
    slf.get().body().has_begun.set(py, true);
    owner.run_soon(py, start.unbind(), start_soon::<T>);
    Ok(())
}

/// A native completion with `(transport, waiter or None)`, run one tick after the transport was made.
fn start_soon<T: Ending>(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let (slf, waiter): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = object.extract()?;
    let started = start(owner, slf.cast::<T>()?);
    let Some(waiter) = waiter else { return started };
    if started.is_err() {
        // An exception leaves the loop; the remaining steps follow when it runs again.
        owner.get().run_soon(owner.py(), waiter.unbind(), |_, waiter| life::resolve(waiter));
        return started;
    }
    life::resolve(&waiter)
}

/// A transport's first callback, and the steps after it.
pub fn start<T: Ending>(owner: &Bound<'_, LoopCore>, slf: &Bound<'_, T>) -> PyResult<()> {
    let py = owner.py();
    let this = slf.get();
    this.body().has_begun.set(py, true);
    owner.get().remove_unbegun(this.body().descriptor.fd(py).ok(), slf.as_any());
    let made = match this.protocol(py) {
        Some(protocol) => {
            life::connection_made(owner, &this.body().context, slf.as_any(), &protocol)
        }
        None => Ok(()),
    };
    if this.life(py) == Life::New {
        this.set_life(py, Life::Open);
    }
    if made.is_err() {
        // An exception leaves the loop; reading begins when it runs again, as in asyncio.
        owner.get().run_soon(py, slf.clone().into_any().unbind(), |_, slf| watch(slf.cast::<T>()?));
        return made;
    }
    watch(slf)
}

/// Updates the transport's interest in the poller. If that fails, the transport cannot continue and ends.
pub fn watch<T: Ending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let py = slf.py();
    if slf.get().life(py).is_ended() {
        return Ok(());
    }
    slf.get().body().owner.get().check_closed()?;
    slf.get().watch(slf).or_else(|e| {
        let error = errors::os_error_on("epoll_ctl", slf.get().body().descriptor.fd(py), &e);
        fatal(slf, error, "Fatal error: cannot watch descriptor")
    })
}

/// Ends the transport with an error. KeyboardInterrupt and SystemExit are returned to the caller (S7).
pub fn fatal<T: Ending>(slf: &Bound<'_, T>, error: PyErr, message: &str) -> PyResult<()> {
    let py = slf.py();
    if error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py) {
        return Err(error);
    }
    let this = slf.get();
    let value = error.value(py).clone().into_any();
    let quiet = T::is_quiet(py, &error);
    let protocol = this.protocol(py);
    let owner = this.body().owner.bind(py);
    let notified = this.body().context.run(py, || {
        life::report_fatal(owner, slf.as_any(), protocol.as_ref(), message, error, quiet)
    });
    force_close(slf, Some(value));
    notified
}

/// Closes after all queued data is sent; a second call does nothing.
pub fn close<T: Ending>(slf: &Bound<'_, T>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    if !this.life(py).is_live() {
        return Ok(());
    }
    this.body().refuse_ending()?;
    // Gathered data counts as sent when it was written, so an empty queue ends the transport now.
    let sent = T::send_gathered(slf);
    if this.life(py).is_live() {
        if this.is_drained(py) {
            lose(slf, None);
        } else {
            this.set_life(py, Life::Closing);
            return sent.and(watch(slf));
        }
    }
    sent
}

/// `abort()`: `force_close` for the program.
pub fn abort<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    if !slf.get().life(slf.py()).is_ended() {
        slf.get().body().refuse_ending()?;
        force_close(slf, exc);
    }
    Ok(())
}

/// Tries once to send what was never tried, drops the rest and schedules `connection_lost(exc)`.
pub fn force_close<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) {
    if !slf.get().life(slf.py()).is_ended() {
        slf.get().clear_queue(slf.py());
        lose(slf, exc);
    }
}

/// Schedules `connection_lost(exc)`, once.
pub fn lose<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) {
    let py = slf.py();
    if mark_lost(slf, exc) {
        let body = slf.get().body();
        let owner = body.owner.get();
        // An accepted connection begins two ticks after the accept: its end follows in the third.
        let next = if body.has_begun.get(py) { finish::<T> } else { finish_later::<T> };
        owner.run_soon(py, slf.clone().into_any().unbind(), next);
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a native completion")]
fn finish_later<T: Ending>(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    owner.get().run_soon(owner.py(), object.clone().unbind(), finish_soon::<T>);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "a native completion")]
fn finish_soon<T: Ending>(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    owner.get().run_soon(owner.py(), object.clone().unbind(), finish::<T>);
    Ok(())
}

/// The queue of a closing transport has become empty in a callback from the poller: `connection_lost` follows
/// immediately.
pub fn end_now<T: Ending>(slf: &Bound<'_, T>) -> PyResult<()> {
    if !mark_lost(slf, None) {
        return Ok(());
    }
    finish::<T>(slf.get().body().owner.bind(slf.py()), slf.as_any())
}

/// The first step of the end. Returns false if it was already taken.
fn mark_lost<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) -> bool {
    let py = slf.py();
    let this = slf.get();
    if this.life(py).is_ended() {
        return false;
    }
    this.set_life(py, Life::Lost);
    let body = this.body();
    body.lost_with.with(py, |slot| *slot = Some(Lost(exc.map(Bound::unbind))));
    body.registration.end(body.owner.get(), slf.as_any(), body.descriptor.fd(py).is_ok());
    true
}

/// The last callback of a transport: `connection_lost`, then the descriptor is closed.
fn finish<T: Ending>(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let slf = object.cast::<T>()?;
    let this = slf.get();
    let body = this.body();
    let protocol = this.protocol(py);
    let (notified, counted) = match (&protocol, body.lost_with.take(py)) {
        (Some(protocol), Some(Lost(exc))) => {
            let exc = exc.as_ref().map(|exc| exc.bind(py));
            let notified = life::connection_lost(&body.context, protocol, exc);
            (notified, owner.get().lap_method(owner, protocol, intern!(py, "connection_lost")))
        }
        _ => (Ok(()), Ok(())),
    };
    this.set_life(py, Life::Closed);
    this.forget_protocol(py);
    this.before_close(py);
    let closed = body.descriptor.close(py);
    owner.get().meter.with(py, |meter| meter.open_transports -= 1);
    let mut outcome = counted;
    for step in [notified, closed, T::closed(slf)] {
        if let Err(error) = step {
            let text = "Exception in callback: protocol.connection_lost() failed.";
            let notified = body
                .context
                .run(py, || life::report_failure(owner, object, protocol.as_ref(), text, error));
            outcome = outcome.and(notified);
        }
    }
    outcome
}
