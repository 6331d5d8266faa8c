//! The io_uring echo server: multishot accept and receive, a ring of provided buffers, one enter per turn.
//!
//! Ownership: a receive buffer belongs to the kernel until its completion, and then to one send. When that send
//! completes, the buffer returns to the buffer ring. The buffers exist until the process is killed.
#![expect(unsafe_code, reason = "submitting to a ring is a promise about memory")]

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::listen::Listener;

const BUFFERS: u16 = 1024;
const BUFFER_LEN: usize = 64 * 1024;
const GROUP: u16 = 1;

#[derive(Clone, Copy)]
enum Kind {
    Accept,
    Receive,
    Send,
    Provide,
}

/// A buffer's bytes that wait to be sent; a connection sends one at a time, so that order holds.
struct Chunk {
    buffer: u16,
    from: usize,
    len: usize,
}

struct Server {
    ring: IoUring,
    memory: Vec<u8>,
    queues: HashMap<i32, VecDeque<Chunk>>,
    starved: Vec<i32>,
    listener: i32,
}

fn tag(kind: Kind, fd: i32) -> u64 {
    ((kind as u64) << 32) | u64::from(fd.cast_unsigned())
}

impl Server {
    fn submit(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: every address in an entry points into `memory`, which lives as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn provide(&mut self, first: u16, count: u16) -> io::Result<()> {
        let at = &mut self.memory[usize::from(first) * BUFFER_LEN];
        let entry = opcode::ProvideBuffers::new(at, BUFFER_LEN as i32, count, GROUP, first);
        self.submit(&entry.build().user_data(tag(Kind::Provide, 0)))
    }

    fn receive(&mut self, fd: i32) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(types::Fd(fd), GROUP).build();
        self.submit(&entry.user_data(tag(Kind::Receive, fd)))
    }

    fn send_front(&mut self, fd: i32) -> io::Result<()> {
        let Some(chunk) = self.queues.get(&fd).and_then(VecDeque::front) else { return Ok(()) };
        let at = usize::from(chunk.buffer) * BUFFER_LEN + chunk.from;
        let entry = opcode::Send::new(types::Fd(fd), &raw const self.memory[at], chunk.len as u32);
        self.submit(&entry.build().user_data(tag(Kind::Send, fd)))
    }

    fn close(&mut self, fd: i32) -> io::Result<()> {
        for chunk in self.queues.remove(&fd).unwrap_or_default() {
            self.provide(chunk.buffer, 1)?;
        }
        let entry = opcode::Close::new(types::Fd(fd)).build();
        self.submit(&entry.user_data(tag(Kind::Provide, 0)))
    }

    fn on_receive(&mut self, fd: i32, result: i32, flags: u32) -> io::Result<()> {
        if result == -libc::ENOBUFS {
            self.starved.push(fd);
            return Ok(());
        }
        let Some(buffer) = cqueue::buffer_select(flags).filter(|_| result > 0) else {
            return self.close(fd);
        };
        let queue = self.queues.entry(fd).or_default();
        queue.push_back(Chunk { buffer, from: 0, len: result.cast_unsigned() as usize });
        if queue.len() == 1 {
            self.send_front(fd)?;
        }
        if !cqueue::more(flags) {
            self.receive(fd)?;
        }
        Ok(())
    }

    fn on_sent(&mut self, fd: i32, result: i32) -> io::Result<()> {
        let Some(chunk) = self.queues.get_mut(&fd).and_then(VecDeque::front_mut) else {
            return Ok(());
        };
        if result < 0 {
            return self.close(fd);
        }
        let sent = result.cast_unsigned() as usize;
        chunk.from += sent;
        chunk.len -= sent;
        if chunk.len == 0 {
            let buffer = chunk.buffer;
            if let Some(queue) = self.queues.get_mut(&fd) {
                queue.pop_front();
            }
            self.provide(buffer, 1)?;
            for starving in std::mem::take(&mut self.starved) {
                self.receive(starving)?;
            }
        }
        self.send_front(fd)
    }

    fn serve(&mut self) -> io::Result<()> {
        let accept = opcode::AcceptMulti::new(types::Fd(self.listener)).build();
        self.submit(&accept.user_data(tag(Kind::Accept, 0)))?;
        self.provide(0, BUFFERS)?;
        loop {
            self.ring.submit_and_wait(1)?;
            let done: Vec<_> = self.ring.completion().collect();
            for entry in done {
                let fd = (entry.user_data() as u32).cast_signed();
                match entry.user_data() >> 32 {
                    kind if kind == Kind::Accept as u64 => self.on_accept(entry.result())?,
                    kind if kind == Kind::Receive as u64 => {
                        self.on_receive(fd, entry.result(), entry.flags())?;
                    }
                    kind if kind == Kind::Send as u64 => self.on_sent(fd, entry.result())?,
                    _ => {}
                }
            }
        }
    }

    fn on_accept(&mut self, fd: i32) -> io::Result<()> {
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just handed out this descriptor; the server owns it until its close entry.
        let socket = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        // A Unix socket has no Nagle's delay to switch off.
        let _unsupported = rustix::net::sockopt::set_tcp_nodelay(socket, true);
        self.receive(fd)
    }
}

/// Serves for ever; the starter kills it.
pub fn serve(path: Option<&Path>) -> io::Result<()> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(8192)
        .build(2048)?;
    let listener = Listener::open(path)?;
    let memory = vec![0; usize::from(BUFFERS) * BUFFER_LEN];
    let fd = std::os::fd::AsFd::as_fd(&listener).as_raw_fd();
    let (queues, starved) = (HashMap::new(), Vec::new());
    Server { ring, memory, queues, starved, listener: fd }.serve()
}
