//! `call_soon`, `call_soon_threadsafe`, `call_later`, `call_at`: every callback of a program passes through one of
//! these methods.

use super::core::{LoopCore, Ready};
use super::handle::{Cancel, Handle};
use super::ready::Timer;
use super::timer_handle::{CancelTimer, TimerHandle};
use super::turnstile::Turnstile;
use super::work::{Args, Call, Work};
use crate::errors;
use crate::ffi::fallible;
use crate::ffi::method::{self, Arguments, FastMethod};
use crate::ffi::{Object, context, recycled};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::PyTuple;
use std::ffi::CStr;

/// Returns the argument `context`, or `None` if it is None. TypeError for any other keyword argument.
#[inline]
fn given_context<'a, 'py>(
    py: Python<'py>,
    function: &str,
    arguments: &Arguments<'a, 'py>,
) -> PyResult<Option<Borrowed<'a, 'py, PyAny>>> {
    /// C code such as futures and tasks uses one tuple of names for all its calls. The names are not interned, and
    /// comparing them would cost as much as the rest of `call_soon`.
    static FROM_C: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let Some((names, values)) = arguments.named() else { return Ok(None) };
    let given = if FROM_C.get(py).is_some_and(|known| known.is(names)) {
        values.first().copied()
    } else {
        let name = intern!(py, "context");
        let given = arguments.only_keyword(function, name)?;
        if names.len() == 1 && !names.get_borrowed_item(0)?.is(name) {
            FROM_C.get_or_init(py, || names.to_owned().unbind());
        }
        given
    };
    Ok(given.filter(|given| !given.is_none()))
}

/// Splits `(callback, *args, context=None)` after `skip` leading arguments.
#[inline]
fn work(
    py: Python<'_>,
    function: &str,
    skip: usize,
    arguments: &Arguments<'_, '_>,
) -> PyResult<Work> {
    let Some(callback) = arguments.positional().get(skip) else {
        return Err(PyTypeError::new_err(format!(
            "{function}() missing required argument: 'callback'"
        )));
    };
    let context = match given_context(py, function, arguments)? {
        Some(given) => Object::new((*given).clone()),
        None => Object::new(context::copy_current(py)?),
    };
    let args = Args::from_slice(py, &arguments.positional()[skip + 1..])?;
    Ok(Work::new(Call { callback: Object::new((*callback).to_owned()), args }, context))
}

/// Reorders a call that passes some of the arguments before `*args` by keyword. `None` if it passes none by keyword.
#[cold]
fn by_position<'py>(
    this: Borrowed<'_, 'py, LoopCore>,
    method: &str,
    leading: &[&str],
    arguments: &Arguments<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = this.py();
    let Some((names, values)) = arguments.named() else { return Ok(None) };
    let named = fallible::dict(py)?;
    for (name, value) in names.iter().zip(values) {
        named.set_item(name, value)?;
    }
    let mut given: Vec<_> = arguments.positional().iter().map(|a| (*a).to_owned()).collect();
    let before = given.len();
    for name in leading.iter().skip(before) {
        let Some(value) = named.get_item(name)? else { return Ok(None) };
        named.del_item(name)?;
        given.push(value);
    }
    // Not looked up on `this`: a subclass may have overridden the method and called us from there.
    given.insert(0, this.to_owned().into_any());
    let method = LoopCore::type_object(py).getattr(method)?;
    method.call(fallible::tuple_of(py, given.into_iter())?, Some(&named)).map(Some)
}

/// In debug mode, makes the standard library's handles, which record where they were created.
fn debug<'py>(
    this: Borrowed<'_, 'py, LoopCore>,
    method: &str,
    skip: usize,
    arguments: &Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    let context = arguments.only_keyword(method, intern!(py, "context"))?;
    let Some(callback) = arguments.positional().get(skip) else {
        return Err(PyTypeError::new_err(format!(
            "{method}() missing required argument: 'callback'"
        )));
    };
    let rest = arguments.positional()[skip + 1..].iter().map(|a| (*a).to_owned());
    let args = fallible::tuple_of(py, rest.collect::<Vec<_>>().into_iter())?;
    let first = arguments.positional()[..skip].first().map(|a| (*a).to_owned());
    this.call_method1(
        intern!(py, "_debug_call"),
        (method, first, (*callback).to_owned(), args, context.map(pyo3::Borrowed::to_owned)),
    )
}

struct CallSoon;

impl FastMethod for CallSoon {
    type Class = LoopCore;
    const NAME: &'static CStr = c"call_soon";
    const DOC: &'static CStr = c"call_soon($self, callback, /, *args, context=None)\n--\n\nRun callback(*args) in the next tick, in order; returns a Handle.\n\nLoop's thread only; other threads use call_soon_threadsafe().";

    fn call<'py>(
        this: Borrowed<'_, 'py, LoopCore>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        if arguments.positional().is_empty()
            && let Some(done) = by_position(this, "call_soon", &["callback"], &arguments)?
        {
            return Ok(done);
        }
        this.get().check_closed()?;
        if this.get().is_debug() {
            return debug(this, "call_soon", 0, &arguments);
        }
        let handle = recycled::make(
            py,
            Handle { work: work(py, "call_soon", 0, &arguments)?, turnstile: Turnstile::open() },
        )?;
        let queued = handle.clone().unbind();
        if !this.get().is_running() {
            recycled::track(py, &queued);
        }
        this.get().ready.with(py, |ready| ready.push_back(Ready::Handle(queued)));
        // After a call from the wrong thread, the callback must not wait until something else wakes the loop.
        this.get().wake()?;
        Ok(handle.into_any())
    }
}

struct CallSoonThreadsafe;

impl FastMethod for CallSoonThreadsafe {
    type Class = LoopCore;
    const NAME: &'static CStr = c"call_soon_threadsafe";
    const DOC: &'static CStr = c"call_soon_threadsafe($self, callback, /, *args, context=None)\n--\n\nLike call_soon(), from any thread; wakes a sleeping loop.";

    fn call<'py>(
        this: Borrowed<'_, 'py, LoopCore>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        if arguments.positional().is_empty()
            && let Some(done) =
                by_position(this, "call_soon_threadsafe", &["callback"], &arguments)?
        {
            return Ok(done);
        }
        this.get().check_closed()?;
        if this.get().is_debug() {
            return debug(this, "call_soon_threadsafe", 0, &arguments);
        }
        let work = work(py, "call_soon_threadsafe", 0, &arguments)?;
        let handle = recycled::make(py, Handle { work, turnstile: Turnstile::shared() })?;
        let queued = handle.clone().unbind();
        if !this.get().is_running() {
            recycled::track(py, &queued);
        }
        this.get().ready.with(py, |ready| ready.push_back(Ready::Handle(queued)));
        this.get().wake()?;
        Ok(handle.into_any())
    }
}

/// The first nanosecond at which `loop.time()` returns `when_s` or more, so that nothing runs early: `ns / 1e9 >=
/// when_s` holds for the result, in floating point too. Infinity never becomes due; a time in the past is due
/// immediately.
fn deadline_ns(when_s: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // `as` saturates, which is the right result at both ends.
    let mut ns = (when_s * 1e9).ceil() as u64;
    // After 104 days of uptime a float cannot represent every nanosecond, and both roundings may be too low.
    let mut step = 1;
    while (ns as f64) / 1e9 < when_s && ns < u64::MAX {
        ns = ns.saturating_add(step);
        step *= 2;
    }
    ns
}

fn schedule<'py>(
    this: Borrowed<'_, 'py, LoopCore>,
    when_s: f64,
    now_ns: u64,
    work: Work,
) -> PyResult<Bound<'py, PyAny>> {
    let py = this.py();
    let owner = LoopCore::timer_queue(&this);
    let handle = recycled::make(py, TimerHandle::new(work, when_s, owner))?;
    let queued = handle.clone().unbind();
    if !this.get().is_running() {
        recycled::track(py, &queued);
    }
    let key = this.get().push_timer(py, deadline_ns(when_s), now_ns, Timer::Native(queued))?;
    handle.get().set_key(key);
    Ok(handle.into_any())
}

fn number(arguments: &Arguments<'_, '_>, name: &str, none: &'static str) -> PyResult<f64> {
    let Some(value) = arguments.positional().first() else {
        return Err(PyTypeError::new_err(format!("missing required argument: '{name}'")));
    };
    if value.is_none() {
        return Err(PyTypeError::new_err(none));
    }
    value.extract()
}

struct CallLater;

impl FastMethod for CallLater {
    type Class = LoopCore;
    const NAME: &'static CStr = c"call_later";
    const DOC: &'static CStr = c"call_later($self, delay, callback, /, *args, context=None)\n--\n\nRun callback(*args) after delay seconds, never earlier; returns a TimerHandle.";

    fn call<'py>(
        this: Borrowed<'_, 'py, LoopCore>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        if arguments.positional().len() < 2
            && let Some(done) = by_position(this, "call_later", &["delay", "callback"], &arguments)?
        {
            return Ok(done);
        }
        let delay_s = number(&arguments, "delay", "delay must not be None")?;
        this.get().check_closed()?;
        if this.get().is_debug() {
            return debug(this, "call_later", 1, &arguments);
        }
        let work = work(py, "call_later", 1, &arguments)?;
        let now_ns = this.get().now_ns(py);
        schedule(this, now_ns as f64 / 1e9 + delay_s, now_ns, work)
    }
}

struct CallAt;

impl FastMethod for CallAt {
    type Class = LoopCore;
    const NAME: &'static CStr = c"call_at";
    const DOC: &'static CStr = c"call_at($self, when, callback, /, *args, context=None)\n--\n\nRun callback(*args) when loop.time() reaches when, never earlier; returns a TimerHandle.";

    fn call<'py>(
        this: Borrowed<'_, 'py, LoopCore>,
        arguments: Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        if arguments.positional().len() < 2
            && let Some(done) = by_position(this, "call_at", &["when", "callback"], &arguments)?
        {
            return Ok(done);
        }
        let when_s = number(&arguments, "when", "when cannot be None")?;
        this.get().check_closed()?;
        if this.get().is_debug() {
            return debug(this, "call_at", 1, &arguments);
        }
        // The time is not needed: a timer that is made with an old one is only moved once more.
        schedule(this, when_s, 0, work(py, "call_at", 1, &arguments)?)
    }
}

pub(crate) fn add_methods(py: Python<'_>) -> PyResult<()> {
    method::add::<CallSoon>(py)?;
    method::add::<CallSoonThreadsafe>(py)?;
    method::add::<CallLater>(py)?;
    method::add::<CallAt>(py)?;
    method::add_bare::<Cancel>(py)?;
    method::add_bare::<CancelTimer>(py)
}

impl LoopCore {
    /// From any thread: makes the loop process its queue, even if it is asleep.
    pub(super) fn wake(&self) -> PyResult<()> {
        self.waker.wake().map_err(|e| errors::os_error("eventfd write", &e))
    }
}

#[pymethods]
impl LoopCore {
    /// Debug mode: queues an asyncio.Handle.
    fn _push_ready(&self, py: Python<'_>, handle: Py<PyAny>) {
        self.ready.with(py, |ready| ready.push_back(Ready::Stock(handle)));
    }

    /// Debug mode: queues an asyncio.Handle from any thread.
    fn _push_threadsafe(&self, py: Python<'_>, handle: Py<PyAny>) -> PyResult<()> {
        self._push_ready(py, handle);
        self.wake()
    }

    /// Debug mode: queues an asyncio.TimerHandle.
    fn _push_timer(&self, py: Python<'_>, when: f64, handle: Py<PyAny>) -> PyResult<()> {
        self.push_stock_timer(py, deadline_ns(when), handle)
    }

    /// Called by asyncio.TimerHandle.cancel().
    fn _timer_handle_cancelled(&self, handle: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = handle.py();
        if handle.getattr(intern!(py, "_scheduled"))?.is_truthy()? {
            self.remove_stock_timer(handle)?;
        }
        Ok(())
    }
}
