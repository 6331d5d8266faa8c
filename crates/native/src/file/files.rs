//! `Files`: the file operations of one loop: its engines, and their start and end.
//!
//! The life of an operation is in `operations`; the engines' place in poller and tick is in `reaping`. Belongs to the
//! loop's thread (S5).

use super::budget::Budget;
use super::deferred::Deferred;
use super::descriptors::Descriptors;
use super::pending::Pending;
use super::scratch::Scratch;
use crate::errors;
use crate::event_loop::LoopCore;
use crate::ffi::LoopCell;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use oneloop_engine::Token;
use oneloop_engine::files::{Choice, Engines, probe};
use oneloop_engine::sys::file;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::io;
use std::time::{Duration, Instant};

/// How long `shut` waits for running operations.
const PATIENCE: Duration = Duration::from_secs(2);

/// All file operations of one loop.
#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Files {
    pub(super) owner: Py<LoopCore>,
    /// `None` once shut down.
    pub(super) engines: LoopCell<Option<Engines<Pending>>>,
    pub(super) budget: LoopCell<Budget>,
    pub(super) deferred: LoopCell<Deferred>,
    pub(super) descriptors: LoopCell<Descriptors>,
    pub(super) scratch: LoopCell<Scratch>,
    pub(super) is_flush_scheduled: LoopCell<bool>,
    pub(super) ring_token: LoopCell<Option<Token>>,
    pub(super) direct_token: LoopCell<Option<Token>>,
    pub(super) pool_token: LoopCell<Option<Token>>,
    /// Engines that do not work here, and the reasons.
    refused: LoopCell<Vec<(Choice, String)>>,
    choice: LoopCell<Choice>,
}

/// The error for a requested engine that is not available, with the reason and advice.
fn forbidden(choice: Choice, error: &io::Error) -> PyErr {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel or a sandbox does not provide it",
        Some(libc::EPERM | libc::EACCES) => {
            "it is forbidden by a sandbox (for example Docker's seccomp profile) or by \
             kernel.io_uring_disabled"
        }
        Some(libc::ENOMEM) => "there is not enough memory (RLIMIT_MEMLOCK on older kernels)",
        _ => "it does not work here",
    };
    let name = choice.name();
    let text = format!(
        "the file engine {name:?} was requested, but {why}: {error}. Let oneloop choose the engine, \
         or request \"threads\" (ONELOOP_FILES=threads)"
    );
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, text)),
        None => PyRuntimeError::new_err(text),
    }
}

fn chosen(engine: Option<&str>) -> PyResult<(Choice, Vec<(Choice, io::Error)>)> {
    let choice = match engine {
        None => return Ok(probe::best()),
        Some("ring") => Choice::Ring,
        Some("aio") => Choice::Aio,
        Some("threads") => Choice::Threads,
        Some(other) => {
            return Err(PyValueError::new_err(format!(
                "unknown file engine {other:?}: use \"ring\", \"aio\" or \"threads\""
            )));
        }
    };
    probe::trial(choice).map_err(|e| forbidden(choice, &e))?;
    Ok((choice, Vec::new()))
}

impl Files {
    /// The kernel refuses this engine from now on: threads do its work.
    pub(super) fn has_lost(&self, py: Python<'_>, choice: Choice, error: &io::Error) {
        self.choice.set(py, Choice::Threads);
        self.refused.with(py, |refused| refused.push((choice, error.to_string())));
    }
}

#[pymethods]
impl Files {
    /// Make the operations of `loop`, on the named engine or the best one that works.
    #[new]
    #[pyo3(signature = (r#loop, engine = None))]
    fn new(r#loop: &Bound<'_, LoopCore>, engine: Option<&str>) -> PyResult<Py<Self>> {
        let py = r#loop.py();
        let (choice, refused) = chosen(engine)?;
        let engines = Engines::new(choice).map_err(|e| forbidden(choice, &e))?;
        let files = Self {
            owner: r#loop.clone().unbind(),
            engines: LoopCell::new(Some(engines)),
            budget: LoopCell::default(),
            deferred: LoopCell::default(),
            descriptors: LoopCell::default(),
            scratch: LoopCell::default(),
            is_flush_scheduled: LoopCell::new(false),
            ring_token: LoopCell::default(),
            direct_token: LoopCell::default(),
            pool_token: LoopCell::default(),
            refused: LoopCell::new(refused.into_iter().map(|(c, e)| (c, e.to_string())).collect()),
            choice: LoopCell::new(choice),
        };
        let files = Bound::new(py, files)?;
        files.get().register(&files)?;
        Ok(files.unbind())
    }

    /// The name of the engine: ring, aio or threads.
    #[getter]
    fn engine(&self, py: Python<'_>) -> Value<&'static str> {
        Value(self.choice.get(py).name())
    }

    /// The data for `oneloop.files.engine_info()`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = fallible::dict(py)?;
        let (under_way, threads) = self
            .engines
            .with(py, |engines| engines.as_ref().map_or((0, 0), |e| (e.under_way(), e.threads())));
        let refused = fallible::dict(py)?;
        for (choice, why) in self.refused.with(py, |refused| refused.clone()) {
            refused.set_item(fallible::text(py, choice.name())?, fallible::text(py, &why)?)?;
        }
        info.set_item(intern!(py, "engine"), fallible::text(py, self.choice.get(py).name())?)?;
        info.set_item(intern!(py, "refused"), refused)?;
        info.set_item(intern!(py, "operations"), under_way)?;
        info.set_item(intern!(py, "threads"), threads)?;
        Ok(info)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }

    /// Shut down the engines, when the loop is closed. Waits briefly for running operations.
    fn shut(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let owner = this.owner.get();
        let tokens = [&this.ring_token, &this.direct_token, &this.pool_token];
        for token in tokens.into_iter().filter_map(|token| token.take(py)) {
            owner.deregister(slf.as_any(), token);
        }
        let Some(engines) = this.engines.take(py) else { return Ok(()) };
        let mut completions = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        // Threads may need the GIL to finish.
        let _leaked = py.detach(|| engines.shut(deadline, &mut completions));
        let settled = completions.into_iter().map(Pending::abandon).fold(Ok(()), PyResult::and);
        drop(this.deferred.with(py, Deferred::take_all));
        let closings = this.descriptors.with(py, Descriptors::take_closings);
        let closed = closings.iter().map(|(fd, _)| file::close(*fd)).fold(Ok(()), io::Result::and);
        closed.map_err(|e| errors::file_error(&e))?;
        settled
    }
}
