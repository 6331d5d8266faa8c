//! The cipher suites by their OpenSSL names, which `ssl` uses.

use rustls::CipherSuite;

/// The name, the TLS version that introduced it, and the number of key bits.
pub fn describe(suite: CipherSuite) -> (String, &'static str, u32) {
    let (name, version, bits) = match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => ("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
            ("TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3", 256)
        }
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => {
            ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)
        }
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => {
            ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
        }
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2", 256)
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => {
            ("ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.2", 128)
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => {
            ("ECDHE-RSA-AES256-GCM-SHA384", "TLSv1.2", 256)
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
            ("ECDHE-RSA-CHACHA20-POLY1305", "TLSv1.2", 256)
        }
        // rustls with ring has no others.
        other => return (format!("{other:?}"), "TLSv1.2", 0),
    };
    (name.to_owned(), version, bits)
}
