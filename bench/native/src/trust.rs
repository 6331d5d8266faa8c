//! Verifies certificates of one authority, each of them only once.
//!
//! A generator that opens thousands of connections would spend a third of its time on the same chain, and fast servers
//! would wait for it. The signature that proves that the server has the key is verified in every full handshake.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// For clients that always ask for the same name.
#[derive(Debug)]
pub struct Trust {
    inner: Arc<WebPkiServerVerifier>,
    examined: OnceLock<CertificateDer<'static>>,
}

impl Trust {
    #[must_use]
    pub fn new(inner: Arc<WebPkiServerVerifier>) -> Self {
        Self { inner, examined: OnceLock::new() }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.examined.get().is_some_and(|known| known == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let found = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        // A second certificate is simply examined each time.
        let _ = self.examined.set(end_entity.clone().into_owned());
        Ok(found)
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
