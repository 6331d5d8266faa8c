//! `Problem`: the error of a certificate, in OpenSSL's numbers and words, which `ssl` uses.

use rustls::{CertificateError, OtherError};
use std::cell::Cell;

/// OpenSSL's x509_vfy.h.
pub struct Problem {
    pub code: u32,
    pub message: String,
}

/// The issuer of a certificate that is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Issuer {
    #[default]
    Unknown,
    /// The certificate is its own issuer.
    Itself,
    /// The chain ends in a self-signed certificate that is not trusted.
    Untrusted,
}

thread_local! {
    /// rustls's error for an unknown issuer cannot hold more information. The verifier runs inside the call that
    /// returns the error, on the same thread.
    static ISSUER: Cell<Issuer> = const { Cell::new(Issuer::Unknown) };
}

pub fn note_issuer(issuer: Issuer) {
    ISSUER.set(issuer);
}

impl Problem {
    /// `hostname`: the name that the certificate should be for.
    pub fn of(error: &CertificateError, hostname: Option<&str>) -> Self {
        let (code, message) = match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                (10, "certificate has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                (9, "certificate is not yet valid")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                return Self::mismatch(hostname.unwrap_or_default());
            }
            CertificateError::UnknownIssuer => match ISSUER.take() {
                Issuer::Unknown => (20, "unable to get local issuer certificate"),
                Issuer::Itself => (18, "self-signed certificate"),
                Issuer::Untrusted => (19, "self-signed certificate in certificate chain"),
            },
            CertificateError::Revoked => (23, "certificate revoked"),
            CertificateError::UnhandledCriticalExtension => (34, "unhandled critical extension"),
            CertificateError::BadSignature => (7, "certificate signature failure"),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                (26, "unsuitable certificate purpose")
            }
            CertificateError::ApplicationVerificationFailure => {
                (50, "application verification failure")
            }
            CertificateError::Other(other) => return Self::of_other(other),
            other => return Self { code: 1, message: other.to_string() },
        };
        Self { code, message: message.to_owned() }
    }

    fn mismatch(hostname: &str) -> Self {
        let is_address = hostname.parse::<std::net::IpAddr>().is_ok();
        let (code, what) = if is_address { (64, "IP address") } else { (62, "Hostname") };
        let message = format!("{what} mismatch, certificate is not valid for '{hostname}'.");
        Self { code, message }
    }

    fn of_other(error: &OtherError) -> Self {
        let (code, message) = match error.0.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::CaUsedAsEndEntity) => {
                (26, "unsuitable certificate purpose: a CA certificate is used as the peer's own")
            }
            Some(webpki::Error::EndEntityUsedAsCa) => (24, "invalid CA certificate"),
            Some(webpki::Error::PathLenConstraintViolated) => {
                (25, "path length constraint exceeded")
            }
            Some(webpki::Error::NameConstraintViolation) => (47, "permitted subtree violation"),
            Some(webpki::Error::MaximumPathDepthExceeded) => (22, "certificate chain too long"),
            Some(webpki::Error::UnsupportedCertVersion) => {
                (1, "the certificate has X.509 version 1 or 2; version 3 is required")
            }
            _ => return Self { code: 1, message: error.to_string() },
        };
        Self { code, message: message.to_owned() }
    }
}
