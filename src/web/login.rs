//! Who may read: a program that has the token of this start of the service, or a browser that exchanged
//! the token for a cookie.
//!
//! Contract. The page itself is the same for every home and holds nothing of it; everything below `/api/`
//! needs the token or the cookie, unless the settings open the page. A comparison takes the same time for
//! every wrong value. The cookie is another value than the token: whoever has it reads and cannot act.
//!
//! See docs/adr/0119-the-page-behind-a-token.md.

use super::http::{HttpFailure, Request};
use crate::contract::hash::sha256;

/// What the page of a service asks for.
#[derive(Clone)]
pub struct Login {
    /// Made anew at each start of a service.
    pub token: String,
    /// Whether reading needs it too.
    pub for_reading: bool,
    /// What tells the cookies of several homes on this machine apart.
    pub home: String,
}

impl Login {
    /// Whether a request has the token itself.
    pub(super) fn has_token(&self, request: &Request) -> bool {
        request.token.as_deref().is_some_and(|given| is_same(given, &self.token))
    }

    /// Whether a request may read.
    pub(super) fn may_read(&self, request: &Request) -> Result<(), HttpFailure> {
        let value = self.cookie_value();
        let has_cookie = || request.cookies(&self.cookie_name()).any(|one| is_same(one, &value));
        match !self.for_reading || self.has_token(request) || has_cookie() {
            true => Ok(()),
            false => Err((401, ADVICE.to_owned())),
        }
    }

    /// The header that lets the browser of the person read, until it or the service ends.
    pub(super) fn cookie(&self) -> String {
        let (name, value) = (self.cookie_name(), self.cookie_value());
        format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/")
    }

    /// Cookies belong to a host and not to a port, so that each home needs a name of its own.
    fn cookie_name(&self) -> String {
        format!("summarizer-{}", &sha256(&self.home).hex()[..12])
    }

    fn cookie_value(&self) -> String {
        sha256(format!("cookie of {}", self.token)).hex()
    }
}

/// What a person without the token is told.
pub(super) const ADVICE: &str = "a token is wanted: `summarizer open` opens the page with it, and \
                                 `summarizer open --print` prints the link; a link of an earlier \
                                 start of the service has an old token";

/// Compares by hashes, so that the time of the comparison says nothing about the value.
fn is_same(given: &str, wanted: &str) -> bool {
    sha256(given) == sha256(wanted)
}
