//! The kinds of providers and the settings of one.

use serde::{Deserialize, Serialize};

use super::address::ServerAddress;

/// How long a question waits for others before its batch is sent, where nothing is configured.
pub(crate) const BATCH_WAIT_MS: i64 = 300_000;
/// How often a server is asked about a batch, where nothing is configured.
pub(crate) const BATCH_POLL_MS: i64 = 60_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    #[default]
    Builtin,
    OpenAi,
    Anthropic,
    /// A program that reads the prompt on stdin.
    Command,
    /// A file of recorded answers.
    Recorded,
}

/// Where a kind of provider answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// In this process.
    Inside,
    /// At a web address.
    Server {
        /// The address where the configuration names none.
        base: &'static str,
    },
    /// In a program that this machine starts.
    Program,
}

/// What is known of a kind.
struct KindFacts {
    /// As the configuration spells it.
    name: &'static str,
    reach: Reach,
    has_batches: bool,
    cache: CacheShares,
    /// Ends of the names of hosts that speak this protocol and are run by somebody else.
    hosts: &'static [(&'static str, &'static str)],
}

const OPENAI_HOSTS: &[(&str, &str)] = &[
    (".openai.azure.com", "azure.ai.openai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
];

impl KindFacts {
    const fn of(name: &'static str, reach: Reach) -> KindFacts {
        let cache = CacheShares { read: 1.0, write: 1.0 };
        KindFacts { name, reach, has_batches: false, cache, hosts: &[] }
    }
}

/// The cost of a token in the cache of a server, as a share of the usual price.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheShares {
    /// To read it there.
    pub read: f64,
    /// To write it there.
    pub write: f64,
}

impl ProviderKind {
    pub const ALL: [ProviderKind; 5] = [
        ProviderKind::Builtin,
        ProviderKind::OpenAi,
        ProviderKind::Anthropic,
        ProviderKind::Command,
        ProviderKind::Recorded,
    ];

    const fn facts(self) -> KindFacts {
        match self {
            ProviderKind::Builtin => KindFacts::of("builtin", Reach::Inside),
            ProviderKind::OpenAi => {
                let reach = Reach::Server { base: "https://api.openai.com/v1" };
                let hosts = OPENAI_HOSTS;
                KindFacts { has_batches: true, hosts, ..KindFacts::of("openai", reach) }
            }
            ProviderKind::Anthropic => {
                let reach = Reach::Server { base: "https://api.anthropic.com/v1" };
                let cache = CacheShares { read: 0.1, write: 1.25 };
                KindFacts { has_batches: true, cache, ..KindFacts::of("anthropic", reach) }
            }
            ProviderKind::Command => KindFacts::of("command", Reach::Program),
            ProviderKind::Recorded => KindFacts::of("recorded", Reach::Inside),
        }
    }

    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub fn reach(self) -> Reach {
        self.facts().reach
    }

    /// Whether such a server answers batches.
    pub(crate) fn has_batches(self) -> bool {
        self.facts().has_batches
    }

    /// Who answers, as traces name it: who runs a known host, else the protocol of the server, else this
    /// program.
    pub(crate) fn maker(self, host: &str) -> &'static str {
        let facts = self.facts();
        let known = facts.hosts.iter().find(|(end, _)| host.ends_with(end));
        match (facts.reach, known) {
            (Reach::Server { .. }, Some((_, maker))) => maker,
            (Reach::Server { .. }, None) => facts.name,
            (Reach::Inside | Reach::Program, _) => "summarizer",
        }
    }

    /// What a token in the cache of the server costs.
    pub(crate) fn cache_shares(self) -> CacheShares {
        self.facts().cache
    }
}

/// How much one question asks of the models of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Every member that a pack has.
    #[default]
    Whole,
    /// The members that a pack names for small models; rules fill the others.
    Small,
}

/// A smaller context has no room for a whole question of a pack, its answer and a text.
const SMALL_CONTEXT_TOKENS: usize = 4_000;

impl Profile {
    pub const NAMES: [&str; 2] = ["whole", "small"];

    /// How a model is asked. Without a word in the settings, one whose context is known to hold little more
    /// than a question is small.
    pub(crate) fn of(configured: Option<Profile>, known_context: Option<usize>) -> Profile {
        let is_little = known_context.is_some_and(|tokens| tokens < SMALL_CONTEXT_TOKENS);
        configured.unwrap_or(if is_little { Profile::Small } else { Profile::Whole })
    }
}

/// Settings of one model provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields are the keys of the configuration reference")]
pub struct ProviderConfig {
    pub kind: ProviderKind,
    pub base_url: Option<String>,
    pub model: Option<String>,
    pub api_key_env: Option<String>,
    pub ca_file: Option<String>,
    pub command: Option<Vec<String>>,
    pub recordings: Option<String>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub context_tokens: Option<u32>,
    pub seed: Option<i64>,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    pub price_in: Option<f64>,
    pub price_cached: Option<f64>,
    pub price_out: Option<f64>,
    pub fallback: Option<Vec<String>>,
    pub local: Option<bool>,
    pub profile: Option<Profile>,
    pub batch: Option<bool>,
    pub batch_wait_ms: Option<i64>,
    pub batch_poll_ms: Option<i64>,
}

impl ProviderConfig {
    /// The address as configured, or that of the kind; `None` for a kind without a server.
    pub fn address(&self) -> Option<&str> {
        match self.kind.reach() {
            Reach::Server { base } => Some(self.base_url.as_deref().unwrap_or(base)),
            Reach::Inside | Reach::Program => None,
        }
    }

    /// Whether no text leaves this machine, as far as the configuration says. `local` decides where
    /// it is set: only the user knows what a program does with its input.
    pub(crate) fn is_local(&self) -> bool {
        self.local.unwrap_or_else(|| match self.kind.reach() {
            Reach::Inside => true,
            Reach::Program => false,
            Reach::Server { base } => {
                let address = self.base_url.as_deref().unwrap_or(base);
                ServerAddress::parse(address).is_some_and(|address| address.is_loopback())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_local_when_no_text_leaves_this_machine() {
        let of = |kind, base: Option<&str>, local| {
            let base_url = base.map(str::to_owned);
            ProviderConfig { kind, base_url, local, ..ProviderConfig::default() }.is_local()
        };
        assert!(of(ProviderKind::OpenAi, Some("http://127.0.0.1:11434/v1"), None));
        assert!(!of(ProviderKind::OpenAi, None, None));
        assert!(!of(ProviderKind::Anthropic, Some("no address"), None));
        assert!(of(ProviderKind::Builtin, None, None));
        assert!(of(ProviderKind::Recorded, None, None));
        assert!(!of(ProviderKind::Command, None, None));
        assert!(of(ProviderKind::Command, None, Some(true)));
        assert!(!of(ProviderKind::OpenAi, Some("http://127.0.0.1/v1"), Some(false)));
    }
}
