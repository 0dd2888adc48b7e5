//! What a host knows of all hosts that share its log. It is for people; nothing is decided by it.

use serde_json::{Value, json};

/// A host as the last look found it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a cluster there are no other hosts")
)]
pub struct SeenHost {
    pub host: String,
    pub leads: bool,
    /// Of the program.
    pub release: Option<String>,
    /// What it does for the others.
    pub roles: Vec<String>,
    /// Commits of the list that its own log does not have, when it last said so.
    pub behind: Option<u64>,
    /// Seconds since it was heard of.
    pub silent: f64,
    /// Attempts that it carries out for the leader, and how many it takes at a time.
    pub attempts: u64,
    pub places: Option<i32>,
    /// A record: nothing is left there of what was forgotten by then.
    pub forgotten: Option<u64>,
    /// Whether its log ended as the list does there; `None` when nobody can say.
    pub agrees: Option<bool>,
}

impl SeenHost {
    pub fn to_json(&self) -> Value {
        json!({
            "host": self.host, "leads": self.leads, "release": self.release, "roles": self.roles,
            "behind": self.behind, "silent_seconds": self.silent, "attempts": self.attempts,
            "places": self.places, "forgotten": self.forgotten, "agrees": self.agrees,
        })
    }
}

/// The member `hosts` of `status`; null while nothing was heard of them.
pub fn hosts_json(hosts: Option<&[SeenHost]>) -> Value {
    hosts.map_or(Value::Null, |hosts| hosts.iter().map(SeenHost::to_json).collect())
}

/// Why the lines of a host wait there, as `status` has it.
pub(crate) fn waits_since(since: &str, why: &str) -> Value {
    json!({"since": since, "message": why})
}

/// The same for lines that nobody takes in, because their host has not the role `ingest`. `status` is its own.
pub(crate) fn waits_for_role(status: &Value, ingests: bool) -> Option<Value> {
    let left = status["queue"]["lag_bytes"].as_u64().filter(|left| *left > 0 && !ingests)?;
    let why =
        format!("{left} bytes of its queue are not taken in, because it has not the role `ingest`");
    Some(json!({"since": null, "message": why}))
}
