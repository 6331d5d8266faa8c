//! A chain of due timers while many others are pending: a heap, a clock, a boxed closure; no Python.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde_json::{Value, json};

use crate::clock::{now_ns, own_cpu_ns};

const PENDING: u64 = 100_000;

/// Makes a due timer and runs it, `count` times.
#[must_use]
pub fn measure(count: u32) -> Value {
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut callbacks: Vec<Option<Box<dyn FnMut() -> bool>>> = Vec::new();
    for number in 0..PENDING {
        heap.push(Reverse((now_ns() + 3_600_000_000_000 + number * 1_000_000, usize::MAX)));
    }
    let mut ran = 0_u32;
    let (begin, cpu) = (now_ns(), own_cpu_ns());
    while ran < count {
        callbacks.push(Some(Box::new(|| std::hint::black_box(true))));
        heap.push(Reverse((now_ns(), callbacks.len() - 1)));
        let now = now_ns();
        while heap.peek().is_some_and(|Reverse((due_ns, _))| *due_ns <= now) {
            let Some(Reverse((_, slot))) = heap.pop() else { break };
            if let Some(mut callback) = callbacks.get_mut(slot).and_then(Option::take) {
                ran += u32::from(callback());
            }
        }
        callbacks.clear();
    }
    let (wall, used) = (now_ns() - begin, own_cpu_ns() - cpu);
    let ops = f64::from(count);
    json!({"ns_per_op": wall as f64 / ops, "cpu_ns_per_op": used as f64 / ops, "ops": count})
}
