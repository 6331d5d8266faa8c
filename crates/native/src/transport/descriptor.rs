//! The only owner of a transport's descriptor (S4).
//!
//! A connection accepted by the listener owns its bare descriptor until the program requests the socket object. From
//! then on, and for connections made from a socket object, that object owns the descriptor, as a file object owns a
//! pipe. A program can close such an object without the transport noticing. So every use reads the number from the
//! object, and a number that has changed is never used again.

use crate::ffi::{LoopCell, references, socket_object};
use crate::imports;
use oneloop_engine::sys::socket;
use pyo3::intern;
use pyo3::prelude::*;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The arguments of a socket object: family, type, protocol. All are small numbers.
#[derive(Clone, Copy)]
pub struct Kind([i16; 3]);

impl Kind {
    /// Reads them from the kernel.
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
    /// Accepted by us; there is no Python object for it.
    Bare(OwnedFd, Kind),
    /// A `socket.socket`, and the number it had when it was passed to us.
    Socket(Py<PyAny>, RawFd),
    /// Any other object with `fileno()` and `close()`, such as a pipe's file object.
    File(Py<PyAny>, RawFd),
    /// The socket's kind, if there was never a Python object for it.
    Closed(Option<Kind>),
}

/// References to a transport's object that are our own: that of `Owner`, and that of the object returned by
/// `get_extra_info()`, which is the object itself for a pipe and its `TransportSocket` for a socket.
const OWN_REFERENCES: isize = 2;

pub struct Descriptor(LoopCell<Owner>);

impl Descriptor {
    /// For an accepted, non-blocking socket.
    pub fn bare(fd: OwnedFd, kind: Kind) -> Self {
        Self(LoopCell::new(Owner::Bare(fd, kind)))
    }

    /// For a `socket.socket`, or any other object with `fileno()` and `close()`.
    pub fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let kept = object.clone().unbind();
        if object.is_instance(&imports::raw_socket(object.py())?)? {
            return Ok(Self(LoopCell::new(Owner::Socket(kept, socket_object::fileno(object)?))));
        }
        Ok(Self(LoopCell::new(Owner::File(kept, fileno(object)?))))
    }

    /// Returns the number if it is still ours: EBADF after anybody has closed it. May run Python code: a file
    /// object's `fileno()`.
    #[inline]
    pub fn fd(&self, py: Python<'_>) -> io::Result<RawFd> {
        let known = self.0.with(py, |owner| match owner {
            Owner::Bare(fd, _) => Some(fd.as_raw_fd()),
            Owner::Socket(socket, fd) => {
                socket_object::known_fileno(socket.bind(py)).filter(|now| now == fd && *fd >= 0)
            }
            _ => None,
        });
        known.map_or_else(|| self.fd_of_object(py), Ok)
    }

    /// For a number that has changed, or that takes a call.
    #[inline(never)]
    fn fd_of_object(&self, py: Python<'_>) -> io::Result<RawFd> {
        let found = self.0.with(py, |owner| match owner {
            Owner::Socket(socket, fd) => Some((socket.clone_ref(py), *fd, true)),
            Owner::File(file, fd) => Some((file.clone_ref(py), *fd, false)),
            Owner::Bare(..) | Owner::Closed(_) => None,
        });
        let closed = || io::Error::from_raw_os_error(libc::EBADF);
        let (object, fd, is_socket) = found.ok_or_else(closed)?;
        let object = object.bind(py);
        let now = if is_socket { socket_object::fileno(object) } else { fileno(object) };
        // An object whose `fileno()` fails counts as closed.
        if fd >= 0 && now.is_ok_and(|now| now == fd) { Ok(fd) } else { Err(closed()) }
    }

    /// The number for a repr: as long as the transport owns it, whoever may have closed it.
    pub fn number(&self, py: Python<'_>) -> RawFd {
        self.0.with(py, |owner| match owner {
            Owner::Bare(fd, _) => fd.as_raw_fd(),
            Owner::Socket(_, fd) | Owner::File(_, fd) => *fd,
            Owner::Closed(_) => -1,
        })
    }

    /// Returns the socket or file object, which is made on first use; `None` once closed.
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
        // The flag tells the object the mode of the socket: its timeout is 0.
        let kind = kind | libc::SOCK_NONBLOCK;
        let object = imports::socket(py)?.call1((family, kind, protocol, bare))?;
        let kept = object.clone().unbind();
        self.0.with(py, |owner| {
            // The object owns the number from now on.
            if let Owner::Bare(fd, _) = std::mem::replace(owner, Owner::Socket(kept, bare)) {
                let _: RawFd = std::os::fd::IntoRawFd::into_raw_fd(fd);
            }
        });
        Ok(Some(object))
    }

    /// True if the program holds a reference to the socket or file object, and so may use it directly.
    pub fn is_shared(&self, py: Python<'_>) -> bool {
        self.0.with(py, |owner| match owner {
            Owner::Socket(object, _) | Owner::File(object, _) => {
                references(object) > OWN_REFERENCES
            }
            Owner::Bare(..) | Owner::Closed(_) => false,
        })
    }

    /// Closes the descriptor; a second call does nothing.
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

    /// Like `close`, for a transport that is being freed. The garbage collector may already have cleared the socket
    /// object, so its class's own `close()`, which reads its attributes, would fail. The base class's `close()` needs
    /// no attributes.
    pub fn close_while_freed(&self, py: Python<'_>) -> PyResult<()> {
        let socket = self.0.with(py, |owner| match owner {
            Owner::Socket(socket, _) => Some(socket.clone_ref(py)),
            _ => None,
        });
        let Some(socket) = socket else { return self.close(py) };
        self.release(py);
        imports::raw_socket(py)?.call_method1(intern!(py, "close"), (socket,)).map(drop)
    }

    /// For a program that requests the socket of a closed connection for the first time: a closed socket object of
    /// that kind.
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

    /// Drops a socket or file object without closing it.
    pub fn release(&self, py: Python<'_>) {
        let object = self.0.with(py, |owner| std::mem::replace(owner, Owner::Closed(None)));
        drop(object);
    }

    pub fn is_closed(&self, py: Python<'_>) -> bool {
        self.0.with(py, |owner| matches!(owner, Owner::Closed(_)))
    }

    /// For the garbage collector: visits the socket or file object, if there is one.
    pub fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.0
            .peek(|owner| match owner {
                Owner::Socket(object, _) | Owner::File(object, _) => visit.call(object),
                Owner::Bare(..) | Owner::Closed(_) => Ok(()),
            })
            .unwrap_or(Ok(()))
    }

    /// True if dropping it now would leave an open descriptor unclosed.
    pub fn is_leaking(&self) -> bool {
        self.0.peek(|owner| !matches!(owner, Owner::Closed(_))).unwrap_or(false)
    }
}

fn fileno(file: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    file.call_method0(intern!(file.py(), "fileno"))?.extract()
}
