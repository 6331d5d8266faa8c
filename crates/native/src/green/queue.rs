//! `QueueCore`: a first-in, first-out queue, and its put and get operations that do not wait.
//!
//! An item goes directly to the getter that has waited longest. Free room is reserved for the putter that has waited
//! longest, until it continues and puts its item in, or is killed. Each check of the queue and the action after it
//! run without another thread in between, because no Python code runs there. Subclasses with another order of items
//! use Python code, `_put_lined` and `_get_lined`.

use super::limit::{Limit, timed_out, wait};
use super::line::LineCore;
use super::places::{Places, wake};
use super::{HubCore, Truth, Waiter};
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};

#[derive(Default)]
struct State {
    /// A deque; `None` before it is assigned.
    items: Option<Object>,
    /// Waiters for room.
    putters: Places,
    /// The number of slots reserved for putters that were woken.
    kept: usize,
    maxsize: Option<usize>,
    is_shutdown: bool,
    /// Items leave in first-in, first-out order: no method is overridden.
    is_plain: bool,
    /// Items for which `task_done` was not called.
    unfinished: i64,
}

impl State {
    /// Whether there is room besides `length` items.
    fn has_room(&self, length: usize) -> bool {
        self.maxsize.is_none_or(|maxsize| length + self.kept < maxsize)
    }
}

/// Base class of `oneloop.green.queue.SimpleQueue`.
#[pyclass(frozen, subclass, module = "oneloop._native")]
pub struct QueueCore {
    state: LoopCell<State>,
    getters: Py<LineCore>,
    finishers: Py<LineCore>,
}

/// The result of an attempt.
enum Try {
    Done(Object),
    /// Nothing is available; the place, if any, was entered into the line.
    Waits,
    ShutDown,
}

impl QueueCore {
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.state.with(py, |s| s.items.as_ref().map(|items| items.clone_ref(py)));
        let missing = || PyValueError::new_err("the queue was not initialised");
        items.map(|items| items.bind(py).clone()).ok_or_else(missing)
    }

    /// Methods of a deque are C functions, so no other thread runs meanwhile.
    fn length(items: &Bound<'_, PyAny>) -> PyResult<usize> {
        items.len()
    }

    /// False: there is no room, and the place, if there is one, waits for it.
    fn try_put(
        slf: &Bound<'_, Self>,
        item: &Bound<'_, PyAny>,
        place: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<bool>> {
        let (py, this) = (slf.py(), slf.get());
        let items = this.items(py)?;
        let is_empty = Self::length(&items)? == 0;
        if this.state.with(py, |state| state.is_shutdown) {
            return Ok(None);
        }
        if is_empty && this.getters.get().wake_with(py, item)? {
            this.state.with(py, |state| state.unfinished += 1);
            return Ok(Some(true));
        }
        let length = Self::length(&items)?;
        let has_room = this.state.with(py, |s| s.has_room(length) && s.putters.is_empty());
        if has_room {
            items.call_method1(intern!(py, "append"), (item,))?;
            this.state.with(py, |state| state.unfinished += 1);
            return Ok(Some(true));
        }
        if let Some(place) = place {
            let place = Object::new(place.clone());
            this.state.with(py, |state| state.putters.enter(place));
        }
        Ok(Some(false))
    }

    fn try_get(slf: &Bound<'_, Self>, place: Option<&Bound<'_, PyAny>>) -> PyResult<Try> {
        let (py, this) = (slf.py(), slf.get());
        let items = this.items(py)?;
        if Self::length(&items)? > 0 {
            let item = Object::new(items.call_method0(intern!(py, "popleft"))?);
            this.fill(py, &items)?;
            return Ok(Try::Done(item));
        }
        if this.state.with(py, |state| state.is_shutdown) {
            return Ok(Try::ShutDown);
        }
        if let Some(place) = place {
            this.getters.get().add(place.clone());
        }
        Ok(Try::Waits)
    }

    /// Reserves free room for those that wait for it.
    fn fill(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut outcome = Ok(());
        loop {
            let length = Self::length(items)?;
            let place = self.state.with(py, |state| {
                let place = state.has_room(length).then(|| state.putters.next()).flatten();
                state.kept += usize::from(place.is_some());
                place
            });
            let Some(place) = place else { return outcome };
            let woken = wake(place.bind(py), py.None().bind(py));
            if !matches!(woken, Ok(true)) {
                self.state.with(py, |state| state.kept -= 1);
            }
            outcome = outcome.and(woken.map(drop));
        }
    }

    /// Puts an item into reserved room.
    fn put_kept(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let is_shutdown = this.state.with(py, |state| {
            state.kept -= 1;
            state.is_shutdown
        });
        if is_shutdown {
            return Err(PyErr::from_value(imports::shut_down(py)?.call0()?));
        }
        let items = this.items(py)?;
        if Self::length(&items)? == 0 && this.getters.get().wake_with(py, item)? {
            this.fill(py, &items)?;
        } else {
            items.call_method1(intern!(py, "append"), (item,))?;
        }
        this.state.with(py, |state| state.unfinished += 1);
        Ok(())
    }

    fn withdraw(&self, place: &Bound<'_, PyAny>) {
        drop(self.state.with(place.py(), |state| state.putters.remove(place)));
    }

    fn in_coroutine(py: Python<'_>) -> PyResult<bool> {
        Ok(!call::call0(&imports::running_loop(py)?)?.is_none())
    }
}

#[pymethods]
impl QueueCore {
    #[new]
    #[pyo3(signature = (getters, finishers, *_args, **_kwargs))]
    fn new(
        getters: Py<LineCore>,
        finishers: Py<LineCore>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> Self {
        Self { state: LoopCell::default(), getters, finishers }
    }

    /// Whether no method is overridden.
    fn _open(&self, py: Python<'_>, is_plain: bool) {
        self.state.with(py, |state| state.is_plain = is_plain);
    }

    /// The items.
    #[getter]
    fn queue<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.items(py)
    }

    #[setter]
    fn set_queue(&self, items: Bound<'_, PyAny>) {
        let py = items.py();
        let items = Object::new(items);
        let old = self.state.with(py, |state| state.items.replace(items));
        drop(old);
    }

    /// Whether items leave in first-in, first-out order, with no method overridden.
    #[getter]
    fn _is_plain(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_plain)
    }

    /// Count a new item as unfinished.
    fn _count_put(&self, py: Python<'_>) {
        self.state.with(py, |state| state.unfinished += 1);
    }

    /// Waiters for an item.
    #[getter]
    fn _getters(&self, py: Python<'_>) -> Py<LineCore> {
        self.getters.clone_ref(py)
    }

    /// Waiters for the end of all work.
    #[getter]
    fn _finishers(&self, py: Python<'_>) -> Py<LineCore> {
        self.finishers.clone_ref(py)
    }

    /// The number of waiters for room.
    #[getter]
    fn _waiting_putters(&self, py: Python<'_>) -> Value<usize> {
        Value(self.state.with(py, |state| state.putters.len()))
    }

    /// The maximum number of items; None: no limit.
    #[getter]
    fn maxsize(&self, py: Python<'_>) -> Value<Option<usize>> {
        Value(self.state.with(py, |state| state.maxsize))
    }

    #[setter]
    fn set_maxsize(&self, py: Python<'_>, maxsize: Option<isize>) -> PyResult<()> {
        let maxsize = maxsize.and_then(|maxsize| usize::try_from(maxsize).ok()).filter(|m| *m > 0);
        let is_plain = self.state.with(py, |state| {
            state.maxsize = maxsize;
            state.is_plain
        });
        if is_plain { self.fill(py, &self.items(py)?) } else { Ok(()) }
    }

    /// Whether it was shut down.
    #[getter]
    fn is_shutdown(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_shutdown)
    }

    #[setter]
    fn set_is_shutdown(&self, py: Python<'_>, is_shutdown: bool) {
        self.state.with(py, |state| state.is_shutdown = is_shutdown);
    }

    /// The number of items for which `task_done` was not called.
    #[getter]
    fn unfinished_tasks(&self, py: Python<'_>) -> Value<i64> {
        Value(self.state.with(py, |state| state.unfinished))
    }

    #[setter]
    fn set_unfinished_tasks(&self, py: Python<'_>, unfinished: i64) {
        self.state.with(py, |state| state.unfinished = unfinished);
    }

    /// Mark `count` items as done. Wakes `join` when none is left.
    fn _tasks_done(&self, py: Python<'_>, count: i64) -> PyResult<()> {
        let left = self.state.with(py, |state| {
            let left = state.unfinished - count;
            if left >= 0 {
                state.unfinished = left;
            }
            left
        });
        if left < 0 {
            return Err(PyValueError::new_err("task_done() called too many times"));
        }
        let finishers = self.finishers.get();
        while left == 0 && finishers.wake_with(py, py.None().bind(py))? {}
        Ok(())
    }

    /// Enter this place until all work is done. Returns False if it is already done.
    fn _enter_unfinished(&self, place: Bound<'_, PyAny>) -> bool {
        let is_over = self.state.with(place.py(), |state| state.unfinished <= 0);
        if !is_over {
            self.finishers.get().add(place);
        }
        !is_over
    }

    /// Put an item in, waiting for room for at most `timeout`: seconds, or a `Timeout`, which is raised. In a
    /// coroutine, if blocking, returns an awaitable.
    ///
    /// Raises:
    ///     Full: there is no room, and `block` is false or the time is over.
    ///     ShutDown: the queue was shut down.
    #[pyo3(signature = (item, block = Truth(true), timeout = None), text_signature = "($self, item, block=True, timeout=None)")]
    fn put<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
        block: Truth,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !this.state.with(py, |state| state.is_plain) || (block.0 && Self::in_coroutine(py)?) {
            return slf.call_method1(intern!(py, "_put_lined"), (item, block.0, timeout));
        }
        match Self::try_put(slf, item, None)? {
            None => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Some(true) => return Ok(py.None().into_bound(py)),
            Some(false) if !block.0 => return Err(PyErr::from_value(imports::full(py)?.call0()?)),
            Some(false) => {}
        }
        let limit = Limit::of(timeout)?;
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        match Self::try_put(slf, item, Some(waiter.as_any()))? {
            None => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Some(true) => return Ok(py.None().into_bound(py)),
            Some(false) => {}
        }
        match wait(&waiter, &limit) {
            Ok(woken) if woken.is(&timed_out(py)?) => {
                this.withdraw(waiter.as_any());
                Err(PyErr::from_value(imports::full(py)?.call0()?))
            }
            Ok(woken) if woken.is_none() => {
                Self::put_kept(slf, item)?;
                Ok(woken)
            }
            Ok(_) => Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Err(error) => {
                this.withdraw(waiter.as_any());
                if waiter.get().taken(py).is_some_and(|woken| woken.is_none()) {
                    this._give_room_back(py)?;
                }
                Err(error)
            }
        }
    }

    /// Take an item out, waiting for at most `timeout`: seconds, or a `Timeout`, which is raised. In a coroutine, if
    /// blocking, returns an awaitable of it.
    ///
    /// Raises:
    ///     Empty: there is no item, and `block` is false or the time is over.
    ///     ShutDown: the queue was shut down and is empty.
    #[pyo3(signature = (block = Truth(true), timeout = None), text_signature = "($self, block=True, timeout=None)")]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        block: Truth,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !this.state.with(py, |state| state.is_plain) || (block.0 && Self::in_coroutine(py)?) {
            return slf.call_method1(intern!(py, "_get_lined"), (block.0, timeout));
        }
        match Self::try_get(slf, None)? {
            Try::Done(item) => return Ok(item.bind(py).clone()),
            Try::ShutDown => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Try::Waits if !block.0 => return Err(PyErr::from_value(imports::empty(py)?.call0()?)),
            Try::Waits => {}
        }
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        match Self::try_get(slf, Some(waiter.as_any()))? {
            Try::Done(item) => return Ok(item.bind(py).clone()),
            Try::ShutDown => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Try::Waits => {}
        }
        let give_back = slf.getattr(intern!(py, "_item_given_back"))?;
        let item = this.getters.get().wait(&waiter, timeout, Some(&give_back))?;
        slf.call_method1(intern!(py, "_given"), (item,))
    }

    /// Put an item in if there is room, and return whether there was. Otherwise the place is woken with None when
    /// room is reserved for it; call `_put_kept` or `_give_room_back` then.
    #[pyo3(signature = (item, place))]
    fn _try_put(
        slf: &Bound<'_, Self>,
        item: &Bound<'_, PyAny>,
        place: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let put = Self::try_put(slf, item, Some(place))?;
        put.map_or_else(|| Err(PyErr::from_value(imports::shut_down(slf.py())?.call0()?)), Ok)
    }

    /// Put an item into the room that was reserved for it.
    #[pyo3(name = "_put_kept")]
    fn put_kept_py(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::put_kept(slf, item)
    }

    /// Release reserved room, because its green thread ended before using it.
    fn _give_room_back(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| state.kept -= 1);
        self.fill(py, &self.items(py)?)
    }

    /// Take an item and return it in a tuple. If there is none, return None; the place is woken with an item later.
    fn _try_get<'py>(
        slf: &Bound<'py, Self>,
        place: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = slf.py();
        match Self::try_get(slf, Some(place))? {
            Try::Done(item) => Ok(Some(fallible::tuple(py, [item.bind(py).clone()])?)),
            Try::Waits => Ok(None),
            Try::ShutDown => Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
        }
    }

    /// Remove a place that waits for room.
    fn forget(&self, place: &Bound<'_, PyAny>) {
        self.withdraw(place);
    }

    /// Wake all that wait for room with this value, without reserving room.
    fn _refuse_putters(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let mut outcome = Ok(());
        while let Some(place) = self.state.with(py, |state| state.putters.next()) {
            outcome = outcome.and(wake(place.bind(py), value).map(drop));
        }
        outcome
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.getters)?;
        visit.call(&self.finishers)?;
        let visited = self.state.peek(|state| {
            if let Some(items) = &state.items {
                items.visit(&visit)?;
            }
            state.putters.visit(&visit)
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.take(py));
    }
}
