//! `Life`: the function of a `Greenlet`, and its result.
//!
//! ```text
//! made → started → running → ended
//!      ↘ killed before it began ↗
//! ```
//! This file has the features that every green thread uses. Rarely used ones are in `Greenlet`'s Python code.

use super::{HubCore, Waiter};
use crate::event_loop::LoopCore;
use crate::ffi::fallible;
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object, call, class, greenlet};
use crate::imports;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// The function to call.
struct Work {
    function: Option<Object>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
}

#[derive(Default)]
struct State {
    /// `None` when it has ended.
    work: Option<Work>,
    value: Option<Object>,
    /// The exception that has ended it.
    raised: Option<Object>,
    /// Called (or woken, if they are waiters) when it has ended.
    links: VecDeque<Object>,
    is_ready: bool,
    /// The hub is going to call the links.
    is_notifying: bool,
    /// Its entry in the ready queue before it begins.
    start: Option<Py<Waiter>>,
    /// Whether the hub counts it among its living greenlets.
    is_counted: bool,
    /// A weak reference to the greenlet that made it.
    spawner: Option<Object>,
    /// A dictionary shared with the greenlets that spawned it and those it spawns.
    tree: Option<Object>,
}

type NextCall<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// The work of a green thread of `hub`, which belongs to a `Greenlet`. Calling it runs the function.
#[pyclass(frozen, module = "oneloop._native")]
pub struct Life {
    hub: Py<HubCore>,
    state: LoopCell<State>,
}

impl Life {
    fn make(
        hub: Bound<'_, HubCore>,
        function: Option<Bound<'_, PyAny>>,
        args: Bound<'_, PyTuple>,
        kwargs: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = hub.py();
        let (spawner, tree) = spawned_by(py)?;
        let work = Work {
            function: function.map(Object::new),
            args: args.unbind(),
            kwargs: kwargs.map(Bound::unbind),
        };
        let state = State { work: Some(work), spawner, tree, ..State::default() };
        Ok(Self { hub: hub.unbind(), state: LoopCell::new(state) })
    }

    fn field<'py>(
        &self,
        py: Python<'py>,
        of: impl FnOnce(&State) -> Option<&Object>,
    ) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |state| of(state).map(|object| object.clone_ref(py))).map(|object| {
            let bound = object.bind(py).clone();
            drop(object);
            bound
        })
    }

    /// The dictionary to share with greenlets that this one spawns.
    fn shared_tree(&self, py: Python<'_>) -> PyResult<Object> {
        if let Some(tree) = self.field(py, |state| state.tree.as_ref()) {
            return Ok(Object::new(tree));
        }
        let tree = Object::new(fallible::dict(py)?.into_any());
        let kept = tree.clone_ref(py);
        let old = self.state.with(py, |state| state.tree.replace(kept));
        drop(old);
        Ok(tree)
    }

    fn end_with(
        slf: &Bound<'_, Self>,
        greenlet: &Bound<'_, PyAny>,
        value: Option<Object>,
        raised: Option<Object>,
    ) -> PyResult<()> {
        slf.get().record(slf.py(), value, raised);
        slf.get().forget_work(slf.py());
        slf.get().tell(greenlet)
    }

    fn record(&self, py: Python<'_>, value: Option<Object>, raised: Option<Object>) {
        let was_counted = self.state.with(py, |state| {
            state.value = value;
            state.raised = raised;
            state.is_ready = true;
            std::mem::take(&mut state.is_counted)
        });
        if was_counted {
            self.hub.get().alive.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn forget_work(&self, py: Python<'_>) {
        let work = self.state.with(py, |state| state.work.take());
        drop(work);
    }

    /// Wakes the links if all are waiters. Otherwise makes the hub notify all of them, in order.
    fn tell(&self, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = greenlet.py();
        let waiters = self.state.with(py, |state| {
            let is_waiter = |link: &Object| link.bind(py).is_exact_instance_of::<Waiter>();
            state.links.iter().all(is_waiter).then(|| std::mem::take(&mut state.links))
        });
        match waiters {
            None => self.notify_later(greenlet),
            Some(waiters) => {
                for waiter in waiters {
                    super::waiter::wake(waiter.bind(py))?;
                }
            }
        }
        Ok(())
    }

    /// Makes the hub call the links, once, in its next tick. From any thread.
    fn notify_later(&self, greenlet: &Bound<'_, PyAny>) {
        let py = greenlet.py();
        let is_new = self.state.with(py, |state| !std::mem::replace(&mut state.is_notifying, true));
        if is_new {
            let owner = self.hub.get().owner(py);
            owner.get().run_soon(py, greenlet.clone().unbind(), notify);
        }
    }

    fn first_link(&self, py: Python<'_>) -> Option<Object> {
        self.state.with(py, |state| state.links.pop_front())
    }

    /// The function to call; `None` if it has ended.
    #[inline(never)]
    fn next_call<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<NextCall<'py>>> {
        let py = slf.py();
        let work = slf.get().state.with(py, |state| {
            state.work.as_ref().map(|work| {
                let function = work.function.as_ref().map(|function| function.clone_ref(py));
                let kwargs = work.kwargs.as_ref().map(|kwargs| kwargs.clone_ref(py));
                (function, work.args.clone_ref(py), kwargs)
            })
        });
        let Some((function, args, kwargs)) = work else { return Ok(None) };
        let function = match function {
            Some(function) => function.bind(py).clone(),
            None => greenlet::current(py)?.getattr(intern!(py, "_run"))?,
        };
        Ok(Some((function, args.into_bound(py), kwargs.map(|kwargs| kwargs.into_bound(py)))))
    }

    #[inline(never)]
    fn finish(slf: &Bound<'_, Self>, outcome: PyResult<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let current = greenlet::current(py)?;
        match outcome {
            Ok(value) => Self::end_with(slf, &current, Some(Object::new(value)), None),
            Err(error) => {
                let raised = Object::new(error.value(py).clone().into_any());
                if raised.bind(py).is_instance(&imports::greenlet_exit(py)?)? {
                    return Self::end_with(slf, &current, Some(raised), None);
                }
                slf.get().record(py, None, Some(raised.clone_ref(py)));
                // The report may wait: those that wait for the end, and the links, do not wait for it.
                let told = slf.get().tell(&current);
                // An exception that ends the program is raised in the main greenlet before that continues for another
                // reason.
                let reported = current.call_method1(intern!(py, "_report"), (raised.bind(py),));
                // The report names the call.
                slf.get().forget_work(py);
                told?;
                reported.map(drop)
            }
        }
    }

    /// Starts the green thread in the loop's next tick.
    fn start_soon(slf: &Bound<'_, Self>, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let start = Waiter::of(this.hub.bind(py), greenlet, true)?;
        let kept = start.clone().unbind();
        let (old, was_counted) = this.state.with(py, |state| {
            (state.start.replace(kept), std::mem::replace(&mut state.is_counted, true))
        });
        drop(old);
        if !was_counted {
            this.hub.get().alive.fetch_add(1, Ordering::Relaxed);
        }
        Waiter::resume_soon(&start);
        Ok(())
    }
}

#[pymethods]
impl Life {
    #[new]
    fn new(
        hub: Bound<'_, HubCore>,
        function: Option<Bound<'_, PyAny>>,
        args: Bound<'_, PyTuple>,
        kwargs: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::make(hub, function, args, kwargs)
    }

    /// Run the function in the calling greenlet. Stores its result, and notifies those that wait for it.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(
        slf: &Bound<'_, Self>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        // This frame lies below all frames of the function and is copied with every switch, so it is kept small.
        match Self::next_call(slf)? {
            None => Ok(()),
            Some((function, args, kwargs)) => {
                let outcome = call::call_tuple(&function, &args, kwargs.as_ref());
                drop((function, args, kwargs));
                Self::finish(slf, outcome)
            }
        }
    }

    /// Record the end, with a value or an exception, possibly before it has begun.
    fn end(
        slf: &Bound<'_, Self>,
        greenlet: &Bound<'_, PyAny>,
        value: Bound<'_, PyAny>,
        raised: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        Self::end_with(slf, greenlet, Some(Object::new(value)), raised.map(Object::new))
    }

    /// Start `greenlet`, the owner of this life, in the loop's next tick.
    fn begin(slf: &Bound<'_, Self>, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::start_soon(slf, greenlet)
    }

    /// Wait for the end of `greenlet`, the owner of this life.
    ///
    /// Raises:
    ///     RuntimeError: called by the green thread itself.
    fn join(slf: &Bound<'_, Self>, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let current = greenlet::current(py)?;
        if current.is(greenlet) {
            return Err(PyRuntimeError::new_err("a green thread cannot wait for itself"));
        }
        let waiter = Bound::new(py, Waiter::make(&HubCore::here(py)?))?;
        let link = Object::new(waiter.clone().into_any());
        // It may have ended in another thread meanwhile.
        let unused = this.state.with(py, |state| {
            if state.is_ready {
                return Some(link);
            }
            state.links.push_back(link);
            None
        });
        if unused.is_some() {
            return Ok(());
        }
        let waited = Waiter::get(&waiter);
        if waited.is_err() {
            this.remove_link(waiter.as_any());
        }
        waited.map(drop)
    }

    #[getter]
    fn hub(&self, py: Python<'_>) -> Py<HubCore> {
        self.hub.clone_ref(py)
    }

    /// Whether it has ended.
    #[getter]
    fn is_ready(&self, py: Python<'_>) -> bool {
        self.state.with(py, |state| state.is_ready)
    }

    /// The function's return value.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.field(py, |state| state.value.as_ref())
    }

    #[setter]
    fn set_value(&self, py: Python<'_>, value: Bound<'_, PyAny>) {
        let value = Object::new(value);
        let old = self.state.with(py, |state| state.value.replace(value));
        drop(old);
    }

    /// The exception that has ended it.
    #[getter]
    fn raised<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.field(py, |state| state.raised.as_ref())
    }

    /// The function to call; None if it is the greenlet's `_run`, or if it has ended.
    #[getter]
    fn function<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.field(py, |state| state.work.as_ref().and_then(|work| work.function.as_ref()))
    }

    #[setter]
    fn set_function(&self, py: Python<'_>, function: Option<Bound<'_, PyAny>>) {
        let function = function.map(Object::new);
        let old = self.state.with(py, |state| {
            state.work.as_mut().map(|work| std::mem::replace(&mut work.function, function))
        });
        drop(old);
    }

    /// The positional arguments; empty when it has ended.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        let args = self.state.with(py, |s| s.work.as_ref().map(|work| work.args.clone_ref(py)));
        args.map_or_else(|| PyTuple::empty(py), |args| args.into_bound(py))
    }

    #[setter]
    fn set_args(&self, py: Python<'_>, args: Bound<'_, PyTuple>) {
        let args = args.unbind();
        let old = self.state.with(py, |state| {
            state.work.as_mut().map(|work| std::mem::replace(&mut work.args, args))
        });
        drop(old);
    }

    /// The keyword arguments; empty when it has ended.
    #[getter]
    fn kwargs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kwargs = self.state.with(py, |state| {
            state.work.as_ref().and_then(|work| work.kwargs.as_ref().map(|kw| kw.clone_ref(py)))
        });
        kwargs.map_or_else(|| fallible::dict(py), |kwargs| Ok(kwargs.into_bound(py)))
    }

    #[setter]
    fn set_kwargs(&self, py: Python<'_>, kwargs: Option<Bound<'_, PyDict>>) {
        let kwargs = kwargs.map(Bound::unbind);
        let old = self.state.with(py, |state| {
            state.work.as_mut().map(|work| std::mem::replace(&mut work.kwargs, kwargs))
        });
        drop(old);
    }

    /// Its entry in the ready queue before it begins; None if it was not started.
    #[getter]
    fn start(&self, py: Python<'_>) -> Option<Py<Waiter>> {
        self.state.with(py, |state| state.start.as_ref().map(|start| start.clone_ref(py)))
    }

    /// A weak reference to the greenlet that made it.
    #[getter]
    fn spawner<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.field(py, |state| state.spawner.as_ref())
    }

    /// A dictionary shared with the greenlets that spawned it and those it spawns.
    #[getter]
    fn tree<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tree = self.shared_tree(py)?;
        let bound = tree.bind(py).clone();
        drop(tree);
        Ok(bound)
    }

    /// Functions and waiters to notify of its end.
    #[getter]
    fn links<'py>(&self, py: Python<'py>) -> Value<Vec<Bound<'py, PyAny>>> {
        let links: Vec<Object> = self
            .state
            .with(py, |state| state.links.iter().map(|link| link.clone_ref(py)).collect());
        Value(links.iter().map(|link| link.bind(py).clone()).collect())
    }

    /// Make the hub call the links of `greenlet`, the owner of this life, in its next tick. May be called from any
    /// thread.
    fn notify_soon(&self, greenlet: &Bound<'_, PyAny>) {
        self.notify_later(greenlet);
    }

    /// Call the links on another hub, because the loop of its own one is closed.
    fn notify_on(&self, hub: &Bound<'_, HubCore>, greenlet: &Bound<'_, PyAny>) {
        let py = greenlet.py();
        hub.get().owner(py).get().run_soon(py, greenlet.clone().unbind(), notify);
    }

    fn add_link(&self, link: Bound<'_, PyAny>) {
        let py = link.py();
        let link = Object::new(link);
        self.state.with(py, |state| state.links.push_back(link));
    }

    /// Remove the first link that is this object. Returns whether there was one.
    fn remove_link(&self, link: &Bound<'_, PyAny>) -> bool {
        let removed = self.state.with(link.py(), |state| {
            let place = state.links.iter().position(|other| other.as_ref().is(link))?;
            state.links.remove(place)
        });
        removed.is_some()
    }

    /// Remove and return the first link.
    fn pop_link<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let link = self.first_link(py)?;
        let bound = link.bind(py).clone();
        drop(link);
        Some(bound)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.hub)?;
        let visited = self.state.peek(|state| {
            if let Some(work) = &state.work {
                visit.call(&work.args)?;
                visit.call(&work.kwargs)?;
                if let Some(function) = &work.function {
                    function.visit(&visit)?;
                }
            }
            visit.call(&state.start)?;
            let owned = [&state.value, &state.raised, &state.spawner, &state.tree];
            for object in owned.into_iter().flatten().chain(&state.links) {
                object.visit(&visit)?;
            }
            Ok(())
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        drop(self.state.take(py));
    }
}

/// On the hub: calls the links of an ended greenlet, in the order in which they were added.
fn notify(_: &Bound<'_, LoopCore>, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = greenlet.py();
    let life = greenlet.getattr(intern!(py, "_life"))?;
    let life = life.cast::<Life>()?.get();
    let count = life.state.with(py, |state| {
        state.is_notifying = false;
        state.links.len()
    });
    for _ in 0..count {
        let Some(link) = life.first_link(py) else { return Ok(()) };
        if link.bind(py).is_exact_instance_of::<Waiter>() {
            super::waiter::wake(link.bind(py))?;
        } else if let Err(error) = call::call1(link.bind(py), greenlet) {
            let context = (link.bind(py), greenlet);
            let details = (context, error.get_type(py), error.value(py), error.traceback(py));
            life.hub.bind(py).call_method1(intern!(py, "handle_error"), details)?;
        }
    }
    Ok(())
}

/// `Greenlet`, and its methods that subclasses may override.
struct Plain {
    class: Py<PyType>,
    init: Py<PyAny>,
    start: Py<PyAny>,
}

static PLAIN: PyOnceLock<Plain> = PyOnceLock::new();
/// Starts are being watched.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Register the class `Greenlet`, once.
#[pyfunction]
#[pyo3(signature = (greenlet, /))]
fn set_greenlet_class(greenlet: &Bound<'_, PyType>) -> PyResult<()> {
    let py = greenlet.py();
    greenlet::load(py)?;
    let plain = Plain {
        class: greenlet.clone().unbind(),
        init: greenlet.getattr(intern!(py, "__init__"))?.unbind(),
        start: greenlet.getattr(intern!(py, "start"))?.unbind(),
    };
    drop(PLAIN.set(py, plain));
    Ok(())
}

/// Make each start call `Greenlet.start`, or stop doing so.
#[pyfunction]
#[pyo3(signature = (is_watched, /))]
fn watch_starts(is_watched: bool) {
    IS_WATCHED.store(is_watched, Ordering::Relaxed);
}

/// Who spawned whom is not recorded.
static IS_UNTRACKED: AtomicBool = AtomicBool::new(false);

/// Record which greenlet spawned which, or stop doing so.
#[pyfunction]
#[pyo3(signature = (is_tracked, /))]
fn track_tree(is_tracked: bool) {
    IS_UNTRACKED.store(!is_tracked, Ordering::Relaxed);
}

/// A weak reference to the calling greenlet, and the shared dictionary if it is a `Greenlet`.
fn spawned_by(py: Python<'_>) -> PyResult<(Option<Object>, Option<Object>)> {
    if IS_UNTRACKED.load(Ordering::Relaxed) {
        return Ok((None, None));
    }
    let current = greenlet::current(py)?;
    let weak = Object::new(PyWeakrefReference::new(&current)?.into_any());
    let Some(plain) = PLAIN.get(py) else { return Ok((Some(weak), None)) };
    if !current.is_instance(plain.class.bind(py))? {
        // Those that `spawn_raw` has made share theirs too; the main greenlet has none.
        let is_main = current.getattr(intern!(py, "parent"))?.is_none();
        let tree =
            if is_main { None } else { current.getattr_opt(intern!(py, "spawn_tree_locals"))? };
        return Ok((Some(weak), tree.map(Object::new)));
    }
    let life = current.getattr(intern!(py, "_life"))?;
    let tree = life.cast::<Life>()?.get().shared_tree(py)?;
    Ok((Some(weak), Some(tree)))
}

/// Make a green thread of this class with these arguments, and start it.
#[pyfunction]
#[pyo3(signature = (class, /, *args, **kwargs))]
fn spawn_green<'py>(
    class: &Bound<'py, PyType>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let is_plain = |plain: &Plain| -> PyResult<bool> {
        Ok(class::same_new(class, plain.class.bind(py))
            && class.getattr(intern!(py, "__init__"))?.is(&plain.init)
            && class.getattr(intern!(py, "start"))?.is(&plain.start))
    };
    let is_watched = IS_WATCHED.load(Ordering::Relaxed);
    let function = args.get_item(0).ok().filter(PyAnyMethods::is_callable);
    if let Some(function) = function
        && let Some(plain) = PLAIN.get(py).filter(|_| !is_watched)
        && is_plain(plain)?
    {
        let rest = if args.len() == 1 { PyTuple::empty(py) } else { args.get_slice(1, args.len()) };
        let kwargs = kwargs.filter(|kwargs| !kwargs.is_empty()).cloned();
        let life = Bound::new(py, Life::make(HubCore::here(py)?, Some(function), rest, kwargs)?)?;
        let made = class::new_instance(class)?;
        made.setattr(intern!(py, "_life"), &life)?;
        Life::start_soon(&life, &made)?;
        return Ok(made);
    }
    let made = class.call(args, kwargs)?;
    made.call_method0(intern!(py, "start"))?;
    Ok(made)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Life>()?;
    module.add_function(wrap_pyfunction!(set_greenlet_class, module)?)?;
    module.add_function(wrap_pyfunction!(watch_starts, module)?)?;
    module.add_function(wrap_pyfunction!(track_tree, module)?)?;
    module.add_function(wrap_pyfunction!(spawn_green, module)?)
}
