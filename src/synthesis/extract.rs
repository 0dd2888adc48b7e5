//! `extractive.v1`: the claims, citations and gaps of a wave output, without a model.
//!
//! A claim is a top-level list item of `Findings` with its continuation lines. Without list items,
//! each paragraph is a claim. A claim keeps the citations in its own text that the pool lists as
//! valid or paywalled. A claim without such a citation is dropped and counted. Citations are never
//! taken from other text.
//!
//! The confidence is what the claim states. Otherwise it is 60 for one valid citation, 10
//! more for each further distinct valid citation, at most 90, and 50 when all are paywalled.
//!
//! See docs/adr/0026-extracting-summary-packs.md.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::citations::{CitationPool, CitationStatus};
use super::claims;
use super::inline::{self, CitationMark, TEXT_BYTES_MAX};
use super::markdown::{self, Line};
use crate::markup::prefix;

/// Most claims, and most gaps, taken from one output.
pub(crate) const ITEMS_MAX: usize = 10_000;

/// Most dropped findings that are listed for one output.
pub(crate) const LEFT_OUT_MAX: usize = 500;
/// Most characters of a dropped finding that are listed.
const FINDING_CHARS_MAX: usize = 240;

const CONFIDENCE_ONE: u8 = 60;
const CONFIDENCE_STEP: u8 = 10;
const CONFIDENCE_MAX: u8 = 90;
const CONFIDENCE_PAYWALLED: u8 = 50;

/// Where a confidence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfidenceBasis {
    Stated,
    Derived,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cited {
    pub cid: String,
    pub paywalled: bool,
}

/// A claim with at least one usable citation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitedClaim {
    /// One line of plain text.
    pub text: String,
    pub(crate) cited: Vec<Cited>,
    pub confidence: u8,
    pub basis: ConfidenceBasis,
}

/// A statement of what is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// One line of plain text, its priority included.
    pub text: String,
    /// 0 for `(P0)` to 3 for `(P3)`, 4 without one.
    pub rank: u8,
}

/// What was left out, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedCounts {
    /// Claims without a usable citation.
    pub uncited: usize,
    /// Claims without text.
    pub empty: usize,
    /// Claims over a size limit.
    pub oversize: usize,
    /// Claims that were made before, whose citations were joined.
    #[serde(default)]
    pub duplicate: usize,
    /// Gaps over a size limit or without text.
    pub gaps: usize,
}

/// Why a finding is not in a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingDropReason {
    /// It has no citation that the pool lists as valid or paywalled.
    Uncited,
    /// Without its marks it is empty.
    Empty,
    /// It is too long to be read, or there are too many.
    TooLarge,
    /// It says what a finding before it says, whose citations it joins.
    Duplicate,
    /// The limit of the summary leaves no room for it.
    SummaryLimit,
    /// The limit of all summaries together leaves no room for it.
    TotalLimit,
}

/// A finding that is not in a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedFinding {
    pub finding: String,
    pub why: FindingDropReason,
}

impl DroppedFinding {
    pub(crate) fn new(text: &str, why: FindingDropReason) -> DroppedFinding {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let finding = match line.char_indices().nth(FINDING_CHARS_MAX) {
            Some((end, _)) => format!("{}…", line[..end].trim_end()),
            None => line,
        };
        DroppedFinding { finding, why }
    }
}

/// Everything that a summary can contain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    /// Claims in document order.
    pub claims: Vec<CitedClaim>,
    /// Gaps in document order.
    pub gaps: Vec<Gap>,
    /// What the extraction left out.
    pub dropped: DroppedCounts,
    /// The dropped findings, up to a bound.
    #[serde(default)]
    pub left_out: Vec<DroppedFinding>,
    /// Usable citations outside `allowed`, which were refused.
    pub refused: usize,
}

impl Extract {
    fn leave_out(&mut self, text: &str, why: FindingDropReason) {
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(DroppedFinding::new(text, why));
        }
    }
}

/// Extracts claims and gaps. For a text that was written from a source, `allowed` limits the pool
/// to what that source cites.
pub fn extract(text: &str, pool: &CitationPool, allowed: Option<&BTreeSet<String>>) -> Extract {
    let lines = markdown::lines(text);
    let sources = source_marks(&lines);
    let mut out = Extract::default();
    let mut said: BTreeMap<String, usize> = BTreeMap::new();
    for claim in claim_texts(&lines) {
        if claim.len() > TEXT_BYTES_MAX || out.claims.len() >= ITEMS_MAX {
            out.dropped.oversize += 1;
            out.leave_out(clipped(&claim), FindingDropReason::TooLarge);
            continue;
        }
        let plain = inline::read(&claim, sources.len());
        let Some(plain) = plain.filter(|plain| plain.text.contains(char::is_alphanumeric)) else {
            out.dropped.empty += 1;
            out.leave_out(&claim, FindingDropReason::Empty);
            continue;
        };
        let (cited, refused) = resolve(&plain.marks, &sources, pool, allowed);
        out.refused += refused;
        if cited.is_empty() {
            out.dropped.uncited += 1;
            out.leave_out(&plain.text, FindingDropReason::Uncited);
            continue;
        }
        if let Some(before) = said.get(&claims::folded(&plain.text)) {
            out.dropped.duplicate += 1;
            out.leave_out(&plain.text, FindingDropReason::Duplicate);
            let before = &mut out.claims[*before];
            let new = cited.into_iter().filter(|one| !before.cited.contains(one));
            let new: Vec<Cited> = new.collect();
            before.cited.extend(new);
            if before.basis == ConfidenceBasis::Derived {
                before.confidence = derived_confidence(&before.cited);
            }
            continue;
        }
        said.insert(claims::folded(&plain.text), out.claims.len());
        let (confidence, basis) = match plain.confidence {
            Some(stated) => (stated, ConfidenceBasis::Stated),
            None => (derived_confidence(&cited), ConfidenceBasis::Derived),
        };
        out.claims.push(CitedClaim { text: plain.text, cited, confidence, basis });
    }
    gaps(&lines, &mut out);
    out
}

/// All usable citations of a text, including `Sources`.
pub(crate) fn cited_anywhere(text: &str, pool: &CitationPool) -> BTreeSet<String> {
    let lines = markdown::lines(text);
    let mut cids = BTreeSet::new();
    for block in markdown::blocks(&lines) {
        if let Some(plain) = inline::read(clipped(&block.text), 0) {
            let (cited, _) = resolve(&plain.marks, &[], pool, None);
            cids.extend(cited.into_iter().map(|cited| cited.cid));
        }
    }
    cids
}

fn clipped(text: &str) -> &str {
    prefix(text, TEXT_BYTES_MAX)
}

fn named<'a>(lines: &[Line<'a>], name: &str) -> Option<Vec<Line<'a>>> {
    markdown::section(lines, |title| title.eq_ignore_ascii_case(name))
}

fn claim_texts(lines: &[Line<'_>]) -> Vec<String> {
    let blocks = markdown::blocks(&named(lines, "Findings").unwrap_or_default());
    let items = blocks.iter().any(|block| block.is_item);
    let claims = blocks.into_iter().filter(|block| block.is_item == items);
    claims.map(|block| block.text).collect()
}

fn source_marks(lines: &[Line<'_>]) -> Vec<Option<CitationMark>> {
    let blocks = markdown::blocks(&named(lines, "Sources").unwrap_or_default());
    let bullets = blocks.iter().filter(|block| block.is_item).take(ITEMS_MAX);
    let first =
        |block: &markdown::Block| inline::read(clipped(&block.text), 0)?.marks.into_iter().next();
    bullets.map(first).collect()
}

fn resolve(
    marks: &[CitationMark],
    sources: &[Option<CitationMark>],
    pool: &CitationPool,
    allowed: Option<&BTreeSet<String>>,
) -> (Vec<Cited>, usize) {
    let mut cited: Vec<Cited> = Vec::new();
    let mut refused = 0;
    for mark in marks {
        let mark = match mark {
            CitationMark::Note(number) => match sources.get(number - 1) {
                Some(Some(mark)) => mark,
                _ => continue,
            },
            other => other,
        };
        let cid = match mark {
            CitationMark::Cid(cid) => Some(cid.as_str()),
            CitationMark::Url(url) => pool.cid_of(url),
            CitationMark::Note(_) => None,
        };
        let Some(cid) = cid else { continue };
        let Some(status) = pool.status(cid).filter(|status| status.is_usable()) else { continue };
        if allowed.is_some_and(|allowed| !allowed.contains(cid)) {
            refused += 1;
        } else if cited.iter().all(|known| known.cid != cid) {
            cited.push(Cited {
                cid: cid.to_owned(),
                paywalled: status == CitationStatus::Paywalled,
            });
        }
    }
    (cited, refused)
}

fn derived_confidence(cited: &[Cited]) -> u8 {
    match cited.iter().filter(|cited| !cited.paywalled).count() {
        0 => CONFIDENCE_PAYWALLED,
        valid => {
            let more = u8::try_from(valid - 1).unwrap_or(u8::MAX);
            let sum = CONFIDENCE_ONE.saturating_add(more.saturating_mul(CONFIDENCE_STEP));
            sum.min(CONFIDENCE_MAX)
        }
    }
}

fn gaps(lines: &[Line<'_>], out: &mut Extract) {
    let blocks = markdown::blocks(&named(lines, "Gaps").unwrap_or_default());
    for block in blocks.into_iter().filter(|block| block.is_item) {
        let plain = (block.text.len() <= TEXT_BYTES_MAX && out.gaps.len() < ITEMS_MAX)
            .then(|| inline::read(&block.text, 0))
            .flatten()
            .filter(|plain| plain.text.contains(char::is_alphanumeric));
        match plain {
            Some(plain) => {
                let rank = rank(&plain.text);
                out.gaps.push(Gap { text: plain.text, rank });
            }
            None => out.dropped.gaps += 1,
        }
    }
}

fn rank(text: &str) -> u8 {
    let ranks = ["(P0)", "(P1)", "(P2)", "(P3)"];
    ranks.iter().position(|mark| text.starts_with(mark)).map_or(4, |rank| rank as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> CitationPool {
        let mut pool = CitationPool::default();
        for (cid, status, url) in [
            ("cid_a", CitationStatus::Valid, "https://a.example/"),
            ("cid_b", CitationStatus::Valid, "https://b.example/"),
            ("cid_p", CitationStatus::Paywalled, "https://p.example/"),
            ("cid_x", CitationStatus::Invalid, "https://x.example/"),
            ("cid_y", CitationStatus::Blocked, "https://y.example/"),
            ("cid_z", CitationStatus::Mismatch, "https://z.example/"),
        ] {
            assert!(pool.add(cid, status, Some(url)));
        }
        pool
    }

    fn of(text: &str) -> Extract {
        extract(text, &pool(), None)
    }

    fn cids(claim: &CitedClaim) -> Vec<&str> {
        claim.cited.iter().map(|cited| cited.cid.as_str()).collect()
    }

    #[test]
    fn claims_keep_only_their_own_usable_citations() {
        let out = of(
            "## Findings\n- a [@cid_a] [@cid_a] https://b.example [@cid_x]\n- none\n- dead [@cid_x] [@cid_y] [@cid_z] [@nobody]\n- ( [@cid_a] )\n",
        );
        assert_eq!(out.claims.len(), 1);
        assert_eq!(cids(&out.claims[0]), ["cid_a", "cid_b"]);
        assert_eq!(out.dropped, DroppedCounts { uncited: 2, empty: 1, ..DroppedCounts::default() });
    }

    #[test]
    fn a_claim_made_twice_is_one_claim_with_both_citations() {
        let out = of(
            "## Findings\n- The roof leaks. [@cid_a]\n- the roof  leaks [@cid_b]\n- x [@nobody]\n",
        );
        assert_eq!(out.claims.len(), 1);
        assert_eq!((cids(&out.claims[0]), out.claims[0].confidence), (vec!["cid_a", "cid_b"], 70));
        let why: Vec<(&str, FindingDropReason)> =
            out.left_out.iter().map(|one| (one.finding.as_str(), one.why)).collect();
        assert_eq!(
            why,
            [("the roof leaks", FindingDropReason::Duplicate), ("x", FindingDropReason::Uncited)]
        );
    }

    #[test]
    fn note_numbers_refer_to_bullets_of_sources() {
        let out = of(
            "## Findings\n- a [2]\n- b [^1] [3]\n- c [9]\n## Sources\n1. https://a.example\n2. x <https://b.example>, more\n\n   https://a.example/\n3. no address\n",
        );
        let found: Vec<_> = out.claims.iter().map(cids).collect();
        assert_eq!(found, [["cid_b"], ["cid_a"]]);
        assert_eq!(out.dropped.uncited, 1);
    }

    #[test]
    fn confidence_is_stated_or_counted() {
        let one = |text: &str| {
            let out = of(&format!("## Findings\n- {text}\n"));
            (out.claims[0].confidence, out.claims[0].basis)
        };
        assert_eq!(one("x [@cid_a]"), (60, ConfidenceBasis::Derived));
        assert_eq!(one("x [@cid_a] [@cid_b]"), (70, ConfidenceBasis::Derived));
        assert_eq!(one("x [@cid_a] [@cid_p]"), (60, ConfidenceBasis::Derived));
        assert_eq!(one("x [@cid_p]"), (50, ConfidenceBasis::Derived));
        assert_eq!(one("x [@cid_p] (confidence: 99)"), (99, ConfidenceBasis::Stated));
        let many: Vec<Cited> =
            (0..300).map(|n| Cited { cid: n.to_string(), paywalled: false }).collect();
        assert_eq!(derived_confidence(&many), 90);
    }

    #[test]
    fn fences_and_sub_headings_do_not_end_a_section() {
        let out = of(
            "## Findings\r\n\r\n### Part one\r\n- a\r\n  goes on [@cid_a]\r\n```\r\n## Sources\r\n- fake [@cid_b]\r\n```\r\n### Part two\r\n- b [1]\r\n## Sources\r\n- https://b.example\r\n",
        );
        let texts: Vec<&str> = out.claims.iter().map(|claim| claim.text.as_str()).collect();
        assert_eq!(texts, ["a goes on", "b"]);
        assert_eq!(cids(&out.claims[1]), ["cid_b"]);
    }

    #[test]
    fn paragraphs_count_when_there_is_no_list() {
        let out = of("# Findings\nOne [@cid_a]\ngoes on.\n\nTwo [@cid_b].\n");
        let texts: Vec<&str> = out.claims.iter().map(|claim| claim.text.as_str()).collect();
        assert_eq!(texts, ["One goes on.", "Two."]);
        let out = of("## Findings\nLead-in [@cid_a]\n\n- item [@cid_b]\n");
        assert_eq!(out.claims.len(), 1);
    }

    #[test]
    fn gaps_keep_priority_and_tags_but_no_address() {
        let out = of(
            "## Gaps\n- (P1) need https://a.example [@cid_a] #scale\n- plain\n- https://x.example\n",
        );
        let gaps: Vec<_> = out.gaps.iter().map(|gap| (gap.text.as_str(), gap.rank)).collect();
        assert_eq!(gaps, [("(P1) need #scale", 1), ("plain", 4)]);
        assert_eq!(out.dropped.gaps, 1);
        assert_eq!(of(""), Extract::default());
    }

    #[test]
    fn a_text_written_from_a_source_may_cite_only_what_the_source_cites() {
        let source = "## Findings\n- a (https://a.example)\n## Sources\n- https://p.example\n";
        let allowed = cited_anywhere(source, &pool());
        assert_eq!(allowed.iter().collect::<Vec<_>>(), ["cid_a", "cid_p"]);
        let model = "## Findings\n- a [@cid_a] [@cid_b]\n- b [@cid_b]\n";
        let out = extract(model, &pool(), Some(&allowed));
        assert_eq!(cids(&out.claims[0]), ["cid_a"]);
        assert_eq!((out.claims.len(), out.dropped.uncited, out.refused), (1, 1, 2));
    }

    #[test]
    fn too_long_claims_are_counted() {
        let long = format!("## Findings\n- {} [@cid_a]\n", "x".repeat(TEXT_BYTES_MAX));
        assert_eq!(of(&long).dropped.oversize, 1);
    }
}
