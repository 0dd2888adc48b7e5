//! Renders a summary and decides what goes into it when not everything fits.
//!
//! If everything fits, everything is kept. Otherwise claims are ranked by number of distinct
//! citations, then by what they say (decisions, then days and amounts), then by document order, and each claim that keeps the file within its limit is taken.
//! Gaps may take a quarter of the limit from claims, by priority. When all summaries together
//! exceed the total limit, the largest one gives up its lowest-ranked claim, then its lowest-ranked
//! gap, until all fit. The kept parts are written in document order, and the file counts the
//! omitted ones.
//!
//! See docs/adr/0027-fitting-a-summary-into-its-limit.md.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::extract::{
    CitedClaim, DroppedCounts, DroppedFinding, Extract, FindingDropReason, Gap, LEFT_OUT_MAX,
};
use crate::digest::said;

/// Gaps may take this fraction of the limit (1/4) from claims.
const GAP_SHARE: u64 = 4;

const FINDINGS: &str = "## Findings\n";
const GAPS: &str = "\n## Gaps\n";
const OMITTED: &str = "\n## Omitted\n";

/// The limit cannot hold even an empty summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("fit a summary: it needs {needed} bytes, and the limit is {limit}")]
pub(crate) struct DoesNotFit {
    pub needed: u64,
    pub limit: u64,
}

/// A summary and what it keeps.
#[derive(Debug, Clone)]
pub(crate) struct FittedSummary {
    claims: Vec<CitedClaim>,
    gaps: Vec<Gap>,
    before: DroppedCounts,
    left_out: Vec<DroppedFinding>,
    /// How early each claim is kept.
    claim_ranks: Vec<u8>,
    kept_claims: BTreeSet<usize>,
    kept_gaps: BTreeSet<usize>,
    claim_bytes: u64,
    gap_bytes: u64,
}

impl FittedSummary {
    /// Fits the extract into a limit of bytes.
    pub(crate) fn fit(extract: Extract, limit: u64) -> Result<FittedSummary, DoesNotFit> {
        let mut summary = FittedSummary::holding_all(extract);
        if summary.bytes() <= limit {
            return Ok(summary);
        }
        let (all_claims, all_gaps) = (summary.ranked_claims(), summary.ranked_gaps());
        (summary.kept_claims, summary.kept_gaps) = Default::default();
        (summary.claim_bytes, summary.gap_bytes) = (0, 0);
        let needed = summary.bytes();
        if needed > limit {
            return Err(DoesNotFit { needed, limit });
        }
        for index in &all_gaps {
            let share = summary.gap_bytes + gap_line_bytes(&summary.gaps[*index]);
            if share <= limit / GAP_SHARE {
                summary.take_gap_within(*index, limit);
            }
        }
        for index in all_claims {
            summary.take_claim_within(index, limit);
        }
        for index in all_gaps {
            if !summary.kept_gaps.contains(&index) {
                summary.take_gap_within(index, limit);
            }
        }
        Ok(summary)
    }

    /// The kept parts as an extract, which can be written to the spill file.
    pub(crate) fn into_extract(self) -> Extract {
        let dropped = self.dropped();
        let left_out = self.left_out(FindingDropReason::SummaryLimit);
        let keeps = |kept: &BTreeSet<usize>, index: &usize| kept.contains(index);
        let claims = self.claims.into_iter().enumerate();
        let gaps = self.gaps.into_iter().enumerate();
        Extract {
            claims: claims
                .filter(|(index, _)| keeps(&self.kept_claims, index))
                .map(|(_, claim)| claim)
                .collect(),
            gaps: gaps
                .filter(|(index, _)| keeps(&self.kept_gaps, index))
                .map(|(_, gap)| gap)
                .collect(),
            dropped,
            left_out,
            refused: 0,
        }
    }

    /// Its size now, and after each part that it can give up.
    pub(crate) fn ladder(mut self) -> Vec<u64> {
        let mut sizes = vec![self.bytes()];
        while self.give_up_one() {
            sizes.push(self.bytes());
        }
        sizes
    }

    /// Gives up `count` parts, the lowest ranked first.
    pub(crate) fn give_up(&mut self, count: usize) {
        for _ in 0..count {
            self.give_up_one();
        }
    }

    /// A summary that keeps everything of an extract.
    pub(crate) fn holding_all(extract: Extract) -> FittedSummary {
        FittedSummary {
            kept_claims: (0..extract.claims.len()).collect(),
            kept_gaps: (0..extract.gaps.len()).collect(),
            claim_bytes: extract.claims.iter().map(claim_line_bytes).sum(),
            gap_bytes: extract.gaps.iter().map(gap_line_bytes).sum(),
            claim_ranks: extract.claims.iter().map(|claim| said::rank(&claim.text)).collect(),
            claims: extract.claims,
            gaps: extract.gaps,
            before: extract.dropped,
            left_out: extract.left_out,
        }
    }

    fn ranked_claims(&self) -> Vec<usize> {
        let mut ranked: Vec<usize> = (0..self.claims.len()).collect();
        ranked.sort_by_key(|index| self.claim_rank(*index));
        ranked
    }

    /// The most cited claims come first, then by what they say, then the earlier ones.
    fn claim_rank(&self, index: usize) -> (Reverse<usize>, u8, usize) {
        (Reverse(self.claims[index].cited.len()), self.claim_ranks[index], index)
    }

    fn ranked_gaps(&self) -> Vec<usize> {
        let mut ranked: Vec<usize> = (0..self.gaps.len()).collect();
        ranked.sort_by_key(|index| (self.gaps[*index].rank, *index));
        ranked
    }

    fn take_claim_within(&mut self, index: usize, limit: u64) {
        let bytes = claim_line_bytes(&self.claims[index]);
        // Headings and counts add to this sum, so a claim that exceeds the limit without them is
        // skipped.
        if FINDINGS.len() as u64 + self.claim_bytes + bytes + self.gap_bytes > limit {
            return;
        }
        self.kept_claims.insert(index);
        self.claim_bytes += bytes;
        if self.bytes() > limit {
            self.kept_claims.remove(&index);
            self.claim_bytes -= bytes;
        }
    }

    fn take_gap_within(&mut self, index: usize, limit: u64) {
        let bytes = gap_line_bytes(&self.gaps[index]);
        self.kept_gaps.insert(index);
        self.gap_bytes += bytes;
        if self.bytes() > limit {
            self.kept_gaps.remove(&index);
            self.gap_bytes -= bytes;
        }
    }

    /// Removes the lowest-ranked part. False when no part is left.
    fn give_up_one(&mut self) -> bool {
        let lowest = self.kept_claims.iter().copied();
        if let Some(lowest) = lowest.max_by_key(|index| self.claim_rank(*index)) {
            self.kept_claims.remove(&lowest);
            self.claim_bytes -= claim_line_bytes(&self.claims[lowest]);
            return true;
        }
        let rank = |index: &usize| (self.gaps[*index].rank, *index);
        if let Some(lowest) = self.kept_gaps.iter().copied().max_by_key(rank) {
            self.kept_gaps.remove(&lowest);
            self.gap_bytes -= gap_line_bytes(&self.gaps[lowest]);
            return true;
        }
        false
    }

    /// What is left out, by reason.
    pub(crate) fn dropped(&self) -> DroppedCounts {
        DroppedCounts {
            oversize: self.before.oversize + self.claims.len() - self.kept_claims.len(),
            gaps: self.before.gaps + self.gaps.len() - self.kept_gaps.len(),
            ..self.before
        }
    }

    /// The findings that are left out. `why` is the reason of those that were given up since the
    /// summary was read.
    pub(crate) fn left_out(&self, why: FindingDropReason) -> Vec<DroppedFinding> {
        let mut left_out = self.left_out.clone();
        let given = (0..self.claims.len()).filter(|index| !self.kept_claims.contains(index));
        let given = given.map(|index| DroppedFinding::new(&self.claims[index].text, why));
        left_out.extend(given.take(LEFT_OUT_MAX.saturating_sub(self.left_out.len())));
        left_out
    }

    fn omitted(&self) -> Vec<String> {
        let dropped = self.dropped();
        let line = |count: usize, what: &str, why: &str| {
            let plural = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("- {count} {what}{plural} {why}\n"))
        };
        [
            line(dropped.uncited, "finding", "without a validated citation"),
            line(dropped.empty, "finding", "without text"),
            line(dropped.oversize, "finding", "over the size limit"),
            line(dropped.gaps, "gap", "over the size limit or without text"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The size of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let heading = |present: bool, text: &str| if present { text.len() as u64 } else { 0 };
        let omitted = self.omitted();
        FINDINGS.len() as u64
            + self.claim_bytes
            + heading(!self.kept_gaps.is_empty(), GAPS)
            + self.gap_bytes
            + heading(!omitted.is_empty(), OMITTED)
            + omitted.iter().map(|line| line.len() as u64).sum::<u64>()
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = String::from(FINDINGS);
        self.claims().for_each(|claim| push_claim(claim, &mut out));
        if !self.kept_gaps.is_empty() {
            out.push_str(GAPS);
        }
        for index in &self.kept_gaps {
            out.push_str(&format!("- {}\n", self.gaps[*index].text));
        }
        let omitted = self.omitted();
        if !omitted.is_empty() {
            out.push_str(OMITTED);
        }
        omitted.iter().for_each(|line| out.push_str(line));
        debug_assert_eq!(out.len() as u64, self.bytes());
        out
    }

    /// The claims that are kept, in document order.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &CitedClaim> {
        self.kept_claims.iter().map(|index| &self.claims[*index])
    }
}

fn push_claim(claim: &CitedClaim, out: &mut String) {
    out.push_str("- ");
    out.push_str(&claim.text);
    for cited in &claim.cited {
        out.push_str(&format!(" [@{}]", cited.cid));
        if cited.paywalled {
            out.push_str(" (paywalled)");
        }
    }
    out.push('\n');
}

fn claim_line_bytes(claim: &CitedClaim) -> u64 {
    let mut line = String::new();
    push_claim(claim, &mut line);
    line.len() as u64
}

fn gap_line_bytes(gap: &Gap) -> u64 {
    "- \n".len() as u64 + gap.text.len() as u64
}

/// How many parts each summary gives up so that all fit together, and the sum that is left. The
/// error has the sum that is still too large. Among summaries of equal size the later one gives up
/// first. A summary is represented only by its [`FittedSummary::ladder`].
pub(crate) fn fit_total(ladders: &[Vec<u64>], limit: u64) -> Result<(Vec<usize>, u64), DoesNotFit> {
    let first = |ladder: &Vec<u64>| ladder.first().copied().unwrap_or(0);
    let mut total: u64 = ladders.iter().map(first).sum();
    let mut given = vec![0; ladders.len()];
    let mut largest: BinaryHeap<(u64, usize)> =
        ladders.iter().enumerate().map(|(index, ladder)| (first(ladder), index)).collect();
    while total > limit
        && let Some((bytes, index)) = largest.pop()
    {
        if let Some(now) = ladders[index].get(given[index] + 1) {
            given[index] += 1;
            total = total - bytes + now;
            largest.push((*now, index));
        }
    }
    if total <= limit { Ok((given, total)) } else { Err(DoesNotFit { needed: total, limit }) }
}

#[cfg(test)]
mod tests {
    use super::super::extract::{Cited, ConfidenceBasis};
    use super::*;
    use proptest::prelude::*;

    fn claim(text: &str, cites: usize) -> CitedClaim {
        let cited = |n| Cited { cid: format!("cid_{n}"), paywalled: false };
        CitedClaim {
            text: text.to_owned(),
            cited: (0..cites).map(cited).collect(),
            confidence: 60,
            basis: ConfidenceBasis::Derived,
        }
    }

    fn of(claims: Vec<CitedClaim>, gaps: &[(&str, u8)]) -> Extract {
        let gap = |(text, rank): &(&str, u8)| Gap { text: (*text).to_owned(), rank: *rank };
        Extract { claims, gaps: gaps.iter().map(gap).collect(), ..Extract::default() }
    }

    fn give(summaries: &mut [FittedSummary], limit: u64) -> Result<u64, DoesNotFit> {
        let ladders: Vec<Vec<u64>> =
            summaries.iter().map(|summary| summary.clone().ladder()).collect();
        let (given, total) = fit_total(&ladders, limit)?;
        summaries.iter_mut().zip(given).for_each(|(summary, count)| summary.give_up(count));
        Ok(total)
    }

    #[test]
    fn a_file_exactly_at_the_limit_is_kept_whole() {
        // `## Findings\n- ` + text + ` [@cid_0]\n`, the text in three-byte characters and ASCII.
        let fixed = "## Findings\n- ".len() + " [@cid_0]\n".len();
        for (size, whole) in [(5119, true), (5120, true), (5121, false)] {
            let room = size - fixed;
            let text = format!("{}{}", "\u{20ac}".repeat(room / 3), "x".repeat(room % 3));
            let summary = FittedSummary::fit(of(vec![claim(&text, 1)], &[]), 5120).unwrap();
            assert_eq!(summary.claims().count(), usize::from(whole), "{size}");
            let expected = if whole { size } else { summary.markdown().len() };
            assert_eq!(summary.markdown().len(), expected);
            assert!(summary.bytes() <= 5120);
        }
    }

    #[test]
    fn more_citations_rank_higher_and_order_stays_that_of_the_document() {
        let claims =
            vec![claim(&"a".repeat(60), 1), claim(&"b".repeat(60), 1), claim(&"c".repeat(60), 3)];
        let summary = FittedSummary::fit(of(claims, &[]), 240).unwrap();
        let kept: Vec<char> =
            summary.claims().map(|claim| claim.text.chars().next().unwrap()).collect();
        assert_eq!(kept, ['a', 'c']);
        assert_eq!(summary.dropped().oversize, 1);
        assert!(summary.markdown().ends_with("## Omitted\n- 1 finding over the size limit\n"));
    }

    #[test]
    fn one_huge_claim_does_not_starve_the_others() {
        let claims = vec![claim(&"a".repeat(6000), 1), claim("b", 1)];
        let summary = FittedSummary::fit(of(claims, &[]), 5120).unwrap();
        assert_eq!(summary.claims().next().unwrap().text, "b");
    }

    #[test]
    fn gaps_hold_a_quarter_against_claims_by_priority() {
        let long = "g".repeat(90);
        let gaps = [(long.as_str(), 3), ("(P0) urgent", 0), (long.as_str(), 2)];
        let claims = (0..9).map(|_| claim(&"c".repeat(80), 1)).collect();
        let summary = FittedSummary::fit(of(claims, &gaps), 400).unwrap();
        assert!(summary.markdown().contains("(P0) urgent"));
        assert!(summary.claims().count() >= 2);
        assert_eq!(summary.dropped().gaps, 2);
    }

    #[test]
    fn a_limit_that_holds_nothing_is_an_error() {
        assert!(FittedSummary::fit(of(vec![claim("a", 1)], &[]), 10).is_err());
        assert!(FittedSummary::fit(Extract::default(), 11).is_err());
        assert!(FittedSummary::fit(Extract::default(), 12).is_ok());
    }

    #[test]
    fn the_largest_summary_is_shortened_first() {
        let small = || FittedSummary::fit(of(vec![claim("s", 1)], &[]), 5120).unwrap();
        let large = FittedSummary::fit(
            of((0..20).map(|_| claim(&"l".repeat(50), 1)).collect(), &[("(P0) g", 0)]),
            5120,
        );
        let mut all = vec![small(), large.unwrap(), small()];
        let total = give(&mut all, 700).unwrap();
        assert!(total <= 700);
        assert_eq!(all[0].claims().count() + all[2].claims().count(), 2);
        assert!(all[1].claims().count() < 20);
        assert!(give(&mut all, 20).is_err());
    }

    proptest! {
        #![proptest_config(crate::proptests::config())]

        #[test]
        fn no_limit_is_ever_exceeded(
            texts in prop::collection::vec(("[a-zé€ ]{1,80}", 1_usize..4), 0..20),
            gaps in prop::collection::vec(("[a-zé€]{1,60}", 0_u8..5), 0..6),
            limit in 100_u64..900,
        ) {
            let claims = texts.iter().map(|(text, cites)| claim(text, *cites)).collect();
            let gaps: Vec<(&str, u8)> = gaps.iter().map(|(t, r)| (t.as_str(), *r)).collect();
            if let Ok(summary) = FittedSummary::fit(of(claims, &gaps), limit) {
                prop_assert_eq!(summary.markdown().len() as u64, summary.bytes());
                prop_assert!(summary.bytes() <= limit);
                let aside = serde_json::to_string(&summary.clone().into_extract()).unwrap();
                let back = FittedSummary::holding_all(serde_json::from_str(&aside).unwrap());
                prop_assert_eq!(back.markdown(), summary.markdown());
                prop_assert_eq!(back.clone().ladder(), summary.clone().ladder());
                let mut two = [summary, back];
                if let Ok(total) = give(&mut two, limit) {
                    prop_assert!(total <= limit);
                    prop_assert_eq!(total, two.iter().map(FittedSummary::bytes).sum::<u64>());
                    prop_assert!(two.iter().all(|one| one.markdown().len() as u64 == one.bytes()));
                }
            }
        }
    }
}
