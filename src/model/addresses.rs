//! The addresses of a server, looked up once in a while and not for every call.
//!
//! Contract: a name is looked up again after [`KNOWN_FOR`], so that a server that moves is found. An
//! address in numbers is never looked up. The usual resolver looks up before every call, also when the
//! connection is there already, and starts a thread each time: with hundreds of calls in flight that
//! took more time than the calls.
//!
//! See docs/adr/0106-calls-in-flight.md.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How long the addresses of a name are used.
const KNOWN_FOR: Duration = Duration::from_secs(10);
/// Most names. A provider has one or two.
const NAMES_MAX: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    known: Arc<RwLock<Known>>,
}

/// The addresses of names, and when they were looked up.
type Known = HashMap<String, (Instant, Vec<SocketAddr>)>;

impl Addresses {
    fn known(&self, name: &str) -> Option<Vec<SocketAddr>> {
        let known = self.known.read();
        let (at, addresses) = known.get(name)?;
        (at.elapsed() < KNOWN_FOR).then(|| addresses.clone())
    }
}

impl Resolver for Addresses {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let name = uri.scheme().zip(uri.authority());
        let name = name.and_then(|(scheme, name)| DefaultResolver::host_and_port(scheme, name));
        let lookup = DefaultResolver::default();
        let Some(name) = name else { return lookup.resolve(uri, config, timeout) };
        let known = in_numbers(&name).map(|address| vec![address]).or_else(|| self.known(&name));
        if let Some(known) = known {
            let mut found = self.empty();
            known.into_iter().for_each(|address| found.push(address));
            return Ok(found);
        }
        let found = lookup.resolve(uri, config, timeout)?;
        let mut known = self.known.write();
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known.insert(name, (Instant::now(), found.to_vec()));
        Ok(found)
    }
}

/// The address that a host and a port spell in numbers.
fn in_numbers(name: &str) -> Option<SocketAddr> {
    let (host, port) = name.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_in_numbers_need_no_lookup() {
        let address = |name: &str| in_numbers(name).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1:80").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(address("[::1]:443").as_deref(), Some("[::1]:443"));
        assert_eq!(address("localhost:80"), None);
        assert_eq!(address("127.1:80"), None);
    }

    #[test]
    fn a_name_is_looked_up_once_in_a_while() {
        let addresses = Addresses::default();
        let (uri, config) = ("http://localhost:80/v1".parse().unwrap(), Config::default());
        let timeout = || NextTimeout {
            after: Duration::from_secs(10).into(),
            reason: ureq::Timeout::Resolve,
            ..NextTimeout::default()
        };
        let found = addresses.resolve(&uri, &config, timeout()).unwrap().to_vec();
        assert_eq!(addresses.known("localhost:80"), Some(found));
        let elsewhere: SocketAddr = "10.9.8.7:80".parse().unwrap();
        let known = (Instant::now(), vec![elsewhere]);
        addresses.known.write().insert("localhost:80".to_owned(), known);
        let again = addresses.resolve(&uri, &config, timeout()).unwrap().to_vec();
        assert_eq!(again, [elsewhere], "what is known is used");
        let old = Instant::now().checked_sub(KNOWN_FOR).unwrap();
        addresses.known.write().insert("localhost:80".to_owned(), (old, vec![elsewhere]));
        let moved = addresses.resolve(&uri, &config, timeout()).unwrap().to_vec();
        assert_ne!(moved, [elsewhere], "and looked up again");
    }
}
