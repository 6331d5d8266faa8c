//! The floor's command line: a server that announces its port, or a task that prints its cost as JSON.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use oneloop_bench_native::floor::stream::{self, Manner};
use oneloop_bench_native::floor::{
    answer, ask, datagram, files, http, names, rustls_peer, spawn, timers, uring,
};

#[derive(Debug, Parser)]
#[command(about = "Servers and tasks without Python: the floor of the oneloop bench.")]
struct Options {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    /// Echo on a stream; with --tls (PEM with key and chain) over TLS.
    Echo {
        #[arg(long)]
        path: Option<PathBuf>,
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// Echo the first message, then close.
    Accept {
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// Echo with a byte changed: for the bench's own tests.
    Corrupt {
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// Echo on a stream through io_uring.
    Uring {
        #[arg(long)]
        path: Option<PathBuf>,
    },
    Udp,
    Http,
    /// Answer HTTP clients.
    Answer {
        #[arg(long)]
        close: bool,
        #[arg(long, default_value_t = 0)]
        delay_ms: u64,
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// Be an HTTP client.
    Ask {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        size: usize,
        #[arg(long, default_value_t = 0)]
        upload: usize,
        #[arg(long)]
        at_once: usize,
        #[arg(long)]
        close: bool,
        #[arg(long)]
        warmup: f64,
        #[arg(long)]
        duration: f64,
    },
    /// Start a child many times.
    Spawn {
        #[arg(long, default_value_t = 100)]
        count: u32,
        /// The batches are repeated for at least this many seconds.
        #[arg(long, default_value_t = 0.0)]
        seconds: f64,
        #[arg(long, default_value_t = 0)]
        parent_mib: usize,
    },
    /// Run due timers while 100,000 are pending.
    Timers {
        #[arg(long, default_value_t = 100_000)]
        count: u32,
    },
    /// Look a name up many times.
    Resolve {
        #[arg(long, default_value_t = 1000)]
        count: u32,
        /// The batches are repeated for at least this many seconds.
        #[arg(long, default_value_t = 0.0)]
        seconds: f64,
        #[arg(long)]
        host: String,
    },
    /// Read whole files many times.
    Files {
        #[arg(long, default_value_t = 1000)]
        rounds: u32,
        /// The batches are repeated for at least this many seconds.
        #[arg(long, default_value_t = 0.0)]
        seconds: f64,
        paths: Vec<PathBuf>,
    },
}

fn echo(path: Option<&Path>, manner: Manner, tls: Option<&Path>) -> io::Result<()> {
    match tls {
        Some(file) => stream::serve(path, manner, &mut rustls_peer::wrap(file)?),
        None => stream::serve(path, manner, &mut stream::plain),
    }
}

fn answer(close: bool, delay_ms: u64, tls: Option<&Path>) -> io::Result<()> {
    let habits = answer::Habits { closes: close, delay: Duration::from_millis(delay_ms) };
    match tls {
        Some(file) => answer::serve(habits, &mut rustls_peer::wrap(file)?),
        None => answer::serve(habits, &mut stream::plain),
    }
}

fn run(work: &Work) -> io::Result<()> {
    match work {
        Work::Echo { path, tls } => echo(path.as_deref(), Manner::Echo, tls.as_deref()),
        Work::Accept { tls } => echo(None, Manner::Once, tls.as_deref()),
        Work::Corrupt { tls } => echo(None, Manner::Corrupt, tls.as_deref()),
        Work::Uring { path } => uring::serve(path.as_deref()),
        Work::Udp => datagram::serve(),
        Work::Http => http::serve(),
        Work::Answer { close, delay_ms, tls } => answer(*close, *delay_ms, tls.as_deref()),
        &Work::Ask { port, size, upload, at_once, close, warmup, duration } => {
            ask::measure(ask::Plan {
                port,
                size,
                upload,
                at_once,
                closes: close,
                warmup: Duration::from_secs_f64(warmup),
                duration: Duration::from_secs_f64(duration),
            })
        }
        Work::Spawn { count, seconds, parent_mib } => {
            hand_over(&spawn::measure(*count, Duration::from_secs_f64(*seconds), *parent_mib)?)
        }
        Work::Timers { count } => hand_over(&timers::measure(*count)),
        Work::Resolve { count, seconds, host } => {
            hand_over(&names::resolve(host, *count, Duration::from_secs_f64(*seconds))?)
        }
        Work::Files { rounds, seconds, paths } => {
            hand_over(&files::measure(paths, *rounds, Duration::from_secs_f64(*seconds))?)
        }
    }
}

/// Prints the figures and waits for a line, so that the parent can read the memory use in between.
fn hand_over(figures: &serde_json::Value) -> io::Result<()> {
    println!("{figures}");
    io::stdin().read_line(&mut String::new()).map(|_| ())
}

fn main() -> ExitCode {
    match run(&Options::parse().work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}
