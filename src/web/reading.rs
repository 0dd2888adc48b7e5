//! Digests with their memos, and snapshots of agent runs with their narratives, for the page. A file
//! is read only by checked names that cannot leave its folder, and only up to a limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Shown;
use super::http::{HttpFailure, Request};
use crate::bus::digests::is_private;
use crate::contract::places;

/// Rows of a page.
const ROWS_MAX: u64 = 100;
/// Summaries of a bag that are named.
const SUMMARIES_MAX: usize = 200;
/// Bytes of one document that is shown.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the registry of digests.
const REGISTRY_BYTES_MAX: u64 = 64 << 20;
/// Runs that are looked at.
const RUNS_MAX: usize = 20_000;

/// Whether a name is one plain path component: not hidden, no separator, no `..`.
fn is_plain(name: &str) -> bool {
    let known = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '+' | '@');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(known)
}

fn missing() -> HttpFailure {
    (404, "there is no such document".to_owned())
}

/// The bytes of a file below a folder. A link inside must not lead out either.
fn read(root: &Path, path: &str, bytes_max: u64) -> Result<Vec<u8>, HttpFailure> {
    if !path.split('/').all(is_plain) {
        return Err(missing());
    }
    let real = root.join(path).canonicalize().map_err(|_| missing())?;
    let inside = root.canonicalize().is_ok_and(|root| real.starts_with(root));
    let facts = fs::metadata(&real).map_err(|_| missing())?;
    if !inside || !facts.is_file() {
        return Err(missing());
    }
    if facts.len() > bytes_max {
        return Err((413, format!("it has {} bytes; read the file itself", facts.len())));
    }
    fs::read(&real).map_err(|_| missing())
}

fn read_json(root: &Path, path: &str) -> Result<Value, HttpFailure> {
    let bytes = read(root, path, DOCUMENT_BYTES_MAX)?;
    serde_json::from_slice(&bytes).map_err(|_| (503, format!("{path} does not read as JSON")))
}

fn read_text(root: &Path, path: &str) -> Result<String, HttpFailure> {
    Ok(String::from_utf8_lossy(&read(root, path, DOCUMENT_BYTES_MAX)?).into_owned())
}

/// Which rows of a list.
fn page(request: &Request) -> (usize, usize) {
    let limit = request.number("limit").map_or(40, |limit| limit.clamp(1, ROWS_MAX));
    (request.number("offset").unwrap_or(0) as usize, limit as usize)
}

/// The registry of digests; none before the first build.
fn registry(buses: &Path) -> Result<Option<Value>, HttpFailure> {
    match read(&buses.join("index"), "digest_registry.json", REGISTRY_BYTES_MAX) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|_| (503, "buses/index/digest_registry.json does not read".to_owned())),
        Err((404, _)) => Ok(None),
        Err(failed) => Err(failed),
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// A page of bags, the newest window first.
pub(super) fn bags(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let (offset, limit) = page(request);
    let Some(mut registry) = registry(&shown.buses)? else {
        return Ok(json!({"bags": [], "total": 0, "all": 0, "types": {}}));
    };
    let updated_at = registry["updated_at"].take();
    let Value::Array(entries) = registry["entries"].take() else {
        return Err((503, "buses/index/digest_registry.json has no entries".to_owned()));
    };
    let all = entries.len();
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &entries {
        *types.entry(text(entry, "bag_type").to_owned()).or_default() += 1;
    }
    let wanted_type = request.parameter("type");
    let search = request.parameter("q").map(places::folded);
    let mut entries: Vec<Value> = entries
        .into_iter()
        .filter(|entry| wanted_type.is_none_or(|wanted| text(entry, "bag_type") == wanted))
        .filter(|entry| {
            search.as_deref().is_none_or(|search| {
                ["selector_id", "group", "window_label", "bag_id"]
                    .iter()
                    .any(|name| places::folded(text(entry, name)).contains(search))
            })
        })
        .collect();
    // A window without an end is the newest, so it comes first.
    let place = |entry: &Value| {
        let end = entry["end_day"].as_str().unwrap_or("9999").to_owned();
        (end, text(entry, "created_at").to_owned())
    };
    entries.sort_by(|a, b| {
        place(b).cmp(&place(a)).then_with(|| text(a, "bag_id").cmp(text(b, "bag_id")))
    });
    let total = entries.len();
    let rows: Vec<Value> =
        entries.iter().skip(offset).take(limit).map(|entry| row(&shown.buses, entry)).collect();
    Ok(json!({
        "bags": rows, "total": total, "all": all, "types": types, "updated_at": updated_at,
    }))
}

/// An entry with what its bag says of itself; a bag that does not read is named all the same.
fn row(buses: &Path, entry: &Value) -> Value {
    let bag = read_json(buses, &format!("{}/meta/bag.json", text(entry, "path")));
    let (bag, problem) = match bag {
        Ok(bag) => (bag, None),
        Err((_, why)) => (Value::Null, Some(why)),
    };
    json!({
        "bag_id": entry["bag_id"], "bag_type": entry["bag_type"], "title": bag["title"],
        "window": entry["window_label"], "start_day": entry["start_day"],
        "end_day": entry["end_day"], "selector_id": entry["selector_id"], "group": entry["group"],
        "items": bag["counts"]["selected"], "memos": entry["published_memos"],
        "created_at": entry["created_at"], "problem": problem,
    })
}

/// One bag: what it is, what is in it, and one of its memos.
pub(super) fn bag(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let id = request.parameter("id").ok_or((400, "an id is wanted".to_owned()))?;
    let registry = registry(&shown.buses)?.unwrap_or_default();
    let entries = registry["entries"].as_array();
    let entry = entries.into_iter().flatten().find(|entry| text(entry, "bag_id") == id);
    let path = text(entry.ok_or_else(missing)?, "path").to_owned();
    let bag = read_json(&shown.buses, &format!("{path}/meta/bag.json"))?;
    let trace = read_json(&shown.buses, &format!("{path}/meta/trace.json"))?;
    let index = read_json(&shown.buses, &format!("{path}/memo/index.json"))?;
    let memos: Vec<&Value> = index["memos"].as_array().into_iter().flatten().collect();
    let wanted = request.parameter("memo");
    let memo = match wanted {
        Some(slug) => memos.iter().find(|memo| text(memo, "memo_slug") == slug),
        None => memos.first(),
    };
    let shown_memo = match memo {
        Some(memo) => {
            let words = read_text(&shown.buses, &format!("{path}/{}", text(memo, "path")))?;
            json!({
                "slug": memo["memo_slug"], "title": memo["title"], "private": is_private(&words),
                "text": words,
            })
        }
        None if wanted.is_some() => return Err(missing()),
        None => Value::Null,
    };
    let names: Vec<Value> = memos
        .iter()
        .map(|memo| json!({"slug": memo["memo_slug"], "title": memo["title"]}))
        .collect();
    let ids = trace["upstream"]["summary_ids"].as_array().cloned().unwrap_or_default();
    let named: Vec<&Value> = ids.iter().take(SUMMARIES_MAX).collect();
    Ok(json!({
        "bag_id": id, "bag_type": bag["bag_type"], "title": bag["title"], "window": bag["window"],
        "selector": bag["selector"], "group": bag["group"], "tags": bag["tags"],
        "counts": bag["counts"], "created_at": bag["created_at"], "path": path,
        "coverage": trace["coverage"], "description": trace["rules"]["selector"]["description"],
        "summaries": named, "summaries_total": ids.len(), "memos": names, "memo": shown_memo,
    }))
}

/// A page of agent runs with snapshots, the most recently written first.
pub(super) fn runs(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let (offset, limit) = page(request);
    let mut found: Vec<(u64, String)> = Vec::new();
    for entry in fs::read_dir(&shown.snapshots).into_iter().flatten().flatten().take(RUNS_MAX) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(facts) = entry.metadata() else { continue };
        if is_plain(&name) && facts.is_dir() {
            found.push((changed(&facts), name));
        }
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = found.len();
    let rows: Vec<Value> = found
        .into_iter()
        .skip(offset)
        .take(limit)
        .map(|(at, run_id)| {
            let sequences = sequences(&shown.snapshots.join(&run_id));
            let newest = sequences.last().map(|newest| format!("{run_id}/{newest}.snapshot.json"));
            let newest = newest.and_then(|path| read_json(&shown.snapshots, &path).ok());
            let newest = newest.unwrap_or_default();
            json!({
                "run_id": run_id, "snapshots": sequences.len(), "changed": at,
                "objective": newest["objective"], "status": newest["validation"]["status"],
            })
        })
        .collect();
    Ok(json!({"runs": rows, "total": total}))
}

fn changed(facts: &fs::Metadata) -> u64 {
    let modified = facts.modified().ok();
    let since = modified.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// Which snapshots a run has, in order.
fn sequences(dir: &Path) -> Vec<u64> {
    let mut found: Vec<u64> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(".snapshot.json")?.parse().ok()
        })
        .collect();
    found.sort_unstable();
    found
}

/// One snapshot of a run: its figures and its narrative.
pub(super) fn snapshot(request: &Request, shown: &Shown) -> Result<Value, HttpFailure> {
    let run_id = request.parameter("run").ok_or((400, "a run is wanted".to_owned()))?;
    if !is_plain(run_id) {
        return Err(missing());
    }
    let dir: PathBuf = shown.snapshots.join(run_id);
    let all = sequences(&dir);
    let sequence = request.number("sequence").or(all.last().copied()).ok_or_else(missing)?;
    let place = all.iter().position(|one| *one == sequence).ok_or_else(missing)?;
    let root = &shown.snapshots;
    let snapshot = read_json(root, &format!("{run_id}/{sequence}.snapshot.json"))?;
    let (state, cover) = (&snapshot["state"], &snapshot["state"]["source_coverage"]);
    let many = |value: &Value| value.as_array().map_or(0, Vec::len);
    let claims = state["claims"].as_array();
    let verified = claims.into_iter().flatten().filter(|claim| claim["status"] == "verified");
    Ok(json!({
        "run_id": run_id, "sequence": sequence, "snapshots": all.len(),
        "before": place.checked_sub(1).map(|before| all[before]), "after": all.get(place + 1),
        "snapshot_id": snapshot["snapshot_id"], "created_at": snapshot["created_at"],
        "objective": snapshot["objective"], "counts": snapshot["counts"],
        "claims": many(&state["claims"]), "verified": verified.count(),
        "conflicts": many(&state["conflicts"]), "open_questions": many(&state["open_questions"]),
        "failures": many(&state["failures"]), "sources": many(&cover["source_ids_seen"]),
        "validation": snapshot["validation"],
        "narrative": read_text(root, &format!("{run_id}/{sequence}.md"))?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Disk;
    use crate::os::real::HostDisk;

    #[test]
    fn hidden_names_and_names_that_leave_the_folder_are_refused() {
        assert!(is_plain("memo.md") && is_plain("2026-W07_W08"));
        for name in ["", ".", "..", ".git", "a/b", "a\\b", "a\0b", "a b"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }

    #[test]
    fn no_file_outside_the_folder_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("inside");
        fs::create_dir_all(&root).unwrap();
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&root.join("a.md"), b"read", 0o640).unwrap();
        disk.replace(&dir.path().join("secret.md"), b"secret", 0o640).unwrap();
        assert_eq!(read_text(&root, "a.md").unwrap(), "read");
        for path in ["../secret.md", "/etc/passwd", "b.md", "."] {
            assert_eq!(read(&root, path, 10).unwrap_err().0, 404, "{path}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(dir.path().join("secret.md"), root.join("link.md")).unwrap();
            assert_eq!(read(&root, "link.md", 10).unwrap_err().0, 404);
        }
        assert_eq!(read(&root, "a.md", 3).unwrap_err().0, 413);
    }
}
