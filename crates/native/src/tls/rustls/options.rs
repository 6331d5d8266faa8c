//! The options of both kinds of contexts.

use super::key_log::KeyLogFile;
use crate::errors;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{KeyLog, SupportedProtocolVersion};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

/// The cryptography provider, one for all contexts.
pub fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}

/// `ssl.TLSVersion.TLSv1_2` and `TLSv1_3`.
const VERSION_1_2: u16 = 0x0303;
const VERSION_1_3: u16 = 0x0304;

pub struct Options {
    pub alpn: Vec<Vec<u8>>,
    /// In the numbers of `ssl.TLSVersion`.
    pub minimum_version: u16,
    pub maximum_version: u16,
    pub is_resumed: bool,
    key_log_path: Option<PathBuf>,
    key_log: Option<Arc<KeyLogFile>>,
}

impl Options {
    pub fn new(
        alpn: Vec<Vec<u8>>,
        (minimum_version, maximum_version): (u16, u16),
        is_resumed: bool,
        key_log_path: Option<PathBuf>,
    ) -> PyResult<Self> {
        if let Some(wrong) = alpn.iter().find(|name| name.is_empty() || name.len() > 255) {
            return Err(PyValueError::new_err(format!(
                "the name of a protocol must have 1 to 255 bytes, not {}",
                wrong.len()
            )));
        }
        let limits = [minimum_version, maximum_version];
        if limits.iter().any(|one| ![VERSION_1_2, VERSION_1_3].contains(one))
            || minimum_version > maximum_version
        {
            return Err(PyValueError::new_err(format!(
                "oneloop.tls supports TLS 1.2 and 1.3, not the range {minimum_version:#x} to {maximum_version:#x}"
            )));
        }
        let key_log = match &key_log_path {
            Some(path) => {
                Some(Arc::new(KeyLogFile::open(path).map_err(|e| errors::path_error(&e, path))?))
            }
            None => None,
        };
        Ok(Self { alpn, minimum_version, maximum_version, is_resumed, key_log_path, key_log })
    }

    pub fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
        match (self.minimum_version, self.maximum_version) {
            (VERSION_1_2, VERSION_1_2) => &BOTH[1..],
            (VERSION_1_3, VERSION_1_3) => &BOTH[..1],
            _ => BOTH,
        }
    }

    pub fn key_log_path(&self) -> Option<&Path> {
        self.key_log_path.as_deref()
    }

    pub fn key_log(&self) -> Option<Arc<dyn KeyLog>> {
        self.key_log.clone().map(|log| log as Arc<dyn KeyLog>)
    }
}
