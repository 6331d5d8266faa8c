//! Models: small programs of two to four threads on the engine's own code, of which loom tries all interleavings with a
//! bounded number of preemptions (`ONELOOP_MODELS_PREEMPTIONS`, 3 by default). `make models` uses a larger bound.
//!
//! A thread that waits for ever is a deadlock, which loom reports with the way there. tests/mutants/records/models.toml
//! has the mistakes that these models must find.

pub mod eventfd;

#[cfg(test)]
mod crew;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod file_work;
#[cfg(test)]
mod handover;
#[cfg(test)]
mod waker;

/// Runs a model in every way, prints how many there were, and returns that.
#[cfg(test)]
fn every_way(name: &str, model: impl Fn() + Sync + Send + 'static) -> usize {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = std::env::var("ONELOOP_MODELS_PREEMPTIONS").ok().and_then(|n| n.parse().ok());
    let preemptions: usize = asked.unwrap_or(3);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    let ways = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ways);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let ways = ways.load(Ordering::Relaxed);
    println!("{name}: {ways} ways");
    ways
}
