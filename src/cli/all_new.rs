//! `submit --all-new`: a request for everything on the upstream buses that no request names yet.
//!
//! Contract: memory holds a hash of each id, never a record. What was asked for is read from the
//! queue. A message of a session is not asked for alone: its session is.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::Value;

use super::Context;
use super::failure::{Exit, Failure};
use super::intake::request;
use super::sum::flow_of;
use crate::config::Config;
use crate::contract::hash::{Digest, sha256};
use crate::contract::vocabulary::{Bus, SummaryKind};
use crate::home::Home;
use crate::import::intake::Subject;
use crate::import::kind::Group;
use crate::seam::position::open_queue;
use crate::upstream::defect::Defect;
use crate::upstream::lines::Lines;
use crate::upstream::moment::Moment;
use crate::upstream::view::Partition;
use crate::upstream::{Family, Upstream, index_of_home};
use crate::work::content_key::model_of;

/// The members of an upstream record that say what to ask for.
#[derive(Deserialize)]
struct Record {
    event_id: Option<String>,
    session_id: Option<String>,
    document_id: Option<String>,
    #[serde(default)]
    event_ids: Vec<String>,
    /// Of a message that its conversation does not show.
    standing: Option<String>,
    /// Upstream may put anything here.
    #[serde(default)]
    source: Value,
    #[serde(default)]
    metadata: Value,
}

/// The ids that a queue line names.
#[derive(Deserialize)]
struct Asked {
    input: AskedInput,
}

#[derive(Deserialize)]
struct AskedInput {
    bus: String,
    #[serde(default)]
    ids: Vec<String>,
}

/// The requests for what is new, with their lines, by their ids.
pub(super) fn all_new(
    context: &Context,
    config: &Config,
    home: &Home,
    only: Option<Bus>,
    flow: Option<&str>,
) -> Result<BTreeMap<String, String>, Failure> {
    let config = &super::names::with_flow_ids(context, config.clone())?;
    let disk = &context.machine.disk;
    let upstream =
        Upstream::new(disk.clone(), &home.buses, index_of_home(disk, &home.upstream_index()));
    let mut known = asked(context, home)?;
    let mut in_sessions = HashSet::new();
    let (mut found, mut found_by) = (BTreeMap::new(), HashMap::new());
    let mut models: BTreeMap<String, Option<String>> = BTreeMap::new();
    // Sessions first: they say which events belong to them.
    for family in [Family::Sessions, Family::Chunks, Family::Events] {
        // Another bus is read for what it says of events, and not asked about.
        let is_wanted = only.is_none_or(|only| only == family.bus());
        for partition in upstream.partitions(family).map_err(|defect| unread(&defect))? {
            let partition =
                upstream.partition(family, &partition).map_err(|defect| unread(&defect))?;
            let mut lines = upstream.lines(&partition).map_err(|defect| unread(&defect))?;
            while let Some((at, line)) = lines.next_line().map_err(|error| broken(&error))? {
                let Ok(record) = serde_json::from_slice::<Record>(line) else { continue };
                in_sessions.extend(record.event_ids.iter().map(sha256));
                if let Some(first) = record.source["version_of"].as_str() {
                    // The first version may lie on another day, which was read or comes later.
                    let first = mark(family.bus().as_str(), first);
                    found_by.remove(&first).map(|request: String| found.remove(&request));
                    known.insert(first);
                }
                // What is edited away or hidden is part of no summary, and no older version is.
                let [own, first] = [record.event_id.as_deref(), record.first_id()];
                let mut ids = own.into_iter().chain(first).map(sha256);
                let is_old = match first {
                    Some(first) => is_replaced(&upstream, &partition, first, at.line)?,
                    None => false,
                };
                let is_asked = record.standing.is_none()
                    && !is_old
                    && !ids.any(|id| in_sessions.contains(&id));
                let subject = Some(record).filter(|_| is_asked);
                let Some(subject) =
                    subject.and_then(|one| subject_of(family, one, config.timezone))
                else {
                    continue;
                };
                let asks = mark(subject.bus.as_str(), &subject.id);
                if is_wanted && known.insert(asks) {
                    let flow = flow.unwrap_or(flow_of(&config.default_flow, subject.group));
                    let model = models
                        .entry(flow.to_owned())
                        .or_insert_with(|| model_of(&context.machine, config, flow, None));
                    let (id, line) = request(
                        (context, config),
                        &subject,
                        flow,
                        model.as_deref(),
                        "submit",
                        false,
                    )?;
                    found_by.insert(asks, id.clone());
                    found.insert(id, line);
                }
            }
        }
    }
    Ok(found)
}

impl Record {
    /// The id of the first version of an event.
    fn first_id(&self) -> Option<&str> {
        self.source["version_of"].as_str().or(self.event_id.as_deref())
    }
}

/// Whether an older version of an event lies at this line. The partition is asked; versions may lie in others too.
fn is_replaced(
    upstream: &Upstream,
    partition: &Partition,
    first: &str,
    line: u64,
) -> Result<bool, Failure> {
    if !partition.index.has_wholes() || partition.manifest.family != Family::Events {
        return Ok(false);
    }
    let last = upstream.last_part(partition, first).map_err(|defect| unread(&defect))?;
    Ok(last.is_some_and(|(_, last)| u64::from(last.line) != line))
}

/// `zone` is the one of the home.
fn subject_of(family: Family, record: Record, zone: Tz) -> Option<Subject> {
    let (kind, id, group) = match family {
        Family::Sessions => (SummaryKind::SessionSummary, record.session_id?, Group::Chat),
        Family::Chunks => (SummaryKind::DocumentSummary, record.document_id?, Group::Document),
        Family::Events => {
            let group = match record.source["source_system"].as_str() {
                Some("mail") => Group::Mail,
                Some("rss") => Group::Feed,
                _ => Group::Chat,
            };
            (SummaryKind::EventSummary, record.event_id?, group)
        }
        // What this home made itself was not imported.
        Family::Summaries(_) => return None,
    };
    let day = Moment::read(&record.metadata["date"], zone).map(|moment| moment.day_in(zone));
    Some(Subject { kind, bus: family.bus(), name: id.clone(), id, group, day, forgotten: 0 })
}

/// Everything that a line of the queue asks for.
fn asked(context: &Context, home: &Home) -> Result<HashSet<Digest>, Failure> {
    let mut found = HashSet::new();
    let file = match open_queue(context.machine.disk.as_ref(), &home.queue) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(broken(&error)),
    };
    let length = file.stat().map_err(|error| broken(&error))?.len;
    let mut lines = Lines::new(file, length);
    while let Some((_, line)) = lines.next_line().map_err(|error| broken(&error))? {
        // A line may be no request at all: the service says what is wrong with it.
        if let Ok(Asked { input }) = serde_json::from_slice(line) {
            found.extend(input.ids.iter().map(|id| mark(&input.bus, id)));
        }
    }
    Ok(found)
}

fn mark(bus: &str, id: &str) -> Digest {
    sha256(format!("{bus}\n{id}"))
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read the earlier requests").because(error)
}

fn unread(defect: &Defect) -> Failure {
    Failure::new(Exit::Input, "cannot read the upstream buses")
        .because(defect)
        .hint("`summarizer verify` names each error")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use super::*;
    use crate::contract::time::Timestamp;
    use crate::import::Target;
    use crate::import::fields::{Mapping, import_file};

    #[test]
    fn of_an_item_that_got_another_date_only_the_newest_version_is_asked_for() {
        for days in [["11", "12"], ["12", "11"]] {
            let dir = tempfile::tempdir().unwrap();
            let config = Config::load(None, &BTreeMap::new(), 1).unwrap();
            let home = Home::new(dir.path(), &config);
            let context = Context::of_test(dir.path());
            let target = Target {
                disk: &*context.machine.disk,
                root: &home.buses,
                zone: chrono_tz::UTC,
                now: Timestamp(0),
            };
            std::fs::create_dir_all(home.queue.parent().unwrap()).unwrap();
            let file = dir.path().join("feed.json");
            for (day, text) in days.iter().zip(["It opens on Friday.", "It opens on Monday."]) {
                let at = format!("2026-02-{day}T10:00:00Z");
                let item = serde_json::json!({"id": "a", "date_published": at, "title": "Bridge",
                    "content_text": text, "feed": "Town"});
                std::fs::write(&file, item.to_string()).unwrap();
                import_file(target, &Mapping::feed(), (&file, None), &mut Default::default())
                    .unwrap();
            }
            let found = all_new(&context, &config, &home, None, None).unwrap();
            let line = found.values().next().unwrap();
            assert!(found.len() == 1 && !line.contains(r#""ids":["a"]"#), "{days:?} {found:?}");
        }
    }
}
