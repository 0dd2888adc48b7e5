//! The connections to a server: each call borrows one and gives it back for the next.
//!
//! Contract: a connection that was used last is used first, and one that nobody used for
//! [`IDLE_MAX`] is closed. Connections share the setup of TLS, its sessions and the addresses.
//!
//! Each connection has an agent of its own, because an agent looks at all of its connections twice for
//! each call, under one lock.
//!
//! See docs/adr/0106-calls-in-flight.md.

use std::collections::VecDeque;
use std::ops::Deref;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::transport::Connector as _;

use super::addresses::Addresses;
use super::ending::EndableConnector;
use super::tls::TlsConnector;

/// How long a connection is kept for the next call.
const IDLE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Connections {
    config: Config,
    tls: TlsConnector,
    addresses: Addresses,
    /// The connections that no call uses, ordered by last use.
    idle: Mutex<VecDeque<(Instant, Agent)>>,
}

impl Connections {
    /// `config` is that of each agent.
    pub(super) fn new(config: Config) -> Connections {
        let (tls, addresses) = (TlsConnector::default(), Addresses::default());
        Connections { config, tls, addresses, idle: Mutex::default() }
    }

    /// An agent for one call. It must live until the answer is read.
    pub(super) fn lend(&self) -> Lent<'_> {
        let idle = self.idle.lock().pop_back();
        let agent = idle.map(|(_, agent)| agent).unwrap_or_else(|| {
            let connector = ().chain(EndableConnector::default()).chain(self.tls.clone());
            Agent::with_parts(self.config.clone(), connector, self.addresses.clone())
        });
        Lent { from: self, agent }
    }

    fn take_back(&self, agent: Agent) {
        let now = Instant::now();
        let mut idle = self.idle.lock();
        idle.push_back((now, agent));
        let mut old = Vec::new();
        while let Some((since, _)) = idle.front()
            && now.duration_since(*since) > IDLE_MAX
        {
            old.extend(idle.pop_front());
        }
        drop(idle);
        // Closing takes a while, and needs no lock.
        drop(old);
    }
}

/// An agent that goes back where it came from.
pub(super) struct Lent<'a> {
    from: &'a Connections,
    agent: Agent,
}

impl Deref for Lent<'_> {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // A clone shares the connection.
        self.from.take_back(self.agent.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_that_was_used_last_goes_first_and_old_ones_are_closed() {
        let connections = Connections::new(Agent::config_builder().build());
        let count = || connections.idle.lock().len();
        let (one, two) = (connections.lend(), connections.lend());
        assert_eq!(count(), 0);
        drop(one);
        drop(two);
        assert_eq!(count(), 2);
        drop(connections.lend());
        assert_eq!(count(), 2, "no third one");
        let long_ago = Instant::now().checked_sub(IDLE_MAX + Duration::from_secs(1)).unwrap();
        connections.idle.lock().front_mut().unwrap().0 = long_ago;
        drop(connections.lend());
        assert_eq!(count(), 1, "a connection that nobody used is closed");
    }
}
