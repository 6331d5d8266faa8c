//! oneloop's access to the kernel and to time: readiness, deadlines, wake-ups, checked system calls.
//!
//! Uses no Python, protocols or transports. Everything here returns `io::Result` and can be tested without an
//! interpreter; `fake` is a scripted selector for such tests.

pub mod clock;
pub mod fake;
pub mod files;
mod heap;
pub mod poller;
pub mod sys;
pub mod timers;
pub mod waker;

pub use clock::Clock;
pub use poller::{Event, Interest, Poller, Readiness, Token};
pub use timers::Timers;
pub use waker::Waker;
