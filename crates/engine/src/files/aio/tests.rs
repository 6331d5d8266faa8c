//! On the kernel's own AIO; the files are cached ones, which it serves inside of the submission.
#![allow(unsafe_code)]

use super::*;
use crate::files::operation::Memory;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

const FOREVER: Option<u64> = None;
const AT_ONCE: Option<u64> = Some(0);

/// An owner that keeps a buffer and counts when it goes.
struct Owner {
    bytes: Box<[u8]>,
    gone: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

fn owned(len: usize, gone: &Arc<AtomicUsize>) -> (Memory, Owner) {
    let mut bytes = vec![0; len].into_boxed_slice();
    let segment = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
    // SAFETY: the owner keeps the bytes, wherever it is moved.
    let memory = unsafe { Memory::new(Box::new([segment])) };
    (memory, Owner { bytes, gone: Arc::clone(gone) })
}

fn operation(opcode: Opcode, fd: RawFd, len: usize, gone: &Arc<AtomicUsize>) -> Operation<Owner> {
    let (memory, owner) = owned(len, gone);
    Operation { opcode, fd, offset: 0, memory, rw_flags: 0, priority: 0, resfd: None, owner }
}

fn poll(fd: RawFd, gone: &Arc<AtomicUsize>) -> Operation<Owner> {
    let mask = libc::POLLIN.cast_unsigned();
    operation(Opcode::Poll { mask }, fd, 0, gone)
}

/// A file that is gone from its folder, with ten bytes in it.
fn file() -> io::Result<File> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let name =
        format!("oneloop-aio-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(b"0123456789")?;
    Ok(file)
}

#[test]
fn reads_and_writes() -> io::Result<()> {
    let gone = Arc::default();
    let mut file = file()?;
    let mut context = AioContext::new(4)?;
    let read = operation(Opcode::Read, file.as_raw_fd(), 16, &gone);
    let submission = context.submit(vec![read]);
    assert_eq!((submission.taken.len(), submission.refused.len()), (1, 0));
    let completions = context.reap(1, 4, FOREVER)?;
    assert_eq!(completions[0].key, submission.taken[0]);
    assert_eq!(completions[0].result, 10, "a short read");
    assert_eq!(&completions[0].owner.bytes[..10], b"0123456789");

    let mut write = operation(Opcode::Write, file.as_raw_fd(), 2, &gone);
    write.offset = 4;
    let sync = operation(Opcode::Fdsync, file.as_raw_fd(), 0, &gone);
    assert_eq!(context.submit(vec![write, sync]).taken.len(), 2);
    let results: Vec<i64> = context.reap(2, 4, FOREVER)?.iter().map(|c| c.result).collect();
    assert!(results.contains(&2) && results.contains(&0), "{results:?}");
    let mut content = String::new();
    file.rewind()?;
    file.read_to_string(&mut content)?;
    assert_eq!(content, "0123\0\x006789");
    Ok(())
}

#[test]
fn vectors_are_one_operation() -> io::Result<()> {
    let gone = Arc::default();
    let file = file()?;
    let (mut first, mut second) = (owned(4, &gone), owned(4, &gone));
    let segments = [&mut first, &mut second]
        .map(|(_, owner)| libc::iovec { iov_base: owner.bytes.as_mut_ptr().cast(), iov_len: 4 });
    let mut context = AioContext::new(1)?;
    let read = Operation {
        opcode: Opcode::Read,
        fd: file.as_raw_fd(),
        offset: 1,
        // SAFETY: the owner below keeps both.
        memory: unsafe { Memory::new(Box::new(segments)) },
        rw_flags: 0,
        priority: 0,
        resfd: None,
        owner: (first.1, second.1),
    };
    assert_eq!(context.submit(vec![read]).taken.len(), 1);
    let completion = context.reap(1, 1, FOREVER)?.remove(0);
    assert_eq!(completion.result, 8);
    assert_eq!(
        (&*completion.owner.0.bytes, &*completion.owner.1.bytes),
        (&b"1234"[..], &b"5678"[..])
    );
    Ok(())
}

#[test]
fn what_has_no_room_comes_back_in_order() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, _writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    let poll = || poll(reader.as_raw_fd(), &gone);
    let masks = [1, 2, 4, 8].map(|mask| Operation { opcode: Opcode::Poll { mask }, ..poll() });
    let submission = context.submit(masks.into());
    assert_eq!(submission.taken.len(), 2);
    let [third, fourth] = [4, 8].map(|mask| Opcode::Poll { mask });
    assert_eq!(submission.refused.iter().map(|o| o.opcode).collect::<Vec<_>>(), [third, fourth]);
    assert!(submission.error.is_none(), "two were taken");
    let again = context.submit(submission.refused);
    assert_eq!(again.taken.len(), 0);
    assert_eq!(again.refused.len(), 2);
    assert_eq!(again.error.and_then(|e| e.raw_os_error()), Some(libc::EAGAIN));
    assert_eq!(context.in_flight(), 2);
    Ok(())
}

#[test]
fn an_operation_that_is_wrong_is_given_back_with_those_after_it() -> io::Result<()> {
    let gone = Arc::default();
    let file = file()?;
    let mut context = AioContext::new(4)?;
    let good = || operation(Opcode::Read, file.as_raw_fd(), 1, &gone);
    let bad = operation(Opcode::Read, -1, 1, &gone);
    let submission = context.submit(vec![good(), bad, good()]);
    assert_eq!((submission.taken.len(), submission.refused.len()), (1, 2));
    assert_eq!(context.in_flight(), 1);
    let again = context.submit(submission.refused);
    assert_eq!(again.error.and_then(|e| e.raw_os_error()), Some(libc::EBADF));
    assert_eq!(again.refused.len(), 2);
    assert_eq!(context.reap(0, 4, AT_ONCE)?.len(), 1);
    Ok(())
}

#[test]
fn nothing_is_freed_before_its_completion() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, mut writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    assert_eq!(context.submit(vec![poll(reader.as_raw_fd(), &gone)]).taken.len(), 1);
    assert!(context.reap(0, 1, AT_ONCE)?.is_empty(), "a zero timeout does not wait");
    assert!(context.reap(1, 1, Some(1_000_000))?.is_empty(), "nor does one that ends");
    assert_eq!(gone.load(Ordering::Relaxed), 0);
    writer.write_all(b"x")?;
    let completions = context.reap(1, 1, FOREVER)?;
    assert_eq!(completions[0].result, i64::from(libc::POLLIN));
    drop(completions);
    assert_eq!(gone.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn a_cancelled_poll_says_so() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, _writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    let key = context.submit(vec![poll(reader.as_raw_fd(), &gone)]).taken[0];
    context.cancel(key)?;
    let completions = context.reap(1, 1, FOREVER)?;
    assert_eq!(completions[0].result, -i64::from(libc::ECANCELED));
    let error = context.cancel(key).expect_err("it is not in flight any more");
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    Ok(())
}

#[test]
fn an_event_of_an_earlier_generation_is_dropped() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, mut writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    writer.write_all(b"x")?;
    let key = context.submit(vec![poll(reader.as_raw_fd(), &gone)]).taken[0];
    assert_eq!(context.reap(1, 1, FOREVER)?.len(), 1);
    context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
    let stale = RawEvent { data: key.as_u64(), ..RawEvent::default() };
    let never = RawEvent { data: u64::MAX, ..RawEvent::default() };
    assert!(context.complete(&[stale, never]).is_empty());
    assert_eq!(context.in_flight(), 1);
    Ok(())
}

#[test]
fn the_eventfd_counts_completions() -> io::Result<()> {
    let gone = Arc::default();
    let file = file()?;
    let own = eventfd::create()?;
    let mut context = AioContext::with_eventfd(4)?;
    let read = || operation(Opcode::Read, file.as_raw_fd(), 1, &gone);
    let elsewhere = Operation { resfd: Some(own.as_raw_fd()), ..read() };
    assert_eq!(context.submit(vec![read(), read(), elsewhere]).taken.len(), 3);
    assert_eq!(context.reap(3, 3, FOREVER)?.len(), 3);
    let mut counts = [0; 8];
    let shared = context.eventfd().expect("it was asked for").try_clone_to_owned()?;
    File::from(shared).read_exact(&mut counts)?;
    assert_eq!(u64::from_ne_bytes(counts), 2);
    File::from(own).read_exact(&mut counts)?;
    assert_eq!(u64::from_ne_bytes(counts), 1);
    context.drain_eventfd()
}

#[test]
fn dropping_the_context_ends_what_is_in_flight() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, _writer) = io::pipe()?;
    let mut context = AioContext::new(8)?;
    context.submit((0..8).map(|_| poll(reader.as_raw_fd(), &gone)).collect());
    drop(context);
    assert_eq!(gone.load(Ordering::Relaxed), 8);
    Ok(())
}

#[test]
fn what_cannot_be_drained_is_leaked() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, _writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
    assert_eq!(context.leak(), 1);
    drop(context);
    assert_eq!(gone.load(Ordering::Relaxed), 0, "the kernel may still touch it");
    Ok(())
}

#[test]
fn one_thread_waits_while_another_submits() -> io::Result<()> {
    let gone = Arc::default();
    let (reader, mut writer) = io::pipe()?;
    let mut context = AioContext::new(2)?;
    let waiter = context.waiter();
    let waiting = std::thread::spawn(move || {
        let mut events = Vec::new();
        waiter.wait(1, 8, &mut events, FOREVER).map(|()| events)
    });
    context.submit(vec![poll(reader.as_raw_fd(), &gone)]);
    writer.write_all(b"x")?;
    let events = waiting.join().expect("it does not panic")?;
    assert_eq!(context.complete(&events).len(), 1);
    assert_eq!(context.in_flight(), 0);
    Ok(())
}

#[test]
fn a_context_that_waits_is_not_ended_under_its_waiter() -> io::Result<()> {
    let context = AioContext::<Owner>::new(2)?;
    let waiter = context.waiter();
    drop(context);
    waiter.wait(1, 8, &mut Vec::new(), AT_ONCE)
}

#[test]
fn a_limit_of_the_machine_is_an_error() {
    let error = AioContext::<Owner>::new(u32::MAX).err().expect("no machine has that many");
    assert!(matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINVAL)), "{error}");
}
