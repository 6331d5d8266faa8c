use super::cached::{self, AtOnce};
use super::mount::Place as Filesystem;
use super::*;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("oneloop-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn place(&self, name: &str) -> Place {
        let path = CString::new(self.0.join(name).as_os_str().as_bytes()).expect("no NUL");
        Place { dir_fd: libc::AT_FDCWD, path }
    }

    fn fifo(&self, name: &str) -> io::Result<Place> {
        let place = self.place(name);
        crate::sys::file::make_fifo((place.dir_fd, &place.path), 0o600)?;
        Ok(place)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let removed = std::fs::remove_dir_all(&self.0);
        assert!(removed.is_ok(), "{removed:?}");
    }
}

fn engines() -> Vec<(Choice, Engines<u32>)> {
    let made = [Choice::Ring, Choice::Aio, Choice::Threads].map(|c| (c, Engines::new(c)));
    let say = |e: &io::Error| eprintln!("left out: an engine that does not work here: {e}");
    let works = made.map(|(choice, made)| made.inspect_err(say).ok().map(|e| (choice, e)));
    works.into_iter().flatten().collect()
}

fn run(engines: &mut Engines<u32>, request: Request) -> io::Result<usize> {
    let ticket = engines.submit(request, Lane::Local, 7).map_err(|(error, _)| error)?;
    let mut done = Vec::new();
    while done.is_empty() {
        engines.flush(&mut done);
        engines.reap_ring(&mut done);
        engines.reap_direct(&mut done);
        engines.reap_pool(&mut done);
    }
    let completion = done.pop().expect("the loop has seen one");
    assert_eq!(completion.owner, 7);
    engines.cancel(ticket);
    completion.outcome.result
}

/// On every engine, every request does the same as the system call of its name.
#[test]
fn every_request_on_every_engine() -> io::Result<()> {
    for (choice, mut engines) in engines() {
        let folder = Folder::new(choice.name())?;
        let at = |name: &str| folder.place(name);
        let run = |engines: &mut Engines<u32>, request| run(engines, request);
        let exists = |name: &str| Path::new(&folder.0.join(name)).symlink_metadata().is_ok();
        let e = &mut engines;

        run(e, Request::Mkdir { at: at("inner"), mode: 0o755 })?;
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = run(e, Request::Open { at: at("a"), flags, mode: 0o600 })? as RawFd;
        run(e, Request::Allocate { fd, mode: 0, offset: 0, len: 100 })?;
        run(e, Request::Truncate { fd, len: 10 })?;
        run(e, Request::Sync { fd, datasync: false })?;
        run(e, Request::Sync { fd, datasync: true })?;
        run(e, Request::Close { fd })?;
        assert_eq!(folder.0.join("a").metadata()?.len(), 10);
        run(e, Request::Link { from: at("a"), to: at("b"), flags: 0 })?;
        let target = CString::new("a").expect("no NUL");
        run(e, Request::Symlink { target, at: at("s") })?;
        run(e, Request::Rename { from: at("b"), to: at("c"), flags: 0 })?;
        assert!(exists("a") && !exists("b") && exists("c") && exists("s"));
        run(e, Request::Unlink { at: at("s"), flags: 0 })?;
        run(e, Request::Unlink { at: at("inner"), flags: REMOVE_FOLDER })?;
        assert!(!exists("s") && !exists("inner"));

        let error = run(e, Request::Unlink { at: at("none"), flags: 0 }).expect_err("no file");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        let no_replace = Request::Rename { from: at("a"), to: at("c"), flags: 1 };
        let error = run(e, no_replace).expect_err("RENAME_NOREPLACE");
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
        assert_eq!(engines.under_way(), 0);
    }
    Ok(())
}

#[test]
fn calls_run_on_threads_and_end_with_the_pool() -> io::Result<()> {
    let mut engines = Engines::new(Choice::Threads)?;
    let (sender, receiver) = std::sync::mpsc::channel();
    for n in 0..20 {
        let sender = sender.clone();
        let call = Box::new(move || {
            sender.send(n).expect("the receiver lives");
            Ok(0)
        });
        assert!(engines.call(call, Lane::Long(Filesystem::Local), n).is_ok());
    }
    drop(sender);
    let mut called: Vec<u32> = receiver.iter().collect();
    called.sort_unstable();
    assert_eq!(called, (0..20).collect::<Vec<_>>());
    let mut done = Vec::new();
    let left = engines.shut(Instant::now() + Duration::from_secs(10), &mut done);
    assert_eq!((left, done.len()), (0, 20));
    Ok(())
}

/// Waiting for a FIFO's other end does not block a thread that others need.
#[test]
fn a_fifo_starves_nobody() -> io::Result<()> {
    let folder = Folder::new("fifo")?;
    let at = folder.fifo("pipe")?;
    assert!(matches!(cached::open(at.dir_fd, &at.path, libc::O_RDONLY)?, AtOnce::Unbounded));
    assert!(matches!(cached::open(at.dir_fd, &at.path, libc::O_WRONLY)?, AtOnce::Unbounded));
    let creating = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    assert!(matches!(cached::open(at.dir_fd, &at.path, creating)?, AtOnce::Unbounded));

    let mut engines = Engines::new(Choice::Threads)?;
    for n in 0..10 {
        let request = Request::Open { at: at.clone(), flags: libc::O_RDONLY, mode: 0 };
        assert!(engines.submit_unbounded(request, n).is_ok());
    }
    let file = folder.place("file");
    run(&mut engines, Request::Mkdir { at: file, mode: 0o700 })?;
    // The opens complete once the other end arrives.
    let writer = std::fs::OpenOptions::new().write(true).open(folder.0.join("pipe"))?;
    let mut done = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while done.len() < 10 && Instant::now() < deadline {
        engines.reap_pool(&mut done);
    }
    assert_eq!((engines.shut(deadline, &mut done), done.len()), (0, 10));
    for completion in done {
        crate::sys::file::close(completion.outcome.result? as RawFd)?;
    }
    drop(writer);
    Ok(())
}

/// After a cancelled open of a FIFO, no reader or writer is left for the other end to meet.
#[test]
fn a_cancelled_opening_leaves_nobody() -> io::Result<()> {
    let folder = Folder::new("fifo-cancelled")?;
    for (name, flags) in [("read", libc::O_RDONLY), ("written", libc::O_WRONLY)] {
        let at = folder.fifo(name)?;
        let mut engines = Engines::new(Choice::Threads)?;
        let request = Request::Open { at: at.clone(), flags, mode: 0 };
        let Ok(ticket) = engines.submit_unbounded(request, 1) else { panic!("a thread") };
        std::thread::sleep(Duration::from_millis(20));
        engines.cancel(ticket);
        let mut done = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(10);
        let left = engines.shut(deadline, &mut done);
        assert_eq!((left, done.len()), (0, 1));
        let result = done.remove(0).outcome.result.map_err(|e| e.raw_os_error());
        assert_eq!(result.unwrap_err(), Some(libc::ECANCELED));
        let write = libc::O_WRONLY | libc::O_NONBLOCK;
        let met = crate::sys::file::open_owned(at.dir_fd, &at.path, write, 0);
        assert_eq!(
            met.map_err(|e| e.raw_os_error()).unwrap_err(),
            Some(libc::ENXIO),
            "no reader is left"
        );
    }
    Ok(())
}

/// A reader's open succeeds for a writer that has written nothing yet, or that has come and gone.
#[test]
fn a_fifo_opens_when_its_other_end_has_come() -> io::Result<()> {
    let folder = Folder::new("fifo-met")?;
    for (name, stays) in [("stays", true), ("goes", false)] {
        let at = folder.fifo(name)?;
        let mut engines = Engines::new(Choice::Threads)?;
        let request = Request::Open { at, flags: libc::O_RDONLY, mode: 0 };
        assert!(engines.submit_unbounded(request, 1).is_ok());
        let writer = std::fs::OpenOptions::new().write(true).open(folder.0.join(name))?;
        let _writer = stays.then_some(writer);
        let mut done = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(10);
        while done.is_empty() && Instant::now() < deadline {
            engines.reap_pool(&mut done);
        }
        engines.shut(deadline, &mut done);
        let fd = done.remove(0).outcome.result? as RawFd;
        let flags = crate::sys::descriptor::open_flags(fd);
        assert_eq!(flags.map(|flags| flags & libc::O_NONBLOCK)?, 0);
        crate::sys::file::close(fd)?;
    }
    Ok(())
}

/// A cancelled read from a pipe consumes nothing.
#[test]
fn a_cancelled_read_takes_nothing() -> io::Result<()> {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    let (mut reader, mut writer) = std::io::pipe()?;
    let mut engines = Engines::new(Choice::Threads)?;
    let mut memory = crate::sys::memory::Aligned::new(8).expect("there is memory");
    let transfer = Transfer::new(reader.as_raw_fd(), -1, false, &[memory.segment(8)]);
    let Ok(ticket) = engines.submit(Request::Read(transfer), Lane::Local, 1) else {
        panic!("a thread")
    };
    engines.cancel(ticket);
    let mut done = Vec::new();
    while done.is_empty() {
        engines.reap_pool(&mut done);
    }
    let error = done.pop().expect("one").outcome.result.expect_err("cancelled");
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    writer.write_all(b"whole")?;
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    assert_eq!(text, "whole");
    Ok(())
}

/// The flags of an open file.
fn flags_of(fd: RawFd) -> io::Result<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
    Ok(i32::from_str_radix(flags.trim(), 8).expect("octal"))
}

#[test]
fn what_is_cached_is_opened_at_once_without_leaving_traces() -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let folder = Folder::new("cached")?;
    std::fs::write(folder.0.join("a"), b"content")?;
    let at = folder.place("a");
    let AtOnce::Done(fd) = cached::open(at.dir_fd, &at.path, libc::O_RDONLY)? else {
        eprintln!("left out: openat2(RESOLVE_CACHED) does not work here");
        return Ok(());
    };
    let AtOnce::Done((_, kind)) = cached::open_for_reading(&at.path)? else { panic!("cached") };
    assert!(kind.is_regular());
    assert_eq!(kind.len, 7);
    let flags = flags_of(fd.as_raw_fd())?;
    assert_eq!(flags & libc::O_NONBLOCK, 0, "O_NONBLOCK was for the opening alone");
    assert_ne!(flags & libc::O_CLOEXEC, 0);
    let missing = cached::open(at.dir_fd, &folder.place("none").path, libc::O_RDONLY);
    match missing {
        Err(e) => assert_eq!(e.raw_os_error(), Some(libc::ENOENT)),
        // During a concurrent rename the kernel cannot answer.
        Ok(attempt) => assert!(matches!(attempt, AtOnce::WouldBlock | AtOnce::Unknown)),
    }
    Ok(())
}

/// A thread answers what kernel AIO refuses (an unaligned buffer, a file that it cannot read).
#[test]
fn what_kernel_aio_refuses_is_answered_by_a_thread() -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let Ok(mut engines) = Engines::new(Choice::Aio) else { return Ok(()) };
    // procfs supports neither kernel AIO nor RWF_NOWAIT; read(2) works.
    let file = std::fs::File::open("/proc/self/stat")?;
    let mut memory = crate::sys::memory::Aligned::new(16).expect("there is memory");
    let transfer = Transfer::new(file.as_raw_fd(), 0, true, &[memory.segment(16)]);
    assert_eq!(run(&mut engines, Request::Read(transfer))?, 16);
    let closed = Transfer::new(-1, 0, true, &[memory.segment(16)]);
    let error = run(&mut engines, Request::Read(closed)).expect_err("no such file");
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    Ok(())
}

fn in_shared_memory() -> io::Result<File> {
    let path = format!("/dev/shm/oneloop-{}", std::process::id());
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Memory filesystems cannot report whether a read would block.
#[test]
fn memory_is_read_at_once() -> io::Result<()> {
    let Ok(mut file) = in_shared_memory() else {
        eprintln!("left out: /dev/shm cannot be written to");
        return Ok(());
    };
    file.write_all(b"123456")?;
    let fd = file.as_raw_fd();
    let mut room = [MaybeUninit::uninit(); 8];
    assert!(cached::ask(fd)?.1);
    assert!(matches!(cached::read(fd, &mut room, 2)?, AtOnce::Done(4)));
    assert!(matches!(cached::read(fd, &mut room, 6)?, AtOnce::Done(0)));
    assert!(matches!(cached::write_slice(fd, b"7", 6)?, AtOnce::Unknown));
    Ok(())
}

#[test]
fn what_takes_long_to_close() -> io::Result<()> {
    let long = |file: &dyn AsRawFd| cached::is_long_to_close(file.as_raw_fd());
    let (one, _other) = std::os::unix::net::UnixStream::pair()?;
    assert!(long(&one), "a socket");
    let mut unnamed = fixtures::file()?;
    assert!(!long(&unnamed));
    unnamed.write_all(&vec![0; 5 << 20])?;
    assert!(long(&unnamed), "it is freed");
    let folder = Folder::new("close")?;
    let mut named = File::create(folder.0.join("large"))?;
    named.write_all(&vec![0; 5 << 20])?;
    assert!(!long(&named));
    named.write_all(&vec![0; 16 << 20])?;
    assert!(long(&named), "it may be flushed");
    Ok(())
}

/// Whatever has taken the place of a small file is left alone.
#[test]
fn only_small_files_are_truncated_in_a_short_time() -> io::Result<()> {
    let folder = Folder::new("short")?;
    let (small, large, pipe) = (folder.place("small"), folder.place("large"), folder.place("pipe"));
    std::fs::write(folder.0.join("small"), b"1")?;
    std::fs::write(folder.0.join("large"), vec![1; 2 << 20])?;
    folder.fifo("pipe")?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let opened = |path: &CStr, flags| cached::open(libc::AT_FDCWD, path, flags);
    cached::look_up(libc::AT_FDCWD, &small.path, 0)?;
    if !matches!(opened(&small.path, libc::O_RDONLY)?, AtOnce::Done(_)) {
        eprintln!("left out: openat2(RESOLVE_CACHED) does not work here");
        return Ok(());
    }
    assert!(matches!(opened(&small.path, flags)?, AtOnce::Short));
    assert!(matches!(opened(&small.path, flags | libc::O_EXCL)?, AtOnce::WouldBlock));
    assert!(matches!(opened(&large.path, flags)?, AtOnce::WouldBlock));
    assert!(cached::is_short_to_replace(&small.path));
    assert!(!cached::is_short_to_replace(&large.path));
    assert!(!cached::is_short_to_replace(&pipe.path));
    let open_short = |path: &CStr| cached::open_short(libc::AT_FDCWD, path, flags, 0o600);
    let Some((fd, status)) = open_short(&small.path)? else { panic!("it is there") };
    assert_eq!((status.len, flags_of(fd.as_raw_fd())? & libc::O_NONBLOCK), (0, 0));
    assert!(open_short(&pipe.path)?.is_none(), "nobody reads it");
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(folder.0.join("pipe"))?;
    assert!(open_short(&pipe.path)?.is_none(), "it is no file");
    Ok(())
}

/// Work that cannot be cancelled and that is being waited for is done even while the engines are shut down.
#[test]
fn uncancellable_work_is_done_while_the_pool_is_shut() -> io::Result<()> {
    let mut engines = Engines::new(Choice::Threads)?;
    let (begun, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let call = |pause_ms: u64| -> Call {
        let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
        Box::new(move || {
            begun.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(pause_ms));
            Ok(done.fetch_add(1, Ordering::Relaxed))
        })
    };
    for _ in 0..4 {
        engines.call(call(50), Lane::Local, 0_u32).map_err(|(error, _)| error)?;
    }
    while begun.load(Ordering::Relaxed) < 4 {
        std::thread::yield_now();
    }
    let patience = Duration::from_micros(50);
    for is_uncancellable in [true, false] {
        let work = Work::Call(call(0));
        let brief = engines.work_and_wait(work, Lane::Local, is_uncancellable, 1, patience);
        assert!(matches!(brief, Ok(Brief::Later(_))), "all threads are busy");
    }
    let mut completions = Vec::new();
    let left = engines.shut(Instant::now() + Duration::from_secs(10), &mut completions);
    assert_eq!((left, done.load(Ordering::Relaxed)), (0, 5));
    Ok(())
}
