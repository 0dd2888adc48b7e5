//! A run made from summaries that exist: one perspective for each group of a selection.
//!
//! The selection manifest names summary items, each perhaps with a `group`; without one the stream
//! is the group. What comes out is an ordinary run directory: a manifest with the limits, the
//! perspectives, one output per group whose claims are the sentences of its summaries that state
//! something, and a pool in which every citation is a summary item
//! (`summary-bus:<stream>/<day>/<summary_id>`) under a short label. Building,
//! checking and staleness then work as for any other run.
//!
//! Everything follows from the selection and the items: no clock, no order of discovery.
//!
//! See docs/adr/0030-packs-from-a-selection.md.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Number, Value, json};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::citations::SUMMARY_SCHEME;
use super::claims::{self, Statement};
use super::draft::with_objective;
use super::finding::{Code, Findings};
use super::inline;
use super::manifest::Kilobytes;
use super::run_dir::{RelPath, RunDir, RunDirError, is_perspective_id};
use super::summary_items::BusSummary;
use crate::bus::BusError;
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::{jcs_hash, line, to_file};
use crate::contract::privacy::{LOCAL_ONLY, PrivacyRules};
use crate::contract::publish::together;
use crate::contract::schema;
use crate::contract::time::parse_instant;
use crate::contract::vocabulary::Stream;
use crate::upstream::selection::{
    SELECTION_VERSION, SelectionOrder, said_by_item, said_by_members,
};

pub(crate) const ITEMS_MAX: usize = 100_000;

/// Missing days that a warning names.
const DAYS_SHOWN: usize = 10;

const WORDS_MAX: u64 = 1_000_000;

/// Folders of the run: what each group says, and the summaries of the pack.
const OUTPUTS_DIR: &str = "wave-1";
const SUMMARIES_DIR: &str = "summaries";

/// Finds summary items by id, within some days when they are known.
pub(crate) type FindItems<'a> = &'a dyn Fn(
    &BTreeSet<String>,
    Option<&BTreeSet<String>>,
) -> Result<BTreeMap<String, BusSummary>, BusError>;

/// Why no run could be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SelectionError {
    /// The bus could not be read.
    #[error("read the summaries of the selection")]
    Bus(#[from] BusError),
    /// The run directory could not be used.
    #[error("make a run of the selection")]
    Run(#[from] RunDirError),
}

/// What a run says where its selection has no objective.
pub const NO_OBJECTIVE: &str = "no objective was given: the summaries of a selection";

/// A valid selection manifest.
#[derive(Debug, Clone)]
pub struct PackSelection {
    pub run_id: String,
    created_at: String,
    notes: String,
    ordering: SelectionOrder,
    items: Vec<Picked>,
}

#[derive(Debug, Clone)]
struct Picked {
    id: String,
    day: Option<String>,
    partition: Option<String>,
    text_hash: Option<Digest>,
    group: Option<String>,
    /// Whether the selection itself keeps it from being shown to others.
    is_private: bool,
}

impl Picked {
    /// What the selection says of an item that is not so.
    fn differs(&self, item: &BusSummary) -> Option<String> {
        let day = [&self.day, &self.partition].into_iter().flatten().find(|day| **day != item.day);
        if let Some(claimed) = day {
            return Some(format!("it is of {}, and the selection says {claimed}", item.day));
        }
        let hash = self.text_hash.filter(|claimed| sha256(&item.text) != *claimed);
        hash.map(|_| "its text changed after it was selected".to_owned())
    }
}

/// The limits of the run made from a selection.
#[derive(Debug, Clone)]
pub(crate) struct SelectionLimits {
    pub(crate) max_summary: Kilobytes,
    /// Largest sum of all summaries.
    pub(crate) max_total: Kilobytes,
    /// The agent named for every perspective.
    pub agent_type: String,
    /// The rules about data.
    pub(crate) privacy: PrivacyRules,
}

/// Reads a selection manifest and checks version, hash and items. `None` with findings when it is
/// invalid.
pub fn read(value: &Value, file: &str, findings: &mut Findings) -> Option<PackSelection> {
    let before = findings.errors();
    for violation in schema::check(SELECTION_VERSION, value) {
        let path = format!("${}", violation.pointer.replace('/', "."));
        findings.error(Code::SchemaValidationFailed, file, path, violation.message);
    }
    let created_at = value["created_at"].as_str().unwrap_or_default();
    let created = parse_instant(created_at).ok();
    if created.is_none() {
        findings.error(Code::InvalidTimestamp, file, "$.created_at", "not an instant");
    }
    let hash = jcs_hash(&value["selection"]);
    let recorded = value["selection_hash"].as_str().and_then(|hash| hash.parse::<Digest>().ok());
    if recorded != Some(hash) {
        let message = format!("the selection has the hash {}", hash.prefixed());
        findings.error(Code::ManifestMismatch, file, "$.selection_hash", message);
    }
    let missing = value["missing_days"].as_array().into_iter().flatten();
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    if !missing.is_empty() {
        let days = missing.iter().take(DAYS_SHOWN).copied().collect::<Vec<_>>().join(", ");
        let message = format!("{} of its days are not published: {days}", missing.len());
        findings.warn(Code::MissingDays, file, "$.missing_days", message);
    }
    let members = [value, &value["selection"]].into_iter().filter_map(Value::as_object);
    let is_private = together(members.map(said_by_members)) == Some(false);
    let items = items(&value["selection"], is_private, file, findings);
    let created = created.filter(|_| findings.errors() == before)?;
    Some(PackSelection {
        run_id: format!("sel_{}", &hash.hex()[..16]),
        created_at: created.at.to_string(),
        notes: value["notes"].as_str().unwrap_or_default().to_owned(),
        ordering: SelectionOrder::of(value["selection"].get("ordering")),
        items,
    })
}

fn items(selection: &Value, is_private: bool, file: &str, findings: &mut Findings) -> Vec<Picked> {
    let mut bad = |path: String, message: &str| {
        findings.error(Code::SchemaValidationFailed, file, path, message);
    };
    if selection["bus"] != "summary_bus" {
        bad("$.selection.bus".into(), "a pack is made from summary_bus");
    }
    let listed = selection["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if listed.is_empty() || listed.len() > ITEMS_MAX {
        bad("$.selection.items".into(), "must list at least one item and not too many");
        return Vec::new();
    }
    let mut seen = BTreeSet::new();
    let mut items = Vec::new();
    for (index, item) in listed.iter().enumerate() {
        let text = |key: &str| item[key].as_str().map(str::to_owned);
        let Some(id) = text("id").filter(|id| is_perspective_id(id)) else {
            bad(format!("$.selection.items[{index}].id"), "must be the id of a summary item");
            continue;
        };
        let group = text("group").filter(|group| !group.trim().is_empty());
        if seen.insert((id.clone(), group.clone())) {
            items.push(Picked {
                id,
                day: text("day"),
                partition: text("partition"),
                text_hash: text("text_hash").and_then(|hash| hash.parse().ok()),
                group,
                is_private: is_private || said_by_item(item) == Some(false),
            });
        }
    }
    items
}

struct SelectionGroup {
    id: String,
    title: String,
    items: Vec<BusSummary>,
    /// How many summaries it does not hold because they are private.
    private: usize,
}

/// Makes the run directory. False with findings when that is refused; warnings are added in both cases.
pub(crate) fn make_run(
    dir: &RunDir<'_>,
    selection: &PackSelection,
    find: FindItems<'_>,
    limits: &SelectionLimits,
    findings: &mut Findings,
) -> Result<bool, SelectionError> {
    let manifest_path = path("manifest.json")?;
    let before = findings.errors();
    let existing = super::run::read_json(dir, &manifest_path, findings)?;
    if let Some(existing) = &existing
        && existing["run_id"].as_str() != Some(&selection.run_id)
    {
        let message = format!("the directory holds a run other than {}", selection.run_id);
        findings.error(Code::RunIdMismatch, "manifest.json", "$.run_id", message);
    }
    let ids: BTreeSet<String> = selection.items.iter().map(|item| item.id.clone()).collect();
    let days: Option<BTreeSet<String>> =
        selection.items.iter().map(|item| item.day.clone()).collect();
    let mut found = find(&ids, days.as_ref())?;
    for id in ids.iter().filter(|id| !found.contains_key(*id)) {
        findings.error(Code::NotFound, "summaries", id, "no such item on the Summary Bus");
    }
    for picked in &selection.items {
        if let Some(why) = found.get(&picked.id).and_then(|item| picked.differs(item)) {
            findings.error(Code::ManifestMismatch, "summaries", &picked.id, why);
        }
    }
    // A pack is handed to others, so it may hold nothing that a source keeps to itself.
    let mut local_only = false;
    let mut private_streams: BTreeMap<String, String> = BTreeMap::new();
    let kept: BTreeSet<&str> =
        selection.items.iter().filter(|one| one.is_private).map(|one| one.id.as_str()).collect();
    found.retain(|id, item| {
        let said = limits.privacy.of(&item.places());
        let private =
            item.publish == Some(false) || kept.contains(id.as_str()) || !said.private.is_empty();
        local_only |= !private && (item.is_local_only() || said.is_local_only());
        if private {
            private_streams.insert(id.clone(), item.stream.clone());
        }
        !private
    });
    // Findings go into the records of the run, so they count what is private and do not name it.
    if !private_streams.is_empty() {
        let message = format!("{} marked publish: false, and left out", private_streams.len());
        findings.warn(Code::PrivateItem, "summaries", "", message);
    }
    if found.is_empty() && !ids.is_empty() && findings.errors() == before {
        let mut message = "every summary of the selection is marked publish: false".to_owned();
        if existing.is_some() {
            message.push_str("; the folder keeps what an earlier run wrote, so delete it");
        }
        findings.error(Code::PrivateItem, "summaries", "", message);
    }
    if findings.errors() > before {
        return Ok(false);
    }
    let groups = groups(selection, &found, &private_streams);
    let labels = Labels::of(&groups);
    if existing.is_some() {
        remove_other_groups(dir, &groups)?;
    }
    for group in &groups {
        let text = output(group, &labels);
        dir.write(&path(&format!("{OUTPUTS_DIR}/{}.md", group.id))?, text.as_bytes())?;
    }
    dir.write(&path("citations/citations.jsonl")?, pool(selection, &groups, &labels).as_bytes())?;
    // The run names its own agent, so that every check of it knows the agent.
    if is_perspective_id(&limits.agent_type) {
        let agent = "This agent wrote the outputs of the run from summaries that exist.\n";
        dir.write(&path(&format!("agents/{}.md", limits.agent_type))?, agent.as_bytes())?;
    }
    let mut perspectives = perspectives(selection, &groups, limits);
    let mut manifest = manifest(dir, selection, groups.len(), limits);
    if local_only {
        // What is made of them must stay on this machine too.
        (perspectives[LOCAL_ONLY], manifest[LOCAL_ONLY]) = (true.into(), true.into());
    }
    for (name, value) in [("perspectives.json", perspectives), ("manifest.json", manifest)] {
        let path = path(name)?;
        let text = to_file(&value)
            .map_err(|error| RunDirError::Write { path: name.to_owned(), source: error.into() })?;
        dir.write(&path, text.as_bytes())?;
    }
    Ok(true)
}

/// Removes what the run held of groups that it has no longer: all their summaries may be private now.
fn remove_other_groups(dir: &RunDir<'_>, groups: &[SelectionGroup]) -> Result<(), RunDirError> {
    let ids: BTreeSet<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    for (folder, ending) in [(OUTPUTS_DIR, ".md"), (SUMMARIES_DIR, ".summary.md")] {
        let folder = path(folder)?;
        for name in dir.list(&folder)? {
            if name.strip_suffix(ending).is_some_and(|id| !ids.contains(id)) {
                dir.remove(&folder.join(&name))?;
            }
        }
    }
    Ok(())
}

fn path(text: &str) -> Result<RelPath, RunDirError> {
    RelPath::parse(text).ok_or_else(|| RunDirError::Escapes { path: text.to_owned() })
}

/// The groups with their items. `private` has the stream of each item that is left out.
fn groups(
    selection: &PackSelection,
    found: &BTreeMap<String, BusSummary>,
    private: &BTreeMap<String, String>,
) -> Vec<SelectionGroup> {
    let mut by_name: BTreeMap<String, (Vec<BusSummary>, usize)> = BTreeMap::new();
    for picked in &selection.items {
        let named = |stream: &String| picked.group.clone().unwrap_or_else(|| stream.clone());
        if let Some(item) = found.get(&picked.id) {
            by_name.entry(named(&item.stream)).or_default().0.push(item.clone());
        } else if let Some(stream) = private.get(&picked.id) {
            by_name.entry(named(stream)).or_default().1 += 1;
        }
    }
    let mut groups = Vec::new();
    by_name.retain(|_, (items, _)| !items.is_empty());
    let names: Vec<String> = by_name.keys().cloned().collect();
    let mut ids = group_ids(names.iter().map(String::as_str));
    for (name, (mut items, private)) in by_name {
        match selection.ordering {
            SelectionOrder::AsListed => {}
            SelectionOrder::ByTime => {
                items.sort_by(|a, b| (a.at_ms, &a.summary_id).cmp(&(b.at_ms, &b.summary_id)));
            }
            SelectionOrder::ById => items.sort_by(|a, b| a.summary_id.cmp(&b.summary_id)),
        }
        groups.push(SelectionGroup {
            id: ids.remove(name.as_str()).unwrap_or_default(),
            title: name,
            items,
            private,
        });
    }
    groups
}

/// The ids of groups by their names, as names of files: accents go, and `-` stands for what may not be in
/// one. A name that has no such form, or the same form as another, has its hash. No two groups have one id:
/// a name that is an id keeps it, whatever the ids of the others become.
fn group_ids<'n>(names: impl Iterator<Item = &'n str> + Clone) -> BTreeMap<&'n str, String> {
    let mut taken = BTreeSet::new();
    let mut ids = BTreeMap::new();
    let is_id = |name: &&str| is_perspective_id(name);
    for name in names.clone().filter(is_id).chain(names.filter(|name| !is_id(name))) {
        let hash = |round: usize| match round {
            0 => format!("g_{}", &sha256(name).hex()[..16]),
            round => format!("g_{}", &sha256(format!("{name}\n{round}")).hex()[..16]),
        };
        let folded = Some(folded_id(name)).filter(|id| is_perspective_id(id));
        let mut candidates = folded.into_iter().chain((0..).map(hash));
        // Two ids that differ only in case are one file on some systems.
        let id = candidates.find(|id| taken.insert(id.to_ascii_lowercase()));
        ids.insert(name, id.unwrap_or_default());
    }
    ids
}

fn folded_id(name: &str) -> String {
    if is_perspective_id(name) {
        return name.to_owned();
    }
    let folded = name.nfkd().filter(|c| !is_combining_mark(*c));
    let parts: String =
        folded.map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    parts.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// A short label for each summary that is cited: `s1`, `s2` and so on in the order of the groups. The
/// pool of citations is the table with the address of each label.
struct Labels(BTreeMap<String, String>);

impl Labels {
    fn of(groups: &[SelectionGroup]) -> Labels {
        let mut labels: BTreeMap<String, String> = BTreeMap::new();
        for item in groups.iter().flat_map(|group| &group.items) {
            let next = format!("s{}", labels.len() + 1);
            labels.entry(cid_url(item)).or_insert(next);
        }
        Labels(labels)
    }

    fn label(&self, item: &BusSummary) -> &str {
        self.0.get(&cid_url(item)).map_or("", String::as_str)
    }
}

fn cid_url(item: &BusSummary) -> String {
    format!("{SUMMARY_SCHEME}{}/{}/{}", item.stream, item.day, item.summary_id)
}

/// What a group says, as the output of a wave: each claim once, with one summary of each source that makes
/// it, and what was left out with the reason.
fn output(group: &SelectionGroup, labels: &Labels) -> String {
    let mut claims: Vec<(String, Vec<&BusSummary>)> = Vec::new();
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    let (mut ids_of, mut sources_of) = (HashSet::new(), HashSet::new());
    let mut said_of: BTreeMap<(&[String], String), (&str, usize)> = BTreeMap::new();
    let mut left_out = String::new();
    for item in &group.items {
        let label = labels.label(item);
        let doubtful = item.is_doubtful.then_some("of a fraud or of an unknown sender");
        // How a run ended is what there is to say of it.
        let statements = match &item.run {
            Some(told) => vec![Statement { text: plain(told), why_not: None }],
            None => claims::statements(&item.summary_id, &item.text),
        };
        let mut title = untold_title(item, &statements);
        for statement in statements {
            if let Some(why) = statement.why_not.or(doubtful) {
                left_out.push_str(&format!("- {} [@{label}] ({why})\n", statement.text));
                continue;
            }
            let bare = claims::folded(&claims::without_day(claims::spoken(&statement.text)));
            let text = with_subject(&item.subject, statement.text);
            // Another flow may put other labels before what the source says.
            let before = said_of.get(&(&*item.sources, bare.clone())).copied();
            let before =
                before.filter(|(by, _)| *by != item.summary_id && !item.sources.is_empty());
            if let Some((_, claim)) = before {
                said.entry(claims::folded(&claims::without_day(&text))).or_insert(claim);
            }
            let entry = said.entry(claims::folded(&claims::without_day(&text)));
            let claim = match &entry {
                Entry::Vacant(_) => claims.len(),
                Entry::Occupied(place) => *place.get(),
            };
            said_of.entry((&*item.sources, bare)).or_insert((item.summary_id.as_str(), claim));
            // Several flows that read one source say it once.
            let is_new = ids_of.insert((claim, &item.summary_id));
            let is_new_source =
                item.sources.is_empty() || sources_of.insert((claim, &item.sources));
            match entry {
                Entry::Vacant(place) => {
                    place.insert(claim);
                    let text = match title.take() {
                        Some(title) => format!("{title}: {text}"),
                        None => text,
                    };
                    claims.push((text, vec![item]));
                }
                Entry::Occupied(_) => {
                    let (told, cited) = &mut claims[claim];
                    // One of them says on which day it is due.
                    if claims::without_day(&text) == *told {
                        *told = text;
                    }
                    if is_new && is_new_source {
                        cited.push(item);
                    }
                }
            }
        }
    }
    if group.private > 0 {
        left_out.push_str(&format!("- {} marked publish: false\n", group.private));
    }
    let mut text = String::from("## Findings\n\n");
    for (claim, cited) in claims {
        let mark = |item: &&BusSummary| format!(" [@{}]", labels.label(item));
        let marks: String = cited.iter().map(mark).collect();
        // A claim is as sure as the least sure of the summaries that make it.
        let sure = cited.iter().filter_map(|item| item.confidence).min();
        let sure = sure.map(|percent| format!(" (confidence: {percent})")).unwrap_or_default();
        text.push_str(&format!("- {claim}{marks}{sure}\n"));
    }
    if !left_out.is_empty() {
        text.push_str("\n## Left out\n\n");
        text.push_str(&left_out);
    }
    text
}

/// A claim of a job post with the job and the employer, unless it names one of them. `The pay is 2,300
/// euros` says nothing, and two posts that say it do not say the same.
fn with_subject(subject: &[String], text: String) -> String {
    let said = claims::folded(&text);
    let names = |name: &String| said.contains(&claims::folded(name));
    match subject.is_empty() || subject.iter().any(names) {
        true => text,
        false => format!("{}: {text}", plain(&subject.join(", "))),
    }
}

/// The title of a document whose claims do not say it. The first claim gets it.
fn untold_title(item: &BusSummary, statements: &[Statement]) -> Option<String> {
    const WORDS_MAX: usize = 8;
    let title = plain(&item.title);
    let words = title.split_whitespace().count();
    let is_name = words <= WORDS_MAX
        && title.contains(char::is_alphabetic)
        && !title.ends_with(['.', '?', '!', '…'])
        && !title.contains(": ")
        && (words > 1 || !title.contains(['.', '/', '_']))
        && !is_file_name(&title);
    let is_mail = item.meta.contains_key("mailbox");
    if !is_name
        || is_mail
        || item.stream != Stream::Documents.to_string()
        || !item.subject.is_empty()
    {
        return None;
    }
    let kept = statements.iter().filter(|one| one.why_not.is_none());
    let said: BTreeSet<String> = kept.flat_map(|one| words_of(&one.text)).collect();
    words_of(&title).iter().any(|word| !said.contains(word)).then_some(title)
}

/// `Nota del piano.txt`: a few letters and digits behind the last full stop.
fn is_file_name(title: &str) -> bool {
    const ENDING_MAX: usize = 5;
    title.rsplit_once('.').is_some_and(|(_, ending)| {
        (1..=ENDING_MAX).contains(&ending.len())
            && ending.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

fn words_of(text: &str) -> Vec<String> {
    claims::folded(text).split(' ').filter(|word| word.len() > 2).map(str::to_owned).collect()
}

/// A name as one line without marks.
fn plain(name: &str) -> String {
    inline::read(name, 0).map(|plain| plain.text).unwrap_or_default()
}

fn pool(selection: &PackSelection, groups: &[SelectionGroup], labels: &Labels) -> String {
    let mut rows: BTreeMap<String, Value> = BTreeMap::new();
    for group in groups {
        for item in &group.items {
            let url = cid_url(item);
            rows.entry(url.clone()).or_insert_with(|| {
                json!({
                    "schema_version": "citation.v1", "normalized_url": url,
                    "cid": labels.label(item), "title": item.title,
                    "status": "valid", "checked_at": selection.created_at,
                })
            });
        }
    }
    rows.values().map(|row| format!("{}\n", line(row))).collect()
}

fn perspectives(
    selection: &PackSelection,
    groups: &[SelectionGroup],
    limits: &SelectionLimits,
) -> Value {
    // An agent is told the title of its perspective and nothing else of the objective.
    let title = |group: &SelectionGroup| match selection.notes.trim() {
        "" => group.title.clone(),
        objective => with_objective(&group.title, objective),
    };
    let perspective = |group: &SelectionGroup| {
        json!({
            "id": group.id, "title": title(group), "track": "standard",
            "agent_type": limits.agent_type,
            "prompt_contract": {
                "max_words": WORDS_MAX, "max_sources": group.items.len(), "tool_budget": {},
                "must_include_sections": ["Findings"],
            },
        })
    };
    json!({
        "schema_version": "perspectives.v1", "run_id": selection.run_id,
        "created_at": selection.created_at,
        "perspectives": groups.iter().map(perspective).collect::<Vec<_>>(),
    })
}

fn manifest(
    dir: &RunDir<'_>,
    selection: &PackSelection,
    groups: usize,
    limits: &SelectionLimits,
) -> Value {
    let at = &selection.created_at;
    let query = match selection.notes.trim() {
        "" => NO_OBJECTIVE,
        notes => notes,
    };
    json!({
        "schema_version": "manifest.v1", "run_id": selection.run_id,
        "created_at": at, "updated_at": at, "revision": 1, "mode": "standard",
        "status": "running", "query": {"text": query},
        "stage": {"current": "summaries", "started_at": at, "history": []},
        "limits": {
            "max_wave1_agents": groups, "max_wave2_agents": 0,
            "max_summary_kb": limits.max_summary.number(),
            "max_total_summary_kb": limits.max_total.number(),
            "max_review_iterations": Number::from(0),
        },
        "agents": {},
        "artifacts": {"root": dir.root(), "paths": {
            "wave1_dir": OUTPUTS_DIR, "wave2_dir": "wave-2", "citations_dir": "citations",
            "summaries_dir": SUMMARIES_DIR, "synthesis_dir": "synthesis", "logs_dir": "logs",
            "gates_file": "gates.json", "perspectives_file": "perspectives.json",
            "citations_file": "citations/citations.jsonl",
            "summary_pack_file": "summaries/summary-pack.json", "pivot_file": "pivot.json",
        }},
        "metrics": {}, "failures": [],
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::os::Disk;
    use crate::os::sim::SimDisk;

    #[test]
    fn no_two_groups_have_one_id() {
        let lists: [&[&str]; 5] = [
            &["a b", "a  b", "a-b"],
            &["Acme", "acme", "ACME"],
            &["日本", "中国", "!!!"],
            &["Ärger", "Arger", "A rger"],
            &["none", "", "-"],
        ];
        for list in lists {
            let mut names: BTreeSet<String> = list.iter().map(|name| (*name).to_owned()).collect();
            // Each round adds groups that are named like the ids of the round before.
            for round in 0..3 {
                let ids = group_ids(names.iter().map(String::as_str));
                let files: BTreeSet<String> =
                    ids.values().map(|id| id.to_ascii_lowercase()).collect();
                assert_eq!(files.len(), names.len(), "round {round}: {ids:?}");
                assert!(ids.values().all(|id| is_perspective_id(id)), "{ids:?}");
                let spelled: Vec<String> = ids.into_values().collect();
                names.extend(spelled);
            }
        }
    }

    fn item(number: u8, source: &str) -> BusSummary {
        BusSummary {
            summary_id: format!("sum_{number:032x}"),
            stream: Stream::Documents.to_string(),
            day: "2026-03-05".to_owned(),
            text: "The roof of the hall was repaired in May.".to_owned(),
            title: String::new(),
            sources: vec![source.to_owned()],
            at_ms: 0,
            publish: None,
            is_replaced: false,
            is_doubtful: false,
            subject: Vec::new(),
            run: None,
            confidence: None,
            meta: serde_json::Map::new(),
            tags: Vec::new(),
            origins: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_is_made_again_keeps_nothing_of_a_group_that_became_private() {
        let disk = SimDisk::new();
        let root = Path::new("/run");
        disk.create_dir_all(root).unwrap();
        let dir = RunDir::open(&disk, root).unwrap();
        let picked = |number: u8, group: &str| Picked {
            id: item(number, "").summary_id,
            day: None,
            partition: None,
            text_hash: None,
            group: Some(group.to_owned()),
            is_private: false,
        };
        let selection = PackSelection {
            run_id: "sel_0123456789abcdef".to_owned(),
            created_at: "2026-02-12T08:00:00.000Z".to_owned(),
            notes: String::new(),
            ordering: SelectionOrder::AsListed,
            items: vec![picked(1, "open"), picked(2, "secret")],
        };
        let limits = SelectionLimits {
            max_summary: Kilobytes::new(&Number::from(5)).unwrap(),
            max_total: Kilobytes::new(&Number::from(50)).unwrap(),
            agent_type: "agent".to_owned(),
            privacy: PrivacyRules::default(),
        };
        let make = |publish: Option<bool>| {
            let find = |_: &BTreeSet<String>, _: Option<&BTreeSet<String>>| {
                let second = BusSummary { publish, ..item(2, "b.md") };
                let all = [item(1, "a.md"), second].map(|one| (one.summary_id.clone(), one));
                Ok(BTreeMap::from(all))
            };
            let mut findings = Findings::default();
            assert!(make_run(&dir, &selection, &find, &limits, &mut findings).unwrap());
        };
        let files = |folder: &str| dir.list(&path(folder).unwrap()).unwrap();
        make(None);
        for name in ["open.summary.md", "secret.summary.md", "summary-pack.json"] {
            dir.write(&path(SUMMARIES_DIR).unwrap().join(name), b"x").unwrap();
        }
        assert_eq!(files(OUTPUTS_DIR), ["open.md", "secret.md"]);
        make(Some(false));
        assert_eq!(files(OUTPUTS_DIR), ["open.md"]);
        assert_eq!(files(SUMMARIES_DIR), ["open.summary.md", "summary-pack.json"]);
    }

    #[test]
    fn a_claim_has_one_label_for_each_source_however_many_flows_read_it() {
        let group = SelectionGroup {
            id: "g".to_owned(),
            title: "G".to_owned(),
            items: vec![item(1, "a.md"), item(2, "a.md"), item(3, "b.md")],
            private: 0,
        };
        let labels = Labels::of(std::slice::from_ref(&group));
        let claim = "- The roof of the hall was repaired in May. [@s1] [@s3]";
        assert_eq!(output(&group, &labels), format!("## Findings\n\n{claim}\n"));
        let mut sure = group;
        sure.items[0].confidence = Some(70);
        sure.items[2].confidence = Some(20);
        let told = format!("## Findings\n\n{claim} (confidence: 20)\n");
        assert_eq!(output(&sure, &labels), told);
    }

    #[test]
    fn flows_that_put_other_labels_before_what_a_source_says_say_it_once() {
        let text = |told: &str| told.to_owned();
        let first = BusSummary {
            text: text("Requirements: three years of work with maps."),
            ..item(1, "job.md")
        };
        let second = BusSummary {
            text: text("Requirements: three years of work with maps."),
            subject: vec!["Analyst".to_owned(), "City of Lima".to_owned()],
            ..item(2, "job.md")
        };
        let other = BusSummary { ..item(3, "other.md") };
        let group = SelectionGroup {
            id: "g".to_owned(),
            title: "G".to_owned(),
            items: vec![first, second, other],
            private: 0,
        };
        let told = output(&group, &Labels::of(std::slice::from_ref(&group)));
        assert_eq!(told.matches("three years of work").count(), 1, "{told}");
    }

    #[test]
    fn how_a_run_ended_is_a_claim() {
        let of = |told: &str| BusSummary { run: Some(told.to_owned()), ..item(1, "night.json") };
        for told in ["backup: success.", "backup: error: disk full on /mnt/b"] {
            let items = vec![of(told)];
            let group =
                SelectionGroup { id: "g".to_owned(), title: "G".to_owned(), items, private: 0 };
            let labels = Labels::of(std::slice::from_ref(&group));
            assert_eq!(output(&group, &labels), format!("## Findings\n\n- {told} [@s1]\n"));
        }
    }

    #[test]
    fn a_group_that_is_named_like_an_id_keeps_its_name() {
        let other = group_ids(["日本"].into_iter()).remove("日本").unwrap();
        let ids = group_ids(["日本", other.as_str()].into_iter());
        assert_eq!(ids[other.as_str()], other);
        assert_ne!(ids["日本"], other);
    }
}
