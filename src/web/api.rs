//! The page's questions, as JSON. Every list is bounded, and a file is only ever read by names that
//! cannot lead anywhere else.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Shown;
use super::http::{Request, Response};
use crate::bus::SummaryBus;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::service::control::{Answer, Question};

/// Rows of a list.
const ROWS_MAX: usize = 200;
/// Pages looked through for a search that matches little.
const PAGES_MAX: usize = 20;
/// Bytes of one document that is shown.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// Characters of a summary in a list.
const HEAD_CHARS: usize = 280;

/// An answer that is not there, and why.
type Failed = (u16, String);

/// Answers `/api/NAME`.
pub(super) fn answer(name: &str, request: &Request, shown: &Shown) -> Response {
    let answered = match name {
        "status" => status(shown),
        "history" => Ok(json!({"points": shown.tally.points()})),
        "requests" => requests(request, shown),
        "request" => ask_one(request, shown, |id| Question::Show { id }),
        "explain" => ask_one(request, shown, |id| Question::Explain {
            id,
            verify: false,
            prompts: false,
            texts: true,
        }),
        "quarantine" => quarantine(request, shown),
        "days" => days(shown),
        "summaries" => summaries(request, shown),
        "documents" => documents(request, shown),
        "document" => document(request, shown),
        _ => Err((404, "there is nothing here".to_owned())),
    };
    match answered {
        Ok(value) => Response::json(200, &value),
        Err((status, why)) => Response::json(status, &json!({"error": why})),
    }
}

fn ask(shown: &Shown, question: Question) -> Result<Value, Failed> {
    match shown.asker.ask(question) {
        Answer::Ok(value) => Ok(value),
        Answer::NotFound(what) => Err((404, what)),
        Answer::Refused(why) => Err((400, why)),
        Answer::Starting(how_far) => Err((503, format!("starting: {how_far}"))),
    }
}

fn ask_one(
    request: &Request,
    shown: &Shown,
    question: impl FnOnce(String) -> Question,
) -> Result<Value, Failed> {
    let id = request.parameter("id").ok_or((400, "an id is wanted".to_owned()))?;
    ask(shown, question(id.to_owned()))
}

fn status(shown: &Shown) -> Result<Value, Failed> {
    let mut status = ask(shown, Question::Status)?;
    let counts = shown.tally.counts();
    let providers: Vec<Value> = counts
        .providers
        .iter()
        .map(|(name, provider)| {
            let failure = provider.last_failure.as_ref();
            let last_item = provider.last_item;
            // Whoever failed last is unwell until it answers again.
            let well = match (failure, last_item) {
                (Some((failed, _)), Some(item)) => Some(item > *failed),
                (Some(_), None) => Some(false),
                (None, Some(_)) => Some(true),
                (None, None) => None,
            };
            json!({
                "name": name, "model": provider.model, "configured": provider.configured,
                "well": well, "items": provider.items, "failures": provider.failures,
                "tokens_in": provider.tokens_in, "tokens_out": provider.tokens_out,
                "cost": provider.cost, "last_item": last_item.map(|at| at.to_string()),
                "last_failure": failure.map(|(at, why)| json!({"at": at.to_string(), "why": why})),
            })
        })
        .collect();
    status["providers"] = providers.into();
    status["home"] = shown.home.display().to_string().into();
    status["version"] = env!("CARGO_PKG_VERSION").into();
    Ok(status)
}

/// A page of requests; with `q`, of those whose id, flow, repo or reason contain it.
fn requests(request: &Request, shown: &Shown) -> Result<Value, Failed> {
    let wanted = request.number("limit").map_or(50, |limit| limit.clamp(1, 200) as usize);
    let search = request.parameter("q").map(str::to_lowercase);
    let mut before = request.number("before");
    let mut rows: Vec<Value> = Vec::new();
    let mut looked_at = 0;
    for _ in 0..PAGES_MAX {
        let limit = if search.is_some() { 1000 } else { wanted };
        let page = ask(
            shown,
            Question::Requests {
                state: request.parameter("state").map(str::to_owned),
                flow: request.parameter("flow").map(str::to_owned),
                since_ms: None,
                before,
                limit: Some(limit),
            },
        )?;
        let found = page["requests"].as_array().cloned().unwrap_or_default();
        before = page["next"].as_u64();
        for row in found {
            looked_at += 1;
            if search.as_deref().is_none_or(|search| matches(&row, search)) {
                let seq = row["seq"].as_u64();
                rows.push(row);
                if rows.len() == wanted {
                    return Ok(json!({"requests": rows, "next": seq, "complete": true}));
                }
            }
        }
        if before.is_none() || search.is_none() {
            break;
        }
    }
    let complete = search.is_none() || before.is_none();
    Ok(json!({"requests": rows, "next": before, "complete": complete, "looked_at": looked_at}))
}

fn matches(row: &Value, search: &str) -> bool {
    ["request_id", "flow_id", "repo", "reason_code"]
        .iter()
        .any(|name| row[*name].as_str().is_some_and(|text| text.to_lowercase().contains(search)))
}

fn quarantine(request: &Request, shown: &Shown) -> Result<Value, Failed> {
    let after = request.number("after").unwrap_or(0);
    ask(shown, Question::Quarantine { after, limit: Some(ROWS_MAX) })
}

/// Days of each stream with their counts, newest first.
fn days(shown: &Shown) -> Result<Value, Failed> {
    let Ok(bus) = SummaryBus::open(&shown.buses) else { return Ok(json!({"days": []})) };
    let mut found = Vec::new();
    for stream in Stream::ALL {
        let mut days = bus.days(*stream).map_err(|error| (503, error.to_string()))?;
        days.reverse();
        for day in days.into_iter().take(ROWS_MAX) {
            let name = format!("summaries/manifest/{day}.{stream}.summary.manifest.json");
            let manifest = fs::read(shown.buses.join(name)).unwrap_or_default();
            let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
            let counts = &manifest["counts"];
            if counts["eligible"].as_u64().unwrap_or(0) > 0 {
                let (stream, day) = (stream.as_str(), day.to_string());
                found.push(json!({"stream": stream, "day": day, "counts": counts}));
            }
        }
    }
    found.sort_by(|a, b| b["day"].as_str().cmp(&a["day"].as_str()));
    found.truncate(ROWS_MAX);
    Ok(json!({"days": found}))
}

fn summaries(request: &Request, shown: &Shown) -> Result<Value, Failed> {
    let bad = || (400, "a stream and a day are wanted".to_owned());
    let stream = request.parameter("stream").and_then(Stream::parse).ok_or_else(bad)?;
    let day: Day = request.parameter("day").and_then(|day| day.parse().ok()).ok_or_else(bad)?;
    let partition = SummaryBus::open(&shown.buses)
        .and_then(|bus| bus.partition(stream, day))
        .map_err(|error| (404, error.to_string()))?;
    let mut rows = Vec::new();
    for item in partition.items().take(ROWS_MAX) {
        let item = item.map_err(|error| (503, error.to_string()))?;
        let value = &item.value;
        let head: String = item.summary_text().chars().take(HEAD_CHARS).collect();
        rows.push(json!({
            "summary_id": item.summary_id(), "title": value["title"], "head": head,
            "ts_abs": value["ts_abs"], "model": value["model"]["model_name"],
            "provider": value["model"]["provider"],
            "model_generated": value["outputs"]["model_generated"],
            "flow": value["prompt"]["template_id"], "kind": value["meta"]["summary_kind"],
        }));
    }
    Ok(json!({"items": rows, "counts": partition.manifest["counts"]}))
}

/// What kinds of documents there are to read, and where they lie.
fn folder(shown: &Shown, kind: &str) -> Result<PathBuf, Failed> {
    match kind {
        "digests" => Ok(shown.buses.join("digests")),
        "snapshots" => Ok(shown.snapshots.clone()),
        _ => Err((400, "there are digests and snapshots to read".to_owned())),
    }
}

/// Documents of a kind, newest first, by their path below its folder.
fn documents(request: &Request, shown: &Shown) -> Result<Value, Failed> {
    let root = folder(shown, request.parameter("kind").unwrap_or_default())?;
    let mut found = Vec::new();
    collect(&root, "", 0, &mut found);
    found.sort_by(|a: &(u64, Value), b| b.0.cmp(&a.0).then_with(|| text(&a.1).cmp(text(&b.1))));
    found.truncate(ROWS_MAX);
    let rows: Vec<Value> = found.into_iter().map(|(_, row)| row).collect();
    Ok(json!({"documents": rows}))
}

fn text(row: &Value) -> &str {
    row["path"].as_str().unwrap_or_default()
}

/// Markdown below a folder, a few levels deep.
fn collect(root: &Path, below: &str, depth: usize, found: &mut Vec<(u64, Value)>) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(facts) = entry.metadata() else { continue };
        if !is_plain(&name) || found.len() >= ROWS_MAX * 10 {
            continue;
        }
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if facts.is_dir() && depth < 5 {
            collect(root, &path, depth + 1, found);
        } else if facts.is_file() && path.ends_with(".md") {
            let since = std::time::UNIX_EPOCH;
            let modified = facts.modified().ok().and_then(|at| at.duration_since(since).ok());
            let seconds = modified.map_or(0, |at| at.as_secs());
            found.push((seconds, json!({"path": path, "bytes": facts.len(), "changed": seconds})));
        }
    }
}

/// A name that names itself: not hidden, no separator, nothing that climbs.
fn is_plain(name: &str) -> bool {
    let known = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '+' | '@');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(known)
}

fn document(request: &Request, shown: &Shown) -> Result<Value, Failed> {
    let missing = || (404, "there is no such document".to_owned());
    let root = folder(shown, request.parameter("kind").unwrap_or_default())?;
    let path = request.parameter("path").unwrap_or_default();
    if !path.ends_with(".md") || !path.split('/').all(is_plain) {
        return Err(missing());
    }
    // A link inside must not lead out either.
    let real = root.join(path).canonicalize().map_err(|_| missing())?;
    let inside = root.canonicalize().is_ok_and(|root| real.starts_with(root));
    let facts = fs::metadata(&real).map_err(|_| missing())?;
    if !inside || !facts.is_file() {
        return Err(missing());
    }
    if facts.len() > DOCUMENT_BYTES_MAX {
        return Err((413, format!("it has {} bytes; read the file itself", facts.len())));
    }
    let bytes = fs::read(&real).map_err(|_| missing())?;
    Ok(json!({"path": path, "text": String::from_utf8_lossy(&bytes)}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_climb_or_hide_are_none() {
        assert!(is_plain("memo.md") && is_plain("2026-W07_W08"));
        for name in ["", ".", "..", ".git", "a/b", "a\\b", "a\0b", "a b"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
