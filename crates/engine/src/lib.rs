//! oneloop's access to the kernel and to time: readiness, deadlines, wake-ups, checked system calls.
//!
//! Uses no Python, protocols or transports. Everything here returns `io::Result` and can be tested without an
//! interpreter; `fake` is a scripted selector for such tests.

mod burst_queue;
pub mod clock;
mod crew;
mod ending;
pub mod fake;
pub mod files;
mod gate;
mod heap;
#[cfg(feature = "models")]
mod models;
pub mod poller;
mod sync;
pub mod sys;
pub mod timers;
pub mod waker;

pub use burst_queue::BurstQueue;
pub use clock::Clock;
pub use crew::{Added, Crew};
pub use ending::End;
pub use gate::Gate;
pub use poller::{Event, Interest, Poller, Readiness, Token};
pub use timers::{Key, Timers};
pub use waker::Waker;
