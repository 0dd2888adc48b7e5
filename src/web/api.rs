//! The page's questions, as JSON. Every list is bounded.

use std::io::{BufReader, Read as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{HttpFailure, Request, Response};
use super::{Shown, newest, reading};
use crate::bus::SummaryBus;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::control::question::{Answer, Question};
use crate::control::requests::NAMED_ALL;
use crate::export::summary_bus::PartitionKey;
use crate::os::dir::DirHandle;

/// Days of streams in a list.
const DAYS_MAX: usize = 200;
/// Rows of a page.
const ROWS: u64 = 50;
/// Rows of the longest page that may be asked for.
const ROWS_MAX: u64 = 200;
/// Requests that one step of a search reads: the most of which all have the names of their sources.
const SEARCH_ROWS: usize = NAMED_ALL;
/// How long one answer searches. The next question continues where it ended.
const SEARCH_FOR: Duration = Duration::from_millis(300);
/// Bytes of a manifest.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// Characters of a quarantined line in a list, and errors of it.
const RAW_CHARS: usize = 2000;
const ERRORS_MAX: usize = 8;

/// Answers `/api/NAME`.
pub(super) fn answer(name: &str, request: &Request, shown: &Shown) -> Response {
    let answered = match name {
        "status" => status(shown),
        "history" => Ok(json!({"points": shown.tally.points(request.parameter("since"))})),
        "requests" => requests(request, shown),
        "request" => one_request(request, shown),
        "explain" => explain(request, shown),
        "quarantine" => quarantine(request, shown),
        "newest" => newest::newest(request, shown),
        "projects" => newest::projects(request, shown),
        "days" => days(request, shown),
        "spend" => spend(shown),
        "bags" => reading::bags(request, shown),
        "bag" => reading::bag(request, shown),
        "runs" => reading::runs(request, shown),
        "snapshot" => reading::snapshot(request, shown),
        _ => Err((404, "there is nothing here".to_owned())),
    };
    match answered {
        Ok(value) => Response::json(200, &value),
        Err((status, why)) => Response::json(status, &json!({"error": why})),
    }
}

pub(super) fn ask(shown: &Shown, question: Question) -> Result<Value, HttpFailure> {
    match shown.asker.ask(question) {
        Answer::Ok(value) => Ok(value),
        Answer::NotFound(what) => Err((404, what)),
        Answer::Refused(why) => Err((400, why)),
        Answer::Starting(how_far) => Err((503, format!("starting: {how_far}"))),
    }
}

/// Everything about one request. Whoever looks at one that has a summary wants to read it next.
fn one_request(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let found = ask_one(request, shown, |id| Question::Show { id })?;
    if found["state"] == "completed" {
        ask(shown, Question::Publish)?;
    }
    Ok(found)
}

fn ask_one(
    request: &Request,
    shown: &Shown,
    question: impl FnOnce(String) -> Question,
) -> Result<Value, HttpFailure> {
    let id = request.parameter("id").ok_or((400, "an id is wanted".to_owned()))?;
    ask(shown, question(id.to_owned()))
}

/// A summary with its sentences and their sources, and what is published of it.
fn explain(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let question = |id| Question::Explain { id, verify: false, prompts: false, texts: true };
    let mut explained = ask_one(request, shown, question)?;
    let manifest = explained["published"]["manifest_path"].as_str().unwrap_or_default();
    let key = PartitionKey::of_manifest(manifest.rsplit('/').next().unwrap_or_default());
    let id = explained["summary_id"].as_str().unwrap_or_default();
    let published = key.and_then(|key| newest::published(shown, key.stream, key.day, id));
    explained["shown"] = published.unwrap_or_default();
    Ok(explained)
}

fn status(shown: &Shown) -> Result<Value, HttpFailure> {
    let mut status = ask(shown, Question::Status)?;
    let counts = shown.tally.counts();
    let providers: Vec<Value> = counts
        .providers
        .iter()
        .map(|(name, provider)| {
            let failure = provider.last_failure.as_ref();
            let last_item = provider.last_item;
            // A provider whose last call failed is unwell until it answers again.
            let well = match (failure, last_item) {
                (Some((failed, _)), Some(item)) => Some(item > *failed),
                (Some(_), None) => Some(false),
                (None, Some(_)) => Some(true),
                (None, None) => None,
            };
            json!({
                "name": name, "model": provider.model, "configured": shown.tally.is_configured(name),
                "well": well, "items": provider.items, "failures": provider.failures,
                "tokens_in": provider.tokens_in, "tokens_out": provider.tokens_out,
                "cost": provider.cost(), "last_item": last_item.map(|at| at.to_string()),
                "last_failure": failure.map(|(at, why)| json!({"at": at.to_string(), "why": why})),
            })
        })
        .collect();
    status["providers"] = providers.into();
    status["home"] = shown.home.display().to_string().into();
    status["version"] = env!("CARGO_PKG_VERSION").into();
    Ok(status)
}

/// What the latest days cost, beside what one may.
fn spend(shown: &Shown) -> Result<Value, HttpFailure> {
    let status = ask(shown, Question::Status)?;
    let mut spend = shown.tally.spend().to_json();
    spend["today"] = status["today"].clone();
    spend["limits"] = status["limits"].clone();
    Ok(spend)
}

/// A page of requests; with `q`, of those whose id, source, flow, repo or reason contain it. It may hold
/// fewer rows than requested, even none, although more exist: `next` says where to continue.
fn requests(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let wanted = request.number("limit").unwrap_or(ROWS).clamp(1, ROWS_MAX) as usize;
    let search = request.parameter("q").map(str::to_lowercase);
    let until = Instant::now() + SEARCH_FOR;
    let mut before = request.number("before");
    let mut rows: Vec<Value> = Vec::new();
    let mut looked_at = 0;
    loop {
        let limit = if search.is_some() { SEARCH_ROWS } else { wanted - rows.len() };
        let page = ask(
            shown,
            Question::Requests {
                state: request.parameter("state").map(str::to_owned),
                flow: request.parameter("flow").map(str::to_owned),
                since_ms: None,
                before,
                limit: Some(limit),
                names: true,
            },
        )?;
        before = page["next"].as_u64();
        for row in page["requests"].as_array().into_iter().flatten() {
            looked_at += 1;
            if search.as_deref().is_none_or(|search| matches(row, search)) {
                rows.push(row.clone());
                if rows.len() == wanted {
                    let next = row["seq"].as_u64();
                    return Ok(json!({"requests": rows, "next": next, "looked_at": looked_at}));
                }
            }
        }
        if before.is_none() || Instant::now() >= until {
            return Ok(json!({"requests": rows, "next": before, "looked_at": looked_at}));
        }
    }
}

fn matches(row: &Value, search: &str) -> bool {
    ["request_id", "flow_id", "repo", "reason_code", "source", "input"]
        .iter()
        .any(|name| row[*name].as_str().is_some_and(|text| text.to_lowercase().contains(search)))
}

/// Quarantined lines, newest first, as much of each as a list has room for.
fn quarantine(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let limit = request.number("limit").unwrap_or(ROWS).clamp(1, ROWS_MAX) as usize;
    let before = request.number("before");
    let mut page = ask(shown, Question::QuarantineBack { before, limit: Some(limit) })?;
    for line in page["lines"].as_array_mut().into_iter().flatten() {
        for name in ["raw", "raw_base64", "raw_prefix"] {
            let Some(raw) = line[name].as_str() else { continue };
            if let Some((at, _)) = raw.char_indices().nth(RAW_CHARS) {
                line[name] = raw[..at].into();
                line["cut"] = true.into();
            }
        }
        let Some(errors) = line["errors"].as_array_mut() else { continue };
        let more = errors.len().saturating_sub(ERRORS_MAX) as u64;
        errors.truncate(ERRORS_MAX);
        line["errors_omitted"] = (line["errors_omitted"].as_u64().unwrap_or(0) + more).into();
    }
    Ok(page)
}

/// Days of each stream with their counts, newest first; `before` a day, those that came before it.
fn days(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let none = || json!({"days": [], "next": null});
    let before: Option<Day> = request.parameter("before").and_then(|day| day.parse().ok());
    let Ok(bus) = SummaryBus::open(&shown.buses) else { return Ok(none()) };
    let Ok(summaries) = DirHandle::open(&shown.buses.join("summaries")) else { return Ok(none()) };
    let mut keys: Vec<PartitionKey> = Vec::new();
    for stream in Stream::ALL {
        let days = bus.days(*stream).map_err(|error| (503, error.to_string()))?;
        let wanted = days.into_iter().filter(|day| before.is_none_or(|before| *day < before));
        keys.extend(wanted.map(|day| PartitionKey { stream: *stream, day }));
    }
    keys.sort_by_key(|key| (std::cmp::Reverse(key.day), key.stream.as_str()));
    let mut found = Vec::new();
    let mut last = None;
    for key in keys {
        // A day is shown with all its streams or not at all.
        if found.len() >= DAYS_MAX && last != Some(key.day) {
            return Ok(json!({"days": found, "next": last.map(|day: Day| day.to_string())}));
        }
        last = Some(key.day);
        let counts = manifest(&summaries, key).map(|manifest| manifest["counts"].clone());
        let Some(counts) = counts else { continue };
        if counts["eligible"].as_u64().unwrap_or(0) > 0 {
            let (stream, day) = (key.stream.as_str(), key.day.to_string());
            found.push(json!({"stream": stream, "day": day, "counts": counts}));
        }
    }
    Ok(json!({"days": found, "next": null}))
}

fn manifest(summaries: &DirHandle, key: PartitionKey) -> Option<Value> {
    let file = summaries.open_file(&key.manifest_file()).ok()?;
    serde_json::from_reader(BufReader::new(file.take(MANIFEST_BYTES_MAX))).ok()
}
