//! Which engine works here: found out by doing, not by reading feature lists.

use super::{Choice, ring};
use std::io;

/// The best engine that works, and why better ones do not.
pub fn best() -> (Choice, Vec<(Choice, io::Error)>) {
    match ring::trial() {
        Ok(()) => (Choice::Ring, Vec::new()),
        Err(e) => (Choice::Threads, vec![(Choice::Ring, e)]),
    }
}
