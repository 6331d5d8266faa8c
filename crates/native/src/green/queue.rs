//! `QueueCore`: a queue whose items leave in the order in which they came, and the ways in and out of it that do not wait.
//!
//! An item goes straight to who has waited longest for one. Room is kept for who has waited longest for that, until it goes
//! on and puts its item in, or is killed.
//! Each look at the queue and what follows from it happens without another thread in between: no Python code runs there.
//! Subclasses that order their items in other ways go through Python, `_put_lined` and `_get_lined`.

use super::line::{self, LineCore, timed_out};
use super::{HubCore, Waiter};
use crate::ffi::{LoopCell, Object, call};
use crate::imports;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;

#[derive(Default)]
struct State {
    /// A deque; None before `_open`.
    items: Option<Object>,
    /// Those who wait for room.
    putters: VecDeque<Object>,
    /// So much room is kept for those who were woken for it.
    kept: usize,
    maxsize: Option<usize>,
    is_shutdown: bool,
    /// Items leave in the order in which they came: nothing of it is overridden.
    is_plain: bool,
    /// Items whose work is not done.
    unfinished: i64,
}

impl State {
    /// Whether there is room beside so many items.
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

/// What a try has come to.
enum Try {
    Done(Object),
    /// There is none; the place was taken, if there was one.
    Waits,
    ShutDown,
}

impl QueueCore {
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.state.with(py, |s| s.items.as_ref().map(|items| items.clone_ref(py)));
        let missing = || PyValueError::new_err("the queue was not initialised");
        items.map(|items| items.bind(py).clone()).ok_or_else(missing)
    }

    /// The calls on a deque are C, and keep other threads out.
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
            this.state.with(py, |state| state.putters.push_back(place));
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

    /// Keeps the room that there is for those who wait for it.
    fn fill(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<()> {
        loop {
            let length = Self::length(items)?;
            let place = self.state.with(py, |state| {
                let place = state.has_room(length).then(|| state.putters.pop_front()).flatten();
                state.kept += usize::from(place.is_some());
                place
            });
            let Some(place) = place else { return Ok(()) };
            if !line::wake(place.bind(py), py.None().bind(py))? {
                self.state.with(py, |state| state.kept -= 1);
            }
        }
    }

    /// Puts an item into room that was kept for it.
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
        let left = self.state.with(place.py(), |state| {
            let index = state.putters.iter().position(|other| other.as_ref().is(place))?;
            state.putters.remove(index)
        });
        drop(left);
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

    /// Have these items, of which there may be so many.
    fn _open(&self, items: Bound<'_, PyAny>, is_plain: bool) {
        let py = items.py();
        let items = Object::new(items);
        let old = self.state.with(py, |state| {
            state.is_plain = is_plain;
            state.items.replace(items)
        });
        drop(old);
    }

    /// The items.
    #[getter]
    fn queue<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.items(py)
    }

    /// Whether items leave in the order in which they came, and nothing of that is overridden.
    #[getter]
    fn _is_plain(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_plain)
    }

    /// An item has come, whose work is not done.
    fn _count_put(&self, py: Python<'_>) {
        self.state.with(py, |state| state.unfinished += 1);
    }

    /// Those who wait for an item.
    #[getter]
    fn _getters(&self, py: Python<'_>) -> Py<LineCore> {
        self.getters.clone_ref(py)
    }

    /// Those who wait until all work is done.
    #[getter]
    fn _finishers(&self, py: Python<'_>) -> Py<LineCore> {
        self.finishers.clone_ref(py)
    }

    /// How many wait for room.
    #[getter]
    fn _waiting_putters(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.putters.len())
    }

    /// How many items there may be; None: any number.
    #[getter]
    fn maxsize(&self, py: Python<'_>) -> Option<usize> {
        self.state.with(py, |state| state.maxsize)
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

    /// How many items were put in whose work is not done.
    #[getter]
    fn unfinished_tasks(&self, py: Python<'_>) -> i64 {
        self.state.with(py, |state| state.unfinished)
    }

    #[setter]
    fn set_unfinished_tasks(&self, py: Python<'_>, unfinished: i64) {
        self.state.with(py, |state| state.unfinished = unfinished);
    }

    /// The work of so many items is done; who waits for that goes on when there is none left.
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

    /// Have this place until all work is done; false if it is.
    fn _enter_unfinished(&self, place: Bound<'_, PyAny>) -> bool {
        let is_over = self.state.with(place.py(), |state| state.unfinished <= 0);
        if !is_over {
            self.finishers.get().add(place);
        }
        !is_over
    }

    /// Put an item in, waiting for room for at most so many seconds. In a coroutine, if blocking: an awaitable.
    ///
    /// Raises:
    ///     Full: there is no room, and `block` is false or the time is up.
    ///     ShutDown: the queue was shut down.
    #[pyo3(signature = (item, block = true, timeout = None))]
    fn put<'py>(
        slf: &Bound<'py, Self>,
        item: &Bound<'py, PyAny>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !this.state.with(py, |state| state.is_plain) || (block && Self::in_coroutine(py)?) {
            return slf.call_method1(intern!(py, "_put_lined"), (item, block, timeout));
        }
        match Self::try_put(slf, item, None)? {
            None => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Some(true) => return Ok(py.None().into_bound(py)),
            Some(false) if !block => return Err(PyErr::from_value(imports::full(py)?.call0()?)),
            Some(false) => {}
        }
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        match Self::try_put(slf, item, Some(waiter.as_any()))? {
            None => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Some(true) => return Ok(py.None().into_bound(py)),
            Some(false) => {}
        }
        match line::wait(&waiter, timeout) {
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

    /// An item, waited for for at most so many seconds. In a coroutine, if blocking: an awaitable of it.
    ///
    /// Raises:
    ///     Empty: there is none, and `block` is false or the time is up.
    ///     ShutDown: the queue was shut down, and is empty.
    #[pyo3(signature = (block = true, timeout = None))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        block: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if !this.state.with(py, |state| state.is_plain) || (block && Self::in_coroutine(py)?) {
            return slf.call_method1(intern!(py, "_get_lined"), (block, timeout));
        }
        match Self::try_get(slf, None)? {
            Try::Done(item) => return Ok(item.bind(py).clone()),
            Try::ShutDown => return Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
            Try::Waits if !block => return Err(PyErr::from_value(imports::empty(py)?.call0()?)),
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

    /// As `put` where there is room: whether there was. If not, the place is woken with None when room is kept for it:
    /// `_put_kept` is to follow, or `_give_room_back`.
    #[pyo3(signature = (item, place))]
    fn _try_put(
        slf: &Bound<'_, Self>,
        item: &Bound<'_, PyAny>,
        place: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let put = Self::try_put(slf, item, Some(place))?;
        put.map_or_else(|| Err(PyErr::from_value(imports::shut_down(slf.py())?.call0()?)), Ok)
    }

    /// Put an item into the room that was kept for it.
    #[pyo3(name = "_put_kept")]
    fn put_kept_py(slf: &Bound<'_, Self>, item: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::put_kept(slf, item)
    }

    /// Who has got room was ended before it could use it.
    fn _give_room_back(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| state.kept -= 1);
        self.fill(py, &self.items(py)?)
    }

    /// As `get` where there is an item: it, in a tuple. If there is none, None, and the place is woken with one.
    fn _try_get<'py>(
        slf: &Bound<'py, Self>,
        place: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let py = slf.py();
        match Self::try_get(slf, Some(place))? {
            Try::Done(item) => Ok(Some(PyTuple::new(py, [item.bind(py)])?)),
            Try::Waits => Ok(None),
            Try::ShutDown => Err(PyErr::from_value(imports::shut_down(py)?.call0()?)),
        }
    }

    /// A place does not wait for room any more.
    fn forget(&self, place: &Bound<'_, PyAny>) {
        self.withdraw(place);
    }

    /// Wake all who wait for room with this value, without having it.
    fn _refuse_putters(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        while let Some(place) = self.state.with(py, |state| state.putters.pop_front()) {
            line::wake(place.bind(py), value)?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.getters)?;
        visit.call(&self.finishers)?;
        let visited = self.state.peek(|state| {
            if let Some(items) = &state.items {
                items.visit(&visit)?;
            }
            state.putters.iter().try_for_each(|place| place.visit(&visit))
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.take(py));
    }
}
