//! What the failures of a provider mean: whether it gets no calls for a time.
//!
//! Contract: calls that were under way together when a provider failed are one failure. So are the
//! failures of one prompt, where the prompt may be the cause. Calls are known by their number in the
//! order in which they were sent.
//!
//! See docs/adr/0105-incidents-and-learned-rates.md.

use crate::contract::hash::Digest;

/// Failures in a row after which a provider gets no calls for a time.
pub(super) const FAILURES_TO_OPEN: u32 = 5;

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    /// The prompts that failed.
    prompts: Vec<Digest>,
    /// How many calls had been sent when the last failure was counted.
    counted_at: u64,
}

impl Failures {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the provider gets no calls for a time.
    pub(super) fn are_many(&self) -> bool {
        self.count >= FAILURES_TO_OPEN
    }

    /// Call `number` failed, `sent` calls were sent so far. `prompt` is given where the prompt may be
    /// the cause. True when the failure counts.
    pub(super) fn add(&mut self, number: u64, sent: u64, prompt: Option<Digest>) -> bool {
        let together = number <= self.counted_at;
        let known = prompt.is_some_and(|prompt| self.prompts.contains(&prompt));
        if together || known && !self.are_many() {
            return false;
        }
        if !self.are_many() {
            self.prompts.extend(prompt);
        }
        self.count = self.count.saturating_add(1);
        self.counted_at = sent;
        true
    }

    pub(super) fn end(&mut self) {
        self.count = 0;
        self.prompts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::hash::sha256;

    #[test]
    fn calls_that_fail_together_are_one_failure() {
        let mut failures = Failures::default();
        let counted: Vec<bool> = (1..=6).map(|number| failures.add(number, 6, None)).collect();
        assert_eq!(counted, [true, false, false, false, false, false]);
        assert_eq!(failures.count(), 1);
        for number in 7..=10 {
            assert!(!failures.are_many());
            assert!(failures.add(number, number, None));
        }
        assert!(failures.are_many());
        failures.end();
        assert_eq!(failures.count(), 0);
    }

    #[test]
    fn one_prompt_that_fails_again_and_again_is_one_failure() {
        let mut failures = Failures::default();
        for number in 1..=20 {
            failures.add(number, number, Some(sha256("one prompt")));
        }
        assert_eq!(failures.count(), 1);
        for number in 21..=24 {
            failures.add(number, number, Some(sha256(number.to_string())));
        }
        assert!(failures.are_many());
        assert!(failures.add(25, 25, Some(sha256("one prompt"))), "the call that tests it counts");
    }
}
