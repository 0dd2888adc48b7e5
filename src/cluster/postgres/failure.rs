//! What a failure of the database means: whether the call may have been carried out, and in words.

use std::error::Error as _;

use tokio_postgres::Error;

use crate::cluster::shared_log::SharedError;

/// Classes of SQLSTATE after which a call may have been carried out, or would be at another time or server:
/// connections, conflicts, resources, an operator, the system, the server itself.
const OPEN: &[&str] = &["08", "40", "53", "57", "58", "XX"];

/// A failed call.
pub(super) fn classed(error: &Error) -> SharedError {
    let Some(said) = error.as_db_error() else {
        return SharedError::Unclear(told(error));
    };
    let (code, message) = (said.code().code(), said.message());
    match code {
        "42501" => SharedError::Refused(format!(
            "{message}; grant the role of this host `summarizer_host`, and name it for this log: run `summarizer \
             cluster init --role ROLE` as the owner of the tables"
        )),
        "42P01" | "3F000" => SharedError::Refused(
            "its tables are missing in this database: run `summarizer cluster init` on the first host".to_owned(),
        ),
        "42703" | "42883" => SharedError::Refused(format!(
            "its tables are those of another version of the program ({message})"
        )),
        // A server that became a standby: another one takes the write.
        "25006" | "55P03" => SharedError::Unclear(message.to_owned()),
        code if OPEN.iter().any(|class| code.starts_with(class)) => {
            SharedError::Unclear(message.to_owned())
        }
        code => SharedError::Refused(format!("{message} (SQLSTATE {code})")),
    }
}

/// A connection that did not come about.
pub(super) fn unreachable(error: &Error) -> SharedError {
    if error.as_db_error().is_some() {
        return classed(error);
    }
    let mut cause = error.source();
    while let Some(one) = cause {
        let inner = one.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        let of_tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(of_tls) = of_tls.or_else(|| one.downcast_ref::<rustls::Error>()) {
            return SharedError::Refused(mistrusted(of_tls));
        }
        let said = one.to_string();
        if said.contains("does not support TLS") {
            return SharedError::Refused(
                "it does not offer TLS; turn TLS on there, or write sslmode=disable in the address if the network \
                 between is private"
                    .to_owned(),
            );
        }
        if said.contains("password missing") {
            return SharedError::Refused(
                "it wants a password, and the address has none".to_owned(),
            );
        }
        cause = one.source();
    }
    SharedError::Unclear(told(error))
}

/// Why TLS does not come about, and what helps.
fn mistrusted(error: &rustls::Error) -> String {
    use rustls::CertificateError as Bad;
    let rustls::Error::InvalidCertificate(bad) = error else {
        return format!("TLS with it fails ({error})");
    };
    match bad {
        Bad::Expired | Bad::ExpiredContext { .. } => format!(
            "its certificate has ended ({error}): give the server a new one, and look at the clock of this host"
        ),
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
            format!("its certificate is for another name than the one in the address ({error})")
        }
        _ => format!(
            "its certificate is not trusted ({error}); set cluster.ca_file to the file of its authority"
        ),
    }
}

/// The error with its causes.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        let said = one.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = one.source();
    }
    text
}
