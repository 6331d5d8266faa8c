//! `ConnectionOptions`: the limits and timeouts of connections.

use oneloop_http1::Limits;
use pyo3::prelude::*;

/// A timeout that never ends.
pub const NEVER_NS: u64 = u64::MAX;

/// The versions of HTTP that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpVersions {
    /// HTTP/1.1 and 1.0.
    One,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without (RFC 9113 section 3).
    Two,
    /// Both: the client chooses.
    Auto,
}

impl HttpVersions {
    pub fn has_h1(self) -> bool {
        self != Self::Two
    }

    pub fn has_h2(self) -> bool {
        self != Self::One
    }
}

/// What a client may do on an HTTP/2 connection.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Requests at a time.
    pub streams: u32,
    /// Bytes of a body that the client may send before the application takes them.
    pub stream_window: i32,
    /// The same for all bodies of a connection.
    pub connection_window: i32,
    pub frame_bytes: u32,
}

pub struct ConnectionOptions {
    pub http: HttpVersions,
    pub http2: Http2Options,
    pub limits: Limits,
    pub keep_alive_ns: u64,
    pub header_ns: u64,
    pub body_ns: u64,
    /// How long a client may take nothing of what was sent.
    pub send_ns: u64,
    pub ws_ping_interval_ns: u64,
    pub ws_ping_timeout_ns: u64,
    pub limit_concurrency: Option<usize>,
    /// Connections begin with a PROXY header.
    pub proxy_protocol: bool,
    /// Called with the host of a peer: whether its header is taken. None: every peer's.
    pub proxies: Option<Py<PyAny>>,
    /// The TLS context for connections after that header.
    pub tls_behind_proxy: Option<Py<PyAny>>,
}

impl ConnectionOptions {
    /// How often deadlines are checked: a quarter of the shortest timeout.
    pub fn sweep_interval_s(&self) -> f64 {
        let shortest = self.keep_alive_ns.min(self.header_ns).min(self.body_ns);
        let shortest =
            shortest.min(self.send_ns).min(self.ws_ping_interval_ns).min(self.ws_ping_timeout_ns);
        if shortest == NEVER_NS { 1.0 } else { (shortest as f64 / 4e9).clamp(0.02, 1.0) }
    }
}
