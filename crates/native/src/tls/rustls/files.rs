//! Certificates and keys from PEM files. Every error names its file (S8).

use super::failure;
use crate::errors;
use pyo3::prelude::*;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a certificate chain and its key. Without a key file, the key is in the file of the chain.
pub struct Source {
    pub certificate: PathBuf,
    pub key: Option<PathBuf>,
}

impl Source {
    pub fn load(&self, py: Python<'_>, provider: &CryptoProvider) -> PyResult<Arc<CertifiedKey>> {
        let chain = certificates(py, &self.certificate)?;
        let key_file = self.key.as_ref().unwrap_or(&self.certificate);
        let key = private_key(py, key_file)?;
        let made = CertifiedKey::from_der(chain, key, provider).map_err(|e| match e {
            rustls::Error::InconsistentKeys(_) => failure::ssl_error(
                py,
                "X509",
                "KEY_VALUES_MISMATCH",
                &format!(
                    "key values mismatch: the key in {} does not match the certificate in {}",
                    key_file.display(),
                    self.certificate.display()
                ),
            ),
            rustls::Error::InvalidCertificate(problem) => {
                bad(py, "BAD_CERTIFICATE", &self.certificate, &problem.to_string())
            }
            other => bad(py, "BAD_KEY", key_file, &other.to_string()),
        })?;
        Ok(Arc::new(made))
    }
}

/// All certificates in a file; at least one.
pub fn certificates(py: Python<'_>, path: &Path) -> PyResult<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(&content(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| bad(py, "BAD_CERTIFICATE", path, &words(&e)))?;
    if found.is_empty() {
        return Err(bad(py, "NO_CERTIFICATE", path, "the file has no certificate in PEM format"));
    }
    Ok(found)
}

fn private_key(py: Python<'_>, path: &Path) -> PyResult<PrivateKeyDer<'static>> {
    let content = content(path)?;
    match PrivateKeyDer::from_pem_slice(&content) {
        // The traditional PEM format: the encryption is in a header, and base64 follows.
        Ok(_) | Err(_) if is_encrypted(&content) => Err(bad(
            py,
            "ENCRYPTED_KEY",
            path,
            "the private key is encrypted; decrypt it (openssl pkey -in … -out …), or use ssl.SSLContext, \
             which takes a password",
        )),
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => {
            Err(bad(py, "NO_PRIVATE_KEY", path, "the file has no private key in PEM format"))
        }
        Err(e) => Err(bad(py, "BAD_KEY", path, &words(&e))),
    }
}

fn is_encrypted(content: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(content, text).is_some();
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}

fn content(path: &Path) -> PyResult<Vec<u8>> {
    std::fs::read(path).map_err(|e| errors::path_error(&e, path))
}

/// pki-types shows lines as lists of numbers; this shows them as text.
fn words(error: &pem::Error) -> String {
    let shown = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("the line {:?} is missing", shown(end_marker))
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("a section begins with the malformed line {:?}", shown(line))
        }
        other => other.to_string(),
    }
}

pub fn bad(py: Python<'_>, reason: &str, path: &Path, what: &str) -> PyErr {
    failure::ssl_error(py, "PEM", reason, &format!("{}: {what}", path.display()))
}
