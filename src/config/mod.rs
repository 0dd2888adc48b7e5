//! The configuration as a value: every key with its default, and where each value came from.
//!
//! Precedence: flag, environment (`SUMMARIZER_SECTION_KEY`), file, default. Files and the
//! environment are read by the caller; this module only parses. Unknown keys are errors that
//! suggest the nearest known one.

mod address;
mod cluster;
pub(crate) mod keys;
mod provider;
mod quantity;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use chrono_tz::Tz;
use serde::Serialize;

use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::places::{BadRule, DataPlace, DataRule};
use crate::contract::privacy::PrivacyRules;
pub(crate) use address::ServerAddress;
pub(crate) use address::shown_address;
pub(crate) use cluster::{AddressSource, ClusterConfig};
#[cfg(feature = "cluster")]
pub(crate) use cluster::{Role, is_plain_name};
pub(crate) use keys::FLOW_KEYS;
pub(crate) use keys::KEYS;
pub(crate) use keys::PROVIDER_KEYS;
pub(crate) use keys::nearest;
pub(crate) use provider::Reach;
pub(crate) use provider::{BATCH_POLL_MS, BATCH_WAIT_MS};
pub use provider::{Profile, ProviderConfig, ProviderKind};
pub(crate) use quantity::parse_bytes;
pub(crate) use quantity::parse_count;
pub(crate) use quantity::parse_duration_ms;

/// Where the key of a home comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HomeKeySource {
    File(PathBuf),
    /// A program that prints it, with its arguments.
    Command(Vec<String>),
    /// The name of a credential of systemd.
    Credential(String),
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not TOML.
    #[error("parse the configuration file: {0}")]
    Syntax(String),
    /// A key that does not exist.
    #[error("unknown key `{key}`{}", suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key as written.
        key: String,
        /// The nearest known key.
        suggestion: Option<String>,
    },
    /// A value that does not fit its key.
    #[error("`{key}` = {value} ({origin}): expected {expected}")]
    BadValue {
        key: String,
        /// The value as written.
        value: String,
        /// Where it was written.
        origin: Origin,
        expected: String,
    },
    /// A section for something that this program was built without.
    #[error(
        "`{key}` is set ({origin}), and this program was built without the cargo feature `{feature}`: use a build with \
         it, or remove the section"
    )]
    NotBuilt { key: String, origin: Origin, feature: &'static str },
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    File,
    Environment(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File => f.write_str("file"),
            Origin::Environment(name) => write!(f, "environment {name}"),
        }
    }
}

/// One effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub key: String,
    /// The value as written.
    pub value: toml::Value,
    /// Where it came from.
    pub origin: Origin,
}

/// When something old is moved away or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ArchiveAfter {
    /// Only on demand.
    Never,
    /// When they are this many milliseconds old.
    Age(i64),
}

/// Settings of one flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the fields are the keys of the configuration reference")]
pub struct FlowConfig {
    pub provider: Option<String>,
    pub model: Option<String>,
    pub params: serde_json::Map<String, serde_json::Value>,
    pub(crate) min_chars: u64,
    pub skip_policy: String,
    pub local_only: bool,
}

/// The flow that `sum` and `add` use for each kind of file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct DefaultFlows {
    pub document: String,
    pub mail: String,
    pub chat: String,
    pub feed: String,
}

/// One `[[watch]]`: a folder that a service takes in by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct WatchConfig {
    pub folder: String,
    /// Only files whose name or path below the folder fits.
    pub glob: Option<String>,
    /// Only files of this kind: document, mail, chat, feed.
    pub kind: Option<String>,
    pub flow: Option<String>,
    pub project: Option<String>,
}

/// Kinds of files that a section `[[watch]]` may name.
pub(crate) const WATCH_KINDS: &[&str] = &["document", "mail", "chat", "feed"];
/// Keys of `[[watch]]`.
const WATCH_KEYS: &[&str] = &["folder", "glob", "kind", "flow", "project"];
/// The variable that other tools name the bus root by.
const BUS_HOME: &str = "BUS_HOME";
/// Most calls under way at one provider. Each has a thread and a connection; see
/// docs/adr/0106-calls-in-flight.md.
const IN_FLIGHT_MAX: usize = 1024;
/// Least memory of a process that runs flows: with less, none starts.
const WORKER_MEMORY_BYTES_MIN: usize = 128 << 20;

/// The files that are written only when a setting asks for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exports {
    /// An Atom feed of each day's summaries.
    pub feed: bool,
    /// A file of metrics.
    pub metrics: bool,
}

/// Where traces are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TelemetryConfig {
    /// An address, or `env`; `None` sends none.
    pub endpoint: Option<String>,
    /// The environment variable with headers for the collector.
    pub headers_env: String,
    pub service_name: String,
}

#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are the keys of the configuration reference")]
pub struct Config {
    pub(crate) bus_home: PathBuf,
    pub timezone: Tz,
    pub(crate) log_json: bool,
    pub(crate) queue_path: PathBuf,
    pub(crate) line_bytes_max: usize,
    pub partial_line_grace_ms: i64,
    pub(crate) commit_inputs_max: usize,
    pub commit_bytes_max: usize,
    pub(crate) commit_delay_ms: i64,
    pub open_requests_max: usize,
    pub(crate) disk_headroom_bytes: u64,
    pub workers: usize,
    pub(crate) in_flight_per_provider: usize,
    pub(crate) shutdown_grace_ms: i64,
    pub(crate) attempt_timeout_ms: i64,
    /// Whether flows run in processes of their own.
    pub(crate) isolates_flows: bool,
    pub(crate) worker_memory_bytes_max: usize,
    pub attempts_max: u32,
    pub(crate) retry_base_delay_ms: i64,
    pub(crate) retry_delay_ms_max: i64,
    pub(crate) repair_turns: u32,
    pub(crate) export_interval_ms: i64,
    pub(crate) export_share: f64,
    /// Bytes written in an hour for each new one that is shown.
    pub(crate) export_written_max: f64,
    pub(crate) export_delay_ms_max: i64,
    pub event_threshold: u32,
    pub step_fallback: u32,
    pub(crate) service_event_threshold: u64,
    pub(crate) service_step_fallback: u64,
    pub(crate) cost_of_bytes: f64,
    pub(crate) cost_of_reread: f64,
    pub(crate) cost_of_memory: f64,
    pub(crate) cost_of_age: f64,
    pub run_logs: PathBuf,
    pub checkpoint_every_events: u64,
    pub archive_after: ArchiveAfter,
    pub(crate) answers_after: ArchiveAfter,
    pub(crate) acks_after: ArchiveAfter,
    pub(crate) retention_daily: bool,
    pub(crate) backup_expire_after: ArchiveAfter,
    /// A group that may read the home and append to its queue.
    pub(crate) files_group: Option<String>,
    /// Whether the file of the keys is sealed.
    pub(crate) encrypt_at_rest: bool,
    /// Where the key of the home comes from.
    pub(crate) home_key: Option<HomeKeySource>,
    pub(crate) python_allowed: bool,
    pub(crate) python_interpreter: String,
    pub(crate) python_jail: bool,
    pub(crate) python_network: bool,
    pub(crate) python_memory_bytes_max: usize,
    pub(crate) python_timeout_ms: i64,
    pub(crate) exports: Exports,
    /// The flow for each kind of file.
    pub(crate) default_flow: DefaultFlows,
    pub(crate) session_gap_ms: i64,
    /// Folders that a service takes in by itself.
    pub(crate) watches: Vec<WatchConfig>,
    /// The program that reads PDF, with its arguments.
    pub(crate) extract_pdf: Vec<String>,
    pub(crate) digest_auto: bool,
    pub(crate) digest_debounce_ms: i64,
    pub(crate) digest_max_delay_ms: i64,
    pub(crate) provider_default: String,
    pub providers: BTreeMap<String, ProviderConfig>,
    pub flows: BTreeMap<String, FlowConfig>,
    pub(crate) cost_per_day_max: Option<f64>,
    pub(crate) tokens_per_day_max: Option<u64>,
    pub(crate) research_root: Option<PathBuf>,
    pub agent_types: Vec<String>,
    pub redact: Vec<String>,
    /// Rules about data.
    pub(crate) privacy: PrivacyRules,
    /// The provider for data that stays here, where the flow names none on this machine.
    pub(crate) local_provider: Option<String>,
    pub(crate) telemetry: TelemetryConfig,
    /// The log is shared with other hosts.
    pub(crate) cluster: Option<ClusterConfig>,
    pub(crate) status_http: Option<std::net::SocketAddr>,
    pub(crate) status_login: bool,
    /// Facts about the person that flows may use, by the names of their bindings.
    pub profile: BTreeMap<String, serde_json::Value>,
    settings: Vec<Setting>,
}

impl Config {
    /// The name under which the log keeps the position of the queue; empty when this host has the log alone.
    pub(crate) fn queue_host(&self) -> String {
        self.cluster.as_ref().map(ClusterConfig::host_name).unwrap_or_default()
    }

    /// Whether lines of this home are taken in, and watched folders.
    pub(crate) fn ingests(&self) -> bool {
        self.cluster.as_ref().is_none_or(|shared| shared.roles.contains(&cluster::Role::Ingest))
    }

    /// Puts defaults, a file and the environment together.
    ///
    /// `environment` holds the `SUMMARIZER_` variables and `BUS_HOME` only; `cores` is the default worker count.
    pub fn load(
        file: Option<&str>,
        environment: &BTreeMap<String, String>,
        cores: usize,
    ) -> Result<Config, ConfigError> {
        let table: toml::Table = match file {
            Some(text) => text.parse().map_err(|error| ConfigError::Syntax(told(text, &error)))?,
            None => toml::Table::new(),
        };
        let mut found = flatten(&table)?;
        override_from_environment(&mut found, environment);
        let values = Values { found };
        values.build(cores)
    }

    /// Every value with its origin, in the order of the reference.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Threads that wait for providers: as many as calls may be under way at all providers that
    /// requests begin with. A fallback answers on the thread of the provider before it.
    pub(crate) fn paid_threads(&self) -> usize {
        self.in_flight_per_provider * self.paid_providers().max(1)
    }

    /// A hash of all rules that say what may happen to data.
    pub(crate) fn data_rules(&self) -> String {
        let written = |name: &str, rules: &[DataRule]| -> Vec<String> {
            rules.iter().map(|rule| format!("{name} {}", rule.written())).collect()
        };
        let mut rules = written("local_only", &self.privacy.local_only);
        rules.extend(written("private", &self.privacy.private));
        rules.extend(self.redact.iter().map(|what| format!("redact {what}")));
        let local = self.flows.iter().filter(|(_, flow)| flow.local_only);
        rules.extend(local.map(|(id, _)| format!("flow {id}")));
        rules.sort();
        sha256(rules.join("\n")).hex()
    }

    /// Whether a provider that requests begin with is more than the embedded summarizer.
    pub(crate) fn waits_for_models(&self) -> bool {
        self.paid_providers() > 0
    }

    /// Whether questions of scheduled requests may wait for a batch, which the host that leads sends.
    pub(crate) fn has_batches(&self) -> bool {
        self.providers.values().any(|provider| provider.batch == Some(true))
    }

    fn paid_providers(&self) -> usize {
        let of_flows = self.flows.values().filter_map(|flow| flow.provider.as_ref());
        let names: BTreeSet<_> = of_flows.chain([&self.provider_default]).collect();
        let is_paid = |name: &&&String| {
            self.providers.get(**name).is_some_and(|one| one.kind != ProviderKind::Builtin)
        };
        names.iter().filter(is_paid).count()
    }

    /// Parameters that every request of a flow has unless it says otherwise: those of
    /// `[flow."ID"]`, then those of `[flow."ID@VARIANT"]`.
    pub(crate) fn flow_params(
        &self,
        flow_id: &str,
        variant: Option<&str>,
    ) -> serde_json::Map<String, serde_json::Value> {
        let own = variant.map(|variant| format!("{flow_id}@{variant}"));
        let names = [Some(flow_id.to_owned()), own];
        let sections = names.into_iter().flatten().filter_map(|name| self.flows.get(&name));
        sections.flat_map(|section| section.params.clone()).collect()
    }

    /// Hash of the effective values: what runs record about their configuration.
    pub fn fingerprint(&self) -> Digest {
        let pairs = self.settings.iter().map(|setting| {
            (setting.key.clone(), serde_json::Value::String(setting.value.to_string()))
        });
        jcs_hash(&serde_json::Value::Object(pairs.collect()))
    }

    /// The commented file that `init` writes.
    pub fn template() -> String {
        let mut text = String::from(
            "# Configuration of this summarizer home. Every key is optional; the values shown are the\n\
             # defaults. `summarizer config` prints what is in force and where it came from.\n",
        );
        let mut section = "";
        for key in KEYS {
            let (of, name) = key.path.split_once('.').unwrap_or(("", key.path));
            if of != section {
                section = of;
                text.push_str(&format!("\n# [{section}]\n"));
            }
            text.push_str(&format!("# {name} = {}  # {}\n", key.default, key.help));
        }
        text.push_str(
            "\n# A local model, for example:\n# [provider.local]\n# kind = \"openai\"\n\
             # base_url = \"http://127.0.0.1:11434/v1\"\n# model = \"llama3.2\"\n\
             \n# Settings of one flow, for example:\n# [flow.\"docs.chunk_set.summarize.brief.v1\"]\n\
             # provider = \"local\"\n# local_only = true\n# params = { max_tokens = 900 }\n\
             \n# A folder that the service takes in by itself, for example:\n# [[watch]]\n\
             # folder = \"~/notes\"\n# project = \"life\"\n",
        );
        text
    }
}

/// The error in the file, with its line. A line with an address is not quoted: it may contain a secret.
fn told(text: &str, error: &toml::de::Error) -> String {
    let quoted = error.to_string();
    if !quoted.contains("//") {
        return quoted.trim_end().to_owned();
    }
    let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
    format!("line {}: {}", before.matches('\n').count() + 1, error.message())
}

/// Dotted key to value and origin; `provider.NAME.key` and `flow.ID.key` keep their middle.
type FlatSettings = BTreeMap<String, (toml::Value, Origin)>;

fn flatten(table: &toml::Table) -> Result<FlatSettings, ConfigError> {
    let mut found = FlatSettings::new();
    for (name, value) in table {
        match (name.as_str(), value) {
            ("provider", toml::Value::Table(inner)) => {
                flatten_named(&mut found, "provider", inner, PROVIDER_KEYS)?;
            }
            ("flow", toml::Value::Table(inner)) => {
                flatten_named(&mut found, "flow", inner, FLOW_KEYS)?;
            }
            ("profile", toml::Value::Table(inner)) => {
                for (key, value) in inner {
                    let path = format!("profile\u{0}{key}\u{0}");
                    found.insert(path, (value.clone(), Origin::File));
                }
            }
            ("watch", toml::Value::Array(items)) => {
                for (place, item) in items.iter().enumerate() {
                    let toml::Value::Table(inner) = item else {
                        return Err(ConfigError::UnknownKey {
                            key: "watch".to_owned(),
                            suggestion: Some("[[watch]]".to_owned()),
                        });
                    };
                    flatten_watch(&mut found, place, inner)?;
                }
            }
            (_, toml::Value::Table(inner)) => {
                for (key, value) in inner {
                    insert_known(&mut found, format!("{name}.{key}"), value)?;
                }
            }
            _ => insert_known(&mut found, name.clone(), value)?,
        }
    }
    Ok(found)
}

fn flatten_watch(
    found: &mut FlatSettings,
    place: usize,
    table: &toml::Table,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        if !WATCH_KEYS.contains(&key.as_str()) {
            let suggestion = keys::nearest(key, WATCH_KEYS.iter().copied());
            return Err(ConfigError::UnknownKey { key: format!("watch.{key}"), suggestion });
        }
        // Padded, so that the order of the file is that of the keys.
        let path = format!("watch\u{0}{place:04}\u{0}{key}");
        found.insert(path, (value.clone(), Origin::File));
    }
    Ok(())
}

fn insert_known(
    found: &mut FlatSettings,
    key: String,
    value: &toml::Value,
) -> Result<(), ConfigError> {
    if !KEYS.iter().any(|known| known.path == key) {
        let suggestion = keys::nearest(&key, KEYS.iter().map(|known| known.path));
        return Err(ConfigError::UnknownKey { key, suggestion });
    }
    found.insert(key, (value.clone(), Origin::File));
    Ok(())
}

fn flatten_named(
    found: &mut FlatSettings,
    section: &str,
    table: &toml::Table,
    known: &[&str],
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let toml::Value::Table(inner) = value else {
            insert_known(found, format!("{section}.{name}"), value)?;
            continue;
        };
        for (key, value) in inner {
            if !known.contains(&key.as_str()) {
                let suggestion = keys::nearest(key, known.iter().copied());
                let key = format!("{section}.{name}.{key}");
                return Err(ConfigError::UnknownKey { key, suggestion });
            }
            let path = format!("{section}\u{0}{name}\u{0}{key}");
            found.insert(path, (value.clone(), Origin::File));
        }
    }
    Ok(())
}

fn override_from_environment(found: &mut FlatSettings, environment: &BTreeMap<String, String>) {
    if let Some(root) = environment.get(BUS_HOME).filter(|root| !root.is_empty()) {
        let value = toml::Value::String(root.clone());
        found.insert("bus_home".to_owned(), (value, Origin::Environment(BUS_HOME.to_owned())));
    }
    for key in KEYS {
        let name = key.variable();
        if let Some(text) = environment.get(&name) {
            // A value that reads as TOML is that value; anything else is text.
            let value = format!("v = {text}")
                .parse::<toml::Table>()
                .ok()
                .and_then(|mut table| table.remove("v"))
                .unwrap_or_else(|| toml::Value::String(text.clone()));
            found.insert(key.path.to_owned(), (value, Origin::Environment(name)));
        }
    }
}

struct Values {
    found: FlatSettings,
}

impl Values {
    fn build(&self, cores: usize) -> Result<Config, ConfigError> {
        let zone = self.text("timezone")?;
        let timezone = zone.parse().map_err(|_| self.bad("timezone", "an IANA time zone name"))?;
        let log_format = self.one_of("log_format", &["human", "json"])?;
        let workers = match self.count("workers.count")? {
            0 => cores.max(1),
            count => usize::try_from(count).unwrap_or(1),
        };
        let share = self.number("export.max_share_of_time")?;
        if !(0.001..=1.0).contains(&share) {
            return Err(self.bad("export.max_share_of_time", "a share between 0.001 and 1"));
        }
        let written = self.number("export.max_written")?;
        if !(1.0..=1e6).contains(&written) {
            return Err(self.bad("export.max_written", "a number from 1 to 1000000"));
        }
        let archive_after = self.age("compaction.archive_after")?;
        Ok(Config {
            bus_home: PathBuf::from(self.text("bus_home")?),
            timezone,
            log_json: log_format == "json",
            queue_path: PathBuf::from(self.text("queue.path")?),
            line_bytes_max: self.bytes("queue.max_line_bytes")?,
            partial_line_grace_ms: self.duration("queue.partial_line_grace")?,
            commit_inputs_max: self.at_least_one("commit.max_batch")?,
            commit_bytes_max: self.bytes("commit.max_bytes")?,
            commit_delay_ms: self.duration("commit.max_delay")?,
            open_requests_max: self.at_least_one("commit.max_open_requests")?,
            disk_headroom_bytes: self.bytes("commit.disk_headroom")? as u64,
            workers,
            in_flight_per_provider: match self.at_least_one("workers.max_in_flight_per_provider")? {
                count @ 1..=IN_FLIGHT_MAX => count,
                _ => return Err(self.bad("workers.max_in_flight_per_provider", "at most 1024")),
            },
            shutdown_grace_ms: self.duration("workers.grace_on_shutdown")?,
            attempt_timeout_ms: self.duration("workers.attempt_timeout")?,
            isolates_flows: self.one_of("workers.isolation", &["process", "thread"])? == "process",
            worker_memory_bytes_max: match self.bytes("workers.memory")? {
                bytes if bytes >= WORKER_MEMORY_BYTES_MIN => bytes,
                _ => return Err(self.bad("workers.memory", "at least 128 MiB")),
            },
            attempts_max: u32::try_from(self.at_least_one("retry.max_attempts")?)
                .unwrap_or(u32::MAX),
            retry_base_delay_ms: self.duration("retry.base_delay")?,
            retry_delay_ms_max: self.duration("retry.max_delay")?,
            repair_turns: match self.count("retry.repair_turns")? {
                turns @ 0..=10 => u32::try_from(turns).unwrap_or(0),
                _ => return Err(self.bad("retry.repair_turns", "at most 10")),
            },
            export_interval_ms: self.duration("export.min_interval")?,
            export_share: share,
            export_written_max: written,
            export_delay_ms_max: self.duration("export.max_delay")?,
            event_threshold: u32::try_from(self.at_least_one("compaction.event_threshold")?)
                .unwrap_or(u32::MAX),
            step_fallback: u32::try_from(self.at_least_one("compaction.step_fallback")?)
                .unwrap_or(u32::MAX),
            service_event_threshold: self.at_least_one("compaction.service_event_threshold")?
                as u64,
            service_step_fallback: self.at_least_one("compaction.service_step_fallback")? as u64,
            cost_of_bytes: self.weight("compaction.cost_of_bytes")?,
            cost_of_reread: self.weight("compaction.cost_of_reread")?,
            cost_of_memory: self.weight("compaction.cost_of_memory")?,
            cost_of_age: self.weight("compaction.cost_of_age")?,
            run_logs: PathBuf::from(self.text("compaction.run_logs")?),
            checkpoint_every_events: self.at_least_one("compaction.checkpoint_every_events")?
                as u64,
            archive_after,
            answers_after: self.age("retention.answers_after")?,
            acks_after: self.age("retention.acks_after")?,
            retention_daily: self.flag("retention.daily")?,
            backup_expire_after: self.age("backup.expire_after")?,
            files_group: Some(self.text("files.group")?).filter(|group| group != "none"),
            encrypt_at_rest: self.flag("encrypt.at_rest")?,
            home_key: self.home_key()?,
            python_allowed: self.flag("python.allow")?,
            python_interpreter: self.text("python.interpreter")?,
            python_jail: self.flag("python.jail")?,
            python_network: self.flag("python.network")?,
            python_memory_bytes_max: self.bytes("python.memory_max")?,
            python_timeout_ms: self.duration("python.timeout")?,
            exports: Exports {
                feed: self.flag("exports.feed")?,
                metrics: self.flag("exports.metrics")?,
            },
            default_flow: DefaultFlows {
                document: self.text("default_flow.document")?,
                mail: self.text("default_flow.mail")?,
                chat: self.text("default_flow.chat")?,
                feed: self.text("default_flow.feed")?,
            },
            watches: self.watches()?,
            session_gap_ms: self.duration("import.session_gap")?,
            extract_pdf: self.texts("extract.pdf")?,
            digest_auto: self.one_of("digest.auto", &["on", "off"])? == "on",
            digest_debounce_ms: self.duration("digest.debounce")?,
            digest_max_delay_ms: self.duration("digest.max_delay")?,
            provider_default: self.text("provider.default")?,
            providers: self.providers()?,
            flows: self.flows()?,
            cost_per_day_max: self.optional_number("budget.max_cost_per_day")?,
            tokens_per_day_max: self.optional_count("budget.max_tokens_per_day")?,
            research_root: self.optional_text("synthesis.research_root")?.map(PathBuf::from),
            agent_types: self.texts("synthesis.agent_types")?,
            redact: self.some_of("privacy.redact", &["emails", "phones", "keys", "accounts"])?,
            privacy: PrivacyRules {
                local_only: self.rules("privacy.local_only")?,
                private: self.rules("privacy.private")?,
            },
            local_provider: self.local_provider("privacy.local_provider")?,
            telemetry: TelemetryConfig {
                endpoint: self.collector("telemetry.endpoint")?,
                headers_env: self.text("telemetry.headers_env")?,
                service_name: self.text("telemetry.service_name")?,
            },
            cluster: self.cluster()?,
            status_http: self.address("status.http")?,
            status_login: self.flag("status.login")?,
            profile: self.profile()?,
            settings: self.settings(),
        })
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings: Vec<Setting> = KEYS
            .iter()
            .map(|key| {
                let (value, origin) = self.value(key.path);
                Setting { key: key.path.to_owned(), value, origin }
            })
            .collect();
        for (path, (value, origin)) in self.found.iter().filter(|(path, _)| path.contains('\u{0}'))
        {
            let parts: Vec<&str> = path.split('\u{0}').collect();
            let key = match parts[2] {
                "" => format!("{}.{}", parts[0], parts[1]),
                member => format!("{}.\"{}\".{member}", parts[0], parts[1]),
            };
            let value = match (parts[2], value) {
                ("base_url", toml::Value::String(base)) => shown_address(base).into(),
                _ => value.clone(),
            };
            settings.push(Setting { key, value, origin: origin.clone() });
        }
        settings
    }

    fn value(&self, path: &str) -> (toml::Value, Origin) {
        if let Some((value, origin)) = self.found.get(path) {
            return (value.clone(), origin.clone());
        }
        let default = KEYS.iter().find(|key| key.path == path).map_or("\"\"", |key| key.default);
        let value = format!("v = {default}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("v"))
            .unwrap_or_else(|| toml::Value::String(default.to_owned()));
        (value, Origin::Default)
    }

    fn bad(&self, path: &str, expected: &str) -> ConfigError {
        let (value, origin) = self.value(path);
        let key = path.replace('\u{0}', ".");
        ConfigError::BadValue {
            key,
            value: value.to_string(),
            origin,
            expected: expected.to_owned(),
        }
    }

    fn text(&self, path: &str) -> Result<String, ConfigError> {
        match self.value(path).0 {
            toml::Value::String(text) => Ok(text),
            _ => Err(self.bad(path, "a text")),
        }
    }

    fn one_of(&self, path: &str, words: &[&str]) -> Result<String, ConfigError> {
        let text = self.text(path)?;
        if words.contains(&text.as_str()) {
            return Ok(text);
        }
        Err(self.bad(path, &format!("one of {}", words.join(", "))))
    }

    fn count(&self, path: &str) -> Result<u64, ConfigError> {
        let parsed = match self.value(path).0 {
            toml::Value::Integer(number) => u64::try_from(number).ok(),
            toml::Value::String(text) => parse_count(&text),
            _ => None,
        };
        parsed.ok_or_else(|| self.bad(path, "a count like 4096 or \"100k\""))
    }

    fn at_least_one(&self, path: &str) -> Result<usize, ConfigError> {
        let count = usize::try_from(self.count(path)?).unwrap_or(usize::MAX);
        if count == 0 { Err(self.bad(path, "at least 1")) } else { Ok(count) }
    }

    fn bytes(&self, path: &str) -> Result<usize, ConfigError> {
        let parsed = match self.value(path).0 {
            toml::Value::Integer(number) => u64::try_from(number).ok(),
            toml::Value::String(text) => parse_bytes(&text),
            _ => None,
        };
        parsed
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| self.bad(path, "a size like 1048576 or \"1 MiB\""))
    }

    fn duration(&self, path: &str) -> Result<i64, ConfigError> {
        let parsed = match self.value(path).0 {
            toml::Value::String(text) => parse_duration_ms(&text),
            toml::Value::Integer(seconds) => seconds.checked_mul(1000).filter(|ms| *ms >= 0),
            _ => None,
        };
        parsed.ok_or_else(|| self.bad(path, "a duration like \"10 s\" or \"5 ms\""))
    }

    fn number(&self, path: &str) -> Result<f64, ConfigError> {
        match self.value(path).0 {
            toml::Value::Float(number) => Ok(number),
            toml::Value::Integer(number) => Ok(number as f64),
            _ => Err(self.bad(path, "a number")),
        }
    }

    fn weight(&self, path: &str) -> Result<f64, ConfigError> {
        let weight = self.number(path)?;
        match weight.is_finite() && weight >= 0.0 {
            true => Ok(weight),
            false => Err(self.bad(path, "a number that is not negative")),
        }
    }

    fn optional_duration(&self, path: &str) -> Result<Option<i64>, ConfigError> {
        match self.found.contains_key(path) {
            false => Ok(None),
            true => self.duration(path).map(Some),
        }
    }

    fn flag(&self, path: &str) -> Result<bool, ConfigError> {
        match self.value(path).0 {
            toml::Value::Boolean(flag) => Ok(flag),
            _ => Err(self.bad(path, "true or false")),
        }
    }

    fn texts(&self, path: &str) -> Result<Vec<String>, ConfigError> {
        let bad = || self.bad(path, "a list of texts");
        let toml::Value::Array(items) = self.value(path).0 else { return Err(bad()) };
        items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(bad)).collect()
    }

    fn some_of(&self, path: &str, words: &[&str]) -> Result<Vec<String>, ConfigError> {
        let given = self.texts(path)?;
        match given.iter().all(|word| words.contains(&word.as_str())) {
            true => Ok(given),
            false => Err(self.bad(path, &format!("a list of {}", words.join(", ")))),
        }
    }

    /// Rules about data.
    fn rules(&self, path: &str) -> Result<Vec<DataRule>, ConfigError> {
        const FORM: &str = "rules such as \"folder:clients*\" or \"label:health\"";
        let parse = |written: String| {
            DataRule::parse(&written).map_err(|bad| match bad {
                BadRule::Form => self.bad(path, &format!("{FORM}; {written:?} is not a rule")),
                BadRule::Place(place) => {
                    let places = DataPlace::ALL.iter().map(|one| one.as_str());
                    let nearest = keys::nearest(&place, places.clone());
                    let advice = nearest.map_or_else(
                        || format!("the places are {}", places.collect::<Vec<_>>().join(", ")),
                        |nearest| format!("did you mean `{nearest}`?"),
                    );
                    self.bad(path, &format!("{FORM}; `{place}` is not a place, {advice}"))
                }
            })
        };
        self.texts(path)?.into_iter().map(parse).collect()
    }

    /// A provider on this machine, or none.
    fn local_provider(&self, path: &str) -> Result<Option<String>, ConfigError> {
        let Some(name) = self.optional_text(path)? else { return Ok(None) };
        let providers = self.providers()?;
        match providers.get(&name) {
            Some(provider) if provider.is_local() => Ok(Some(name)),
            Some(_) => Err(self.bad(path, "a provider on this machine")),
            None => Err(self.bad(path, &format!("a provider; there is no [provider.{name}]"))),
        }
    }

    fn is_unset(&self, path: &str) -> bool {
        matches!(self.value(path), (toml::Value::String(text), _) if text.is_empty() || text == "none")
            || (path.contains('\u{0}') && !self.found.contains_key(path))
    }

    /// `never` or an age.
    fn age(&self, path: &str) -> Result<ArchiveAfter, ConfigError> {
        match self.text(path)?.as_str() {
            "never" => Ok(ArchiveAfter::Never),
            text => parse_duration_ms(text)
                .map(ArchiveAfter::Age)
                .ok_or_else(|| self.bad(path, "\"never\" or an age such as \"90 d\"")),
        }
    }

    /// An address to listen on, or `off`.
    fn address(&self, path: &str) -> Result<Option<std::net::SocketAddr>, ConfigError> {
        let text = self.text(path)?;
        if text == "off" {
            return Ok(None);
        }
        let parsed = text.parse().map(Some);
        parsed.map_err(|_| self.bad(path, "\"off\" or an address such as \"127.0.0.1:7878\""))
    }

    /// The address of a collector, or `env`; `None` for `off`.
    fn collector(&self, path: &str) -> Result<Option<String>, ConfigError> {
        match self.text(path)? {
            off if off == "off" => Ok(None),
            text if text == "env" || ServerAddress::parse(&text).is_some() => Ok(Some(text)),
            _ => {
                Err(self
                    .bad(path, "\"off\", \"env\" or an address such as \"http://127.0.0.1:4318\""))
            }
        }
    }

    fn cluster(&self) -> Result<Option<ClusterConfig>, ConfigError> {
        let defaults = Values { found: FlatSettings::new() };
        let set = self.found.iter().find(|(key, (value, _))| {
            key.starts_with("cluster.") && *value != defaults.value(key).0
        });
        let Some((key, (_, origin))) = set else { return Ok(None) };
        if cfg!(not(feature = "cluster")) {
            let (key, origin) = (key.clone(), origin.clone());
            return Err(ConfigError::NotBuilt { key, origin, feature: "cluster" });
        }
        let variable = self.optional_text("cluster.url_env")?;
        let address = match (variable, self.optional_text("cluster.url_file")?) {
            (Some(variable), None) if !variable.contains("://") => {
                AddressSource::Variable(variable)
            }
            (None, Some(file)) if !file.contains("://") => AddressSource::File(file),
            (None, None) => {
                let expected = "the variable with the address of the database, such as \
                                \"SUMMARIZER_DATABASE_URL\", or cluster.url_file";
                return Err(self.bad("cluster.url_env", expected));
            }
            (Some(_), Some(_)) => {
                return Err(self.bad("cluster.url_file", "only one of url_env and url_file"));
            }
            // The value may be the address itself, which must not be shown.
            (variable, _) => {
                let name = if variable.is_some() { "url_env" } else { "url_file" };
                let path = format!("cluster.{name}");
                return Err(ConfigError::BadValue {
                    origin: self.value(&path).1,
                    key: path,
                    value: "[an address]".to_owned(),
                    expected: "the name of a variable or a file, not the address itself".to_owned(),
                });
            }
        };
        let named = |path: &str, name: String| match cluster::is_plain_name(&name) {
            true => Ok(name),
            false => Err(self.bad(path, "at most 63 letters, digits, `-`, `_` and `.`")),
        };
        let host = self.optional_text("cluster.host")?;
        let roles = self.some_of("cluster.roles", &cluster::Role::NAMES)?;
        Ok(Some(ClusterConfig {
            address,
            ca_file: self.optional_text("cluster.ca_file")?,
            name: named("cluster.name", self.text("cluster.name")?)?,
            host: host.map(|host| named("cluster.host", host)).transpose()?,
            wants_quorum: self.one_of("cluster.durability", &["quorum", "single"])? == "quorum",
            lease_ms: match self.duration("cluster.lease")? {
                ms @ 300..=60_000 => ms,
                _ => return Err(self.bad("cluster.lease", "between \"300 ms\" and \"60 s\"")),
            },
            roles: roles.iter().filter_map(|name| cluster::Role::of(name)).collect(),
        }))
    }

    fn optional_text(&self, path: &str) -> Result<Option<String>, ConfigError> {
        if self.is_unset(path) { Ok(None) } else { self.text(path).map(Some) }
    }

    fn optional_number(&self, path: &str) -> Result<Option<f64>, ConfigError> {
        if self.is_unset(path) { Ok(None) } else { self.number(path).map(Some) }
    }

    fn optional_count(&self, path: &str) -> Result<Option<u64>, ConfigError> {
        if self.is_unset(path) { Ok(None) } else { self.count(path).map(Some) }
    }

    fn optional_u32(&self, path: &str) -> Result<Option<u32>, ConfigError> {
        let count = self.optional_count(path)?;
        count
            .map(|count| u32::try_from(count).map_err(|_| self.bad(path, "a smaller count")))
            .transpose()
    }

    fn optional_texts(&self, path: &str) -> Result<Option<Vec<String>>, ConfigError> {
        if self.is_unset(path) { Ok(None) } else { self.texts(path).map(Some) }
    }

    fn profile(&self) -> Result<BTreeMap<String, serde_json::Value>, ConfigError> {
        let mut profile = BTreeMap::new();
        for name in self.names("profile") {
            let path = format!("profile\u{0}{name}\u{0}");
            let value = serde_json::to_value(&self.value(&path).0);
            let value = value.map_err(|_| self.bad(&path, "a value that JSON can hold"))?;
            profile.insert(name, value);
        }
        Ok(profile)
    }

    /// Where the key of the home comes from: at most one place, and one when the keys are to be sealed.
    fn home_key(&self) -> Result<Option<HomeKeySource>, ConfigError> {
        let named = |key: &str| Ok(Some(self.text(key)?).filter(|text| text != "none"));
        let command = Some(self.texts("encrypt.key_command")?).filter(|words| !words.is_empty());
        let file = named("encrypt.key_file")?.map(|path| HomeKeySource::File(path.into()));
        let credential = named("encrypt.credential")?.map(HomeKeySource::Credential);
        let mut all = [file, command.map(HomeKeySource::Command), credential].into_iter().flatten();
        let first = all.next();
        if all.next().is_some() {
            let one = "one of key_file, key_command and credential, and no two of them";
            return Err(self.bad("encrypt.at_rest", one));
        }
        if first.is_none() && self.flag("encrypt.at_rest")? {
            return Err(
                self.bad("encrypt.at_rest", "key_file, key_command or credential beside it")
            );
        }
        Ok(first)
    }

    fn watches(&self) -> Result<Vec<WatchConfig>, ConfigError> {
        let read = |name: &String| {
            let at = |key: &str| format!("watch\u{0}{name}\u{0}{key}");
            let kind = match self.is_unset(&at("kind")) {
                true => None,
                false => Some(self.one_of(&at("kind"), WATCH_KINDS)?),
            };
            Ok(WatchConfig {
                folder: self.optional_text(&at("folder"))?.ok_or_else(|| {
                    self.bad(&at("folder"), "the folder to watch, such as \"~/notes\"")
                })?,
                glob: self.optional_text(&at("glob"))?,
                kind,
                flow: self.optional_text(&at("flow"))?,
                project: self.optional_text(&at("project"))?,
            })
        };
        self.names("watch").iter().map(read).collect()
    }

    fn names(&self, section: &str) -> Vec<String> {
        let prefix = format!("{section}\u{0}");
        let mut names: Vec<String> = self
            .found
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix)?.split('\u{0}').next().map(str::to_owned))
            .collect();
        names.dedup();
        names
    }

    fn providers(&self) -> Result<BTreeMap<String, ProviderConfig>, ConfigError> {
        let mut providers = BTreeMap::new();
        let builtin = ProviderConfig { kind: ProviderKind::Builtin, ..ProviderConfig::default() };
        providers.insert(builtin.kind.name().to_owned(), builtin);
        for name in self.names("provider") {
            let at = |key: &str| format!("provider\u{0}{name}\u{0}{key}");
            let provider = ProviderConfig {
                kind: self.provider_kind(&at("kind"))?,
                base_url: self.optional_text(&at("base_url"))?,
                model: self.optional_text(&at("model"))?,
                api_key_env: self.optional_text(&at("api_key_env"))?,
                ca_file: self.optional_text(&at("ca_file"))?,
                command: self.optional_texts(&at("command"))?,
                recordings: self.optional_text(&at("recordings"))?,
                temperature: self.optional_number(&at("temperature"))?,
                max_tokens: self.optional_u32(&at("max_tokens"))?,
                context_tokens: self.optional_u32(&at("context_tokens"))?,
                seed: match self.found.get(&at("seed")) {
                    None => None,
                    Some((toml::Value::Integer(seed), _)) => Some(*seed),
                    Some(_) => return Err(self.bad(&at("seed"), "an integer")),
                },
                requests_per_minute: self.optional_u32(&at("requests_per_minute"))?,
                tokens_per_minute: self.optional_u32(&at("tokens_per_minute"))?,
                price_in: self.optional_number(&at("price_in"))?,
                price_cached: self.optional_number(&at("price_cached"))?,
                price_out: self.optional_number(&at("price_out"))?,
                fallback: self.optional_texts(&at("fallback"))?,
                local: match self.found.contains_key(&at("local")) {
                    false => None,
                    true => Some(self.flag(&at("local"))?),
                },
                profile: match self.found.contains_key(&at("profile")) {
                    false => None,
                    true => match self.one_of(&at("profile"), &Profile::NAMES)?.as_str() {
                        "small" => Some(Profile::Small),
                        _ => Some(Profile::Whole),
                    },
                },
                batch: match self.found.contains_key(&at("batch")) {
                    false => None,
                    true => Some(self.flag(&at("batch"))?),
                },
                batch_wait_ms: self.optional_duration(&at("batch_wait"))?,
                batch_poll_ms: self.optional_duration(&at("batch_poll"))?,
            };
            if provider.batch == Some(true) && !provider.kind.has_batches() {
                let with = ProviderKind::ALL.into_iter().filter(|kind| kind.has_batches());
                let with: Vec<&str> = with.map(ProviderKind::name).collect();
                let expected = format!("false: only the kinds {} have batches", with.join(" and "));
                return Err(self.bad(&at("batch"), &expected));
            }
            providers.insert(name, provider);
        }
        let default = self.text("provider.default")?;
        if !providers.contains_key(&default) {
            return Err(self.bad("provider.default", "the name of a configured provider"));
        }
        Ok(providers)
    }

    fn provider_kind(&self, path: &str) -> Result<ProviderKind, ConfigError> {
        let names = ProviderKind::ALL.map(ProviderKind::name);
        let name = self.one_of(path, &names)?;
        let kind = ProviderKind::ALL.into_iter().find(|kind| kind.name() == name);
        Ok(kind.unwrap_or_default())
    }

    fn params(
        &self,
        path: &str,
    ) -> Result<serde_json::Map<String, serde_json::Value>, ConfigError> {
        let Some((value, _)) = self.found.get(path) else { return Ok(Default::default()) };
        let expected = "a table of parameters, without `day`";
        match serde_json::to_value(value) {
            Ok(serde_json::Value::Object(params)) if !params.contains_key("day") => Ok(params),
            _ => Err(self.bad(path, expected)),
        }
    }

    fn flows(&self) -> Result<BTreeMap<String, FlowConfig>, ConfigError> {
        let mut flows = BTreeMap::new();
        for name in self.names("flow") {
            let at = |key: &str| format!("flow\u{0}{name}\u{0}{key}");
            let policies = ["none", "all"];
            let flow = FlowConfig {
                provider: self.optional_text(&at("provider"))?,
                model: self.optional_text(&at("model"))?,
                params: self.params(&at("params"))?,
                min_chars: self.optional_count(&at("min_chars"))?.unwrap_or(0),
                skip_policy: match self.is_unset(&at("skip_policy")) {
                    true => "none".to_owned(),
                    false => self.one_of(&at("skip_policy"), &policies)?,
                },
                local_only: match self.found.contains_key(&at("local_only")) {
                    false => false,
                    true => self.flag(&at("local_only"))?,
                },
            };
            flows.insert(name, flow);
        }
        Ok(flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::load(Some(text), &BTreeMap::new(), 2)
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let config = load("").unwrap();
        assert_eq!(config.line_bytes_max, crate::limits::LINE_BYTES_MAX);
        assert_eq!(config.commit_inputs_max, 4096);
        assert_eq!((config.workers, config.attempts_max), (2, 5));
        assert_eq!((config.event_threshold, config.step_fallback), (18, 8));
        assert_eq!(config.checkpoint_every_events, 100_000);
        assert_eq!((config.status_http, config.cost_per_day_max), (None, None));
        assert!(config.providers.contains_key("builtin"));
        assert!(config.settings.iter().all(|setting| setting.origin == Origin::Default));
    }

    #[test]
    fn the_template_is_valid_and_changes_nothing() {
        let template = Config::template();
        let commented: String = template
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| line.starts_with('[') || line.contains(" = "))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(load(&template).unwrap(), load("").unwrap());
        let read = load(&commented).unwrap();
        assert_eq!(read.attempts_max, 5);
        assert_eq!(read.providers["local"].kind, ProviderKind::OpenAi);
        assert!(read.flows["docs.chunk_set.summarize.brief.v1"].local_only);
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn a_cluster_needs_an_address_that_is_no_setting() {
        assert_eq!(load("").unwrap().cluster, None);
        let config = load("[cluster]\nurl_env = \"DB\"\nlease = \"1 s\"\nroles = [\"read\"]");
        let cluster = config.unwrap().cluster.unwrap();
        assert_eq!(cluster.address, AddressSource::Variable("DB".to_owned()));
        assert_eq!(
            (cluster.name.as_str(), cluster.lease_ms, cluster.roles.len()),
            ("main", 1000, 1)
        );
        assert!(cluster.wants_quorum && cluster.host.is_none());
        for (text, wanted) in [
            ("name = \"team\"", "cluster.url_file"),
            ("url_env = \"A\"\nurl_file = \"b\"", "only one"),
            ("url_env = \"A\"\nname = \"a b\"", "at most 63 letters"),
            ("url_env = \"A\"\nlease = \"1 ms\"", "between"),
            ("url_env = \"A\"\ndurability = \"none\"", "quorum, single"),
            ("url_env = \"A\"\nroles = [\"sing\"]", "ingest, work, lead, read"),
            ("url_env = \"postgresql://me:hunter2@db/x\"", "not the address itself"),
            ("url_file = \"postgresql://me:hunter2@db/x\"", "not the address itself"),
        ] {
            let error = load(&format!("[cluster]\n{text}")).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("hunter2"), "{error}");
        }
    }

    #[cfg(not(feature = "cluster"))]
    #[test]
    fn a_build_without_clusters_refuses_their_settings() {
        let error = load("[cluster]\nurl_env = \"DB\"").unwrap_err().to_string();
        assert!(error.contains("without the cargo feature `cluster`"), "{error}");
    }

    #[test]
    fn unknown_keys_suggest_the_nearest() {
        for (text, wanted) in [
            ("[queue]\nmax_line_byte = 3", "did you mean `queue.max_line_bytes`?"),
            ("time_zone = \"UTC\"", "did you mean `timezone`?"),
            ("[provider.x]\nkind = \"openai\"\nmodle = \"m\"", "did you mean `model`?"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn environment_beats_file_and_both_say_so() {
        let environment =
            BTreeMap::from([("SUMMARIZER_RETRY_MAX_ATTEMPTS".to_owned(), "9".to_owned())]);
        let file = "[retry]\nmax_attempts = 3\nbase_delay = \"1 s\"";
        let config = Config::load(Some(file), &environment, 1).unwrap();
        assert_eq!((config.attempts_max, config.retry_base_delay_ms), (9, 1000));
        let origin = |key: &str| {
            let found = config.settings.iter().find(|setting| setting.key == key);
            found.map(|setting| setting.origin.to_string()).unwrap()
        };
        assert_eq!(origin("retry.max_attempts"), "environment SUMMARIZER_RETRY_MAX_ATTEMPTS");
        assert_eq!(origin("retry.base_delay"), "file");
    }

    #[test]
    fn values_must_fit() {
        for bad in [
            "timezone = \"Mars/Olympus\"",
            "log_format = \"xml\"",
            "[retry]\nmax_attempts = 0",
            "[retry]\nrepair_turns = 11",
            "[queue]\npartial_line_grace = \"soon\"",
            "[export]\nmax_share_of_time = 2",
            "[provider]\ndefault = \"nobody\"",
            "[provider.x]\nmodel = \"m\"",
            "[flow.x]\nlocal_only = \"yes\"",
            "[flow.x]\nparams = 7",
            "[flow.x]\nparams = { day = \"2026-01-01\" }",
            "[commit]\nmax_bytes = -1",
        ] {
            assert!(matches!(load(bad), Err(ConfigError::BadValue { .. })), "{bad}");
        }
    }

    #[test]
    fn no_message_shows_the_secrets_of_an_address() {
        let text = "[provider.x]\nkind = \"openai\"\nbase_url = \"http://ana:pw@h/?key=abc\"";
        let config = load(text).unwrap();
        assert!(config.providers["x"].base_url.as_ref().unwrap().contains("pw"), "it is used");
        let broken = load(&text.replace("?key", "\" ?key")).unwrap_err().to_string();
        assert!(broken.contains("line 3") && !broken.contains("pw"), "{broken}");
        assert!(load("a = 1\nb = ]").unwrap_err().to_string().contains("b = ]"));
        let shown: Vec<String> =
            config.settings().iter().map(|one| one.value.to_string()).collect();
        assert!(shown.iter().all(|value| !value.contains("pw") && !value.contains("abc")));
    }

    #[test]
    fn the_fingerprint_follows_the_values() {
        let a = load("").unwrap().fingerprint();
        assert_eq!(a, load("# nothing").unwrap().fingerprint());
        assert_ne!(a, load("timezone = \"America/Argentina/Buenos_Aires\"").unwrap().fingerprint());
    }
}
