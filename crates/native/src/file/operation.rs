//! `Operation`: the awaitable that a file's method returns. If the operation does not block, the await itself does it.
//! Otherwise the coroutine of the method's slow half does it, and this object forwards to that coroutine.
//!
//! It is a `collections.abc.Coroutine`, so that it can be made a task. Nothing is done before it is awaited.

use super::attempt::{Act, Attempt, Then};
use super::fast::FastFile;
use crate::ffi::awaitable::{self, Steps};
use crate::ffi::coroutine::{self, Step};
use crate::ffi::fallible;
use crate::ffi::recycled::{self, Pool, Recycled};
use crate::ffi::values::Value;
use crate::ffi::{LoopCell, Object};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::ffi::CString;

enum State {
    New(Act),
    /// It has started and waits.
    Waiting {
        steps: Object,
        then: Then,
        act: Act,
    },
    /// The slow half is running.
    Slow(Object),
    Ended,
}

impl State {
    /// It keeps the file's turn until it has ended.
    fn has_turn(&self) -> bool {
        matches!(self, Self::Waiting { then: Then::Leave(_) | Then::Put(..), .. })
    }
}

#[pyclass(frozen, weakref, module = "oneloop._native")]
pub struct Operation {
    file: Py<FastFile>,
    slow: &'static str,
    state: LoopCell<State>,
}

impl Operation {
    pub fn new(file: Py<FastFile>, act: Act, slow: &'static str) -> Self {
        Self { file, slow, state: LoopCell::new(State::New(act)) }
    }

    fn set(&self, py: Python<'_>, state: State) -> State {
        self.state.with(py, |now| std::mem::replace(now, state))
    }

    /// Runs the slow half.
    fn go_slow(slf: Borrowed<'_, '_, Self>, act: &Act, value: &Bound<'_, PyAny>) -> PyResult<Step> {
        let (py, this) = (slf.py(), slf.get());
        let method = this.file.bind(py).getattr(fallible::interned(py, this.slow)?)?;
        let coroutine = method.call1(act.arguments(py)?)?;
        this.set(py, State::Slow(Object::new(coroutine.clone())));
        recycled::track(py, &slf.to_owned().unbind());
        coroutine::send(&coroutine, value)
    }

    /// One step of the awaited coroutine. If the state is `New` afterwards, the slow half has to start over.
    fn go_on(
        &self,
        py: Python<'_>,
        steps: Object,
        then: Then,
        act: Act,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Step> {
        let stepped = coroutine::send(steps.bind(py), value);
        self.after(py, stepped, steps, then, act)
    }

    fn after(
        &self,
        py: Python<'_>,
        stepped: PyResult<Step>,
        steps: Object,
        then: Then,
        act: Act,
    ) -> PyResult<Step> {
        match (stepped, then) {
            (Ok(Step::Yielded(object)), then) => {
                self.set(py, State::Waiting { steps, then, act });
                Ok(Step::Yielded(object))
            }
            (Ok(Step::Returned(_)), Then::Leave(value)) => {
                self.file.get().leave(py)?;
                Ok(Step::Returned(value))
            }
            (Ok(Step::Returned(data)), Then::Read(size)) => {
                let len = data.bind(py).len()?;
                if len != size && len != 0 {
                    self.set(py, State::New(act));
                }
                Ok(Step::Returned(data))
            }
            (Ok(Step::Returned(_)), Then::Put(data, value)) => {
                self.file.get().put(py, &data);
                self.file.get().leave(py)?;
                Ok(Step::Returned(value))
            }
            (Err(error), Then::Leave(_) | Then::Put(..)) => {
                self.file.get().leave(py)?;
                Err(error)
            }
            (Err(error), Then::Read(_)) => Err(error),
        }
    }

    /// The slow half's coroutine.
    fn slow<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.state.with(py, |state| match state {
            State::Slow(coroutine) => Some(coroutine.bind(py).clone()),
            _ => None,
        })
    }

    fn full_name(&self, py: Python<'_>) -> PyResult<String> {
        let class = self.file.bind(py).get_type();
        Ok(format!("{}.{}", class.name()?, self.name()))
    }

    /// Warns that it was never awaited.
    #[cold]
    fn warn(&self, py: Python<'_>) {
        // An exception may be propagating; it must not be lost.
        let raised = PyErr::take(py);
        let name = self.full_name(py).unwrap_or_else(|_| self.name().to_owned());
        let text = CString::new(format!("coroutine '{name}' was never awaited"));
        let warned = text
            .map_err(PyErr::from)
            .and_then(|text| PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1));
        if let Err(error) = warned {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    }

    fn name(&self) -> &'static str {
        self.slow.trim_start_matches('_')
    }
}

impl Recycled for Operation {
    const IS_COLLECTED: bool = true;

    fn pool() -> &'static Pool {
        static POOL: Pool = Pool::new();
        &POOL
    }
}

impl Steps for Operation {
    #[inline]
    fn send<'py>(slf: Borrowed<'_, 'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Step> {
        let (py, this) = (slf.py(), slf.get());
        match this.set(py, State::Ended) {
            State::New(act) => match this.file.get().attempt(py, &act)? {
                Attempt::Done(done) => Ok(Step::Returned(done)),
                Attempt::Wait(steps, then) => {
                    recycled::track(py, &slf.to_owned().unbind());
                    this.go_on(py, steps, then, act, value)
                }
                Attempt::Slow => Self::go_slow(slf, &act, value),
            },
            State::Waiting { steps, then, act } => {
                let step = this.go_on(py, steps, then, act, value);
                match step {
                    Ok(Step::Returned(_)) | Err(_) => {
                        if let State::New(act) = this.set(py, State::Ended) {
                            // The read was short: the slow half repeats it.
                            return Self::go_slow(slf, &act, value);
                        }
                        step
                    }
                    step => step,
                }
            }
            State::Slow(coroutine) => {
                let coroutine = coroutine.bind(py).clone();
                this.set(py, State::Slow(Object::new(coroutine.clone())));
                coroutine::send(&coroutine, value)
            }
            State::Ended => Err(PyRuntimeError::new_err("cannot reuse already awaited coroutine")),
        }
    }
}

#[pymethods]
impl Operation {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::sent(slf, &slf.py().None().into_bound(slf.py()))
    }

    /// Like a coroutine's `send`.
    #[pyo3(name = "send", signature = (value, /))]
    fn sent(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        awaitable::sent(slf, value)
    }

    /// Like a coroutine's `throw`.
    #[pyo3(signature = (*args))]
    fn throw<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(coroutine) = self.slow(py) {
            return coroutine.call_method1(intern!(py, "throw"), args.clone());
        }
        if let State::Waiting { steps, then, act } = self.set(py, State::Ended) {
            let thrown = steps.bind(py).call_method1(intern!(py, "throw"), args.clone());
            let step = self.after(
                py,
                thrown.map(|object| Step::Yielded(Object::new(object))),
                steps,
                then,
                act,
            )?;
            return match step {
                Step::Yielded(object) | Step::Returned(object) => Ok(object.bind(py).clone()),
            };
        }
        Err(coroutine::raised(args)?)
    }

    /// Like a coroutine's `close`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.set(py, State::Ended) {
            State::Slow(coroutine) => {
                coroutine.bind(py).call_method0(intern!(py, "close")).map(drop)
            }
            // The operation continues, but the turn is passed on.
            State::Waiting { then: Then::Leave(_) | Then::Put(..), .. } => {
                self.file.get().leave(py)
            }
            State::Waiting { .. } | State::New(_) | State::Ended => Ok(()),
        }
    }

    #[getter]
    fn __name__(&self) -> Value<&'static str> {
        Value(self.name())
    }

    #[getter]
    fn __qualname__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        self.full_name(py).map(Value)
    }

    /// The object that the slow half waits for, as for coroutines.
    #[getter]
    fn cr_await<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.slow(py).map(|coroutine| coroutine.getattr(intern!(py, "cr_await"))).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<Value<String>> {
        Ok(Value(format!("<coroutine {}>", self.full_name(py)?)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        let visited = self.state.peek(|state| match state {
            State::New(Act::Write(object)) | State::Slow(object) => object.visit(&visit),
            State::Waiting { steps, then, act } => {
                steps.visit(&visit)?;
                if let Act::Write(object) = act {
                    object.visit(&visit)?;
                }
                match then {
                    Then::Leave(value) | Then::Put(_, value) => value.visit(&visit),
                    Then::Read(_) => Ok(()),
                }
            }
            _ => Ok(()),
        });
        visited.unwrap_or(Ok(()))
    }

    fn __clear__(&self, py: Python<'_>) {
        if let Err(error) = self.close(py) {
            error.write_unraisable(py, None);
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        match self.state.peek(|state| (matches!(state, State::New(_)), state.has_turn())) {
            Some((true, _)) => Python::attach(|py| self.warn(py)),
            Some((_, true)) => Python::attach(|py| {
                // Like the `finally` of a coroutine that is not awaited to its end.
                if let Err(error) = self.close(py) {
                    error.write_unraisable(py, None);
                }
            }),
            _ => {}
        }
    }
}
