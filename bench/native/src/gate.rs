//! The conversation with whoever started the generator: one line out, one line in.
//!
//! `ready` after the warm-up, when no message is under way; then `go` on standard input; the measured
//! window; `done` when the last answer is in. The starter reads the server's CPU clock at both ends, while the
//! server rests, so that exactly the counted messages are charged. End of input means: stop.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn say(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

/// Announces readiness and waits for the word; false when the starter has gone.
pub fn await_go() -> io::Result<bool> {
    say(&json!({"event": "ready"}))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == "go")
}

/// Hands over the outcome of the measured window.
pub fn done(outcome: &Value) -> io::Result<()> {
    say(&json!({"event": "done", "outcome": outcome}))
}

/// Names the reason for giving up.
pub fn failed(reason: &str) -> io::Result<()> {
    say(&json!({"event": "failed", "reason": reason}))
}
