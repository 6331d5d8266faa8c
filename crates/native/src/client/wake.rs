//! What the caller of an exchange waits for, and how it is woken.

use crate::event_loop::LoopCore;
use crate::ffi::Object;
use crate::green::Waiter;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The head of the response.
    Head,
    Whole,
    Piece,
    /// The next bytes of a tunnel.
    Received,
    /// The transport takes more of the request's body.
    Room,
    /// The same, whether the response has come or not.
    Drained,
    Welcome,
    /// Nothing more: the exchange has ended.
    End,
}

impl Until {
    /// Whether it is a wait of who sends: any number may wait beside the one who waits for what arrives.
    pub fn is_of_sender(self) -> bool {
        matches!(self, Self::Room | Self::Drained | Self::Welcome | Self::End)
    }
}

/// One that waits.
pub struct Place {
    /// Of this place, among all that the exchange has had.
    pub number: u64,
    pub until: Until,
    pub wake: Wake,
}

/// How to wake the caller.
pub enum Wake {
    Future(Object),
    Green(Object<Waiter>),
    /// Plain code waits: its loop is stopped, and all that wait for it look whether this was for them.
    Stop,
}

impl Wake {
    pub fn wake(&self, owner: &Bound<'_, LoopCore>) -> PyResult<()> {
        let py = owner.py();
        match self {
            Self::Future(future) => {
                let future = future.bind(py);
                if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
                    future.call_method1(intern!(py, "set_result"), (py.None(),))?;
                }
                Ok(())
            }
            Self::Green(waiter) => {
                Waiter::resume_soon(waiter.bind(py));
                Ok(())
            }
            Self::Stop if owner.get().runs_elsewhere() => {
                let stop = owner.getattr(intern!(py, "stop"))?;
                owner.call_method1(intern!(py, "call_soon_threadsafe"), (stop,)).map(drop)
            }
            Self::Stop => owner.call_method0(intern!(py, "stop")).map(drop),
        }
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Future(future) => future.visit(visit),
            Self::Green(waiter) => waiter.visit(visit),
            Self::Stop => Ok(()),
        }
    }
}
