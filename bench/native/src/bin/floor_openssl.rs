//! The floor's echo through the system's OpenSSL: a separate program, so that the others do not need that library.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use oneloop_bench_native::floor::openssl_peer;
use oneloop_bench_native::floor::stream::{self, Manner};

#[derive(Debug, Parser)]
#[command(about = "An echo server without Python, TLS by OpenSSL.")]
struct Options {
    /// PEM with key and chain.
    #[arg(long)]
    tls: PathBuf,
    /// Close after the first message.
    #[arg(long)]
    once: bool,
}

fn run(options: &Options) -> io::Result<()> {
    let manner = if options.once { Manner::Once } else { Manner::Echo };
    stream::serve(None, manner, &mut openssl_peer::wrap(&options.tls)?)
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor-openssl: {error}");
            ExitCode::FAILURE
        }
    }
}
