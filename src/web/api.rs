//! The page's questions, as JSON. Every list is bounded.

use std::fs;

use serde_json::{Value, json};

use super::http::{Request, Response};
use super::{Shown, reading};
use crate::bus::SummaryBus;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::service::control::{Answer, Question};

/// Rows of a list.
const ROWS_MAX: usize = 200;
/// Pages looked through for a search that matches little.
const PAGES_MAX: usize = 20;
/// Characters of a summary in a list.
const HEAD_CHARS: usize = 280;

/// An answer that is not there, and why.
pub(super) type Failed = (u16, String);

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

/// What the latest days cost, beside what one may.
fn spend(shown: &Shown) -> Result<Value, Failed> {
    let status = ask(shown, Question::Status)?;
    let mut spend = shown.tally.spend().to_json();
    spend["today"] = status["today"].clone();
    spend["limits"] = status["limits"].clone();
    Ok(spend)
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
