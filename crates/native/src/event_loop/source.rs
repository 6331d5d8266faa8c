//! `Source`: what is registered for one descriptor: the owner of the number, and others that may have joined.

use oneloop_engine::{Interest, Readiness, Token};
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use pyo3::{PyTraverseError, PyVisit};

/// Serves the readiness of one source. Runs on the loop's thread with no borrow held (S2); returns only
/// KeyboardInterrupt and SystemExit (S7).
pub type OnReady<L> = for<'py> fn(&Bound<'py, L>, &Bound<'py, PyAny>, Readiness) -> PyResult<()>;

/// How a party is referred to.
pub enum Holder {
    Kept(Py<PyAny>),
    /// The address identifies the object also while the garbage collector, which clears weak references first, calls
    /// its destructors.
    Known {
        reference: Py<PyWeakrefReference>,
        address: usize,
    },
}

/// One receiver of a descriptor's readiness.
pub struct Party<L> {
    pub holder: Holder,
    on_ready: OnReady<L>,
    pub interest: Interest,
}

impl<L> Party<L> {
    pub fn new(object: Py<PyAny>, on_ready: OnReady<L>, interest: Interest) -> Self {
        Self { holder: Holder::Kept(object), on_ready, interest }
    }

    pub fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        match &self.holder {
            Holder::Kept(kept) => kept.is(object),
            Holder::Known { address, .. } => *address == object.as_ptr().addr(),
        }
    }

    pub fn object<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.holder {
            Holder::Kept(object) => Some(object.bind(py).clone()),
            Holder::Known { reference, .. } => reference.bind(py).upgrade(),
        }
    }

    /// Who is called for an event, and how; `None` if it has no interest.
    pub fn receiver<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, OnReady<L>)> {
        match &self.holder {
            Holder::Kept(object) => Some((object.bind(py).clone(), self.on_ready)),
            Holder::Known { .. } => None,
        }
    }

    pub fn is_freed(&self, py: Python<'_>) -> bool {
        self.object(py).is_none()
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.holder {
            Holder::Kept(object) => visit.call(object),
            Holder::Known { reference, .. } => visit.call(reference),
        }
    }
}

/// What is registered for one descriptor of a loop `L`.
pub struct Source<L> {
    pub token: Token,
    pub owner: Party<L>,
    /// Others that watch the descriptor, in the order in which they came.
    pub guests: Vec<Party<L>>,
}

impl<L> Source<L> {
    /// The interest to register. If one party wants level-triggered events, all get them.
    pub fn interest(&self) -> Interest {
        let mut all = self.owner.interest;
        let mut is_edge = all.contains(Interest::EDGE);
        for guest in &self.guests {
            all = all | guest.interest;
            is_edge &= guest.interest.contains(Interest::EDGE);
        }
        if is_edge { all } else { all.without(Interest::EDGE) }
    }

    pub fn party(&mut self, object: &Bound<'_, PyAny>) -> Option<&mut Party<L>> {
        if self.owner.is(object) {
            return Some(&mut self.owner);
        }
        self.guests.iter_mut().find(|guest| guest.is(object))
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.visit(visit)?;
        self.guests.iter().try_for_each(|guest| guest.visit(visit))
    }
}
