//! The load generator's command line. One run: connect, warm up, `ready`, `go`, measure, `done`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use oneloop_bench_native::engine::Engine;
use oneloop_bench_native::fault::Fault;
use oneloop_bench_native::pace::Pace;
use oneloop_bench_native::pattern::Pattern;
use oneloop_bench_native::session::{Accept, Closer, Datagram, Echo, Http, Session};
use oneloop_bench_native::wire::Target;
use oneloop_bench_native::{gate, tls};

/// Larger turns than this are waited for asleep.
const SPIN_UP_TO_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Mode {
    /// Messages there and back on a stream; with --pipeline N, N of them in one write.
    Echo,
    /// Datagrams there and back.
    Udp,
    /// Connect, one message, close.
    Accept,
    /// Open the connections, one message on each, then hold them until `go`.
    Idle,
    /// GET /SIZE on kept connections.
    Http,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Waiting {
    Auto,
    Spin,
    Sleep,
}

#[derive(Debug, Parser)]
#[command(about = "Native load generator of the oneloop bench; loopback only.")]
struct Options {
    #[arg(long, value_enum, default_value = "echo")]
    mode: Mode,
    /// Port on 127.0.0.1.
    #[arg(long, conflicts_with = "path")]
    port: Option<u16>,
    /// Path of a Unix socket.
    #[arg(long)]
    path: Option<PathBuf>,
    /// Speak TLS and trust this authority (PEM).
    #[arg(long)]
    ca: Option<PathBuf>,
    #[arg(long, default_value_t = 1024)]
    size: usize,
    #[arg(long, default_value_t = 1)]
    connections: usize,
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    /// Seconds measured.
    #[arg(long, default_value_t = 1.0)]
    duration: f64,
    /// Seconds of the same load before.
    #[arg(long, default_value_t = 0.3)]
    warmup: f64,
    /// Turns per second, open loop; without it a closed loop.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds after which a server that does not answer is called silent.
    #[arg(long, default_value_t = 5.0)]
    patience: f64,
    /// Who closes in accept mode.
    #[arg(long, value_enum, default_value = "server")]
    closer: Closer,
    /// In accept mode: each connection tries to resume the TLS session of the one before it.
    #[arg(long, requires = "ca")]
    resume: bool,
    #[arg(long, value_enum, default_value = "auto")]
    waiting: Waiting,
}

impl Options {
    fn target(&self) -> io::Result<Target> {
        if let Some(path) = &self.path {
            return Ok(Target::Unix(path.clone()));
        }
        let address = self.address()?;
        Ok(match &self.ca {
            Some(file) => Target::Tls(address, tls::client(file)?),
            None => Target::Tcp(address),
        })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        let port = self.port.ok_or_else(|| io::Error::other("--port or --path is needed"))?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn spins(&self) -> bool {
        match self.waiting {
            Waiting::Spin => true,
            Waiting::Sleep => false,
            Waiting::Auto => self.size * self.pipeline <= SPIN_UP_TO_BYTES,
        }
    }

    fn pace(&self) -> Pace {
        self.rate.map_or(Pace::Closed, |per_second| Pace::Open { per_second })
    }
}

fn measure<S: Session>(options: &Options, sessions: Vec<S>) -> Result<(), Fault> {
    let lost_starter = |error| Fault::system("talking to the starter", error);
    let mut engine = Engine::new(options.spins(), Duration::from_secs_f64(options.patience))?;
    for session in sessions {
        engine.add(session);
    }
    engine.greet()?;
    if options.mode == Mode::Idle {
        if gate::await_go().map_err(lost_starter)? {
            gate::done(&serde_json::json!({"held": options.connections})).map_err(lost_starter)?;
        }
        return Ok(());
    }
    engine.run(Duration::from_secs_f64(options.warmup), options.pace())?;
    if gate::await_go().map_err(lost_starter)? {
        let outcome = engine.run(Duration::from_secs_f64(options.duration), options.pace())?;
        gate::done(&outcome.to_json()).map_err(lost_starter)?;
    }
    Ok(())
}

fn run(options: &Options) -> Result<(), Fault> {
    let refused = |error| Fault::system("options", error);
    let pattern = Arc::new(Pattern::default());
    let all = 0..options.connections;
    if options.mode == Mode::Udp {
        let server = options.address().map_err(refused)?;
        let open = |token| Datagram::connect(server, token, &pattern, options.size);
        return measure(options, all.map(open).collect::<Result<Vec<_>, _>>()?);
    }
    let target = options.target().map_err(refused)?;
    match options.mode {
        Mode::Accept => {
            let open = |token| {
                let made = Accept::new(&target, token, &pattern, options.size, options.closer);
                if options.resume { made.resuming() } else { made }
            };
            measure(options, all.map(open).collect())
        }
        Mode::Http => {
            let open = |token| Http::connect(&target, token, options.size);
            measure(options, all.map(open).collect::<Result<Vec<_>, _>>()?)
        }
        Mode::Echo | Mode::Idle | Mode::Udp => {
            let open =
                |token| Echo::connect(&target, token, &pattern, options.size, options.pipeline);
            measure(options, all.map(open).collect::<Result<Vec<_>, _>>()?)
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            if gate::failed(&fault.to_string()).is_err() {
                eprintln!("loadgen: {fault}");
            }
            ExitCode::FAILURE
        }
    }
}
