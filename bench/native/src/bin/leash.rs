//! `leash CPU PROGRAM ARGS…`: runs the program on one CPU (`-` for any), and kills it when its parent dies.
//!
//! Both settings survive exec, so the parent, which is Python, need not run code between fork and exec. `leash` also
//! raises the soft limit of open files to the hard one, because one of the measurements has ten thousand connections.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CpuSet, sched_setaffinity};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(cpu), Some(program)) = (args.next(), args.next()) else {
        eprintln!("usage: leash CPU PROGRAM ARGS...");
        return ExitCode::FAILURE;
    };
    if let Some(cpu) = cpu.to_str().and_then(|text| text.parse().ok()) {
        let mut set = CpuSet::new();
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None, &set) {
            eprintln!("leash: CPU {cpu}: {error}");
            return ExitCode::FAILURE;
        }
    }
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("leash: prctl: {error}");
        return ExitCode::FAILURE;
    }
    let files = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }) {
        eprintln!("leash: open files: {error}");
    }
    let error = Command::new(&program).args(args).exec();
    eprintln!("leash: {}: {error}", program.to_string_lossy());
    ExitCode::FAILURE
}
