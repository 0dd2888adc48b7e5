//! Which summaries still stand: a newer version may take the place of an older one, or say that a source
//! became private.
//!
//! Contract: a pure fold over summaries. [`versions`](crate::contract::versions) says which summaries are
//! versions of each other and which of two is newer. The newest summary about a source, of any flow,
//! decides whether older ones about it may be shown.
//!
//! See docs/adr/0110-the-newest-version-of-a-source.md.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::contract::ids::Seq;
pub use crate::contract::versions::Publish;
use crate::contract::versions::{SourceWord, VersionOrder};

/// What decides how a summary stands among others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stand<'a> {
    pub order: VersionOrder,
    pub publish: Publish,
    pub word: SourceWord,
    /// Flow, question and sources; 0 stands for none.
    pub work: u64,
    pub origins: &'a [u64],
}

/// What the log says of the sources of an earlier summary: they became private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SeenPrivate {
    /// The request that found it, and the event that says it.
    pub order: VersionOrder,
    /// The event of the summary.
    pub summary: Seq,
    pub word: SourceWord,
    pub origins: Vec<u64>,
}

/// Which summaries were replaced, and which sources are private now.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    newest: HashMap<u64, VersionOrder>,
    /// Replaced summaries, each with the newer one.
    replaced: HashMap<Seq, VersionOrder>,
    /// The newest word on each source.
    words: HashMap<u64, (VersionOrder, SourceWord)>,
    /// Summaries whose sources, taken together, became private, each with the newest event that says so.
    private: HashMap<Seq, Seq>,
}

impl Standing {
    /// Takes the next summary of the log.
    pub(super) fn take(&mut self, unit: Stand<'_>) {
        if unit.work != 0 {
            let newest = self.newest.entry(unit.work).or_insert(unit.order);
            let (older, newer) = (unit.order.min(*newest), unit.order.max(*newest));
            if older != newer {
                self.replaced.insert(older.made, newer);
            }
            *newest = newer;
        }
        self.say(unit.order, unit.word, unit.origins);
    }

    /// Takes the next word of the log that the sources of a summary became private.
    pub(super) fn became_private(&mut self, seen: &SeenPrivate) {
        self.say(seen.order, seen.word, &seen.origins);
        if seen.word == SourceWord::Silent {
            self.private.insert(seen.summary, seen.order.made);
        }
    }

    fn say(&mut self, order: VersionOrder, word: SourceWord, origins: &[u64]) {
        let said = (order, word);
        for origin in origins.iter().filter(|_| word != SourceWord::Silent) {
            let word = self.words.entry(*origin).or_insert(said);
            if word.0 < said.0 {
                *word = said;
            }
        }
    }

    /// Whether a newer summary took the place of this one.
    pub(crate) fn is_replaced(&self, unit: Stand<'_>) -> bool {
        self.replaced.contains_key(&unit.order.made)
    }

    /// Whether a summary may be shown: what it says, unless a newer word calls one of its sources private.
    pub(super) fn publish(&self, unit: Stand<'_>) -> Publish {
        let is_private = self.private.contains_key(&unit.order.made)
            || self.newer_words(unit).any(|(_, word)| word == SourceWord::Private);
        if is_private { Publish::No } else { unit.publish }
    }

    /// Whether an event after `seq` changed how a summary stands.
    pub(crate) fn moved_after(&self, unit: Stand<'_>, seq: Seq) -> bool {
        let replaced = self.replaced.get(&unit.order.made).copied();
        let words = self.newer_words(unit).map(|(at, _)| at);
        let mut moved = words.chain(replaced).map(|at| at.made);
        moved.any(|at| at > seq) || self.private.get(&unit.order.made).is_some_and(|at| *at > seq)
    }

    fn newer_words(&self, unit: Stand<'_>) -> impl Iterator<Item = (VersionOrder, SourceWord)> {
        let words = unit.origins.iter().filter_map(|origin| self.words.get(origin).copied());
        words.filter(move |(at, _)| *at > unit.order)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::library::Unit;
    use super::super::library::tests::library;
    use super::*;

    fn item(id: &str, flow: &str, prompt: &str, publish: Option<bool>) -> Value {
        json!({
            "ts_abs_ms": 5, "source_type": "document", "source_ids": [id],
            "prompt": {"template_id": flow, "prompt_hash": "same"},
            "selection": {"params_hash": prompt, "context": {"publish": publish}},
            "meta": {"flow_id": flow, "publish": publish, "source_name": "notes/a.md"},
        })
    }

    /// The numbers of the summaries that a public digest may use.
    fn shown(items: &[(u64, Value)]) -> Vec<u64> {
        let library = library(items);
        let stands =
            |unit: &&Unit| !library.is_replaced(unit) && library.publish(unit) != Publish::No;
        let mut numbers: Vec<u64> =
            library.units().iter().filter(stands).map(|unit| unit.seq.0).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn the_newest_summary_of_the_same_work_stands() {
        let one = || item("other:a", "f", "p", None);
        assert_eq!(shown(&[(1, one()), (2, one())]), [2]);
        // Other parameters, another flow or another source ask for something else.
        let others = [item("other:a", "f", "q", None), item("other:a", "g", "p", None)];
        let [params, flow] = others;
        let other = item("other:b", "f", "p", None);
        assert_eq!(shown(&[(1, one()), (2, params), (3, flow), (4, other)]), [1, 2, 3, 4]);
        let nameless = json!({"ts_abs_ms": 5});
        assert_eq!(shown(&[(1, nameless.clone()), (2, nameless)]), [1, 2]);
    }

    #[test]
    fn the_newest_word_on_a_source_decides_for_older_summaries_of_every_flow() {
        let open = |flow: &str| item("other:a", flow, "p", None);
        let private = || item("other:a", "f", "p", Some(false));
        assert_eq!(shown(&[(1, open("f")), (2, open("g")), (3, private())]), [] as [u64; 0]);
        let again = [(1, open("g")), (2, private()), (3, open("f"))];
        assert_eq!(shown(&again), [1, 3], "the source is public again");
        // An import gives a changed file another id; its name stays.
        let edited =
            [(1, item("doc_1", "f", "p", None)), (2, item("doc_2", "f", "p", Some(false)))];
        assert_eq!(shown(&edited), [] as [u64; 0]);
    }
}
