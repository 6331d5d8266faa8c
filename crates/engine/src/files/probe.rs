//! Finds out which engine works here, by a trial instead of feature lists.

use super::{Choice, direct, ring};
use std::io;

/// Whether an engine works here.
pub fn trial(choice: Choice) -> io::Result<()> {
    match choice {
        Choice::Ring => ring::trial(),
        Choice::Aio => direct::trial(),
        Choice::Threads => Ok(()),
    }
}

/// The best engine that works, and why better ones do not work.
pub fn best() -> (Choice, Vec<(Choice, io::Error)>) {
    let mut refused = Vec::new();
    for choice in [Choice::Ring, Choice::Aio] {
        match trial(choice) {
            Ok(()) => return (choice, refused),
            Err(e) => refused.push((choice, e)),
        }
    }
    (Choice::Threads, refused)
}
