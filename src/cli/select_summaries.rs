//! `select --bus summary_bus`: chooses published summaries for `pack build --from-selection`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use serde_json::{Map, Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::select_file::{check_name, write};
use super::settings::load_config;
use crate::contract::json::jcs_hash;
use crate::contract::places;
use crate::contract::time::Day;
use crate::digest::project::{ProjectRules, one_spelling};
use crate::export::item::META_NAMES;
use crate::synthesis::summary_items::{self, BusSummary};

/// Most summaries of a selection, unless the caller says otherwise.
const LIMIT: u64 = 1_000;
/// Most days until today that a selection may span.
const DAYS_MAX: i32 = 3_660;
/// Missing days that a warning names.
const DAYS_SHOWN: usize = 10;
/// The field of `--where` that compares with each tag.
const TAG: &str = "tag";
/// The field that the rules of the home read.
const PROJECT: &str = "project";
/// The day that a summary is of, as digests show it.
const DAY: &str = "day";
/// Fields that every summary has.
const FIELDS: [&str; 5] = [TAG, PROJECT, DAY, "stream", "title"];

/// The arguments of `select` that say which summaries are meant.
pub(super) struct SummaryQuery<'a> {
    /// The day, or the first and the last.
    pub days: [Option<&'a String>; 3],
    pub filters: &'a [String],
    pub limit: Option<u64>,
    pub group_by: Option<&'a str>,
    pub all_versions: bool,
    /// What the pack is for, in words.
    pub objective: Option<&'a str>,
    pub name: String,
    pub out: Option<PathBuf>,
}

impl SummaryQuery<'_> {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        run(self, context)
    }
}

/// The summaries that fit, and what was left out.
#[derive(Default)]
struct Chosen {
    items: Vec<BusSummary>,
    /// Summaries that fit the days and filters.
    candidates: u64,
    private: u64,
    replaced: u64,
    /// Days of the range that are not published, whatever the filters.
    missing: Vec<String>,
    /// Days of the range that are published without a summary.
    empty: Vec<String>,
    /// Days of the range whose published summaries are all of texts of other days.
    of_others: Vec<String>,
}

fn run(args: &SummaryQuery<'_>, context: &Context) -> Result<Exit, Failure> {
    let root = context.home.join(&load_config(context)?.bus_home);
    let fields = Fields {
        rules: super::registry::selectors(context)?.rules(),
        zone: load_config(context)?.timezone,
    };
    let chosen = choose(args, context, &root, &fields)?;
    check_name(&args.name)?;
    let manifest = manifest(args, context, &chosen, &fields);
    let relative = format!("selection_manifests/{}.json", args.name);
    let path = args.out.clone().unwrap_or_else(|| root.join(&relative));
    write(context, &path, &manifest)?;
    report(context, &path, &manifest, &chosen);
    Ok(Exit::Done)
}

/// How the fields of a summary are read.
struct Fields {
    rules: ProjectRules,
    zone: Tz,
}

impl Fields {
    /// A field of a summary. Its project is that of the digests, by the rules of the home.
    fn of(&self, item: &BusSummary, field: &str) -> Option<String> {
        match field {
            PROJECT => self.rules.project(&item.meta).map(|(project, _)| project),
            DAY => Some(item.day_of_source(self.zone).to_string()),
            field => item.field(field),
        }
    }

    fn has(&self, item: &BusSummary, field: &str, value: &str) -> bool {
        match field {
            TAG => item.tags.iter().any(|tag| places::folded(tag) == places::folded(value)),
            field => {
                let own = self.of(item, field);
                own.is_some_and(|own| one_spelling(&own) == one_spelling(value))
            }
        }
    }
}

/// Refuses a field that neither the program nor any summary knows: it is a typing error.
fn check_fields(
    args: &SummaryQuery<'_>,
    filters: &[(&str, &str)],
    seen: &BTreeSet<String>,
) -> Result<(), Failure> {
    let known: BTreeSet<&str> =
        FIELDS.into_iter().chain(META_NAMES).chain(seen.iter().map(String::as_str)).collect();
    let named = filters.iter().map(|(field, _)| ("--where", *field));
    let named = named.chain(args.group_by.map(|field| ("--group-by", field)));
    for (option, field) in named {
        // A summary has many tags, so it has no group by them.
        let fits = |name: &&str| option == "--where" || *name != TAG;
        if !known.iter().filter(|name| fits(name)).any(|name| *name == field) {
            let known: Vec<&str> = known.iter().copied().filter(fits).collect();
            return Err(Failure::new(Exit::Usage, format!("{option}: there is no field {field}"))
                .hint(format!("the fields are {}", known.join(", "))));
        }
    }
    Ok(())
}

/// The summaries in the order of their time. Too many, and none, are errors.
fn choose(
    args: &SummaryQuery<'_>,
    context: &Context,
    root: &Path,
    fields: &Fields,
) -> Result<Chosen, Failure> {
    let (first, last) = days(args)?;
    let filters = filters(args)?;
    let today = context.machine.clock.now().day_in(fields.zone);
    let known = last.min(today);
    if known.days() - first.days() >= DAYS_MAX {
        let what = format!("{first} to {known} are more than {DAYS_MAX} days");
        return Err(Failure::new(Exit::Usage, what).hint("choose a later --from"));
    }
    let cannot = |error| Failure::new(Exit::Input, "cannot select summaries").because(&error);
    let (mut chosen, mut days, mut filed) = (Chosen::default(), BTreeSet::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    summary_items::each(root, &|_| true, &mut |item| {
        let names = item.meta.iter().filter(|(name, value)| {
            !value.is_object() && !value.is_array() && !seen.contains(*name)
        });
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        seen.extend(names);
        let day = item.day_of_source(fields.zone);
        filed.extend(item.filed());
        if day < first || day > last {
            return;
        }
        days.insert(day);
        if !filters.iter().all(|(field, value)| fields.has(&item, field, value)) {
            return;
        }
        chosen.candidates += 1;
        match item.publish {
            Some(false) => chosen.private += 1,
            _ if item.is_replaced && !args.all_versions => chosen.replaced += 1,
            _ => chosen.items.push(item),
        }
    })
    .map_err(cannot)?;
    check_fields(args, &filters, &seen)?;
    let published = summary_items::published_days(root).map_err(cannot)?;
    let all = (first.days()..=known.days()).filter_map(Day::of_days);
    for day in all.filter(|day| !days.contains(day)) {
        let list = match (published.contains(&day), filed.contains(&day)) {
            (false, _) => &mut chosen.missing,
            (true, false) => &mut chosen.empty,
            (true, true) => &mut chosen.of_others,
        };
        list.push(day.to_string());
    }
    let (limit, count) = (args.limit.unwrap_or(LIMIT), chosen.items.len());
    if count as u64 > limit {
        let what = format!("{count} summaries match, but a selection has at most {limit}");
        return Err(Failure::new(Exit::Input, what)
            .hint("choose fewer days, add --where FIELD=VALUE, or raise --limit"));
    }
    if count == 0 {
        let what = match (gaps(&chosen).collect::<Vec<_>>().as_slice(), chosen.candidates) {
            ([], 0) => "no published summary matches the selection".to_owned(),
            (gaps, 0) => format!("no summary matches; {}", gaps.join("; ")),
            (_, candidates) => {
                format!("all {candidates} matching summaries are marked publish: false")
            }
        };
        return Err(Failure::new(Exit::Input, what)
            .hint("`summarizer status` counts the summaries of the home; check days and --where"));
    }
    chosen.items.sort_by(|a, b| (a.at_ms, &a.summary_id).cmp(&(b.at_ms, &b.summary_id)));
    Ok(chosen)
}

fn manifest(args: &SummaryQuery<'_>, context: &Context, chosen: &Chosen, fields: &Fields) -> Value {
    let items: Vec<Value> =
        chosen.items.iter().map(|item| listed(item, args.group_by, fields)).collect();
    let selection = json!({"bus": "summary_bus", "items": items, "ordering": "by_time"});
    let (private, replaced) = (chosen.private, chosen.replaced);
    let reasons: BTreeMap<&str, u64> = [("private", private), ("replaced", replaced)]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    let mut manifest = json!({
        "schema_version": "selection_manifest.v1",
        "selection_id": args.name,
        "created_at": context.machine.clock.now().to_string(),
        "created_by": {
            "repo": "summarizer", "component": "select", "version": env!("CARGO_PKG_VERSION"),
        },
        "selection": selection,
        "selection_hash": jcs_hash(&selection).prefixed(),
        "counts": {
            "candidates": chosen.candidates, "selected": items.len(), "dropped": private + replaced,
        },
        "drop_reasons": reasons,
    });
    if let Some(objective) = args.objective.map(str::trim).filter(|words| !words.is_empty()) {
        manifest["notes"] = objective.into();
    }
    if !chosen.missing.is_empty() {
        manifest["missing_days"] = json!(chosen.missing);
    }
    manifest
}

fn report(context: &Context, path: &Path, manifest: &Value, chosen: &Chosen) {
    let Chosen { private, replaced, missing, empty, of_others, .. } = chosen;
    let (shown, count) = (path.display().to_string(), chosen.items.len());
    let ui = &context.ui;
    if ui.json {
        return ui.json(&json!({
            "path": shown, "selection_hash": manifest["selection_hash"], "items": count,
            "missing_days": missing, "empty_days": empty, "days_of_other_texts": of_others,
        }));
    }
    ui.out(format!("{shown} {}", manifest["selection_hash"].as_str().unwrap_or_default()));
    ui.talk(format!("{count} selected"));
    for gap in gaps(chosen) {
        ui.talk(format!("{} {gap}", super::ui::yellow("warning:")));
    }
    if *private > 0 {
        ui.talk(format!("{private} left out: marked publish: false"));
    }
    if *replaced > 0 {
        let what = "a newer one of the same source took their place (--all-versions keeps them)";
        ui.talk(format!("{replaced} left out: {what}"));
    }
    ui.talk(format!("next: summarizer pack build --from-selection {shown}"));
}

/// The days of the range that give nothing, and why.
fn gaps(chosen: &Chosen) -> impl Iterator<Item = String> {
    let gaps = [
        (&chosen.missing, "not published"),
        (&chosen.empty, "published without a summary"),
        (&chosen.of_others, "published with summaries of texts of other days only"),
    ];
    let gaps = gaps.into_iter().filter(|(days, _)| !days.is_empty());
    gaps.map(|(days, what)| day_words(days, what))
}

fn day_words(days: &[String], what: &str) -> String {
    let more = if days.len() > DAYS_SHOWN { ", …" } else { "" };
    let are = if days.len() == 1 { "day is" } else { "days are" };
    let shown = days[..days.len().min(DAYS_SHOWN)].join(", ");
    format!("{} {are} {what}: {shown}{more}", days.len())
}

fn listed(item: &BusSummary, group_by: Option<&str>, fields: &Fields) -> Value {
    let mut listed = Map::new();
    listed.insert("id".to_owned(), item.summary_id.clone().into());
    listed.insert("day".to_owned(), item.day.clone().into());
    if let Some(group) = group_by.and_then(|field| fields.of(item, field)) {
        listed.insert("group".to_owned(), one_spelling(&group).into());
    }
    Value::Object(listed)
}

/// The first and the last day.
fn days(args: &SummaryQuery<'_>) -> Result<(Day, Day), Failure> {
    let day = |text: &String| {
        text.parse::<Day>().map_err(|_| {
            Failure::new(Exit::Usage, format!("`{text}` is not a day"))
                .hint("write it as 2026-02-10")
        })
    };
    let (first, last) = match args.days {
        [Some(one), ..] => (day(one)?, day(one)?),
        [None, Some(from), Some(to)] => (day(from)?, day(to)?),
        _ => {
            return Err(
                Failure::new(Exit::Usage, "no day is named").hint("give --day, or --from and --to")
            );
        }
    };
    match first > last {
        true => Err(Failure::new(Exit::Usage, format!("{first} to {last} is not a range of days"))),
        false => Ok((first, last)),
    }
}

fn filters<'a>(args: &SummaryQuery<'a>) -> Result<Vec<(&'a str, &'a str)>, Failure> {
    let pairs = args.filters.iter().map(|filter| {
        let bad = || Failure::new(Exit::Usage, format!("`{filter}` is no FIELD=VALUE"));
        filter.split_once('=').ok_or_else(bad)
    });
    pairs.collect()
}
