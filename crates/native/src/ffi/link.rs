//! `Link`: a trait object whose object belongs to Python.
//!
//! An object that calls another one of a layer above states a trait for it, and gets a `Link` from there: the object,
//! and the functions that implement the trait for it.

use super::object::Object;
use pyo3::prelude::*;

pub struct Link<C: ?Sized + 'static> {
    pub object: Object,
    pub calls: &'static C,
}

impl<C: ?Sized + 'static> Link<C> {
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { object: self.object.clone_ref(py), calls: self.calls }
    }
}
