//! The pool of checked citations, `citations.jsonl` (`citation.v1`).
//!
//! Another program fetched the URLs and recorded the results. We need the id, the status and the
//! URL of a row. The lenient reading requires no more, because pools with ids like `cid_alpha` and
//! few members are in use. The strict reading requires that each row satisfies the schema and that
//! each id is the hash of its URL. In both readings ids and URLs are unique.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::finding::{Code, Findings, Severity};
use super::inline::is_cid;
use super::run_dir::{RelPath, RunDir, RunDirError};
use super::url;
use crate::contract::hash::sha256;
use crate::contract::vocabulary::spellings;

/// The scheme of the address of an item of the Summary Bus.
pub(crate) const SUMMARY_SCHEME: &str = "summary-bus:";
/// Most rows of a pool.
pub(crate) const ROWS_MAX: usize = 1_000_000;

spellings! {
    /// The result of checking a citation.
    CitationStatus {
        Valid "valid",
        /// The page exists behind a paywall.
        Paywalled "paywalled",
        /// The page does not exist.
        Invalid "invalid",
        /// The check could not reach the page.
        Blocked "blocked",
        /// The page has other content.
        Mismatch "mismatch",
    }
}

impl CitationStatus {
    /// True when a claim may rest on it.
    pub(crate) fn is_usable(self) -> bool {
        matches!(self, CitationStatus::Valid | CitationStatus::Paywalled)
    }
}

#[derive(Debug, Default)]
pub struct CitationPool {
    status: BTreeMap<Arc<str>, CitationStatus>,
    /// Keyed by half of the digest of the URL, because URLs may be long.
    by_url: HashMap<[u8; 16], Arc<str>>,
}

fn key(url: &str) -> [u8; 16] {
    sha256(url).head()
}

impl CitationPool {
    /// Adds a citation; false when its id or URL is already there.
    pub fn add(&mut self, cid: &str, status: CitationStatus, normalized_url: Option<&str>) -> bool {
        if self.status.contains_key(cid)
            || normalized_url.is_some_and(|url| self.by_url.contains_key(&key(url)))
        {
            return false;
        }
        let cid: Arc<str> = cid.into();
        if let Some(url) = normalized_url {
            self.by_url.insert(key(url), Arc::clone(&cid));
        }
        self.status.insert(cid, status);
        true
    }

    pub fn status(&self, cid: &str) -> Option<CitationStatus> {
        self.status.get(cid).copied()
    }

    /// The id of a web address as written, if the pool has it.
    pub(crate) fn cid_of(&self, address: &str) -> Option<&str> {
        let normal = url::normalize(address)?;
        if let Some(cid) = self.by_url.get(&key(&normal)) {
            return Some(cid);
        }
        self.status.get_key_value(&*url::cid(&normal)).map(|(cid, _)| &**cid)
    }

    /// All ids with their status, by id.
    pub fn rows(&self) -> impl Iterator<Item = (&str, CitationStatus)> {
        self.status.iter().map(|(cid, status)| (&**cid, *status))
    }

    pub(crate) fn len(&self) -> usize {
        self.status.len()
    }
}

/// Reads the pool of a run and reports every invalid line.
pub fn read(
    dir: &RunDir<'_>,
    path: &RelPath,
    strict: bool,
    findings: &mut Findings,
) -> Result<CitationPool, RunDirError> {
    let mut pool = CitationPool::default();
    let present = dir.read_lines(path, |number, line| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let place = format!("line {number}");
        match serde_json::from_slice::<Value>(line) {
            Ok(row) => add_row(&mut pool, &row, strict, path.as_str(), &place, findings),
            Err(error) => {
                findings.error(Code::InvalidJson, path.as_str(), place, error.to_string());
            }
        }
    })?;
    if !present {
        findings.error(Code::NotFound, path.as_str(), "", "the pool of citations is missing");
    }
    Ok(pool)
}

fn add_row(
    pool: &mut CitationPool,
    row: &Value,
    strict: bool,
    file: &str,
    place: &str,
    findings: &mut Findings,
) {
    if strict {
        let mut broken = Findings::default();
        broken.schema("citation.v1", row, file);
        for finding in broken.sorted() {
            let path = format!("{place} {}", finding.path);
            findings.error(finding.code, file, path, finding.message);
        }
    }
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let cid = text("cid").filter(|cid| is_cid(cid));
    let status = text("status").and_then(CitationStatus::parse);
    let (Some(cid), Some(status)) = (cid, status) else {
        if !strict {
            findings.error(
                Code::SchemaValidationFailed,
                file,
                place,
                "a citation needs a `cid` and one of the five statuses",
            );
        }
        return;
    };
    let url = text("normalized_url");
    let hashed = cid.len() == 68 && cid[4..].bytes().all(|b| b.is_ascii_hexdigit());
    // An item of the Summary Bus may have a short label: its address names it already.
    let labelled = is_label(cid) && url.is_some_and(|url| url.starts_with(SUMMARY_SCHEME));
    if !labelled && url.is_some_and(|url| url::cid(url) != cid) && (strict || hashed) {
        let severity = if strict { Severity::Error } else { Severity::Warning };
        let message = format!("{cid} is not the hash of the row's normalized_url");
        findings.add(severity, Code::CidMismatch, file, place.to_owned(), message);
    }
    if pool.len() >= ROWS_MAX {
        findings.error(
            Code::SizeCapExceeded,
            file,
            place,
            "the pool has more citations than the limit",
        );
    } else if !pool.add(cid, status, url) {
        findings.error(
            Code::DuplicateCitation,
            file,
            place,
            format!("{cid} or its URL appeared before"),
        );
    }
}

/// `s` and a number.
fn is_label(cid: &str) -> bool {
    let number = cid.strip_prefix('s').filter(|rest| rest.len() <= 6);
    number.and_then(|rest| rest.parse::<u32>().ok()).is_some_and(|number| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Disk;
    use crate::os::real::HostDisk;
    use serde_json::json;

    fn pool(lines: &[Value], strict: bool) -> (CitationPool, Findings) {
        let dir = tempfile::tempdir().unwrap();
        let disk: &dyn Disk = &HostDisk;
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        disk.replace(&dir.path().join("c.jsonl"), text.as_bytes(), 0o640).unwrap();
        let run = RunDir::open(disk, dir.path()).unwrap();
        let mut findings = Findings::default();
        let path = RelPath::parse("c.jsonl").unwrap();
        (read(&run, &path, strict, &mut findings).unwrap(), findings)
    }

    fn full(url: &str) -> Value {
        json!({"schema_version": "citation.v1", "normalized_url": url, "cid": url::cid(url),
            "url": url, "url_original": url, "status": "valid",
            "checked_at": "2026-02-14T09:00:00Z", "notes": "",
            "found_by": [{"wave": 1, "perspective_id": "p1", "agent_type": "unknown",
                "artifact_path": "wave-1/p1.md"}]})
    }

    #[test]
    fn a_url_finds_its_row_by_form_or_by_hash() {
        let row = full("https://example.com/a");
        let bare = json!({"cid": url::cid("https://example.com/b"), "status": "paywalled"});
        let named = json!({"cid": "cid_alpha", "status": "invalid",
            "normalized_url": "https://example.com/c"});
        let (pool, findings) = pool(&[row, bare, named], false);
        assert_eq!(findings, Findings::default());
        let cid = pool.cid_of("HTTPS://example.com:443/a/?utm_source=x#y").unwrap().to_owned();
        assert_eq!(cid, url::cid("https://example.com/a"));
        let cid = pool.cid_of("https://example.com/b").unwrap().to_owned();
        assert_eq!(pool.status(&cid), Some(CitationStatus::Paywalled));
        assert_eq!(pool.cid_of("https://example.com/c"), Some("cid_alpha"));
        assert!(!pool.status("cid_alpha").unwrap().is_usable());
        assert_eq!(pool.cid_of("https://example.com/d"), None);
    }

    #[test]
    fn strict_pools_hold_to_the_schema_and_the_hash() {
        let (_, findings) = pool(&[full("https://example.com/a")], true);
        assert_eq!(findings, Findings::default());
        for (key, value) in [
            ("found_by", json!([])),
            ("normalized_url", Value::Null),
            ("checked_at", json!("yesterday")),
            ("status", json!("ok")),
            ("notes", Value::Null),
            ("schema_version", json!("citation.v2")),
        ] {
            let mut row = full("https://example.com/a");
            row[key] = value;
            assert!(!pool(&[row], true).1.passes(), "{key}");
        }
        let mut foreign = full("https://example.com/a");
        foreign["cid"] = json!(url::cid("https://example.com/b"));
        assert!(pool(&[foreign.clone()], true).1.has(Code::CidMismatch));
        let lenient = pool(&[foreign], false).1;
        assert!(lenient.passes() && lenient.has(Code::CidMismatch));
    }

    #[test]
    fn every_bad_line_of_a_pool_is_reported() {
        let bad = [
            json!({"status": "valid"}),
            json!({"cid": "has space", "status": "valid"}),
            json!({"cid": "cid_a", "status": "fine"}),
            json!(["cid_a", "valid"]),
        ];
        let (pool_of_bad, findings) = pool(&bad, false);
        assert!(pool_of_bad.len() == 0);
        assert_eq!(findings.errors(), 4);
        let twice = json!({"cid": "cid_a", "status": "valid"});
        let (_, findings) = pool(&[twice.clone(), twice], false);
        assert!(findings.has(Code::DuplicateCitation));
    }
}
