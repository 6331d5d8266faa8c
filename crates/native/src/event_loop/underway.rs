//! Data on its way between two sockets of a loop: virtual time waits for it.
//!
//! Even on the loopback interface a segment can be late or lost, when a CPU has more of them queued than
//! net.core.netdev_max_backlog. TCP sends it again after a wait in real time, and nothing is ready meanwhile.

use oneloop_engine::Poller;
use oneloop_engine::sys::tcp::Progress;
use oneloop_engine::sys::{clock, socket};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::os::fd::RawFd;

/// TCP repeats a segment after at least 200 ms (TCP_RTO_MIN of Linux); the rest is for a busy machine.
const LONGEST_NS: u64 = 300_000_000;
/// Real time between two looks.
pub const PAUSE_NS: u64 = 1_000_000;

/// The connections that have data underway.
#[derive(Default)]
pub struct Underway {
    ends: Vec<(Progress, Progress)>,
    /// When it became so, on the monotonic clock.
    since_ns: u64,
}

impl Underway {
    /// False if there is nothing, or if nothing has arrived for so long that it never will.
    pub fn moves(&mut self, poller: &Poller) -> bool {
        let ends = underway(poller);
        if ends.is_empty() {
            self.ends.clear();
            return false;
        }
        let now_ns = clock::monotonic_ns();
        if self.ends != ends {
            self.ends = ends;
            self.since_ns = now_ns;
        }
        now_ns - self.since_ns < LONGEST_NS
    }
}

/// Pairs of sockets of which the first has sent what has not arrived at the second.
fn underway(poller: &Poller) -> Vec<(Progress, Progress)> {
    let has_untaken = |fd: &RawFd| socket::untaken_bytes(*fd).is_ok_and(|bytes| bytes > 0);
    let senders: Vec<_> = poller.descriptors().filter(has_untaken).filter_map(end).collect();
    if senders.is_empty() {
        // Nearly always, after one call for each descriptor.
        return Vec::new();
    }
    let ends: HashMap<_, _> = poller.descriptors().filter_map(end).collect();
    let pair = |(names, end): &(Names, Progress)| {
        let peer = ends.get(&(names.1, names.0)).filter(|peer| end.is_ahead_of(peer))?;
        Some((*end, *peer))
    };
    senders.iter().filter_map(pair).collect()
}

/// The address and port of both ends of a TCP connection: ours first.
type Names = ((Ipv6Addr, u16), (Ipv6Addr, u16));

/// None for what is no TCP connection, or a descriptor that its owner has closed.
fn end(fd: RawFd) -> Option<(Names, Progress)> {
    let progress = Progress::of(fd).ok()?;
    let ours = socket::local_address(fd).ok()?.internet()?;
    Some(((ours, socket::peer_address(fd).ok()?.internet()?), progress))
}
