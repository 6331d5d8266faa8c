//! Runs the same tests on both engines. The files are cached; kernel AIO completes such transfers inside the
//! submission.
#![allow(unsafe_code)]

use super::*;
use crate::files::Segment;
use crate::files::fixtures::{Owner, file, operation, owned, poll};
use crate::files::operation::{Memory, Opcode};
use crate::sys::eventfd;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Both engines. If the machine refuses one, the test fails.
fn both<T>(capacity: u32) -> io::Result<[Polled<T>; 2]> {
    Ok([Polled::ring(capacity)?, Polled::aio(capacity)?])
}

/// Waits again after EINTR: the kernel interrupts a thread for its own work when a ring that the thread has closed ends
/// (`io_ring_exit_work`).
fn wait(
    waiter: &Waiter,
    min: usize,
    timeout_ns: Option<u64>,
    events: &mut Events,
) -> io::Result<()> {
    loop {
        match waiter.wait(min, min, timeout_ns, events) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Waits for exactly `count` completions.
fn completions<T>(context: &mut Polled<T>, count: usize) -> io::Result<Vec<Completion<T>>> {
    let (waiter, mut events, mut all) = (context.waiter(), Events::default(), Vec::new());
    while all.len() < count {
        let wanted = count - all.len();
        wait(&waiter, wanted, None, &mut events)?;
        all.extend(context.collect(&mut events, wanted)?);
    }
    Ok(all)
}

fn is_idle<T>(context: &mut Polled<T>, timeout_ns: u64) -> io::Result<bool> {
    let mut events = Events::default();
    wait(&context.waiter(), 1, Some(timeout_ns), &mut events)?;
    Ok(context.collect(&mut events, 1)?.is_empty())
}

fn errno<T>(submission: &Submission<T>) -> Option<i32> {
    submission.error.as_ref().and_then(io::Error::raw_os_error)
}

#[test]
fn the_ring_passes_its_trial() -> io::Result<()> {
    polled_ring::trial()
}

#[test]
fn reads_writes_and_syncs() -> io::Result<()> {
    for mut context in both(4)? {
        let gone = Arc::default();
        let mut file = file()?;
        let read = operation(Opcode::Read, file.as_raw_fd(), 16, &gone);
        let submission = context.submit(vec![read]);
        assert_eq!((submission.taken.len(), submission.refused.len()), (1, 0));
        let done = completions(&mut context, 1)?.remove(0);
        assert_eq!((done.key, done.result), (submission.taken[0], 10));
        assert_eq!(&done.owner.bytes[..10], b"0123456789");

        let mut write = operation(Opcode::Write, file.as_raw_fd(), 2, &gone);
        write.offset = 4;
        let syncs = [Opcode::Fsync, Opcode::Fdsync];
        let syncs = syncs.map(|opcode| operation(opcode, file.as_raw_fd(), 0, &gone));
        assert_eq!(context.submit(vec![write]).taken.len(), 1);
        assert_eq!(context.submit(syncs.into()).taken.len(), 2);
        let mut results: Vec<i64> =
            completions(&mut context, 3)?.iter().map(|done| done.result).collect();
        results.sort_unstable();
        assert_eq!(results, [0, 0, 2]);
        let mut content = String::new();
        file.rewind()?;
        file.read_to_string(&mut content)?;
        assert_eq!(content, "0123\0\x006789");
        assert_eq!(context.in_flight(), 0);
    }
    Ok(())
}

#[test]
fn vectors_are_one_operation() -> io::Result<()> {
    for mut context in both(1)? {
        let gone = Arc::default();
        let file = file()?;
        let (mut first, mut second) = (owned(4, &gone), owned(4, &gone));
        let segments = [&mut first, &mut second]
            // SAFETY: the owner below keeps both buffers alive.
            .map(|(_, owner)| unsafe { Segment::new(owner.bytes.as_mut_ptr(), 4) });
        let read = Operation {
            opcode: Opcode::Read,
            fd: file.as_raw_fd(),
            offset: 1,
            memory: Memory::new(&segments),
            rw_flags: 0,
            priority: 0,
            resfd: None,
            owner: (first.1, second.1),
        };
        assert_eq!(context.submit(vec![read]).taken.len(), 1);
        let done = completions(&mut context, 1)?.remove(0);
        assert_eq!(done.result, 8);
        assert_eq!(&*done.owner.0.bytes, b"1234");
        assert_eq!(&*done.owner.1.bytes, b"5678");
    }
    Ok(())
}

#[test]
fn no_more_than_the_capacity_is_in_flight() -> io::Result<()> {
    for mut context in both(2)? {
        let gone = Arc::default();
        let (reader, _writer) = io::pipe()?;
        let polls = (0..4).map(|_| poll(reader.as_raw_fd(), &gone)).collect();
        let submission = context.submit(polls);
        assert_eq!((submission.taken.len(), submission.refused.len()), (2, 2));
        let again = context.submit(submission.refused);
        assert_eq!((again.taken.len(), again.refused.len()), (0, 2));
        assert_eq!(errno(&again), Some(libc::EAGAIN));
        assert_eq!(context.in_flight(), context.capacity());
    }
    Ok(())
}

#[test]
fn an_operation_that_is_wrong_is_given_back_with_those_after_it() -> io::Result<()> {
    for mut context in both(4)? {
        let gone = Arc::default();
        let file = file()?;
        let good = || operation(Opcode::Read, file.as_raw_fd(), 1, &gone);
        let bad = operation(Opcode::Read, -1, 1, &gone);
        let submission = context.submit(vec![good(), bad, good()]);
        assert_eq!((submission.taken.len(), submission.refused.len()), (1, 2));
        let again = context.submit(submission.refused);
        assert_eq!(errno(&again), Some(libc::EBADF));
        assert_eq!(again.refused.len(), 2);
        assert_eq!(completions(&mut context, 1)?.len(), 1);
    }
    Ok(())
}

#[test]
fn a_descriptor_for_the_other_direction_is_refused() -> io::Result<()> {
    for mut context in both(4)? {
        let gone = Arc::default();
        let (reader, writer) = io::pipe()?;
        let read = operation(Opcode::Read, writer.as_raw_fd(), 1, &gone);
        assert_eq!(errno(&context.submit(vec![read])), Some(libc::EBADF));
        let write = operation(Opcode::Write, reader.as_raw_fd(), 1, &gone);
        assert_eq!(errno(&context.submit(vec![write])), Some(libc::EBADF));
    }
    Ok(())
}

#[test]
fn nothing_is_freed_before_its_completion() -> io::Result<()> {
    for mut context in both(2)? {
        let gone: Arc<AtomicUsize> = Arc::default();
        let (reader, mut writer) = io::pipe()?;
        context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
        assert!(is_idle(&mut context, 0)?, "a zero timeout does not wait");
        assert!(is_idle(&mut context, 1_000_000)?, "one that ends brings nothing");
        assert_eq!(gone.load(Ordering::Relaxed), 0);
        writer.write_all(b"x")?;
        let done = completions(&mut context, 1)?;
        assert_eq!(done[0].result, i64::from(libc::POLLIN));
        drop(done);
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    }
    Ok(())
}

#[test]
fn a_cancelled_poll_says_so() -> io::Result<()> {
    for mut context in both(2)? {
        let gone = Arc::default();
        let (reader, _writer) = io::pipe()?;
        let key = context.submit(vec![poll(reader.as_raw_fd(), &gone)]).taken[0];
        context.cancel(key)?;
        let done = completions(&mut context, 1)?;
        assert_eq!(done[0].result, -i64::from(libc::ECANCELED));
        let error = context.cancel(key).expect_err("it is not in flight any more");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
    Ok(())
}

#[test]
fn dropping_the_context_ends_what_is_in_flight() -> io::Result<()> {
    for mut context in both(8)? {
        let gone: Arc<AtomicUsize> = Arc::default();
        let (reader, _writer) = io::pipe()?;
        context.submit((0..8).map(|_| poll(reader.as_raw_fd(), &gone)).collect());
        drop(context);
        assert_eq!(gone.load(Ordering::Relaxed), 8);
    }
    Ok(())
}

#[test]
fn an_eventfd_of_the_operations_own_is_raised() -> io::Result<()> {
    for mut context in both(4)? {
        let gone = Arc::default();
        let file = file()?;
        let own = eventfd::create()?;
        let read = operation(Opcode::Read, file.as_raw_fd(), 1, &gone);
        let read = Operation { resfd: Some(own.as_raw_fd()), ..read };
        assert_eq!(context.submit(vec![read]).taken.len(), 1);
        assert_eq!(completions(&mut context, 1)?[0].result, 1);
        let mut raised = operation(Opcode::Poll { mask: 1 }, own.as_raw_fd(), 0, &gone);
        raised.resfd = None;
        context.submit(vec![raised]);
        assert_eq!(completions(&mut context, 1)?[0].result, 1);
    }
    Ok(())
}

#[test]
fn only_an_eventfd_is_taken_for_one() -> io::Result<()> {
    for mut context in both(4)? {
        let gone = Arc::default();
        let file = file()?;
        let read = operation(Opcode::Read, file.as_raw_fd(), 1, &gone);
        let read = Operation { resfd: Some(file.as_raw_fd()), ..read };
        assert_eq!(errno(&context.submit(vec![read])), Some(libc::EINVAL));
    }
    Ok(())
}

#[test]
fn one_thread_waits_while_another_submits() -> io::Result<()> {
    for mut context in both(2)? {
        let gone = Arc::default();
        let (reader, mut writer) = io::pipe()?;
        let waiter = context.waiter();
        let waiting = std::thread::spawn(move || {
            let mut events = Events::default();
            waiter.wait(1, 8, None, &mut events).map(|()| events)
        });
        context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
        writer.write_all(b"x")?;
        let mut events = waiting.join().expect("it does not panic")?;
        assert_eq!(context.collect(&mut events, 8)?.len(), 1);
        assert_eq!(context.in_flight(), 0);
    }
    Ok(())
}

#[test]
fn more_than_a_queue_full_is_submitted_at_once() -> io::Result<()> {
    for mut context in both(3000)? {
        let gone: Arc<AtomicUsize> = Arc::default();
        let file = file()?;
        let reads = (0..3000).map(|n| Operation {
            offset: n % 10,
            ..operation(Opcode::Read, file.as_raw_fd(), 1, &gone)
        });
        assert_eq!(context.submit(reads.collect()).taken.len(), 3000);
        let done = completions(&mut context, 3000)?;
        assert!(done.iter().all(|done| done.result == 1 && done.owner.bytes[0].is_ascii_digit()));
        drop(done);
        assert_eq!((context.in_flight(), gone.load(Ordering::Relaxed)), (0, 3000));
    }
    Ok(())
}

#[test]
fn what_an_owner_is_does_not_matter() -> io::Result<()> {
    let (reader, _writer) = io::pipe()?;
    for mut context in both::<Owner>(1)? {
        let gone = Arc::default();
        let submission = context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
        assert_eq!(submission.taken.len(), 1);
        assert_eq!(context.drain(Duration::from_secs(5)).len(), 1);
    }
    Ok(())
}
