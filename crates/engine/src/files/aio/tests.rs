//! Tests for behaviour that only kernel AIO has. `polled/tests.rs` tests the rest on both engines.

use super::*;
use crate::files::fixtures::{Owner, file, operation, poll};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;

const FOREVER: Option<u64> = None;
const AT_ONCE: Option<u64> = Some(0);

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
