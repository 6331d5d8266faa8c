//! `Gate`: where idle threads of a crew sleep. Usable from any thread.

use crate::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;

#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    permits: usize,
    is_closed: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread that sleeps, or the next one that would, goes on.
    pub fn let_one_in(&self) {
        self.lock().permits += 1;
        self.opened.notify_one();
    }

    /// Nobody sleeps any more.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.opened.notify_all();
    }

    /// Waits for a permit. Returns false if there will be none.
    pub fn pass(&self) -> bool {
        let mut state = self.lock();
        while state.permits == 0 && !state.is_closed {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let has_permit = state.permits > 0;
        state.permits -= usize::from(has_permit);
        has_permit
    }
}
