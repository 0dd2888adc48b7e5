//! The page's questions, as JSON. Every list is bounded.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{HttpFailure, Request, Response};
use super::{Shown, reading};
use crate::bus::SummaryBus;
use crate::contract::time::Day;
use crate::contract::vocabulary::Stream;
use crate::control::question::{Answer, Question};
use crate::export::summary_bus::PartitionKey;
use crate::os::dir::DirHandle;

/// Days of streams in a list.
const DAYS_MAX: usize = 200;
/// Rows of a page.
const ROWS: u64 = 50;
/// Rows of the longest page that may be asked for.
const ROWS_MAX: u64 = 200;
/// Requests that one step of a search reads.
const SEARCH_ROWS: usize = 1000;
/// How long one answer searches. The next question continues where it ended.
const SEARCH_FOR: Duration = Duration::from_millis(300);
/// Characters of a summary in a list.
const HEAD_CHARS: usize = 280;
/// Bytes of a published line that is shown.
const LINE_BYTES_MAX: u64 = 8 << 20;
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
        "request" => ask_one(request, shown, |id| Question::Show { id }),
        "explain" => ask_one(request, shown, |id| Question::Explain {
            id,
            verify: false,
            prompts: false,
            texts: true,
        }),
        "quarantine" => quarantine(request, shown),
        "days" => days(request, shown),
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

fn ask(shown: &Shown, question: Question) -> Result<Value, HttpFailure> {
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
) -> Result<Value, HttpFailure> {
    let id = request.parameter("id").ok_or((400, "an id is wanted".to_owned()))?;
    ask(shown, question(id.to_owned()))
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
fn spend(shown: &Shown) -> Result<Value, HttpFailure> {
    let status = ask(shown, Question::Status)?;
    let mut spend = shown.tally.spend().to_json();
    spend["today"] = status["today"].clone();
    spend["limits"] = status["limits"].clone();
    Ok(spend)
}

/// A page of requests; with `q`, of those whose id, flow, repo or reason contain it. It may hold
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
    ["request_id", "flow_id", "repo", "reason_code"]
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
        // A day is told with all its streams or not at all.
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

/// A page of a day's summaries. Only that page is read: a day may have more than fits into memory.
/// `next` is a place in one version of the file, named by its hash.
fn summaries(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let bad = || (400, "a stream and a day are wanted".to_owned());
    let stream = request.parameter("stream").and_then(Stream::parse).ok_or_else(bad)?;
    let day: Day = request.parameter("day").and_then(|day| day.parse().ok()).ok_or_else(bad)?;
    let limit = request.number("limit").unwrap_or(ROWS).clamp(1, ROWS_MAX) as usize;
    let key = PartitionKey { stream, day };
    let missing = || (404, format!("nothing is published for {stream} on {day}"));
    // One descriptor for both, so that they are of one publication.
    let summaries = DirHandle::open(&shown.buses.join("summaries")).map_err(|_| missing())?;
    let manifest = manifest(&summaries, key).ok_or_else(missing)?;
    let version = manifest["integrity"]["sha256"].as_str().unwrap_or_default().to_owned();
    let from = request.number("at").unwrap_or(0);
    if from > 0 && request.parameter("of") != Some(version.as_str()) {
        return Err((409, "the day was published again meanwhile; open it again".to_owned()));
    }
    let mut file = summaries.open_file(&key.data_file()).map_err(|_| missing())?;
    let unread = |error: std::io::Error| (503, format!("{}: {error}", key.data_file()));
    let length = file.metadata().map_err(unread)?.len();
    file.seek(SeekFrom::Start(from)).map_err(unread)?;
    let (rows, at) = read_rows(file, from, limit).map_err(|why| (503, why))?;
    let next = (at < length).then_some(at);
    Ok(json!({
        "items": rows, "counts": manifest["counts"], "of": version, "next": next,
    }))
}

/// So many lines of a file from a place on, and where they end.
fn read_rows(file: File, from: u64, limit: usize) -> Result<(Vec<Value>, u64), String> {
    let mut reader = BufReader::new(file);
    let (mut rows, mut at, mut line) = (Vec::new(), from, Vec::new());
    while rows.len() < limit {
        line.clear();
        let count = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        match count.map_err(|error| error.to_string())? as u64 {
            0 => break,
            count => at += count,
        }
        let value: Value = serde_json::from_slice(&line)
            .map_err(|error| format!("the line at byte {}: {error}", at - line.len() as u64))?;
        rows.push(summary_row(&value));
    }
    Ok((rows, at))
}

fn summary_row(value: &Value) -> Value {
    let text = value["outputs"]["summary_text"].as_str().unwrap_or_default();
    json!({
        "summary_id": value["summary_id"], "title": value["title"], "head": head_of(text),
        "ts_abs": value["ts_abs"], "model": value["model"]["model_name"],
        "provider": value["model"]["provider"],
        "model_generated": value["outputs"]["model_generated"],
        "flow": value["prompt"]["template_id"], "kind": value["meta"]["summary_kind"],
    })
}

/// The beginning of a text; where it is cut, between words, and with a sign.
fn head_of(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(HEAD_CHARS) else { return text.to_owned() };
    let head = &text[..end];
    let head = head.rsplit_once(char::is_whitespace).map_or(head, |(head, _)| head);
    format!("{}…", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_words() {
        assert_eq!(head_of("Short. Café."), "Short. Café.");
        let long = "é words ".repeat(100);
        let head = head_of(&long);
        assert!(head.ends_with(" words…") || head.ends_with(" é…"), "{head}");
        assert!(head.chars().count() <= HEAD_CHARS + 1);
        assert_eq!(head_of(&"x".repeat(1000)).chars().count(), HEAD_CHARS + 1);
    }

    #[test]
    fn a_page_of_lines_ends_where_the_next_begins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines");
        let line = |n: usize| format!("{{\"summary_id\":\"sum_{n}\"}}\n");
        let text: String = (0..5).map(line).collect();
        let disk: &dyn crate::os::Disk = &crate::os::real::HostDisk;
        disk.replace(&path, text.as_bytes(), 0o640).unwrap();
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            let mut file = File::open(&path).unwrap();
            file.seek(SeekFrom::Start(at)).unwrap();
            let (rows, end) = read_rows(file, at, 2).unwrap();
            assert!(rows.len() <= 2);
            seen.extend(rows.iter().map(|row| row["summary_id"].as_str().unwrap().to_owned()));
            at = end;
            if at == text.len() as u64 {
                break;
            }
        }
        assert_eq!(seen, ["sum_0", "sum_1", "sum_2", "sum_3", "sum_4"]);
        disk.replace(&path, b"{\"cut", 0o640).unwrap();
        assert!(read_rows(File::open(&path).unwrap(), 0, 2).unwrap_err().contains("at byte 0"));
    }
}
