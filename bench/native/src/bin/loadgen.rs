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
use oneloop_bench_native::session::{
    Accept, Closer, Datagram, Echo, Exchange, Http, Session, WebSocket,
};
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
    /// GET on kept connections; with --pipeline N, N requests in one write.
    Http,
    /// POST of SIZE bytes on kept connections, which have to come back.
    Post,
    /// Connect, one GET with `Connection: close`, until the server closes.
    Once,
    /// WebSocket messages there and back.
    Websocket,
}

/// What is measured while the connections stand still, in place of a window.
#[derive(Debug, Clone, Copy, ValueEnum, PartialEq, Eq)]
enum Hold {
    /// Every connection has had its answer.
    Answered,
    /// Every connection has sent its request, and reads nothing until `go`.
    Unread,
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
    /// Path of an HTTP request; without it `/SIZE`.
    #[arg(long)]
    target: Option<String>,
    /// A further header of each GET on kept connections: `Name: value`. May be repeated.
    #[arg(long = "header")]
    headers: Vec<String>,
    /// Body of the answer; without it SIZE times `x`.
    #[arg(long)]
    expect: Option<String>,
    /// Hold the connections until `go`, and measure no window.
    #[arg(long, value_enum)]
    hold: Option<Hold>,
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

    /// What an HTTP connection sends, and the responses that it expects.
    fn exchange(&self, pattern: &Pattern, token: usize) -> Arc<Exchange> {
        let target = self.target.clone().unwrap_or_else(|| format!("/{}", self.size));
        let expected = || match &self.expect {
            Some(text) => text.clone().into_bytes(),
            None => vec![b'x'; self.size],
        };
        Arc::new(match self.mode {
            Mode::Post => {
                Exchange::post(&target, pattern.at(Pattern::origin(token), self.size).to_vec())
            }
            Mode::Once => Exchange::once(&target, expected()),
            _ => Exchange::get(&target, &self.headers, self.pipeline, expected()),
        })
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
    if let Some(hold) = options.hold {
        engine.start_all()?;
        if hold == Hold::Answered {
            engine.finish_all()?;
        }
        if gate::await_go().map_err(lost_starter)? {
            engine.finish_all()?;
            gate::done(&serde_json::json!({"held": options.connections})).map_err(lost_starter)?;
        }
        return Ok(());
    }
    engine.greet()?;
    engine.run(Duration::from_secs_f64(options.warmup), options.pace())?;
    if gate::await_go().map_err(lost_starter)? {
        let outcome = engine.run(Duration::from_secs_f64(options.duration), options.pace())?;
        gate::done(&outcome.to_json()).map_err(lost_starter)?;
        // The connections stay open while the starter reads what the window has cost.
        gate::await_end().map_err(lost_starter)?;
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
        Mode::Post => {
            let open = |token| Http::new(&target, token, &options.exchange(&pattern, token));
            measure(options, all.map(open).collect())
        }
        Mode::Http | Mode::Once => {
            let exchange = options.exchange(&pattern, 0);
            measure(options, all.map(|token| Http::new(&target, token, &exchange)).collect())
        }
        Mode::Websocket => {
            let path = options.target.as_deref().unwrap_or("/");
            let open = |token| WebSocket::connect(&target, token, &pattern, path, options.size);
            measure(options, all.map(open).collect::<Result<Vec<_>, _>>()?)
        }
        Mode::Echo | Mode::Udp => {
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
