//! `Places`: who waits for something, first come, first served.
//!
//! A place is a green thread's `Waiter`, or a Python object with the same `wake(value)` and `done()` (a coroutine's).
//! Its owner keeps it in the cell of what it waits for: the check whether to wait and the entry happen in one access, so
//! that no wake-up from another thread is lost in between.

use super::Waiter;
use super::thread_place::ThreadPlace;
use crate::ffi::Object;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};
use std::collections::VecDeque;

#[derive(Default)]
pub struct Places(VecDeque<Object>);

impl Places {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn last(&self) -> Option<&Object> {
        self.0.back()
    }

    pub fn enter(&mut self, place: Object) {
        self.0.push_back(place);
    }

    /// The place that was entered first.
    pub fn next(&mut self) -> Option<Object> {
        self.0.pop_front()
    }

    /// Takes a place out, for the caller to drop outside its cell.
    pub fn remove(&mut self, place: &Bound<'_, PyAny>) -> Option<Object> {
        let index = self.0.iter().position(|other| other.as_ref().is(place))?;
        self.0.remove(index)
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.iter().try_for_each(|place| place.visit(visit))
    }
}

/// Wakes the waiter in a place. Returns false if it does not wait there any more.
pub fn wake(place: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match place.cast_exact::<Waiter>() {
        Ok(waiter) => Ok(Waiter::wake(waiter, Some(value))),
        Err(_) => match place.cast_exact::<ThreadPlace>() {
            Ok(thread) => thread.get().wake(place.py(), None),
            Err(_) => place.call_method1(intern!(place.py(), "wake"), (value,))?.is_truthy(),
        },
    }
}
