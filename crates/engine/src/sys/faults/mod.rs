//! Faults: counts the system calls and makes chosen ones fail. Only with the feature `faults`, never in a wheel.
//!
//! `calls` has a function of the same name and signature for each function of `libc` that this folder calls; the files
//! of the folder use it as `libc`. Each asks `gate` whether it is its turn to fail. `waits` does the same for
//! epoll_wait(2), whose events can also come late, without a cause, or in another order. The plan belongs to the
//! process, so that a forked child has its own from there on.

pub mod calls;
mod completions;
mod waits;

pub use completions::Completions;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What happens instead of the call, or to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not happen (except close(2)), and returns this error.
    Errno(i32),
    /// It transfers one byte, or returns one event.
    Short,
    /// Events are reported by the next wait only, or the completion after the next ones.
    Late,
    /// Every registered descriptor is reported as ready for all that it waits for.
    Spurious,
    /// Events or completions come in the reverse order.
    Reversed,
}

impl Fault {
    /// From its name, or `None`: a number is an errno.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "short" => Some(Self::Short),
            "late" => Some(Self::Late),
            "spurious" => Some(Self::Spurious),
            "reversed" => Some(Self::Reversed),
            number => number.parse().ok().map(Self::Errno),
        }
    }
}

/// The calls with numbers from `first` to before `end` fail.
#[derive(Clone, Debug)]
struct Order {
    call: String,
    first: u64,
    end: u64,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Plan {
    counts: BTreeMap<String, u64>,
    orders: Vec<Order>,
    fired: u64,
}

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

fn plan() -> MutexGuard<'static, Option<Plan>> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the counts and the orders, and counts from now on.
pub fn start() {
    *plan() = Some(Plan::default());
}

/// The calls of `call` with the numbers `first` (from 1) to `first + times - 1` since `start` fail.
pub fn order(call: &str, first: u64, times: u64, fault: Fault) {
    let end = first.saturating_add(times);
    let order = Order { call: call.to_owned(), first, end, fault };
    plan().get_or_insert_default().orders.push(order);
}

/// Nothing fails and nothing is counted any more. Returns how many calls there were of each function since `start`, and
/// how many of them were made to fail.
pub fn stop() -> (BTreeMap<String, u64>, u64) {
    let plan = plan().take().unwrap_or_default();
    (plan.counts, plan.fired)
}

/// How many calls there were so far.
pub fn counts() -> BTreeMap<String, u64> {
    plan().as_ref().map(|plan| plan.counts.clone()).unwrap_or_default()
}

/// `FUNCTION:FIRST:TIMES:FAULT`, separated by commas: for child processes, which get it in ONELOOP_FAULTS.
pub fn start_from(orders: &str) -> Option<()> {
    start();
    for text in orders.split(',').filter(|text| !text.is_empty()) {
        let mut words = text.split(':');
        let call = words.next()?;
        let first = words.next()?.parse().ok()?;
        let times = words.next()?.parse().ok()?;
        order(call, first, times, Fault::parse(words.next()?)?);
    }
    Some(())
}

/// Counts a call, and says whether it is one that fails.
pub fn gate(call: &str) -> Option<Fault> {
    let mut plan = plan();
    let plan = plan.as_mut()?;
    if !plan.counts.contains_key(call) {
        plan.counts.insert(call.to_owned(), 0);
    }
    let count = plan.counts.get_mut(call)?;
    *count += 1;
    let number = *count;
    let due = plan
        .orders
        .iter()
        .find(|order| order.call == call && (order.first..order.end).contains(&number))?;
    plan.fired += 1;
    Some(due.fault)
}

/// For calls that another crate makes: the error that it is to return.
pub fn refusal(call: &'static str) -> io::Result<()> {
    match gate(call) {
        Some(Fault::Errno(errno)) => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(()),
    }
}

/// Sets the calling thread's errno and returns -1.
fn failed(errno: i32) -> libc::c_int {
    // SAFETY: the address of this thread's errno, which lives as long as the thread (errno(3)).
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else writes it.
    unsafe { *place = errno };
    -1
}
