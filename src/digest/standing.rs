//! Which summaries still stand: a newer one may take the place of an older one, or say that its source
//! became private.
//!
//! Contract: a pure fold over summaries in the order of the log. A summary is replaced by a newer one of
//! the same flow, parameters and sources. The newest summary about a source, of any flow, decides
//! whether older ones about it may be shown.
//!
//! See docs/adr/0109-what-makes-work-identical.md.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::project::scalar;
use super::tasks;
use crate::contract::ids::Seq;

/// Whether a summary may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// It does not say.
    Unsaid,
    /// It may.
    Yes,
    /// It may not.
    No,
}

impl Publish {
    /// Every word, in the order in which it is kept.
    pub(super) const ALL: [Publish; 3] = [Publish::Unsaid, Publish::Yes, Publish::No];
}

/// What decides how a summary stands among others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stand {
    pub seq: Seq,
    pub publish: Publish,
    pub keys: StandingKeys,
}

/// What two summaries share when the newer one counts; 0 stands for no key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StandingKeys {
    /// Flow, parameters and sources.
    pub work: u64,
    /// The source, as a person knows it.
    pub source: u64,
}

impl StandingKeys {
    pub fn of(item: &SourceWords<'_>) -> StandingKeys {
        if item.source_ids.is_empty() {
            return StandingKeys::default();
        }
        let ids = item.source_ids.join("\n");
        let work = [item.template_id, item.prompt_hash, item.meta_word("summary_subkind"), &ids];
        let name = item.meta_word("source_name");
        let at = item.at.unwrap_or_default().to_string();
        let conversation = item.meta.get("conversation_id").and_then(scalar);
        let is_file = item.source_ids[0].starts_with("other:");
        // An import gives a changed text another id, so its name and its time stand for it.
        let source = match (item.source_type, conversation, item.source_ids) {
            ("session", Some(conversation), _) => format!("{conversation}\n{at}"),
            ("document", _, [_]) if !is_file && !name.is_empty() => name.to_owned(),
            ("event", _, [_]) if !name.is_empty() => format!("{name}\n{at}"),
            _ => ids.clone(),
        };
        let has_prompt = !item.prompt_hash.is_empty();
        StandingKeys {
            work: if has_prompt { tasks::key("work", &work.join("\n")) } else { 0 },
            source: tasks::key("about", &format!("{}\n{source}", item.source_type)),
        }
    }
}

/// What the keys are made of.
pub(crate) struct SourceWords<'a> {
    pub source_type: &'a str,
    pub source_ids: &'a [String],
    pub template_id: &'a str,
    pub prompt_hash: &'a str,
    pub meta: &'a Map<String, Value>,
    /// Source time.
    pub at: Option<i64>,
}

impl SourceWords<'_> {
    fn meta_word(&self, name: &str) -> &str {
        self.meta.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Which summaries were replaced, and which sources are private now.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    newest: HashMap<u64, Seq>,
    /// Replaced summaries, each with the newer one.
    replaced: HashMap<Seq, Seq>,
    /// The newest word on each source that some summary calls private.
    words: HashMap<u64, (Seq, Publish)>,
}

impl Standing {
    /// Takes the next summary of the log.
    pub fn take(&mut self, unit: Stand) {
        let StandingKeys { work, source } = unit.keys;
        if work != 0
            && let Some(older) = self.newest.insert(work, unit.seq)
        {
            self.replaced.insert(older, unit.seq);
        }
        if source != 0 && (unit.publish == Publish::No || self.words.contains_key(&source)) {
            self.words.insert(source, (unit.seq, unit.publish));
        }
    }

    /// Whether a newer summary took the place of this one.
    pub fn is_replaced(&self, unit: Stand) -> bool {
        self.replaced.contains_key(&unit.seq)
    }

    /// Whether a summary may be shown: what it says, unless a newer one calls its source private.
    pub fn publish(&self, unit: Stand) -> Publish {
        match self.newer_word(unit) {
            Some((_, Publish::No)) => Publish::No,
            _ => unit.publish,
        }
    }

    /// Whether an event after `seq` changed how a summary stands.
    pub fn moved_after(&self, unit: Stand, seq: Seq) -> bool {
        let replaced = self.replaced.get(&unit.seq).copied();
        let word = self.newer_word(unit).map(|(at, _)| at);
        replaced.into_iter().chain(word).any(|at| at > seq)
    }

    fn newer_word(&self, unit: Stand) -> Option<(Seq, Publish)> {
        let word = self.words.get(&unit.keys.source).copied();
        word.filter(|(at, _)| *at > unit.seq)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::library::Unit;
    use super::super::library::tests::library;
    use super::*;

    fn item(id: &str, flow: &str, prompt: &str, publish: Option<bool>) -> Value {
        json!({
            "ts_abs_ms": 5, "source_type": "document", "source_ids": [id],
            "prompt": {"template_id": flow, "prompt_hash": prompt},
            "meta": {"flow_id": flow, "publish": publish, "source_name": "notes/a.md"},
        })
    }

    /// The numbers of the summaries that a public digest may use.
    fn shown(items: &[(u64, Value)]) -> Vec<u64> {
        let library = library(items);
        let stands = |unit: &&Unit| {
            !library.standing().is_replaced(unit.stand())
                && library.standing().publish(unit.stand()) != Publish::No
        };
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
