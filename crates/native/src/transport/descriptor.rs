//! The one owner of a transport's descriptor (S4).
//!
//! A connection that the listener accepted owns its bare descriptor until somebody asks for the
//! socket object; from then on, and for connections made from a socket object, that object owns
//! it, as a pipe's file object owns the pipe. A program can close such an object behind the transport's back, so every use asks it for
//! its number, and a number that has changed is never touched again.

use crate::ffi::{LoopCell, references, socket_object};
use crate::imports;
use oneloop_engine::sys::socket;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What a socket object is told of its socket: family, type, protocol. All small numbers.
#[derive(Clone, Copy)]
pub struct Kind([i16; 3]);

impl Kind {
    /// Asks the kernel.
    pub fn of(fd: RawFd) -> io::Result<Self> {
        let (family, kind, protocol) = socket::kind(fd)?;
        Ok(Self([family as i16, kind as i16, protocol as i16]))
    }

    pub fn is_tcp(self) -> bool {
        let [family, kind, protocol] = self.0.map(i32::from);
        matches!(family, libc::AF_INET | libc::AF_INET6)
            && kind == libc::SOCK_STREAM
            && protocol == libc::IPPROTO_TCP
    }
}

enum Owner {
    /// Accepted by us; no Python object knows it.
    Bare(OwnedFd, Kind),
    /// A `socket.socket`, and the number that it had when it came to us.
    Socket(Py<PyAny>, RawFd),
    /// Any other object with `fileno()` and `close()`: a pipe's file object.
    File(Py<PyAny>, RawFd),
    /// What it was, if no Python object has known it.
    Closed(Option<Kind>),
}

/// To the object of a transport: `Owner`'s, and that of what `get_extra_info()` gives, the object itself for a pipe and
/// its `TransportSocket` for a socket.
const OWN_REFERENCES: isize = 2;

pub struct Descriptor(LoopCell<Owner>);

impl Descriptor {
    /// Of an accepted, non-blocking socket.
    pub fn bare(fd: OwnedFd, kind: Kind) -> Self {
        Self(LoopCell::new(Owner::Bare(fd, kind)))
    }

    /// Of a `socket.socket`, or of any other object with `fileno()` and `close()`.
    pub fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let kept = object.clone().unbind();
        if object.is_instance(&imports::raw_socket(object.py())?)? {
            return Ok(Self(LoopCell::new(Owner::Socket(kept, socket_object::fileno(object)?))));
        }
        Ok(Self(LoopCell::new(Owner::File(kept, fileno(object)?))))
    }

    /// The number, if it is still ours: EBADF after a close by us or by anybody else. May run
    /// Python code: that of a file object's `fileno()`.
    #[inline]
    pub fn fd(&self, py: Python<'_>) -> io::Result<RawFd> {
        let (object, fd, is_socket) = self.0.with(py, |owner| match owner {
            Owner::Bare(fd, _) => (None, fd.as_raw_fd(), false),
            Owner::Socket(socket, fd) => (Some(socket.bind(py).clone()), *fd, true),
            Owner::File(file, fd) => (Some(file.bind(py).clone()), *fd, false),
            Owner::Closed(_) => (None, -1, false),
        });
        // An object that cannot say its number any more counts as closed.
        let now = match object {
            Some(socket) if is_socket => socket_object::fileno(&socket).unwrap_or(-1),
            Some(file) => fileno(&file).unwrap_or(-1),
            None => fd,
        };
        if now == fd && fd >= 0 { Ok(fd) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }

    /// The socket or file object, made at the first question; `None` once closed.
    pub fn socket<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (bare, kind) = match self.0.with(py, |owner| match owner {
            Owner::Socket(object, _) | Owner::File(object, _) => Err(Some(object.bind(py).clone())),
            Owner::Closed(_) => Err(None),
            Owner::Bare(fd, kind) => Ok((fd.as_raw_fd(), *kind)),
        }) {
            Ok(bare) => bare,
            Err(known) => return Ok(known),
        };
        let [family, kind, protocol] = kind.0.map(i32::from);
        // The flag tells the object what the socket is already: its timeout is 0.
        let kind = kind | libc::SOCK_NONBLOCK;
        let object = imports::socket(py)?.call1((family, kind, protocol, bare))?;
        let kept = object.clone().unbind();
        self.0.with(py, |owner| {
            // The object owns the number from here on.
            if let Owner::Bare(fd, _) = std::mem::replace(owner, Owner::Socket(kept, bare)) {
                let _: RawFd = std::os::fd::IntoRawFd::into_raw_fd(fd);
            }
        });
        Ok(Some(object))
    }

    /// True if the program holds the socket or file object itself, and may use it behind the transport's back.
    pub fn is_shared(&self, py: Python<'_>) -> bool {
        self.0.with(py, |owner| match owner {
            Owner::Socket(object, _) | Owner::File(object, _) => {
                references(object) > OWN_REFERENCES
            }
            Owner::Bare(..) | Owner::Closed(_) => false,
        })
    }

    /// Closes it, once; a second call does nothing.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let old = self.0.with(py, |owner| {
            let kind = match owner {
                Owner::Bare(_, kind) => Some(*kind),
                Owner::Closed(kind) => *kind,
                Owner::Socket(..) | Owner::File(..) => None,
            };
            std::mem::replace(owner, Owner::Closed(kind))
        });
        match old {
            Owner::Bare(fd, _) => drop(fd),
            Owner::Socket(object, _) | Owner::File(object, _) => {
                object.call_method0(py, intern!(py, "close"))?;
            }
            Owner::Closed(_) => {}
        }
        Ok(())
    }

    /// `close` for a transport that is being freed. The collector may have emptied a socket object by now, so that its
    /// class's own `close()`, which reads its attributes, would fail: the base class's needs none.
    pub fn close_while_freed(&self, py: Python<'_>) -> PyResult<()> {
        let socket = self.0.with(py, |owner| match owner {
            Owner::Socket(socket, _) => Some(socket.clone_ref(py)),
            _ => None,
        });
        let Some(socket) = socket else { return self.close(py) };
        self.release(py);
        imports::raw_socket(py)?.call_method1(intern!(py, "close"), (socket,)).map(drop)
    }

    /// What a program gets that asks for the socket of a closed connection for the first time: a socket object of that
    /// kind, closed.
    pub fn closed_socket<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let kind = self.0.with(py, |owner| match owner {
            Owner::Closed(kind) => *kind,
            _ => None,
        });
        let Some(kind) = kind else { return Ok(None) };
        let [family, kind, protocol] = kind.0.map(i32::from);
        let object = imports::socket(py)?.call1((family, kind, protocol))?;
        object.call_method0(intern!(py, "close"))?;
        Ok(Some(object))
    }

    /// Gives up a socket or file object without closing it.
    pub fn release(&self, py: Python<'_>) {
        let object = self.0.with(py, |owner| std::mem::replace(owner, Owner::Closed(None)));
        drop(object);
    }

    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.0.with(py, |owner| matches!(owner, Owner::Closed(_)))
    }

    /// For the collector: the socket or file object, if there is one.
    pub fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.0
            .peek(|owner| match owner {
                Owner::Socket(object, _) | Owner::File(object, _) => visit.call(object),
                Owner::Bare(..) | Owner::Closed(_) => Ok(()),
            })
            .unwrap_or(Ok(()))
    }

    /// True if dropping it now would close an open descriptor that nobody closed.
    pub fn is_leaking(&self) -> bool {
        self.0.peek(|owner| !matches!(owner, Owner::Closed(_))).unwrap_or(false)
    }
}

fn fileno(file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    file.call_method0(intern!(file.py(), "fileno"))?.extract()
}
