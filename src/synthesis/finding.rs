//! What a check found: a code for programs, a place, a sentence for people.
//!
//! Findings are collected, never thrown: a check reports all of them, sorted by file and place.
//! An error makes the verdict *fail*; a warning does not. The list is bounded; what does not fit
//! is counted.

use serde::Serialize;
use serde_json::Value;

use crate::contract::schema;

/// Most findings listed in one report; the rest are counted.
pub(crate) const FINDINGS_MAX: usize = 1000;

/// Whether a finding decides the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The thing checked is wrong.
    Error,
    /// Somebody should look; the verdict stands.
    Warning,
}

/// The closed list of finding codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// A file that must exist does not.
    NotFound,
    /// A file is not JSON.
    InvalidJson,
    /// A record breaks its schema.
    SchemaValidationFailed,
    /// A field the schema does not know; kept and ignored.
    UnknownField,
    /// A timestamp that names no instant.
    InvalidTimestamp,
    /// A limit that cannot bound anything.
    InvalidState,
    /// A name or path that could leave the run directory.
    PathTraversal,
    /// A perspective id outside the allowed characters.
    InvalidId,
    /// Two perspectives share an id, letter case aside.
    DuplicatePerspectiveId,
    /// The agent type is unknown.
    UnknownAgentType,
    /// Two records of one run name different runs.
    RunIdMismatch,
    /// The manifest names another root than the directory given.
    RootMismatch,
    /// A perspective the run does not have.
    UnknownPerspective,
    /// More perspectives than the manifest allows.
    PerspectiveCapExceeded,
    /// A wave output that should exist does not.
    OutputNotFound,
    /// A file in a wave directory that belongs to no perspective.
    StrayFile,
    /// A file larger than we are willing to read.
    FileTooLarge,
    /// A markdown file that is not UTF-8.
    NotUtf8,
    /// A heading the contract asks for is missing.
    MissingRequiredSection,
    /// The output is longer than its contract allows.
    TooManyWords,
    /// A line of `Sources` that is no bullet, or has no URL.
    MalformedSources,
    /// `Sources` is there and empty.
    NoSources,
    /// More sources than the contract allows.
    TooManySources,
    /// Tool usage that is not a table of counts.
    InvalidToolUsage,
    /// More tool calls than the contract allows.
    ToolBudgetExceeded,
    /// A tool budget without a record of what was used.
    ToolUsageUnknown,
    /// A bullet of `Gaps` that is not `- (P0..P3) text`.
    GapsParseFailed,
    /// A draft summary takes precedence over the wave output.
    DraftPreferred,
    /// A file under the name of a draft is a summary of another pack, and is passed over.
    DraftIsOutput,
    /// A summary that its source keeps private, and that a pack therefore leaves out.
    PrivateItem,
    /// Days that a selection asked for and that are not published.
    MissingDays,
    /// Two rows of the pool share an id or a URL.
    DuplicateCitation,
    /// A citation id is not the hash of its URL.
    CidMismatch,
    /// A citation that the pool does not have.
    UnknownCid,
    /// A citation whose check did not end `valid` or `paywalled`.
    CitationNotUsable,
    /// A model cited what its source does not cite.
    CitationNotInSource,
    /// A model's summary could not be used; the extractive one took its place.
    ModelSummaryRejected,
    /// A perspective without a single claim that has a usable citation.
    NoCitedClaims,
    /// A link, image or address where only citation ids may stand.
    RawUrlNotAllowed,
    /// A byte limit is exceeded, or too small to hold anything.
    SizeCapExceeded,
    /// The share of summarized perspectives is too low.
    SummaryCountTooLow,
    /// A summary that the pack lists is missing.
    MissingSummary,
    /// A summary file that no pack entry names.
    OrphanSummary,
    /// The limits in the pack are not those of the manifest.
    LimitsMismatch,
    /// The pack does not match its inputs, its summaries or its meta record.
    StalePack,
    /// The citations of this run have not passed their own gate.
    GateCNotPass,
    /// Somebody else changed the gates file.
    RevisionMismatch,
    /// An item of the Summary Bus that does not match its manifest or its id.
    ManifestMismatch,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub code: Code,
    /// The file, relative to the run directory.
    pub file: String,
    /// Where in the file: a JSON path, `line N`, or empty.
    pub path: String,
    /// What is wrong, for people.
    pub message: String,
}

/// A bounded collection of findings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    list: Vec<Finding>,
    errors: u64,
    warnings: u64,
}

impl Findings {
    pub fn error(
        &mut self,
        code: Code,
        file: &str,
        path: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.add(Severity::Error, code, file, path.into(), what.into());
    }

    pub fn warn(
        &mut self,
        code: Code,
        file: &str,
        path: impl Into<String>,
        what: impl Into<String>,
    ) {
        self.add(Severity::Warning, code, file, path.into(), what.into());
    }

    /// Adds a finding of either severity.
    pub fn add(
        &mut self,
        severity: Severity,
        code: Code,
        file: &str,
        path: String,
        message: String,
    ) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
        if self.list.len() < FINDINGS_MAX {
            self.list.push(Finding { severity, code, file: file.to_owned(), path, message });
        }
    }

    /// Takes over all findings of another collection.
    pub fn extend(&mut self, other: Findings) {
        let room = FINDINGS_MAX.saturating_sub(self.list.len());
        self.list.extend(other.list.into_iter().take(room));
        self.errors += other.errors;
        self.warnings += other.warnings;
    }

    /// True when nothing found decides against the thing checked.
    pub fn passes(&self) -> bool {
        self.errors == 0
    }

    /// How many errors, listed or not.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How many warnings, listed or not.
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    /// The listed findings, sorted by file and place; numbers in a place count as numbers.
    pub fn sorted(&self) -> Vec<Finding> {
        let mut list = self.list.clone();
        list.sort_by_cached_key(|finding| {
            let file = natural_key(&finding.file);
            (file, natural_key(&finding.path), finding.code, finding.message.clone())
        });
        list
    }

    /// True when a finding with this code is listed.
    pub fn has(&self, code: Code) -> bool {
        self.list.iter().any(|finding| finding.code == code)
    }

    /// Adds every violation of an embedded schema.
    pub fn schema(&mut self, name: &str, value: &Value, file: &str) {
        for violation in schema::check(name, value) {
            let mut path = json_path(&violation.pointer);
            if let Some(missing) = violation.message.strip_suffix(" is a required property") {
                push_key(&mut path, missing.trim_matches('"'));
            }
            self.error(Code::SchemaValidationFailed, file, path, violation.message);
        }
    }
}

/// `/perspectives/0/track` as `$.perspectives[0].track`.
pub(crate) fn json_path(pointer: &str) -> String {
    let mut path = String::from("$");
    for key in pointer.split('/').skip(1) {
        push_key(&mut path, &key.replace("~1", "/").replace("~0", "~"));
    }
    path
}

fn push_key(path: &mut String, key: &str) {
    let index = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
    let plain = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if index {
        path.push_str(&format!("[{key}]"));
    } else if plain {
        path.push_str(&format!(".{key}"));
    } else {
        path.push_str(&format!("[{}]", Value::from(key)));
    }
}

fn natural_key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let mut digits = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            key.push_str(&format!("{digits:0>12}"));
            digits.clear();
        }
        key.push(c);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_become_json_paths() {
        assert_eq!(json_path(""), "$");
        assert_eq!(
            json_path("/perspectives/0/prompt_contract/max_words"),
            "$.perspectives[0].prompt_contract.max_words"
        );
        assert_eq!(json_path("/a~1b/c d"), r#"$["a/b"]["c d"]"#);
    }

    #[test]
    fn places_sort_by_number_and_all_are_counted() {
        let mut findings = Findings::default();
        for index in [10, 2, 1] {
            findings.warn(Code::InvalidId, "f", format!("$.perspectives[{index}]"), "x");
        }
        let places: Vec<String> = findings.sorted().into_iter().map(|f| f.path).collect();
        assert_eq!(places, ["$.perspectives[1]", "$.perspectives[2]", "$.perspectives[10]"]);
        for _ in 0..2 * FINDINGS_MAX {
            findings.error(Code::InvalidId, "f", "", "x");
        }
        assert_eq!(findings.errors(), 2 * FINDINGS_MAX as u64);
        assert_eq!(findings.sorted().len(), FINDINGS_MAX);
        assert!(!findings.passes());
    }
}
