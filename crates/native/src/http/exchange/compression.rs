//! `Compression`: the option `--compress`, and what is known of a response whose body may be compressed (`Packing`).
//!
//! | packing   | the body is                                         | next state on                        |
//! |-----------|-----------------------------------------------------|--------------------------------------|
//! | Plain     | sent as it is                                       | –                                    |
//! | Undecided | not known yet                                       | its first part, or the head alone    |
//! | Packed    | passed through an encoder, flushed with each part   | its last part                        |
//!
//! `packing` decides and compresses. May not know exchanges.

use crate::ffi::Object;
use oneloop_http1::representation::Preferences;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;

/// Which responses are compressed, and how. Known to threads that look for files.
pub struct Rules {
    /// Names of codings; the first is the best.
    pub codings: Vec<String>,
    least_bytes: u64,
    most_bytes: u64,
}

impl Rules {
    /// The coding that the client prefers: that of the highest quality, among equals the first one.
    pub fn choose(&self, preferences: &Preferences<'_>) -> Option<usize> {
        let mut chosen = None;
        let mut least = preferences.quality(b"identity").max(1);
        for (place, coding) in self.codings.iter().enumerate() {
            let quality = preferences.quality(coding.as_bytes());
            if quality >= least {
                least = quality + 1;
                chosen = Some(place);
            }
        }
        chosen
    }

    /// Whether compressing pays.
    pub fn is_for(&self, kind: &[u8], len_bytes: Option<u64>) -> bool {
        let fits = len_bytes.is_none_or(|len| (self.least_bytes..=self.most_bytes).contains(&len));
        fits && is_compressible(kind)
    }
}

/// The option `compress`.
pub struct Compression {
    pub rules: Arc<Rules>,
    /// Functions that return an encoder: it is called with data and whether more follows, and returns bytes.
    pub makers: Vec<Py<PyAny>>,
}

impl Compression {
    /// Args: pairs of a coding and a function, the least and the greatest length.
    pub fn new(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        type Given = (Vec<(String, Py<PyAny>)>, u64, u64);
        let (pairs, least_bytes, most_bytes): Given = given.extract()?;
        let (codings, makers) = pairs.into_iter().unzip();
        Ok(Self { rules: Arc::new(Rules { codings, least_bytes, most_bytes }), makers })
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.makers.iter().try_for_each(|make| visit.call(make))
    }
}

pub enum Packing {
    Plain,
    /// With the coding that the client prefers.
    Undecided(Option<usize>),
    Packed {
        encoder: Object,
        /// What the application has still to send, if its head says so.
        left: Option<u64>,
    },
}

impl Packing {
    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Packed { encoder, .. } => encoder.visit(visit),
            Self::Plain | Self::Undecided(_) => Ok(()),
        }
    }
}

/// Text, and formats that are not compressed by themselves.
fn is_compressible(kind: &[u8]) -> bool {
    const KINDS: [&[u8]; 12] = [
        b"application/javascript",
        b"application/json",
        b"application/manifest+json",
        b"application/vnd.ms-fontobject",
        b"application/wasm",
        b"application/x-javascript",
        b"application/x-ndjson",
        b"application/xml",
        b"font/otf",
        b"font/ttf",
        b"image/bmp",
        b"image/x-icon",
    ];
    let end = memchr::memchr(b';', kind).unwrap_or(kind.len());
    let kind = kind[..end].trim_ascii().to_ascii_lowercase();
    kind.starts_with(b"text/")
        || kind.ends_with(b"+json")
        || kind.ends_with(b"+xml")
        || KINDS.contains(&kind.as_slice())
}
