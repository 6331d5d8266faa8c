//! `Peers`: the addresses that a datagram transport uses, in the kernel's format and in Python's.
//!
//! Making a Python address costs more than receiving a small datagram. So the objects of recent senders are kept, one
//! per hash bucket of the raw address. Addresses are immutable (tuples, strings, bytes), so returning the same object
//! again is safe. The raw form of the last address object received from or sent to is found by identity.

use oneloop_engine::sys::address::Address;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// The number of senders whose objects are kept; a power of two.
const PLACES: usize = 64;

struct Peer {
    raw: Address,
    object: Py<PyAny>,
}

#[derive(Default)]
pub struct Peers {
    /// Empty until the second sender: most sockets have one peer.
    places: Vec<Option<Peer>>,
    last_received: Option<Peer>,
    last_sent: Option<Peer>,
}

/// Entries replaced by a change, to be dropped outside of the loop's state (S2).
#[must_use]
pub struct Replaced(#[expect(dead_code, reason = "held to be dropped")] [Option<Peer>; 2]);

fn place_of(raw: &Address) -> usize {
    // FNV-1a over the bytes that distinguish peers; a collision only costs a new object.
    let hash = raw.as_bytes().iter().take(28).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % PLACES
}

impl Peer {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { raw: self.raw, object: self.object.clone_ref(py) }
    }
}

impl Peers {
    /// Returns the object made earlier for a sender.
    pub fn sender<'py>(&mut self, py: Python<'py>, raw: &Address) -> Option<Bound<'py, PyAny>> {
        if let Some(last) = &self.last_received
            && last.raw == *raw
        {
            return Some(last.object.bind(py).clone());
        }
        let known = self.places.get(place_of(raw))?.as_ref()?;
        if known.raw != *raw {
            return None;
        }
        let (object, known) = (known.object.bind(py).clone(), known.clone_ref(py));
        // The replaced entry remains in its bucket, so this frees no Python object.
        self.last_received = Some(known);
        Some(object)
    }

    /// Keeps a sender's object.
    pub fn remember_sender(&mut self, py: Python<'_>, raw: Address, object: Py<PyAny>) -> Replaced {
        let peer = Peer { raw, object };
        let Some(first) = self.last_received.take() else {
            self.last_received = Some(peer);
            return Replaced([None, None]);
        };
        let mut old = [None, None];
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
            let place = place_of(&first.raw);
            self.places[place] = Some(first);
        } else {
            old[0] = Some(first);
        }
        old[1] = self.places[place_of(&raw)].replace(peer.clone_ref(py));
        self.last_received = Some(peer);
        Replaced(old)
    }

    /// Returns the raw form of an address object, if it is one of the last two used.
    pub fn raw_of(&self, object: &Bound<'_, PyAny>) -> Option<Address> {
        [&self.last_received, &self.last_sent]
            .into_iter()
            .flatten()
            .find(|peer| peer.object.as_ptr() == object.as_ptr())
            .map(|peer| peer.raw)
    }

    /// Keeps the raw form of an address object that the program sends to.
    pub fn remember_receiver(&mut self, raw: Address, object: Py<PyAny>) -> Replaced {
        Replaced([self.last_sent.replace(Peer { raw, object }), None])
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Only exact tuples of strings and numbers, strings and bytes: none can be part of a cycle.
        self.last_sent.iter().try_for_each(|peer| visit.call(&peer.object))
    }
}
