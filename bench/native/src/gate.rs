//! The protocol between the generator and its parent process: one line out, one line in.
//!
//! The generator prints `ready` after the warm-up, when no message is in flight. It reads `go` from standard input,
//! runs the measured window, and prints `done` after the last answer. The parent reads the server's CPU clock before
//! and after the window, while the server is idle, so that exactly the counted messages are charged. The generator
//! stops at the end of its input.

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

/// Waits for a line or the end of the input.
pub fn await_end() -> io::Result<()> {
    io::stdin().lock().read_line(&mut String::new()).map(drop)
}

/// Hands over the outcome of the measured window.
pub fn done(outcome: &Value) -> io::Result<()> {
    say(&json!({"event": "done", "outcome": outcome}))
}

/// Names the reason for giving up.
pub fn failed(reason: &str) -> io::Result<()> {
    say(&json!({"event": "failed", "reason": reason}))
}
