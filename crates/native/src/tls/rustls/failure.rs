//! Converts errors of rustls to exceptions of `ssl`, with OpenSSL's classes, attributes and messages.
//!
//! An error without an OpenSSL counterpart gets rustls's message and a reason that says which side caused it.

use super::problem::Problem;
use crate::imports;
use pyo3::intern;
use pyo3::prelude::*;
use rustls::{AlertDescription, Error, InconsistentKeys, InvalidMessage, PeerIncompatible};

/// `SSL_ERROR_SSL`
const PROTOCOL: i32 = 1;

/// The exception for an error of a connection to `hostname`.
pub fn of(py: Python<'_>, error: &Error, hostname: Option<&str>) -> PyErr {
    if let Error::InvalidCertificate(problem) = error {
        return match verification(py, &Problem::of(problem, hostname)) {
            Ok(made) | Err(made) => made,
        };
    }
    match reason(error) {
        Ok(reason) => named(py, "SSL", reason),
        Err(reason) => ssl_error(py, "SSL", reason, &error.to_string()),
    }
}

/// An error whose message is derived from its reason.
pub fn named(py: Python<'_>, library: &str, reason: &str) -> PyErr {
    ssl_error(py, library, reason, &reason.to_ascii_lowercase().replace('_', " "))
}

/// `ssl.SSLError`
pub fn ssl_error(py: Python<'_>, library: &str, reason: &str, text: &str) -> PyErr {
    let make = || {
        let text = format!("[{library}: {reason}] {text}");
        let made = imports::ssl_error(py)?.call1((PROTOCOL, text))?;
        made.setattr(intern!(py, "library"), library)?;
        made.setattr(intern!(py, "reason"), reason)?;
        PyResult::Ok(PyErr::from_value(made))
    };
    match make() {
        Ok(made) | Err(made) => made,
    }
}

fn verification(py: Python<'_>, problem: &Problem) -> PyResult<PyErr> {
    let text =
        format!("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {}", problem.message);
    let made = imports::certificate_error(py)?.call1((PROTOCOL, text))?;
    made.setattr(intern!(py, "library"), "SSL")?;
    made.setattr(intern!(py, "reason"), "CERTIFICATE_VERIFY_FAILED")?;
    made.setattr(intern!(py, "verify_code"), problem.code)?;
    made.setattr(intern!(py, "verify_message"), &problem.message)?;
    Ok(PyErr::from_value(made))
}

/// OpenSSL's reason, or one of ours, which keeps rustls's message.
fn reason(error: &Error) -> Result<&'static str, &'static str> {
    Ok(match error {
        Error::AlertReceived(alert) => return alert_reason(*alert).ok_or("UNKNOWN_ALERT_TYPE"),
        Error::DecryptError => "DECRYPTION_FAILED_OR_BAD_RECORD_MAC",
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            "UNEXPECTED_MESSAGE"
        }
        Error::InvalidMessage(
            InvalidMessage::UnknownProtocolVersion | InvalidMessage::InvalidContentType,
        ) => "WRONG_VERSION_NUMBER",
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) => "PACKET_LENGTH_TOO_LONG",
        Error::InvalidMessage(_) => return Err("BAD_PACKET"),
        Error::PeerSentOversizedRecord => "DATA_LENGTH_TOO_LONG",
        Error::NoApplicationProtocol => "NO_APPLICATION_PROTOCOL",
        Error::NoCertificatesPresented => "PEER_DID_NOT_RETURN_A_CERTIFICATE",
        Error::PeerIncompatible(why) => return incompatible(why).ok_or("PEER_INCOMPATIBLE"),
        Error::PeerMisbehaved(_) => return Err("PEER_MISBEHAVED"),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => "KEY_VALUES_MISMATCH",
        _ => return Err("INTERNAL_ERROR"),
    })
}

fn incompatible(why: &PeerIncompatible) -> Option<&'static str> {
    Some(match why {
        PeerIncompatible::NoCipherSuitesInCommon => "NO_SHARED_CIPHER",
        PeerIncompatible::NoKxGroupsInCommon => "NO_SUITABLE_KEY_SHARE",
        PeerIncompatible::NoSignatureSchemesInCommon => "NO_SUITABLE_SIGNATURE_ALGORITHM",
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => "UNSUPPORTED_PROTOCOL",
        _ => return None,
    })
}

/// `SSL_R_…_ALERT_…`: alerts from SSL 3.0 have its prefix, later ones that of their version.
fn alert_reason(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::UnexpectedMessage => "SSLV3_ALERT_UNEXPECTED_MESSAGE",
        AlertDescription::BadRecordMac => "SSLV3_ALERT_BAD_RECORD_MAC",
        AlertDescription::DecryptionFailed => "TLSV1_ALERT_DECRYPTION_FAILED",
        AlertDescription::RecordOverflow => "TLSV1_ALERT_RECORD_OVERFLOW",
        AlertDescription::DecompressionFailure => "SSLV3_ALERT_DECOMPRESSION_FAILURE",
        AlertDescription::HandshakeFailure => "SSLV3_ALERT_HANDSHAKE_FAILURE",
        AlertDescription::NoCertificate => "SSLV3_ALERT_NO_CERTIFICATE",
        AlertDescription::BadCertificate => "SSLV3_ALERT_BAD_CERTIFICATE",
        AlertDescription::UnsupportedCertificate => "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        AlertDescription::CertificateRevoked => "SSLV3_ALERT_CERTIFICATE_REVOKED",
        AlertDescription::CertificateExpired => "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        AlertDescription::CertificateUnknown => "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        AlertDescription::IllegalParameter => "SSLV3_ALERT_ILLEGAL_PARAMETER",
        AlertDescription::UnknownCA => "TLSV1_ALERT_UNKNOWN_CA",
        AlertDescription::AccessDenied => "TLSV1_ALERT_ACCESS_DENIED",
        AlertDescription::DecodeError => "TLSV1_ALERT_DECODE_ERROR",
        AlertDescription::DecryptError => "TLSV1_ALERT_DECRYPT_ERROR",
        AlertDescription::ProtocolVersion => "TLSV1_ALERT_PROTOCOL_VERSION",
        AlertDescription::InsufficientSecurity => "TLSV1_ALERT_INSUFFICIENT_SECURITY",
        AlertDescription::InternalError => "TLSV1_ALERT_INTERNAL_ERROR",
        AlertDescription::InappropriateFallback => "TLSV1_ALERT_INAPPROPRIATE_FALLBACK",
        AlertDescription::UserCanceled => "TLSV1_ALERT_USER_CANCELLED",
        AlertDescription::NoRenegotiation => "TLSV1_ALERT_NO_RENEGOTIATION",
        AlertDescription::MissingExtension => "TLSV13_ALERT_MISSING_EXTENSION",
        AlertDescription::UnsupportedExtension => "TLSV1_UNSUPPORTED_EXTENSION",
        AlertDescription::UnrecognisedName => "TLSV1_UNRECOGNIZED_NAME",
        AlertDescription::BadCertificateStatusResponse => "TLSV1_BAD_CERTIFICATE_STATUS_RESPONSE",
        AlertDescription::UnknownPSKIdentity => "TLSV1_ALERT_UNKNOWN_PSK_IDENTITY",
        AlertDescription::CertificateRequired => "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        AlertDescription::NoApplicationProtocol => "TLSV1_ALERT_NO_APPLICATION_PROTOCOL",
        _ => return None,
    })
}
