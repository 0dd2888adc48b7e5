//! How fast a provider writes: tokens a second of its newest answers.
//!
//! Contract: the time of an answer that arrived in many parts begins with its first part, so that the
//! time in which the server reads the prompt does not count. For other answers it is the whole call.

use std::collections::VecDeque;

/// How many answers are remembered.
const ANSWERS_MAX: usize = 32;
/// An answer in fewer parts did not arrive while it was written.
const PARTS_MIN: u32 = 8;

/// The newest answers of a provider.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// Tokens and milliseconds of each.
    answers: VecDeque<(u64, i64)>,
}

/// When a call was sent, when its first part arrived, and when it ended, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub sent: i64,
    pub first: Option<i64>,
    pub parts: u32,
    pub ended: i64,
    pub tokens: u64,
}

impl Speed {
    pub(super) fn add(&mut self, written: Written) {
        let Written { sent, first, parts, ended, tokens } = written;
        let begun = first.filter(|_| parts >= PARTS_MIN).unwrap_or(sent);
        let time = ended.saturating_sub(begun);
        if tokens == 0 || time <= 0 {
            return;
        }
        if self.answers.len() == ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back((tokens, time));
    }

    /// `None` until an answer had a count of its tokens.
    #[allow(clippy::cast_precision_loss, reason = "tokens of a few answers")]
    pub(super) fn tokens_per_second(&self) -> Option<f64> {
        let (tokens, time) = self.answers.iter().fold((0_u64, 0_i64), |(tokens, time), one| {
            (tokens.saturating_add(one.0), time.saturating_add(one.1))
        });
        (time > 0).then(|| (tokens as f64 * 10_000.0 / time as f64).round() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(first: Option<i64>, parts: u32, tokens: u64) -> Written {
        Written { sent: 1_000, first, parts, ended: 6_000, tokens }
    }

    #[test]
    fn a_stream_counts_from_its_first_part_and_other_answers_from_the_question() {
        let speed = |answers: &[Written]| {
            let mut speed = Speed::default();
            answers.iter().for_each(|one| speed.add(*one));
            speed.tokens_per_second()
        };
        assert_eq!(speed(&[]), None);
        assert_eq!(speed(&[written(Some(4_000), 40, 40)]), Some(20.0));
        assert_eq!(speed(&[written(Some(5_999), 1, 40)]), Some(8.0), "one part is no stream");
        assert_eq!(speed(&[written(None, 0, 40)]), Some(8.0));
        assert_eq!(speed(&[written(None, 0, 0)]), None, "a server without counts has no speed");
        assert_eq!(speed(&[written(None, 0, 40), written(Some(4_000), 9, 40)]), Some(11.4));
    }

    #[test]
    fn only_the_newest_answers_count() {
        let mut speed = Speed::default();
        speed.add(written(None, 0, 1 << 30));
        for _ in 0..ANSWERS_MAX {
            speed.add(written(None, 0, 10));
        }
        assert_eq!(speed.tokens_per_second(), Some(2.0));
    }
}
