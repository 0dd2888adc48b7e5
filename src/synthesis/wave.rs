//! Checks each wave output against the contract of its perspective and reports all faults.
//!
//! Headings are case-sensitive and of any level. Words are separated by whitespace. `Sources` is a
//! list of bullets, each with an address. Tool usage comes from the sidecar. Bullets of `Gaps` are
//! `- (P0..P3) text`. A code fence contains no headings and no bullets. A file in a wave directory
//! that no perspective has this output is reported.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::agents::AgentTypes;
use super::finding::{Code, Finding, Findings};
use super::inline::web_address;
use super::markdown::{self, Kind as LineKind, Line};
use super::perspectives::PromptContract;
use super::receipt::{Receipt, ReceiptKind, Verdict};
use super::run::{self, Assigned, ResearchRun, read_json};
use super::run_dir::{MARKDOWN_BYTES_MAX, RelPath, RunDir, RunDirError};
use crate::contract::hash::sha256;

/// One output as the report lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedOutput {
    pub perspective_id: String,
    /// 1 or 2.
    pub wave: u8,
    pub path: String,
    pub status: Verdict,
    pub bytes: Option<u64>,
    pub sha256: Option<String>,
    pub words: Option<usize>,
    pub sources: Option<usize>,
    pub gaps: Option<usize>,
}

/// `wave_report.v1`.
#[derive(Debug, Clone, Serialize)]
pub struct WaveReport {
    /// `wave_report.v1`.
    pub schema_version: &'static str,
    pub run_id: String,
    pub status: Verdict,
    /// One entry for each perspective, by id.
    pub outputs: Vec<CheckedOutput>,
    pub errors: u64,
    pub warnings: u64,
    pub findings: Vec<Finding>,
}

/// Counts of one text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutputCounts {
    pub words: usize,
    /// Bullets of `Sources`.
    pub sources: usize,
    /// Bullets of `Gaps`.
    pub gaps: usize,
}

pub fn check(
    dir: &RunDir<'_>,
    agent_types: &AgentTypes,
    progress: &dyn Fn(),
) -> Result<(WaveReport, Receipt), RunDirError> {
    let mut findings = Findings::default();
    let run = run::load(dir, agent_types, &mut findings)?;
    let mut outputs = Vec::new();
    for assigned in run.iter().flat_map(|run| &run.perspectives) {
        outputs.push(check_output(dir, assigned, &mut findings)?);
        progress();
    }
    if let Some(run) = &run {
        strays(dir, run, &mut findings)?;
    }
    let run_id = run.map(|run| run.manifest.run_id).unwrap_or_default();
    let receipt = Receipt::new(ReceiptKind::WavesChecked, &run_id, &findings);
    let report = WaveReport {
        schema_version: "wave_report.v1",
        run_id,
        status: receipt.verdict,
        outputs,
        errors: findings.errors(),
        warnings: findings.warnings(),
        findings: findings.sorted(),
    };
    Ok((report, receipt))
}

fn check_output(
    dir: &RunDir<'_>,
    assigned: &Assigned,
    findings: &mut Findings,
) -> Result<CheckedOutput, RunDirError> {
    let mut found = Findings::default();
    let file = assigned.output.as_str();
    let mut output = CheckedOutput {
        perspective_id: assigned.perspective.id.clone(),
        wave: assigned.wave,
        path: file.to_owned(),
        status: Verdict::Fail,
        bytes: None,
        sha256: None,
        words: None,
        sources: None,
        gaps: None,
    };
    match dir.read(&assigned.output, MARKDOWN_BYTES_MAX) {
        Ok(Some(bytes)) => {
            output.bytes = Some(bytes.len() as u64);
            output.sha256 = Some(sha256(&bytes).hex());
            match std::str::from_utf8(&bytes) {
                Ok(text) => {
                    let contract = &assigned.perspective.prompt_contract;
                    let counts = check_text(text, contract, file, &mut found);
                    output.words = Some(counts.words);
                    output.sources = Some(counts.sources);
                    output.gaps = Some(counts.gaps);
                }
                Err(_) => found.error(Code::NotUtf8, file, "", "not UTF-8"),
            }
            tool_usage(dir, assigned, &mut found)?;
        }
        Ok(None) => found.error(Code::OutputNotFound, file, "", "the output is missing"),
        Err(error @ RunDirError::Escapes { .. }) => {
            found.error(Code::PathTraversal, file, "", error.to_string());
        }
        Err(error @ RunDirError::TooLarge { .. }) => {
            found.error(Code::FileTooLarge, file, "", error.to_string());
        }
        Err(error) => return Err(error),
    }
    output.status = Verdict::of(found.passes());
    findings.extend(found);
    Ok(output)
}

pub(crate) fn check_text(
    text: &str,
    contract: &PromptContract,
    file: &str,
    findings: &mut Findings,
) -> OutputCounts {
    let lines = markdown::lines(text);
    let mut counts =
        OutputCounts { words: text.split_whitespace().count(), ..OutputCounts::default() };
    for wanted in &contract.must_include_sections {
        let is_wanted = |line: &Line<'_>| matches!(line.kind, LineKind::Heading { title, .. } if title == wanted);
        if !lines.iter().any(is_wanted) {
            let message = format!("no heading {wanted:?}");
            findings.error(Code::MissingRequiredSection, file, "", message);
        }
    }
    if counts.words as f64 > contract.max_words.as_f64().unwrap_or_default() {
        let message =
            format!("it has {} words; at most {} are allowed", counts.words, contract.max_words);
        findings.error(Code::TooManyWords, file, "", message);
    }
    let required =
        contract.must_include_sections.iter().find(|name| name.eq_ignore_ascii_case("sources"));
    if let Some(section) =
        required.and_then(|name| markdown::section(&lines, |title| title == name))
    {
        counts.sources = sources(&section, contract, file, findings);
    }
    if let Some(section) = markdown::section(&lines, |title| title == "Gaps") {
        counts.gaps = gaps(&section, file, findings);
    }
    counts
}

fn sources(
    section: &[Line<'_>],
    contract: &PromptContract,
    file: &str,
    findings: &mut Findings,
) -> usize {
    let mut count = 0;
    for line in section {
        if matches!(line.kind, LineKind::Blank | LineKind::Heading { .. }) {
            continue;
        }
        let place = format!("line {}", line.number);
        let item = markdown::list_item(line.text).filter(|_| line.kind == LineKind::Text);
        let Some((_, content)) = item else {
            findings.error(Code::MalformedSources, file, place, "NOT_BULLET: no list item");
            continue;
        };
        count += 1;
        let has_address = content.char_indices().any(|(at, _)| {
            web_address(&content[at..]).is_some_and(|length| length > "https://".len())
        });
        if !has_address {
            findings.error(Code::MalformedSources, file, place, "MISSING_URL: no web address");
        }
    }
    if count == 0 {
        findings.warn(Code::NoSources, file, "", "`Sources` lists nothing");
    }
    if count as f64 > contract.max_sources.as_f64().unwrap_or_default() {
        let message =
            format!("it has {count} sources; at most {} are allowed", contract.max_sources);
        findings.error(Code::TooManySources, file, "", message);
    }
    count
}

fn gaps(section: &[Line<'_>], file: &str, findings: &mut Findings) -> usize {
    let bullets = section
        .iter()
        .filter(|line| line.kind == LineKind::Text && line.text.trim_start().starts_with('-'));
    let mut count = 0;
    for line in bullets {
        count += 1;
        if !is_gap(line.text.trim()) {
            let place = format!("line {}", line.number);
            let message = "a gap is `- (P0..P3) text`";
            findings.error(Code::GapsParseFailed, file, place, message);
        }
    }
    count
}

fn is_gap(bullet: &str) -> bool {
    let spaced = |text: &str| text.starts_with(char::is_whitespace) && !text.trim().is_empty();
    let Some(rest) = bullet.strip_prefix('-').filter(|rest| spaced(rest)) else { return false };
    let rest = rest.trim_start();
    let rank = ["(P0)", "(P1)", "(P2)", "(P3)"].iter().find_map(|rank| rest.strip_prefix(rank));
    rank.is_some_and(spaced)
}

fn tool_usage(
    dir: &RunDir<'_>,
    assigned: &Assigned,
    findings: &mut Findings,
) -> Result<(), RunDirError> {
    let budget = &assigned.perspective.prompt_contract.tool_budget;
    let stem = assigned.output.as_str();
    let sidecar = format!("{}.meta.json", stem.strip_suffix(".md").unwrap_or(stem));
    let Some(path) = RelPath::parse(&sidecar) else { return Ok(()) };
    let before = findings.errors();
    let Some(meta) = read_json(dir, &path, findings)? else {
        if !budget.is_empty() && findings.errors() == before {
            let message = "no sidecar records which tools were used";
            findings.warn(Code::ToolUsageUnknown, path.as_str(), "", message);
        }
        return Ok(());
    };
    let usage = match &meta["tool_usage"] {
        Value::Null => {
            if !budget.is_empty() {
                let message = "the sidecar does not record which tools were used";
                findings.warn(Code::ToolUsageUnknown, path.as_str(), "$.tool_usage", message);
            }
            return Ok(());
        }
        Value::Object(usage) => usage,
        _ => {
            let message = "must be an object of counts";
            findings.error(Code::InvalidToolUsage, path.as_str(), "$.tool_usage", message);
            return Ok(());
        }
    };
    for (tool, used) in usage {
        let place = format!("$.tool_usage.{tool}");
        let Some(used) = used.as_f64().filter(|used| *used >= 0.0) else {
            let message = "must be a number of at least 0";
            findings.error(Code::InvalidToolUsage, path.as_str(), place, message);
            continue;
        };
        let allowed = budget.get(tool).and_then(|allowed| allowed.as_f64());
        if let Some(allowed) = allowed.filter(|allowed| used > *allowed) {
            let message = format!("it made {used} calls; at most {allowed} are allowed");
            findings.error(Code::ToolBudgetExceeded, path.as_str(), place, message);
        }
    }
    Ok(())
}

fn strays(dir: &RunDir<'_>, run: &ResearchRun, findings: &mut Findings) -> Result<(), RunDirError> {
    let expected: BTreeSet<&str> = run.perspectives.iter().map(|a| a.output.as_str()).collect();
    for wave_dir in &run.manifest.paths.wave_dirs {
        for name in dir.list(wave_dir)? {
            let path = format!("{wave_dir}/{name}");
            if name.ends_with(".md") && !expected.contains(path.as_str()) {
                let message = "no perspective has this output";
                findings.warn(Code::StrayFile, &path, "", message);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Number, json};

    fn contract(max_words: u64, max_sources: u64) -> PromptContract {
        PromptContract {
            max_words: Number::from(max_words),
            max_sources: Number::from(max_sources),
            tool_budget: Default::default(),
            must_include_sections: ["Findings", "Sources", "Gaps"].map(str::to_owned).to_vec(),
        }
    }

    fn codes(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check_text(text, &contract(30, 2), "f.md", &mut findings);
        let name = |finding: &Finding| json!(finding.code).as_str().unwrap().to_owned();
        findings.sorted().iter().map(name).collect()
    }

    const GOOD: &str = "# Findings #\n- a\n### sub\n- b\n## Sources\n- https://a.example\n1. <https://b.example>\n## Gaps\n- (P1) c #tag\nnote\n";

    #[test]
    fn a_good_output_has_no_findings_with_either_line_end() {
        assert!(codes(GOOD).is_empty());
        assert!(codes(&GOOD.replace('\n', "\r\n")).is_empty());
    }

    #[test]
    fn all_faults_of_an_output_are_reported() {
        let text = format!(
            "## findings\n{}\n## Sources\nplain https://a.example\n- none\n- https://b.example\n- https://\n## Gaps\n- no rank\n-(P1) x\n- (P4) x\n- (P1)\n  - (P2) ok\n",
            "w ".repeat(30)
        );
        let found = codes(&text);
        let count = |code: &str| found.iter().filter(|found| *found == code).count();
        assert_eq!(count("MISSING_REQUIRED_SECTION"), 1);
        assert_eq!(count("TOO_MANY_WORDS"), 1);
        assert_eq!(count("MALFORMED_SOURCES"), 3);
        assert_eq!(count("TOO_MANY_SOURCES"), 1);
        assert_eq!(count("GAPS_PARSE_FAILED"), 4);
    }

    #[test]
    fn headings_in_a_fence_start_no_section() {
        let hidden = "```\n## Findings\n## Sources\n## Gaps\n```\n";
        assert_eq!(codes(hidden), ["MISSING_REQUIRED_SECTION"; 3]);
        let inside = GOOD.replace("## Gaps", "```\n## Gaps\n- (bad)\n```\n## Gaps");
        assert_eq!(codes(&inside), ["MALFORMED_SOURCES"; 4]);
    }

    #[test]
    fn limits_hold_up_to_and_including() {
        let words = |extra: usize| format!("{GOOD}{}", "w ".repeat(extra));
        let used = GOOD.split_whitespace().count();
        assert!(codes(&words(30 - used)).is_empty());
        assert_eq!(codes(&words(31 - used)), ["TOO_MANY_WORDS"]);
        assert_eq!(
            codes(&GOOD.replace("## Gaps", "- http://c.example\n## Gaps")),
            ["TOO_MANY_SOURCES"]
        );
        assert_eq!(codes("## Findings\n## Sources\n## Gaps\n"), ["NO_SOURCES"]);
    }
}
