//! The result of a measured window: counts, latency, and whether the generator was the bottleneck.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::session::Tally;

/// The quantiles that a report draws; the last ones are where rivals differ.
const QUANTILES: [f64; 14] =
    [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0];

/// A window while it runs.
#[derive(Debug)]
pub struct Window {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub last_done_ns: u64,
    /// Time in polls that found nothing, while spinning.
    pub idle_ns: u64,
    pub lost: u64,
    pub unsent: u64,
    pub tally: Tally,
    messages: u64,
    turns: u64,
    cpu_before_ns: u64,
    latency_ns: Histogram<u64>,
}

impl Window {
    #[must_use]
    pub fn new(begin_ns: u64, end_ns: u64, cpu_before_ns: u64) -> Self {
        let latency_ns = Histogram::new_with_bounds(1, 120_000_000_000, 3)
            .expect("the bounds are constants that hdrhistogram accepts");
        Self {
            begin_ns,
            end_ns,
            last_done_ns: begin_ns,
            idle_ns: 0,
            lost: 0,
            unsent: 0,
            tally: Tally::default(),
            messages: 0,
            turns: 0,
            cpu_before_ns,
            latency_ns,
        }
    }

    pub fn record(&mut self, latency_ns: u64, messages: u64) {
        self.latency_ns.saturating_record(latency_ns);
        self.messages += messages;
        self.turns += 1;
    }

    #[must_use]
    pub fn close(self, now_ns: u64, cpu_after_ns: u64, spin: bool) -> Outcome {
        let wall_ns = (now_ns - self.begin_ns).max(1);
        let cpu_ns = cpu_after_ns - self.cpu_before_ns;
        let busy_ns = if spin { wall_ns.saturating_sub(self.idle_ns) } else { cpu_ns };
        Outcome {
            messages: self.messages,
            turns: self.turns,
            seconds: (self.last_done_ns - self.begin_ns).max(1) as f64 / 1e9,
            lost: self.lost,
            unsent: self.unsent,
            tally: self.tally,
            generator_cpu_share: cpu_ns as f64 / wall_ns as f64,
            generator_busy_share: busy_ns as f64 / wall_ns as f64,
            spin,
            latency_ns: self.latency_ns,
        }
    }
}

/// A window that is over.
#[derive(Debug)]
pub struct Outcome {
    pub messages: u64,
    pub turns: u64,
    pub seconds: f64,
    pub lost: u64,
    pub unsent: u64,
    pub tally: Tally,
    /// CPU time of this process over wall time; 1.0 when it spins.
    pub generator_cpu_share: f64,
    /// The part of the time in which it had something to do.
    pub generator_busy_share: f64,
    pub spin: bool,
    latency_ns: Histogram<u64>,
}

impl Outcome {
    #[must_use]
    pub fn to_json(&self) -> Value {
        let at = |quantile: f64| self.latency_ns.value_at_quantile(quantile);
        let curve: Vec<Value> = QUANTILES.iter().map(|&q| json!([q, at(q)])).collect();
        json!({
            "messages": self.messages,
            "turns": self.turns,
            "seconds": self.seconds,
            "lost": self.lost,
            "unsent": self.unsent,
            "resumed": self.tally.resumed,
            "truncated": self.tally.truncated,
            "generator_cpu_share": self.generator_cpu_share,
            "generator_busy_share": self.generator_busy_share,
            "spin": self.spin,
            "latency_ns": {
                "p50": at(0.5), "p99": at(0.99), "p999": at(0.999),
                "mean": self.latency_ns.mean(), "max": self.latency_ns.max(), "curve": curve,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_shares_of_known_data() {
        let mut window = Window::new(0, 1_000_000_000, 0);
        for latency in 1..=1000 {
            window.record(latency * 1000, 2);
        }
        window.last_done_ns = 1_000_000_000;
        window.idle_ns = 250_000_000;
        let outcome = window.close(1_000_000_000, 1_000_000_000, true).to_json();
        assert_eq!(outcome["messages"], 2000);
        assert_eq!(outcome["generator_busy_share"], 0.75);
        let p50 = outcome["latency_ns"]["p50"].as_u64().unwrap();
        assert!(p50.abs_diff(500_000) < 1000, "{p50}");
    }
}
