//! `Ending`: how datagram and pipe transports end: errors, `connection_lost`, the close.
//!
//! Whatever ends a transport passes through `lose`, once; the tick then runs `finish`, once. The
//! registration goes first, so that the descriptor's number is free of us when it closes (S4).

use super::descriptor::Descriptor;
use super::life::{self, Life};
use super::registration::Registration;
use crate::errors;
use crate::event_loop::LoopCore;
use pyo3::PyClass;
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;

/// What every such transport owns.
pub struct Body {
    pub owner: Py<LoopCore>,
    /// In which the protocol's callbacks run.
    pub context: Py<PyAny>,
    pub descriptor: Descriptor,
    pub registration: Registration,
}

impl Body {
    pub fn new(owner: &Bound<'_, LoopCore>, descriptor: Descriptor) -> PyResult<Self> {
        Ok(Self {
            owner: owner.clone().unbind(),
            context: crate::ffi::context::copy_current(owner.py())?.unbind(),
            descriptor,
            registration: Registration::default(),
        })
    }

    pub fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(&self.context)?;
        self.descriptor.visit(visit)
    }
}

pub trait Ending: PyClass<Frozen = True> + Sync {
    fn body(&self) -> &Body;
    fn life(&self, py: Python<'_>) -> Life;
    fn set_life(&self, py: Python<'_>, life: Life);
    fn protocol<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>>;
    /// Gives up the protocol, after its last callback.
    fn forget_protocol(&self, py: Python<'_>);
    /// Gives up what is queued.
    fn clear_queue(&self, py: Python<'_>);
    /// Errors that only debug mode speaks of.
    fn is_quiet(py: Python<'_>, error: &PyErr) -> bool;
    /// Starts to receive, after `connection_made`.
    fn watch(&self, slf: &Bound<'_, Self>) -> std::io::Result<()>;
}

/// A transport's first callback, and what follows it.
pub fn start<T: Ending>(owner: &Bound<'_, LoopCore>, slf: &Bound<'_, T>) -> PyResult<()> {
    let py = owner.py();
    let this = slf.get();
    if let Some(protocol) = this.protocol(py) {
        life::connection_made(owner, this.body().context.bind(py), slf.as_any(), &protocol)?;
    }
    if this.life(py) == Life::New {
        this.set_life(py, Life::Open);
    }
    watch(slf)
}

/// As a native completion: `(transport, waiter or None)`, one tick after the transport was made.
pub fn start_soon<T: Ending>(
    owner: &Bound<'_, LoopCore>,
    object: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (slf, waiter): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = object.extract()?;
    start(owner, slf.cast::<T>()?)?;
    waiter.map_or(Ok(()), |waiter| life::resolve(&waiter))
}

/// Tells the poller what the transport wants now; without readiness it cannot go on.
pub fn watch<T: Ending>(slf: &Bound<'_, T>) -> PyResult<()> {
    if slf.get().life(slf.py()).is_ended() {
        return Ok(());
    }
    slf.get().watch(slf).or_else(|e| {
        let error = errors::os_error("epoll_ctl", &e);
        fatal(slf, error, "Fatal error: cannot watch descriptor")
    })
}

/// Ends the transport for an error. KeyboardInterrupt and SystemExit go to the caller (S7).
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
    life::report_fatal(owner, slf.as_any(), protocol.as_ref(), message, error, quiet)?;
    force_close(slf, Some(value))
}

/// Drops what is queued and schedules `connection_lost(exc)`.
pub fn force_close<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    slf.get().clear_queue(slf.py());
    lose(slf, exc)
}

/// Schedules `connection_lost(exc)`, once.
pub fn lose<T: Ending>(slf: &Bound<'_, T>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
    let py = slf.py();
    let this = slf.get();
    if this.life(py).is_ended() {
        return Ok(());
    }
    this.set_life(py, Life::Lost);
    let body = this.body();
    let owner = body.owner.get();
    let ended = body.registration.end(py, owner, body.descriptor.fd(py).is_ok());
    let end = (slf.clone(), exc).into_pyobject(py)?;
    owner.run_soon(py, end.into_any().unbind(), finish::<T>);
    ended
}

/// The last callback of a transport: `connection_lost`, then the descriptor closes.
fn finish<T: Ending>(owner: &Bound<'_, LoopCore>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = owner.py();
    let (slf, exc): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = object.extract()?;
    let this = slf.cast::<T>()?.get();
    let body = this.body();
    let protocol = this.protocol(py);
    let told = match &protocol {
        Some(protocol) => {
            let told = life::connection_lost(body.context.bind(py), protocol, exc.as_ref());
            owner.get().lap(owner, protocol)?;
            told
        }
        None => Ok(()),
    };
    this.set_life(py, Life::Closed);
    this.forget_protocol(py);
    let closed = body.descriptor.close(py);
    owner.get().meter.with(py, |meter| meter.open_transports -= 1);
    for outcome in [told, closed] {
        if let Err(error) = outcome {
            let text = "Exception in callback: protocol.connection_lost() failed.";
            life::report_failure(owner, &slf, protocol.as_ref(), text, error)?;
        }
    }
    Ok(())
}

/// Makes it known to the loop: `connection_made`, reading and the waiter follow in the next tick.
pub fn begin<T: Ending>(slf: &Bound<'_, T>, waiter: Option<Py<PyAny>>) -> PyResult<()> {
    let py = slf.py();
    let owner = slf.get().body().owner.get();
    owner.meter.with(py, |meter| meter.open_transports += 1);
    let start = (slf.clone(), waiter).into_pyobject(py)?;
    owner.run_soon(py, start.into_any().unbind(), start_soon::<T>);
    Ok(())
}
