//! Engines of file I/O: ways to hand an operation to the kernel and to hear of its completion.

pub mod aio;
pub mod operation;
pub mod polled;
pub mod polled_ring;
pub mod slots;

#[cfg(test)]
mod fixtures;
