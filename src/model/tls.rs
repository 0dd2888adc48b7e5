//! The certificates that a server may have, and the setup of TLS, made once for all connections of a
//! provider, so that a further connection continues a known session.

use std::sync::Arc;

pub(super) use ureq::tls::Certificate;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::{ConnectionDetails, Connector, RustlsConnector, Transport};

/// Trusts the public authorities, or only these certificates.
pub(super) fn settings(trusted: Option<&[Certificate<'static>]>) -> TlsConfig {
    let settings = TlsConfig::builder();
    match trusted {
        Some(certificates) => settings.root_certs(RootCerts::new_with_certs(certificates)).build(),
        None => settings.build(),
    }
}

/// The certificates in the bytes of a PEM file.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        match item.map_err(|error| error.to_string())? {
            PemItem::Certificate(certificate) => found.push(certificate),
            PemItem::PrivateKey(_) => {
                return Err("it contains a private key; a file of certificates must not".to_owned());
            }
            _ => {}
        }
    }
    if found.is_empty() {
        return Err("it holds no certificate in PEM form".to_owned());
    }
    Ok(found)
}

/// TLS over a connection. The settings of a single request, which has its own time limits, never
/// change those of TLS: without this, every connection would read the authorities and begin a new
/// session.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsConnector(Arc<RustlsConnector>);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let details = ConnectionDetails {
            uri: details.uri,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: false,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::clone(&details.register_shutdown),
        };
        self.0.connect(&details, chained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_certificates_must_hold_some_and_no_key() {
        let pem = |kind: &str| format!("-----BEGIN {kind}-----\nMAA=\n-----END {kind}-----\n");
        let two = pem("CERTIFICATE").repeat(2);
        assert_eq!(certificates(two.as_bytes()).unwrap().len(), 2);
        let wrong = |text: &str| certificates(text.as_bytes()).unwrap_err();
        assert!(wrong("").contains("no certificate"));
        assert!(wrong(&(pem("CERTIFICATE") + &pem("PRIVATE KEY"))).contains("private key"));
    }
}
