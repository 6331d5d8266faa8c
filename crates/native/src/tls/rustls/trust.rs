//! A client's trust: the authorities, and the verifiers that use them.

use super::problem::{self, Issuer};
use super::{failure, files};
use pyo3::prelude::*;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use std::path::PathBuf;
use std::sync::Arc;
use webpki::EndEntityCert;

/// The source of authorities' certificates.
pub enum Authorities {
    /// The system's store, or the files named by `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    System,
    File(PathBuf),
}

/// The certificates of all these authorities.
pub fn roots(py: Python<'_>, sources: &[Authorities]) -> PyResult<RootCertStore> {
    let mut store = RootCertStore::empty();
    for source in sources {
        match source {
            Authorities::System => add_system(py, &mut store)?,
            Authorities::File(path) => {
                for certificate in files::certificates(py, path)? {
                    store
                        .add(certificate)
                        .map_err(|e| files::bad(py, "BAD_CERTIFICATE", path, &e.to_string()))?;
                }
            }
        }
    }
    Ok(store)
}

fn add_system(py: Python<'_>, store: &mut RootCertStore) -> PyResult<()> {
    let found = rustls_native_certs::load_native_certs();
    // Stores may contain certificates that rustls cannot parse; they are ignored.
    let (added, _) = store.add_parsable_certificates(found.certs);
    if added == 0 {
        let mut text = "the system's certificate store has no CA certificates".to_owned();
        for error in &found.errors {
            text.push_str("; ");
            text.push_str(&error.to_string());
        }
        return Err(failure::ssl_error(py, "X509", "NO_CERTIFICATES_IN_STORE", &text));
    }
    Ok(())
}

/// rustls's verifier, which also records the issuer of a certificate that is not trusted.
#[derive(Debug)]
pub struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    roots: Arc<RootCertStore>,
    checks_hostname: bool,
}

impl Verifier {
    pub fn new(
        inner: Arc<WebPkiServerVerifier>,
        roots: Arc<RootCertStore>,
        checks_hostname: bool,
    ) -> Self {
        Self { inner, roots, checks_hostname }
    }
}

/// The certificate is its own issuer, and no authority has its name and its key.
fn is_strange(end_entity: &CertificateDer<'_>, roots: &RootCertStore) -> bool {
    is_own(end_entity)
        && webpki::anchor_from_trusted_cert(end_entity).is_ok_and(|own| {
            let key = own.subject_public_key_info;
            let is_it = |root: &TrustAnchor<'_>| {
                root.subject == own.subject && root.subject_public_key_info == key
            };
            !roots.roots.iter().any(is_it)
        })
}

/// What rustls finds before it asks who the issuer is, which OpenSSL asks first.
fn is_found_first(error: &CertificateError) -> bool {
    match error {
        CertificateError::BadSignature => true,
        CertificateError::Other(OtherError(other)) => {
            matches!(other.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}

fn is_own(der: &CertificateDer<'_>) -> bool {
    EndEntityCert::try_from(der).is_ok_and(|parsed| parsed.issuer() == parsed.subject())
}

/// Records it for the exception; see `problem`.
fn note_issuer(end_entity: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) {
    problem::note_issuer(if is_own(end_entity) {
        Issuer::Itself
    } else if chain.iter().any(is_own) {
        Issuer::Untrusted
    } else {
        Issuer::Unknown
    });
}

/// The error as OpenSSL has it. Nobody knows an issuer that is not trusted: it is recorded.
fn told(
    error: Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
) -> Error {
    let is_unknown = match &error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // It was made anew, and the authority of its name is the old one; or it is an authority's.
        Error::InvalidCertificate(found) => is_found_first(found) && is_strange(end_entity, roots),
        _ => false,
    };
    if !is_unknown {
        return error;
    }
    note_issuer(end_entity, intermediates);
    Error::InvalidCertificate(CertificateError::UnknownIssuer)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // The name is checked last, after the chain.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_hostname => Ok(ServerCertVerified::assertion()),
            Err(error) => Err(told(error, end_entity, intermediates, &self.roots)),
            Ok(verified) => Ok(verified),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Trusts every certificate, but the peer must still have its key.
#[derive(Debug)]
pub struct Anybody(WebPkiSupportedAlgorithms);

impl Anybody {
    pub fn new(provider: &CryptoProvider) -> Self {
        Self(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// The server's verifier of clients, which also records the issuer.
#[derive(Debug)]
pub struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
}

impl ClientVerifier {
    pub fn new(inner: Arc<dyn ClientCertVerifier>, roots: Arc<RootCertStore>) -> Self {
        Self { inner, roots }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.inner
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|error| told(error, end_entity, intermediates, &self.roots))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
