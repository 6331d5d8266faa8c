use super::*;
use crate::fake::Script;

fn drain(poller: &mut Poller) -> Vec<Event> {
    std::iter::from_fn(|| poller.next_event()).collect()
}

fn pipe() -> io::Result<(std::io::PipeReader, std::io::PipeWriter)> {
    std::io::pipe()
}

#[test]
fn reports_readiness_of_a_pipe() -> io::Result<()> {
    let (reader, writer) = pipe()?;
    let mut poller = Poller::new()?;
    let r = poller.register(reader.as_raw_fd(), Interest::READ)?;
    let w = poller.register(writer.as_raw_fd(), Interest::WRITE)?;
    poller.wait(Some(0))?;
    let events = drain(&mut poller);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].token, w);
    assert!(events[0].readiness.is_writable());
    poller.modify(w, Interest::NONE)?;
    drop(writer);
    poller.wait(None)?;
    let events = drain(&mut poller);
    assert_eq!(events[0].token, r);
    assert!(events[0].readiness.is_readable(), "a hang-up is read as end of file");
    Ok(())
}

#[test]
fn a_reused_number_never_gets_the_old_owners_event() -> io::Result<()> {
    let script = Script::default();
    let mut poller = Poller::with_selector(Arc::new(script.clone()));
    let old = poller.register(7, Interest::READ)?;
    script.will_report(7, Interest::READ);
    poller.wait(None)?;
    // The number gets a new owner between the wait and the dispatch.
    poller.deregister(old)?;
    let new = poller.register(7, Interest::READ)?;
    assert_eq!(drain(&mut poller), []);
    assert_eq!(poller.stale_events(), 1);
    assert!(poller.is_live(new) && !poller.is_live(old));
    script.will_report(7, Interest::READ);
    poller.wait(None)?;
    assert_eq!(drain(&mut poller)[0].token, new);
    Ok(())
}

#[test]
fn a_registration_that_outlives_its_descriptor_cannot_spin() -> io::Result<()> {
    let (reader, writer) = pipe()?;
    let kept = reader.try_clone()?;
    let (live_reader, live_writer) = pipe()?;
    let mut poller = Poller::new()?;
    let token = poller.register(reader.as_raw_fd(), Interest::READ)?;
    let live = poller.register(live_reader.as_raw_fd(), Interest::READ)?;
    drop(reader);
    assert!(poller.vacate(token));
    drop(writer); // a level-triggered hang-up on an open file that has no number
    for _ in 0..=REBUILD_AFTER {
        poller.wait(Some(0))?;
        assert_eq!(drain(&mut poller), []);
    }
    assert!(poller.stale_events() > 0);
    let before = poller.stale_events();
    poller.wait(Some(0))?;
    assert_eq!(drain(&mut poller), []);
    assert_eq!(poller.stale_events(), before, "the rebuilt instance has forgotten it");
    drop(live_writer);
    poller.wait(Some(0))?;
    assert_eq!(drain(&mut poller)[0].token, live, "and kept the live one");
    drop(kept);
    Ok(())
}

#[test]
fn an_interrupted_dispatch_keeps_its_events() -> io::Result<()> {
    let script = Script::default();
    let mut poller = Poller::with_selector(Arc::new(script.clone()));
    poller.register(3, Interest::READ)?;
    poller.register(4, Interest::READ)?;
    script.will_report(3, Interest::READ);
    script.will_report(4, Interest::READ);
    poller.wait(None)?;
    assert_eq!(poller.next_event().map(|e| e.token.fd()), Some(3));
    assert!(poller.has_pending());
    assert_eq!(poller.next_event().map(|e| e.token.fd()), Some(4));
    assert!(!poller.has_pending());
    Ok(())
}

#[test]
fn bad_descriptors_are_errors() -> io::Result<()> {
    let mut poller = Poller::new()?;
    let errno = |result: io::Result<Token>| result.err().and_then(|e| e.raw_os_error());
    assert_eq!(errno(poller.register(-1, Interest::READ)), Some(libc::EBADF));
    assert_eq!(errno(poller.register(1_000_000, Interest::READ)), Some(libc::EBADF));
    Ok(())
}

#[test]
fn registrations_made_and_ended_during_a_wait_count() -> io::Result<()> {
    let (reader, writer) = pipe()?;
    let (gone_reader, gone_writer) = pipe()?;
    let mut poller = Poller::new()?;
    let gone = poller.register(gone_reader.as_raw_fd(), Interest::READ)?;
    let mut wait = poller.begin_wait()?;
    let waiting = std::thread::spawn(move || {
        let result = wait.run(Some(20_000_000_000));
        (wait, result)
    });
    poller.deregister(gone)?;
    drop(gone_writer);
    let token = poller.register(reader.as_raw_fd(), Interest::READ)?;
    drop(writer);
    let (wait, result) = waiting.join().expect("a wait does not panic");
    result?;
    poller.end_wait(wait)?;
    assert_eq!(drain(&mut poller).iter().map(|e| e.token).collect::<Vec<_>>(), [token]);
    Ok(())
}

#[test]
fn a_number_that_became_a_regular_files_does_not_stop_the_rebuild() -> io::Result<()> {
    let (reader, writer) = pipe()?;
    let (live_reader, live_writer) = pipe()?;
    let mut poller = Poller::new()?;
    let number = reader.as_raw_fd();
    poller.register(number, Interest::READ)?;
    let live = poller.register(live_reader.as_raw_fd(), Interest::READ)?;
    drop(reader);
    let file = std::fs::File::open("/proc/self/exe")?;
    assert_eq!(file.as_raw_fd(), number, "the lowest free number");
    poller.rebuild()?;
    drop(live_writer);
    poller.wait(Some(0))?;
    assert_eq!(drain(&mut poller)[0].token, live);
    drop(writer);
    Ok(())
}

#[test]
fn a_large_number_costs_nothing() {
    let mut poller = Poller::new().expect("an epoll");
    let refused = poller.register(i32::MAX, Interest::READ);
    assert_eq!(refused.err().and_then(|e| e.raw_os_error()), Some(libc::EBADF));
    assert!(poller.slots.is_empty());
}
