//! The address of a provider's server: what is dialled, what may be shown, and what is secret in it.
//!
//! One parser reads the address for all three. So the host that decides whether a text stays on this
//! machine is the host that is dialled.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// The web address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(Url);

impl ServerAddress {
    /// `None` for a text that is not an `http` or `https` address with a host.
    pub(crate) fn parse(text: &str) -> Option<ServerAddress> {
        let url = Url::parse(text.trim()).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
        is_web.then_some(ServerAddress(url))
    }

    /// The host as it is connected to: an IPv6 address without its brackets.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(443)
    }

    /// Whether the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        }
    }

    /// The path without a final slash.
    pub(crate) fn path(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }

    /// The same address with another path.
    pub(crate) fn with_path(&self, path: &str) -> Option<ServerAddress> {
        let mut url = self.0.clone();
        url.set_path(path);
        ServerAddress::parse(url.as_str())
    }

    /// Whether it names one deployment of Azure OpenAI, with or without what is asked of it.
    pub(crate) fn is_one_deployment(&self) -> bool {
        self.path().contains("/deployments/")
    }

    /// Whether the query has a parameter of this name.
    pub(crate) fn has_parameter(&self, name: &str) -> bool {
        self.0.query_pairs().any(|(known, _)| known == name)
    }

    /// The address of `path` below this one: without user, password and fragment. The query of
    /// `path` follows the one of the address.
    pub(crate) fn below(&self, path: &str) -> String {
        let (path, own) = path.split_once('?').unwrap_or((path, ""));
        let mut url = without_user(&self.0);
        url.set_path(&format!("{}{path}", self.path()));
        url.set_fragment(None);
        let queries = [self.0.query().unwrap_or_default(), own];
        let query = queries.into_iter().filter(|query| !query.is_empty()).collect::<Vec<_>>();
        url.set_query(Some(query.join("&").as_str()).filter(|query| !query.is_empty()));
        url.into()
    }

    /// `user:password`, decoded.
    pub(crate) fn user(&self) -> Option<String> {
        self.written_user().map(|user| decoded(&user))
    }

    /// The user, the password and the values of the query, in every spelling they are sent in. The
    /// value of an API-version parameter is not a secret.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> = self.written_user().into_iter().collect();
        secrets.extend(self.0.password().map(str::to_owned));
        let pairs = self.0.query().unwrap_or_default().split('&');
        let values = pairs.filter_map(|pair| pair.split_once('='));
        let secret = values.filter(|(name, _)| !name.contains("version"));
        secrets.extend(secret.map(|(_, value)| value.to_owned()));
        let plain: Vec<String> = secrets.iter().map(|secret| decoded(secret)).collect();
        secrets.extend(plain);
        secrets.sort();
        secrets.dedup();
        secrets
    }

    fn written_user(&self) -> Option<String> {
        match (self.0.username(), self.0.password()) {
            ("", None) => None,
            (user, None) => Some(user.to_owned()),
            (user, Some(password)) => Some(format!("{user}:{password}")),
        }
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn without_user(url: &Url) -> Url {
    let mut url = url.clone();
    // Both setters fail only for addresses without a host; those have no user either.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url
}

/// An address as it may be shown: without the user, the password and the query. Takes any text,
/// because a server may send one that is no address.
pub(crate) fn shown_address(address: &str) -> String {
    let Some(ServerAddress(url)) = ServerAddress::parse(address) else {
        return shown_text(address);
    };
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !has_user && url.query().is_none() && url.fragment().is_none() {
        return address.to_owned();
    }
    let mut plain = without_user(&url);
    plain.set_query(None);
    plain.set_fragment(None);
    let mut shown: Cow<'_, str> = plain.as_str().into();
    if has_user {
        shown = shown.replacen("://", "://[hidden]@", 1).into();
    }
    let hides_end = url.query().is_some() || url.fragment().is_some();
    format!("{shown}{}", if hides_end { "?[hidden]" } else { "" })
}

/// A text that does not parse as an address, without whatever would be secret in an address.
fn shown_text(text: &str) -> String {
    let (before, end) = match text.find(['?', '#']) {
        Some(at) => (&text[..at], "?[hidden]"),
        None => (text, ""),
    };
    match before.rsplit_once('@') {
        Some((_, host)) => format!("[hidden]@{host}{end}"),
        None => format!("{before}{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_loopback_host_is_this_machine() {
        let is_local = |text| ServerAddress::parse(text).is_some_and(|it| it.is_loopback());
        for local in [
            "http://127.0.0.1:11434/v1",
            "http://LOCALHOST/v1",
            "http://[::1]:8080",
            "http://user:pw@127.9.9.9/v1?key=x",
            // A WHATWG parser reads these as 127.0.0.1, and that is what is dialled.
            "http://2130706433/",
            "http://127.1/",
        ] {
            assert!(is_local(local), "{local}");
        }
        for elsewhere in [
            "https://api.openai.com/v1",
            "http://127.0.0.1.evil.example/",
            "http://localhost@evil.example",
            "http://127.0.0.1:80@evil.example/",
            "http://evil.example\\@127.0.0.1/",
            "http://evil.example#@localhost/",
            "http://evil.example?@localhost/",
            "localhost:11434/v1",
            "file://localhost/etc",
            "",
        ] {
            assert!(!is_local(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn the_dialled_address_has_the_host_that_was_checked() {
        let address = ServerAddress::parse("http://evil.example\\@127.0.0.1/v1").unwrap();
        assert!(address.below("/models").starts_with("http://evil.example/"));
        let address = ServerAddress::parse("http://ana:pw@h:1/v1/?key=abc#x").unwrap();
        assert_eq!(address.below("/models"), "http://h:1/v1/models?key=abc");
        assert_eq!(address.below("/list?limit=9"), "http://h:1/v1/list?key=abc&limit=9");
        assert_eq!(address.user().unwrap(), "ana:pw");
        let address = ServerAddress::parse("http://h/v1").unwrap();
        assert_eq!(address.below("/list?limit=9"), "http://h/v1/list?limit=9");
    }

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        for (address, shown) in [
            ("http://h:1/v1", "http://h:1/v1"),
            ("https://ana:pw@h/v1?key=abc#x", "https://[hidden]@h/v1?[hidden]"),
            ("http:///ana:pw@h/v1", "http://[hidden]@h/v1"),
            ("//h/a?b", "//h/a?[hidden]"),
            ("//ana:pw@h/a", "[hidden]@h/a"),
            ("ana:pw@h", "[hidden]@h"),
            ("https://h/a@b", "https://h/a@b"),
        ] {
            assert_eq!(shown_address(address), shown);
        }
    }
}
