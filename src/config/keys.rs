//! The configuration reference: every key, its default as TOML, and one line of help.

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Count,
    /// A number of bytes.
    Bytes,
    /// A length of time.
    Duration,
    /// Any number.
    Number,
    /// A list of texts.
    Texts,
    /// True or false.
    Flag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Dotted path.
    pub path: &'static str,
    /// The default, as TOML.
    pub default: &'static str,
    /// What kind of value.
    pub kind: Kind,
    /// One line of help.
    pub help: &'static str,
}

impl Key {
    /// The environment variable that overrides it.
    pub(crate) fn variable(&self) -> String {
        format!("SUMMARIZER_{}", self.path.replace('.', "_").to_uppercase())
    }
}

const fn key(path: &'static str, default: &'static str, kind: Kind, help: &'static str) -> Key {
    Key { path, default, kind, help }
}

/// Every key outside `[provider.NAME]` and `[flow."ID"]`, in the order of the reference.
pub(crate) const KEYS: &[Key] = &[
    key("bus_home", "\"buses\"", Kind::Text, "bus root, relative to the home"),
    key("timezone", "\"UTC\"", Kind::Text, "IANA zone in which days begin"),
    key("log_format", "\"human\"", Kind::Text, "human or json"),
    key("queue.path", "\"run/queue.jsonl\"", Kind::Text, "the request queue"),
    key("queue.max_line_bytes", "\"1 MiB\"", Kind::Bytes, "longer lines are quarantined"),
    key(
        "queue.partial_line_grace",
        "\"10 s\"",
        Kind::Duration,
        "how long an unfinished last line may wait for its end",
    ),
    key("commit.max_batch", "4096", Kind::Count, "the most inputs in one commit"),
    key("commit.max_bytes", "\"8 MiB\"", Kind::Bytes, "the most bytes of payload in one commit"),
    key("commit.max_delay", "\"5 ms\"", Kind::Duration, "how long a commit waits for more inputs"),
    key(
        "commit.max_open_requests",
        "\"2M\"",
        Kind::Count,
        "intake pauses above this number of open requests",
    ),
    key(
        "commit.disk_headroom",
        "\"64 MiB\"",
        Kind::Bytes,
        "intake pauses and digests wait when the disk has less free space; half of it stays for the log",
    ),
    key("workers.count", "0", Kind::Count, "worker threads; 0 means one for each core"),
    key(
        "workers.max_in_flight_per_provider",
        "8",
        Kind::Count,
        "calls under way at one provider, at most 1024; each host of a cluster counts its own",
    ),
    key(
        "workers.grace_on_shutdown",
        "\"30 s\"",
        Kind::Duration,
        "how long a stopping service waits for calls under way; at most 2 s for work that calls no model",
    ),
    key(
        "workers.attempt_timeout",
        "\"120 s\"",
        Kind::Duration,
        "the longest time in which no part of an answer arrives; a provider with a fallback after it has half of the time that is left for its first part",
    ),
    key(
        "workers.isolation",
        "\"process\"",
        Kind::Text,
        "process: flows run in worker processes; thread: inside the service",
    ),
    key(
        "workers.memory",
        "\"512 MiB\"",
        Kind::Bytes,
        "the most address space of a worker process; long texts, and nodes that run at the same time, get more",
    ),
    key("retry.max_attempts", "5", Kind::Count, "attempts before a request fails"),
    key("retry.base_delay", "\"2 s\"", Kind::Duration, "delay after the first failed attempt"),
    key("retry.max_delay", "\"10 min\"", Kind::Duration, "longest delay between attempts"),
    key("retry.repair_turns", "2", Kind::Count, "how often a model may correct its answer"),
    key("export.min_interval", "\"1 s\"", Kind::Duration, "shortest time between publications"),
    key("export.max_share_of_time", "0.1", Kind::Number, "share of time spent publishing"),
    key(
        "export.max_written",
        "8",
        Kind::Number,
        "bytes that may be written in an hour for each new byte published; 64 MiB are always allowed",
    ),
    key(
        "export.max_delay",
        "\"10 min\"",
        Kind::Duration,
        "longest time that a summary waits for its publication",
    ),
    key(
        "exports.metrics",
        "false",
        Kind::Flag,
        "write counts over the whole log to run/metrics.prom",
    ),
    key("exports.feed", "false", Kind::Flag, "write an Atom feed of each day's summaries"),
    key("compaction.event_threshold", "18", Kind::Count, "counted events that trigger a snapshot"),
    key("compaction.step_fallback", "8", Kind::Count, "steps that trigger a snapshot"),
    key(
        "compaction.service_event_threshold",
        "193",
        Kind::Count,
        "the same for a session of the service; 193 waits for the end of a segment",
    ),
    key(
        "compaction.service_step_fallback",
        "65",
        Kind::Count,
        "the same for a session of the service; 65 waits for the end of a segment",
    ),
    key(
        "compaction.cost_of_bytes",
        "1.0",
        Kind::Number,
        "the cost that `tune` counts for a KiB written",
    ),
    key(
        "compaction.cost_of_reread",
        "8.0",
        Kind::Number,
        "the cost that `tune` counts for an event read again after a restart",
    ),
    key(
        "compaction.cost_of_memory",
        "1.0",
        Kind::Number,
        "the cost that `tune` counts for an event that no snapshot covers",
    ),
    key(
        "compaction.cost_of_age",
        "1.0",
        Kind::Number,
        "the cost that `tune` counts for each minute of age of the newest snapshot",
    ),
    key("compaction.run_logs", "\"run/run_logs\"", Kind::Text, "folder of run logs to take in"),
    key(
        "compaction.checkpoint_every_events",
        "\"100k\"",
        Kind::Count,
        "events between checkpoints of the log",
    ),
    key(
        "compaction.archive_after",
        "\"never\"",
        Kind::Text,
        "age at which log frames are archived",
    ),
    key(
        "encrypt.at_rest",
        "false",
        Kind::Flag,
        "whether the file of the keys of the log is sealed with a key of the home",
    ),
    key("encrypt.key_file", "\"none\"", Kind::Text, "the file that holds the key of the home"),
    key("encrypt.key_command", "[]", Kind::Texts, "or the program that prints it"),
    key("encrypt.credential", "\"none\"", Kind::Text, "or the name of a credential of systemd"),
    key(
        "files.group",
        "\"none\"",
        Kind::Text,
        "a group that may read the home and append to the queue",
    ),
    key("python.allow", "false", Kind::Flag, "run Python nodes of packs as programs"),
    key("python.interpreter", "\"python3\"", Kind::Text, "the program that runs Python nodes"),
    key(
        "python.jail",
        "true",
        Kind::Flag,
        "let nodes only read their pack and write a scratch folder",
    ),
    key("python.memory_max", "\"4 GiB\"", Kind::Bytes, "the most memory of a node in its jail"),
    key("python.network", "false", Kind::Flag, "let nodes in a jail use the network"),
    key("python.timeout", "\"60 s\"", Kind::Duration, "longest time of one node"),
    key(
        "default_flow.document",
        "\"docs.chunk_set.summarize.brief.v1\"",
        Kind::Text,
        "the flow of `sum` and `add` for files of text",
    ),
    key(
        "default_flow.mail",
        "\"docs.chunk_set.summarize.brief.v1\"",
        Kind::Text,
        "the same for a mail",
    ),
    key(
        "default_flow.chat",
        "\"gpt.session.summarize.parsed_message.v3\"",
        Kind::Text,
        "the same for a chat",
    ),
    key(
        "default_flow.feed",
        "\"docs.chunk_set.summarize.brief.v1\"",
        Kind::Text,
        "the same for items of a feed",
    ),
    key(
        "import.session_gap",
        "\"6 h\"",
        Kind::Duration,
        "a pause this long in a chat begins another session",
    ),
    key(
        "extract.pdf",
        "[\"pdftotext\", \"-layout\", \"{}\", \"-\"]",
        Kind::Texts,
        "the program that prints the text of a PDF file; {} is a copy that only this user can read",
    ),
    key("digest.auto", "\"on\"", Kind::Text, "on: the service builds digests by itself; or off"),
    key(
        "digest.debounce",
        "\"30 s\"",
        Kind::Duration,
        "the time without a new summary before such a build",
    ),
    key("digest.max_delay", "\"10 min\"", Kind::Duration, "the longest delay of such a build"),
    key(
        "retention.answers_after",
        "\"never\"",
        Kind::Text,
        "age at which answers of models to ended requests are dropped",
    ),
    key(
        "retention.acks_after",
        "\"never\"",
        Kind::Text,
        "age at which acks are moved to run/archive",
    ),
    key(
        "retention.daily",
        "false",
        Kind::Flag,
        "a service applies these ages by itself when a day begins",
    ),
    key("backup.expire_after", "\"never\"", Kind::Text, "age at which a new backup expires"),
    key(
        "provider.default",
        "\"builtin\"",
        Kind::Text,
        "the provider of flows that do not name one",
    ),
    key(
        "budget.max_cost_per_day",
        "\"none\"",
        Kind::Number,
        "calls stop for the day above this cost",
    ),
    key(
        "budget.max_tokens_per_day",
        "\"none\"",
        Kind::Count,
        "calls stop for the day above this number of tokens",
    ),
    key(
        "synthesis.research_root",
        "\"\"",
        Kind::Text,
        "the folder in which research runs are found by their id",
    ),
    key(
        "synthesis.agent_types",
        "[]",
        Kind::Texts,
        "names of agents in addition to the known ones",
    ),
    key(
        "privacy.redact",
        "[]",
        Kind::Texts,
        "emails, phones, keys, accounts: removed before a text leaves this machine",
    ),
    key(
        "privacy.local_only",
        "[]",
        Kind::Texts,
        "data that no provider on another machine may see, such as folder:clients* or label:health",
    ),
    key(
        "privacy.private",
        "[]",
        Kind::Texts,
        "data that is never published, as with publish: false",
    ),
    key(
        "privacy.local_provider",
        "\"none\"",
        Kind::Text,
        "the provider for local_only data when the flow names no provider on this machine",
    ),
    key(
        "telemetry.endpoint",
        "\"off\"",
        Kind::Text,
        "a collector for traces, such as http://127.0.0.1:4318; env: the address in OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
    key(
        "telemetry.headers_env",
        "\"OTEL_EXPORTER_OTLP_HEADERS\"",
        Kind::Text,
        "the variable with headers for the collector, NAME=VALUE,NAME=VALUE",
    ),
    key(
        "telemetry.service_name",
        "\"summarizer\"",
        Kind::Text,
        "the name of the service in traces",
    ),
    key(
        "cluster.url_env",
        "\"none\"",
        Kind::Text,
        "the environment variable with the address of the PostgreSQL database that the hosts share",
    ),
    key("cluster.url_file", "\"none\"", Kind::Text, "or a file with that address"),
    key(
        "cluster.ca_file",
        "\"none\"",
        Kind::Text,
        "a PEM file with the authorities that may sign the certificate of the database; the public ones then do not count",
    ),
    key("cluster.name", "\"main\"", Kind::Text, "the name of the log in the database"),
    key(
        "cluster.host",
        "\"none\"",
        Kind::Text,
        "the name of this host in the cluster; none: the name of the machine",
    ),
    key(
        "cluster.durability",
        "\"quorum\"",
        Kind::Text,
        "quorum: a commit counts when a standby of the database has it; single: the one server is enough",
    ),
    key(
        "cluster.lease",
        "\"2 s\"",
        Kind::Duration,
        "how long a leader that is not heard of keeps the lead",
    ),
    key(
        "cluster.roles",
        "[\"ingest\", \"work\", \"lead\", \"read\"]",
        Kind::Texts,
        "what this host does for the cluster; without `ingest` its queue waits; without `read` it publishes no summaries and digests while it follows",
    ),
    key("status.http", "\"off\"", Kind::Text, "address of the status page, such as 127.0.0.1:7878"),
    key(
        "status.login",
        "true",
        Kind::Flag,
        "reading the page needs the token of `summarizer open`",
    ),
];

/// Keys of `[provider.NAME]`.
pub(crate) const PROVIDER_KEYS: &[&str] = &[
    "kind",
    "base_url",
    "model",
    "api_key_env",
    "ca_file",
    "command",
    "recordings",
    "temperature",
    "max_tokens",
    "context_tokens",
    "seed",
    "requests_per_minute",
    "tokens_per_minute",
    "price_in",
    "price_cached",
    "price_out",
    "fallback",
    "local",
    "profile",
    "batch",
    "batch_wait",
    "batch_poll",
];

/// Keys of `[flow."ID"]`.
pub(crate) const FLOW_KEYS: &[&str] =
    &["provider", "model", "params", "min_chars", "skip_policy", "local_only"];

/// The known key most like a mistyped one, if any is like it at all.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let best = known.map(|key| (distance(typed, key), key)).min()?;
    (best.0 <= 2 + typed.len() / 6).then(|| best.1.to_owned())
}

/// The known name that was most likely meant: one wrong letter in four, other signs between words, or
/// another letter case.
pub(crate) fn slip_of<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let typed = folded(typed);
    let best = known.map(|name| (distance(&typed, &folded(name)), name)).min()?;
    (best.0 <= typed.chars().count() / 4).then_some(best.1)
}

/// Edit distance over characters. Two neighbours in the wrong order are one change.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let changed = row[j] + usize::from(from != to);
            let is_swap = i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from;
            let swapped = if is_swap { before[j - 1] + 1 } else { usize::MAX };
            next.push(changed.min(row[j + 1] + 1).min(next[j] + 1).min(swapped));
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!([distance("abc", "abc"), distance("abc", "abd"), distance("", "ab")], [0, 1, 2]);
        assert_eq!(
            [distance("smu", "sum"), distance("tsak", "task"), distance("ab", "")],
            [1, 1, 2]
        );
        let slip = |typed: &str| slip_of(typed, ["window_label", "day", "topic"].into_iter());
        for (typed, meant) in [
            ("windowlabel", Some("window_label")),
            ("Window-Label", Some("window_label")),
            ("topics", Some("topic")),
            ("tag", None),
            ("tone", None),
            ("note", None),
        ] {
            assert_eq!(slip(typed), meant, "{typed}");
        }
        assert_eq!(nearest("zzzzzz", ["model", "kind"].into_iter()), None);
    }
}
