use super::*;
use crate::sys::memory::Aligned;
use std::io::Write;
use std::os::fd::AsRawFd;

type Done = Vec<Completion<Aligned>>;

fn read(fd: RawFd, offset: i64, len: usize) -> (Request, Aligned) {
    let mut memory = Aligned::new(len).expect("there is memory");
    let segment = memory.segment(len);
    (Request::Read(Transfer::new(fd, offset, false, &[segment])), memory)
}

fn reap_until(ring: &mut Ring<Aligned>, count: usize, done: &mut Done) -> io::Result<()> {
    while done.len() < count {
        ring.flush(done)?;
        ring.reap(done)?;
    }
    Ok(())
}

/// A ring, or `None` with a printed message if the sandbox forbids it.
fn ring() -> Option<Ring<Aligned>> {
    Ring::new().inspect_err(|e| eprintln!("left out: no io_uring here: {e}")).ok()
}

#[test]
fn more_operations_than_the_queues_hold() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let mut file = crate::files::fixtures::file()?;
    file.flush()?;
    let count = COMPLETIONS as usize * 3;
    for n in 0..count {
        let (request, memory) = read(file.as_raw_fd(), (n % 10) as i64, 1);
        ring.submit(request, Lane::Local, memory);
    }
    let mut done = Done::new();
    reap_until(&mut ring, count, &mut done)?;
    assert_eq!(done.len(), count);
    assert_eq!((ring.under_way(), ring.in_flight), (0, 0));
    for completion in done {
        let Some(Request::Read(transfer)) = completion.outcome.request else { panic!("a read") };
        let digit = b'0' + u8::try_from(transfer.offset).expect("one digit");
        assert_eq!(completion.outcome.result?, 1);
        assert_eq!(completion.owner.as_slice(1), [digit]);
    }
    Ok(())
}

#[test]
fn cancelled_before_and_after_sending() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let (reader, _writer) = std::io::pipe()?;
    let (request, memory) = read(reader.as_raw_fd(), -1, 1);
    let sent = ring.submit(request, Lane::Local, memory);
    let mut done = Done::new();
    ring.flush(&mut done)?;
    let (request, memory) = read(reader.as_raw_fd(), -1, 1);
    let unsent = ring.submit(request, Lane::Local, memory);
    ring.cancel(unsent);
    ring.cancel(sent);
    reap_until(&mut ring, 2, &mut done)?;
    for completion in &done {
        let error = completion.outcome.result.as_ref().expect_err("it was cancelled");
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
    }
    ring.cancel(sent);
    ring.reap(&mut done)?;
    assert_eq!(done.len(), 2, "a stale key cancels nothing");
    Ok(())
}

#[test]
fn shutting_ends_what_waits() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let (reader, _writer) = std::io::pipe()?;
    for _ in 0..10 {
        let (request, memory) = read(reader.as_raw_fd(), -1, 1);
        ring.submit(request, Lane::Local, memory);
    }
    let mut done = Done::new();
    ring.flush(&mut done)?;
    let left = ring.shut(Instant::now() + Duration::from_secs(10), &mut done);
    assert_eq!((left, done.len()), (0, 10));
    Ok(())
}

#[test]
fn the_bell_rings_for_what_completes_later() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let poller = crate::sys::epoll::create()?;
    let edge = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
    crate::sys::epoll::add(std::os::fd::AsFd::as_fd(&poller), ring.raw_fd(), edge, 0)?;
    let (reader, mut writer) = std::io::pipe()?;
    let mut done = Done::new();
    for round in 0..100 {
        let (request, memory) = read(reader.as_raw_fd(), -1, 1);
        ring.submit(request, Lane::Local, memory);
        ring.flush(&mut done)?;
        let theirs = writer.try_clone()?;
        let thread = std::thread::spawn(move || { theirs }.write_all(b"x"));
        let mut events = Vec::with_capacity(1);
        while done.len() == round {
            let patience = Some(10_000_000_000);
            match crate::sys::epoll::wait(std::os::fd::AsFd::as_fd(&poller), &mut events, patience)
            {
                // The kernel's work for a completion can interrupt the wait.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                waited => waited?,
            }
            assert!(!events.is_empty(), "slept through a completion");
            ring.reap(&mut done)?;
        }
        thread.join().expect("it does not panic")?;
    }
    writer.flush()
}

#[test]
fn results_are_the_kernels() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let file = crate::files::fixtures::file()?;
    for (offset, len, expected) in [(0, 10, 10), (3, 4, 4), (8, 10, 2), (10, 1, 0)] {
        let (request, memory) = read(file.as_raw_fd(), offset, len);
        ring.submit(request, Lane::Local, memory);
        let mut done = Done::new();
        reap_until(&mut ring, 1, &mut done)?;
        let completion = done.pop().expect("one was reaped");
        assert_eq!(completion.outcome.result?, expected);
        let from = usize::try_from(offset).expect("offsets are positive");
        assert_eq!(completion.owner.as_slice(expected), &b"0123456789"[from..from + expected]);
    }
    Ok(())
}

/// Simulates a signal that interrupts an operation which the kernel had accepted.
fn interrupt(ring: &mut Ring<Aligned>, key: Key, done: &mut Done) {
    ring.unsent.clear();
    ring.records.get_mut(key).expect("it is under way").is_sent = true;
    ring.complete(key, -libc::EINTR, done);
}

#[test]
fn what_a_signal_has_interrupted_is_sent_again() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let file = crate::files::fixtures::file()?;
    let (request, memory) = read(file.as_raw_fd(), 3, 4);
    let key = ring.submit(request, Lane::Local, memory);
    let mut done = Done::new();
    interrupt(&mut ring, key, &mut done);
    assert!(done.is_empty(), "it has not ended");
    assert!(ring.has_unsent());
    reap_until(&mut ring, 1, &mut done)?;
    let completion = done.pop().expect("one was reaped");
    assert_eq!(completion.outcome.result?, 4);
    assert_eq!(completion.owner.as_slice(4), b"3456");
    assert_eq!((ring.under_way(), ring.in_flight), (0, 0));
    Ok(())
}

#[test]
fn an_interrupted_close_has_closed() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let key = ring.submit(Request::Close { fd: -1 }, Lane::Local, Aligned::new(1).expect("memory"));
    let mut done = Done::new();
    interrupt(&mut ring, key, &mut done);
    assert_eq!(done.pop().expect("it has ended").outcome.result?, 0);
    assert!(!ring.has_unsent(), "the number may have another owner by now");
    Ok(())
}

#[test]
fn what_was_cancelled_and_interrupted_has_ended() -> io::Result<()> {
    let Some(mut ring) = ring() else { return Ok(()) };
    let file = crate::files::fixtures::file()?;
    let (request, memory) = read(file.as_raw_fd(), 3, 4);
    let key = ring.submit(request, Lane::Local, memory);
    ring.cancel(key);
    let mut done = Done::new();
    interrupt(&mut ring, key, &mut done);
    let completion = done.pop().expect("it has ended");
    let error = completion.outcome.result.expect_err("it was interrupted");
    assert_eq!(error.raw_os_error(), Some(libc::EINTR));
    assert_eq!(ring.under_way(), 0);
    Ok(())
}
