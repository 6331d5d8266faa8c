//! The operations of an io_uring that fail, or whose completions come late or in another order.

use super::{Fault, gate};
use std::collections::{HashMap, VecDeque};

/// The result of one operation: what the entry carried, and the kernel's number.
type Completion = (u64, i32);

/// How the result of an operation is changed.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// It was not carried out.
    Instead(i32),
    AtMostOne,
}

/// One per ring.
#[derive(Debug, Default)]
pub struct Completions {
    changes: HashMap<u64, Change>,
    held: VecDeque<Completion>,
    passed: VecDeque<Completion>,
}

impl Completions {
    /// Whether the operation `name` is sent to the kernel; otherwise the ring sends one that does nothing. close(2) is
    /// always sent, because Linux releases the number whatever the result is. `has_offset`: what a short transfer has
    /// left over may be transferred twice.
    pub fn is_sent(&mut self, name: &str, user_data: u64, has_offset: bool) -> bool {
        let change = match gate(&format!("ring {name}")) {
            Some(Fault::Errno(errno)) => Change::Instead(-errno),
            Some(Fault::Short) if has_offset => Change::AtMostOne,
            _ => return true,
        };
        self.changes.insert(user_data, change);
        name == "close" || matches!(change, Change::AtMostOne)
    }

    /// Whether a cancellation reaches the kernel.
    pub fn is_cancelled(&self) -> bool {
        gate("ring cancellation").is_none()
    }

    /// The next completion to handle; `next` takes one from the kernel's queue.
    pub fn next(&mut self, mut next: impl FnMut() -> Option<Completion>) -> Option<Completion> {
        if self.passed.is_empty() {
            let mut all: Vec<_> = std::iter::from_fn(&mut next).collect();
            let fault = if all.is_empty() { None } else { gate("ring completions") };
            self.passed = std::mem::take(&mut self.held);
            match fault {
                Some(Fault::Late) => self.held.extend(all),
                Some(Fault::Reversed) => {
                    all.reverse();
                    self.passed.extend(all);
                }
                _ => self.passed.extend(all),
            }
        }
        let (user_data, result) = self.passed.pop_front()?;
        Some(match self.changes.remove(&user_data) {
            Some(Change::Instead(error)) => (user_data, error),
            Some(Change::AtMostOne) => (user_data, result.min(1)),
            None => (user_data, result),
        })
    }

    /// There are completions that the kernel does not report again.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}
