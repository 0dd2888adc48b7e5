//! The section `[cluster]`: a log that several hosts share.

/// Where the address of the database is written. It holds a password, so it is no setting itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressSource {
    /// An environment variable.
    Variable(String),
    File(String),
}

/// What a host does for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes lines from its own queue.
    Ingest,
    /// Carries out work.
    Work,
    /// May lead.
    Lead,
    /// Publishes what readers see.
    Read,
}

impl Role {
    pub(crate) const NAMES: [&str; 4] = ["ingest", "work", "lead", "read"];

    #[cfg(feature = "cluster")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Work => "work",
            Role::Lead => "lead",
            Role::Read => "read",
        }
    }

    pub(super) fn of(name: &str) -> Option<Role> {
        match name {
            "ingest" => Some(Role::Ingest),
            "work" => Some(Role::Work),
            "lead" => Some(Role::Lead),
            "read" => Some(Role::Read),
            _ => None,
        }
    }
}

/// The section `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the keys of the configuration reference")]
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "a build without the feature refuses the section")
)]
pub(crate) struct ClusterConfig {
    pub address: AddressSource,
    pub ca_file: Option<String>,
    pub name: String,
    /// `None`: the name of the machine.
    pub host: Option<String>,
    /// Whether a write counts only when another server has it.
    pub wants_quorum: bool,
    pub lease_ms: i64,
    pub roles: Vec<Role>,
}

impl ClusterConfig {
    /// The name of this host among the others.
    pub(crate) fn host_name(&self) -> String {
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.host.clone().unwrap_or_else(machine)
    }
}

/// Whether a name of a log or a host is short and plain enough to stand in tables, files and texts.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=63).contains(&name.len()) && name.bytes().all(is_plain)
}
