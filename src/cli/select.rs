//! `select`: a query becomes a selection manifest that requests can point to.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::select_file::{check_name, write};
use super::select_summaries::SummaryQuery;
use super::settings::load_config;
use super::{Context, names, ui};
use crate::contract::vocabulary::{Bus, SummaryKind};
use crate::home::Home;
use crate::upstream::selection::{self, Draft, SelectionOrder};
use crate::upstream::{InputSpec, Options, Upstream, index_of_home, resolve};

/// Choose upstream records and write a selection manifest
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("days").args(["day", "from"]).required(true)))]
pub(crate) struct SelectArgs {
    /// The bus: event_bus, session_bus, chunk_bus, or summary_bus for a summary pack
    #[arg(long, value_parser = parse_bus)]
    bus: Chosen,
    /// One day
    #[arg(long, conflicts_with = "to")]
    day: Option<String>,
    /// First day of a range
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// Last day of a range, inclusive
    #[arg(long, requires = "from")]
    to: Option<String>,
    /// Only records whose field has this value; may be repeated
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    filters: Vec<String>,
    /// The most records; a selection with more is an error
    #[arg(long)]
    limit: Option<u64>,
    /// The field of a summary that names its perspective, such as project or flow_id [default: the stream]
    #[arg(long, value_name = "FIELD")]
    group_by: Option<String>,
    /// Also summaries that newer ones of the same source replaced
    #[arg(long)]
    all_versions: bool,
    /// What the pack is for, in words: its perspectives and its run say it
    #[arg(long, value_name = "TEXT")]
    objective: Option<String>,
    /// Name of the selection [default: made from bus and days]
    #[arg(long)]
    name: Option<String>,
    /// File to write [default: selection_manifests/NAME.json in the bus home]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Where records are chosen.
#[derive(Debug, Clone, Copy)]
enum Chosen {
    Upstream(Bus),
    /// Published summaries.
    Summaries,
}

fn parse_bus(text: &str) -> Result<Chosen, String> {
    match (text, Bus::parse(text)) {
        ("summary_bus", _) => Ok(Chosen::Summaries),
        (_, Some(Bus::Other) | None) => {
            let known = ["event_bus", "session_bus", "chunk_bus", "summary_bus"];
            Err(names::not_one_of(text, &known))
        }
        (_, Some(bus)) => Ok(Chosen::Upstream(bus)),
    }
}

impl SelectArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match self.bus {
            Chosen::Summaries => {
                let query = SummaryQuery {
                    days: [self.day.as_ref(), self.from.as_ref(), self.to.as_ref()],
                    filters: &self.filters,
                    limit: self.limit,
                    group_by: self.group_by.as_deref(),
                    all_versions: self.all_versions,
                    objective: self.objective.as_deref(),
                    name: self.name.clone().unwrap_or_else(|| self.default_name("summary_bus")),
                    out: self.out.clone(),
                };
                query.run(context)
            }
            Chosen::Upstream(_) if self.group_by.is_some() => {
                Err(Failure::new(Exit::Usage, "--group-by needs --bus summary_bus"))
            }
            Chosen::Upstream(_) if self.objective.is_some() => {
                Err(Failure::new(Exit::Usage, "--objective needs --bus summary_bus"))
            }
            Chosen::Upstream(_) if self.all_versions => {
                Err(Failure::new(Exit::Usage, "--all-versions needs --bus summary_bus"))
            }
            Chosen::Upstream(bus) => self.run_upstream(context, bus),
        }
    }

    fn run_upstream(&self, context: &Context, bus: Bus) -> Result<Exit, Failure> {
        let config = load_config(context)?;
        let root = context.home.join(&config.bus_home);
        let disk = &context.machine.disk;
        let home = Home::new(&context.home, &config);
        let index = index_of_home(disk, &home.upstream_index());
        let upstream = Upstream::new(Arc::clone(disk), &root, index);
        let input = InputSpec::Query { bus, query: self.query()? };
        let options = Options { zone: Some(config.timezone), ..Options::default() };
        let resolved = resolve(&upstream, &input, SummaryKind::Other, &options)
            .map_err(|error| Failure::new(Exit::Input, "cannot select").because(&error))?;
        for note in &resolved.notes {
            context.ui.talk(format!("{} {note}", ui::yellow("warning:")));
        }
        let items = items(&resolved);
        let name = self.name.clone().unwrap_or_else(|| self.default_name(bus.as_str()));
        check_name(&name)?;
        let upstream_refs = resolved
            .upstream
            .iter()
            .filter(|one| one.bus == bus)
            .map(|one| {
                let key = if bus == Bus::ChunkBus { "partition" } else { "day" };
                json!({
                    "bus": one.bus, key: one.partition, "manifest_path": one.manifest_path,
                    "manifest_sha256": one.manifest_sha256.map(|hash| hash.hex()),
                    "data_sha256": one.data_sha256.hex(),
                })
            })
            .collect();
        let mut manifest = selection::build(Draft {
            bus,
            items: &items,
            ordering: SelectionOrder::ByTime,
            selection_id: Some(&name),
            created_at: context.machine.clock.now().to_string(),
            created_by: json!({
                "repo": "summarizer", "component": "select", "version": env!("CARGO_PKG_VERSION"),
            }),
            upstream: upstream_refs,
        });
        // Beside the selection: the hash is over what was found.
        let missing: Vec<String> = resolved.missing_days.iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            manifest["missing_days"] = json!(missing);
        }
        let relative = format!("selection_manifests/{name}.json");
        let path = self.out.clone().unwrap_or_else(|| root.join(&relative));
        write(context, &path, &manifest)?;
        let shown = if self.out.is_some() { path.display().to_string() } else { relative };
        let hash = manifest["selection_hash"].as_str().unwrap_or_default();
        if context.ui.json {
            let warnings: Vec<String> = resolved.notes.iter().map(ToString::to_string).collect();
            context.ui.json(&json!({
                "manifest_path": shown, "selection_hash": hash, "selected": items.len(),
                "warnings": warnings, "missing_days": missing,
            }));
        } else {
            context.ui.out(format!("{shown} {hash}"));
            context.ui.talk(format!("{} selected", items.len()));
        }
        Ok(Exit::Done)
    }

    fn query(&self) -> Result<serde_json::Value, Failure> {
        let mut query = json!({"schema_version": "summary_request_query.v1"});
        for (key, value) in [("day", &self.day), ("day_from", &self.from), ("day_to", &self.to)] {
            if let Some(value) = value {
                query[key] = json!(value);
            }
        }
        if let Some(limit) = self.limit {
            query["limit"] = json!(limit);
        }
        for filter in &self.filters {
            let Some((field, value)) = filter.split_once('=') else {
                let what = format!("`{filter}` is no FIELD=VALUE");
                return Err(Failure::new(Exit::Usage, what));
            };
            query["where"][field] = json!(value);
        }
        Ok(query)
    }

    fn default_name(&self, bus: &str) -> String {
        let days = match (&self.day, &self.from, &self.to) {
            (Some(day), ..) => day.clone(),
            (None, Some(from), Some(to)) => format!("{from}_{to}"),
            _ => String::new(),
        };
        let filters: Vec<String> = self
            .filters
            .iter()
            .map(|filter| filter.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "-"))
            .collect();
        let mut name = format!("{days}.{bus}");
        for filter in filters {
            name.push('.');
            name.push_str(&filter);
        }
        name
    }
}

/// What was selected, in canonical order, with the partition it lies in.
fn items(resolved: &crate::upstream::Resolved) -> Vec<(String, String)> {
    match resolved.bus {
        Bus::SessionBus => resolved
            .session_ids
            .iter()
            .cloned()
            .zip(resolved.session_partitions.iter().cloned())
            .collect(),
        _ => resolved
            .sources
            .iter()
            .map(|source| (source.id.to_owned(), source.partition.to_owned()))
            .collect(),
    }
}
