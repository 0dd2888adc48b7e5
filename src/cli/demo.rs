//! `demo`: from nothing to summaries in one command.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::serve::run_service;
use super::session::load_config;
use super::{Context, ui};
use crate::contract::json::jcs;
use crate::contract::time::Timestamp;
use crate::os::Open;
use crate::service::daemon::{RunReport, Until};
use crate::service::home::Home;

/// Sample texts: name, text.
const SAMPLES: &[(&str, &str)] = &[
    ("mail-kitchen.txt", include_str!("demo/mail-kitchen.txt")),
    ("chat-release.txt", include_str!("demo/chat-release.txt")),
    ("job-rust.txt", include_str!("demo/job-rust.txt")),
    ("noticias.txt", include_str!("demo/noticias.txt")),
    ("empty.txt", "\n"),
];

/// Make a home with sample requests, process them, and show what came out
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where; must be absent or empty [default: a new directory under the temporary directory]
    dir: Option<PathBuf>,
}

impl DemoArgs {
    /// Runs the command.
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let root = self.root(context)?;
        let demo = Context { home: root.clone(), config_file: None, ..context.clone() };
        let config = load_config(&demo)?;
        let home = Home::new(&root, &config);
        let failed = |error: &std::io::Error| {
            Failure::new(Exit::Storage, format!("cannot write the demo to {}", root.display()))
                .because(error)
        };
        let disk = demo.machine.disk.as_ref();
        home.create(disk).map_err(|error| failed(&error))?;
        let samples = home.buses.join("other");
        disk.create_dir_all(&samples).map_err(|error| failed(&error))?;
        for (name, text) in SAMPLES {
            disk.replace(&samples.join(name), text.as_bytes(), 0o640)
                .map_err(|error| failed(&error))?;
        }
        let now = demo.machine.clock.now();
        let queue = disk.open(&home.queue, Open::ReadWrite).map_err(|error| failed(&error))?;
        queue.append(requests(now).as_bytes()).map_err(|error| failed(&error))?;
        queue.sync().map_err(|error| failed(&error))?;
        let by = now.plus_ms(5_000);
        let report = run_service(&demo, "demo", Until::Drained(Some(by)))?;
        let digests = super::digest::build(&demo)?;
        show(&demo, &home, &report, &digests)?;
        Ok(Exit::Done)
    }

    fn root(&self, context: &Context) -> Result<PathBuf, Failure> {
        let Some(dir) = &self.dir else {
            let made = tempfile::Builder::new().prefix("summarizer-demo-").tempdir();
            return made.map(tempfile::TempDir::keep).map_err(|error| {
                Failure::new(Exit::Storage, "cannot make a temporary directory").because(&error)
            });
        };
        match context.machine.disk.list(dir) {
            Ok(names) if !names.is_empty() => {
                Err(Failure::new(Exit::Usage, format!("{} is not empty", dir.display()))
                    .hint("name an absent or empty directory"))
            }
            _ => Ok(dir.clone()),
        }
    }
}

/// The sample queue: now and scheduled, a repeat, an unknown flow, a bad line.
fn requests(now: Timestamp) -> String {
    let flow = "docs.chunk_set.summarize.brief.v1";
    let request = |id: &str, file: &str, flow: &str| {
        json!({
            "schema_version": "summary_request.v1", "request_id": id,
            "created_at": now.to_string(), "urgency": "now",
            "requested_by": {"repo": "demo", "component": "sample", "version": "1.0.0"},
            "work": {"output_bus": "summary_bus", "output_kind": "summary_item",
                     "summary_kind": "document_summary", "summary_subkind": "sample",
                     "flow_ref": {"kind": "registry", "flow_id": flow}, "params": {}},
            "input": {"mode": "ids", "bus": "other", "ids": [file]},
        })
    };
    let mut scheduled = request("demo-scheduled", "noticias.txt", flow);
    scheduled["urgency"] = "scheduled".into();
    scheduled["not_before"] = now.plus_ms(1_500).to_string().into();
    let lines: Vec<Value> = vec![
        request("demo-mail", "mail-kitchen.txt", flow),
        request("demo-chat", "chat-release.txt", flow),
        request("demo-job", "job-rust.txt", flow),
        scheduled,
        request("demo-mail-again", "mail-kitchen.txt", flow),
        request("demo-empty", "empty.txt", flow),
        request("demo-unknown-flow", "job-rust.txt", "no.such.flow.v1"),
    ];
    let mut queue: String = lines.iter().map(|line| format!("{}\n", jcs(line))).collect();
    queue.push_str("{\"schema_version\":\"summary_request.v1\",\"request_id\":\"demo-broken\"\n");
    queue
}

fn show(
    context: &Context,
    home: &Home,
    report: &RunReport,
    digests: &Value,
) -> Result<(), Failure> {
    let acks = context
        .machine
        .disk
        .read(&home.acks())
        .map_err(|error| Failure::new(Exit::Storage, "cannot read the acks").because(&error))?;
    let acks: Vec<Value> = String::from_utf8_lossy(&acks)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|ack: &Value| ack["status"] != "accepted")
        .collect();
    if context.ui.json {
        let (home, lines) = (&home.root, report.lines);
        let told = json!({"home": home, "lines": lines, "acks": acks, "digests": digests});
        context.ui.json(&told);
        return Ok(());
    }
    context.ui.out(ui::bold("What became of each line"));
    let rows: Vec<Vec<String>> = acks.iter().map(ack_row).collect();
    context.ui.table(&["LINE", "REQUEST", "OUTCOME", "WHY", "WHERE"], &rows);
    context.ui.out("");
    context.ui.out(ui::bold("Digests of the summaries"));
    let bags = digests["bags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let buses = home.buses.display();
    for bag in bags.iter().take(3) {
        let (path, title) = (bag[0].as_str(), bag[1].as_str());
        let (path, title) = (path.unwrap_or_default(), title.unwrap_or_default());
        context.ui.out(format!("  {title}: {buses}/{path}/memo"));
    }
    context.ui.out(format!("  {} bags in all; {buses}/index names them", bags.len()));
    context.ui.out("");
    context.ui.out(ui::bold("Try next"));
    let at = path_for_shell(&home.root);
    context.ui.out(format!("  summarizer --home {at} show demo-mail"));
    context.ui.out(format!("  summarizer --home {at} quarantine list"));
    context.ui.out(format!("  summarizer --home {at} digest preview --selector overview.daily"));
    context.ui.out(format!("  summarizer --home {at} replay --verify"));
    Ok(())
}

fn ack_row(ack: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let status = text(&ack["status"]);
    let status = match status.as_str() {
        "completed" => ui::green(&status),
        "duplicate" => status,
        _ => ui::red(&status),
    };
    let why = match ack["reason_code"].as_str() {
        Some(reason) => reason.to_owned(),
        None => text(&ack["message"]),
    };
    vec![
        ack["line"].to_string(),
        text(&ack["request_id"]),
        status,
        why,
        text(&ack["summary"]["path"]),
    ]
}

fn path_for_shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    #[test]
    fn the_sample_flow_is_registered() {
        let registry = Registry::embedded().unwrap();
        assert!(registry.find("docs.chunk_set.summarize.brief.v1", None).is_some());
    }

    #[test]
    fn paths_can_be_pasted() {
        assert_eq!(path_for_shell(Path::new("/tmp/a-b_c.d")), "/tmp/a-b_c.d");
        assert_eq!(path_for_shell(Path::new("/tmp/it's")), "'/tmp/it'\\''s'");
    }
}
