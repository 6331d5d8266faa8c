//! `Callbacks`: the callbacks of `add_reader` and `add_writer` on one descriptor.
//!
//! They are level-triggered, as in asyncio, and run repeatedly until they are removed or replaced. Must not depend on
//! how the descriptor is registered.

use super::Side;
use crate::event_loop::Handle;
use oneloop_engine::Interest;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

pub struct Callback {
    pub handle: Py<Handle>,
    /// The tick in which it was added. Events that this tick's poll returned belong to the previous callback.
    pub added_in_tick: u64,
}

#[derive(Default)]
pub struct Callbacks {
    reader: Option<Callback>,
    writer: Option<Callback>,
}

impl Callbacks {
    pub fn on(&mut self, side: Side) -> &mut Option<Callback> {
        match side {
            Side::Read => &mut self.reader,
            Side::Write => &mut self.writer,
        }
    }

    /// `None` without any callback.
    pub fn interest(&self) -> Option<Interest> {
        match (&self.reader, &self.writer) {
            (None, None) => None,
            (Some(_), None) => Some(Interest::READ),
            (None, Some(_)) => Some(Interest::WRITE),
            (Some(_), Some(_)) => Some(Interest::READ | Interest::WRITE),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut callbacks = self.reader.iter().chain(&self.writer);
        callbacks.try_for_each(|callback| visit.call(&callback.handle))
    }
}
