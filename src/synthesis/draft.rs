//! Drafts perspectives from an objective. [`draft`] uses no model: the same objective gives the
//! same draft. Tracks alternate (standard, independent, contrarian), each with its own angles.
//! Agents alternate too. Platforms depend on the track and the topic.
//!
//! [`adopt`] takes the answer of the registered router flow. Perspectives that satisfy the rules
//! are kept; drafted ones replace the others. The result is always a valid document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Number, Value, json};

use super::agents::AgentTypes;
use super::finding::Findings;
use super::perspectives::{
    Perspective, PerspectiveRules, Perspectives, PromptContract, Track, check,
};
use crate::contract::hash::sha256;
use crate::contract::time::Timestamp;

/// Perspectives of a draft, unless the caller sets a number.
pub(crate) const COUNT_DEFAULT: usize = 4;
/// Most perspectives of one draft.
pub(crate) const COUNT_MAX: usize = 50;
pub(crate) const ROUTER_FLOW: &str = "research.router.plan.perspectives.v1";
/// Most perspectives that the router flow is asked for.
pub(crate) const FLOW_COUNT_MAX: usize = 6;

const WORDS_MAX: u64 = 900;
const SOURCES_MAX: u64 = 10;
const SEARCH_CALLS_MAX: u64 = 3;
const FETCH_CALLS_MAX: u64 = 4;
const SECTIONS: [&str; 3] = ["Findings", "Sources", "Gaps"];

/// Why nothing can be drafted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    #[error("draft perspectives: the objective has no words")]
    NoObjective,
    #[error("draft perspectives: {0} were asked for; 1 to {COUNT_MAX} are possible")]
    BadCount(usize),
    #[error("draft perspectives: no agent type is configured")]
    NoAgents,
}

#[derive(Debug, Clone, Copy)]
pub struct DraftInput<'a> {
    pub objective: &'a str,
    pub count: usize,
    /// The agent types, in the order in which they alternate.
    pub agent_types: &'a [String],
    /// Without it, derived from the objective and the day.
    pub run_id: Option<&'a str>,
    pub created_at: Timestamp,
}

pub fn draft(input: DraftInput<'_>) -> Result<Perspectives, DraftError> {
    let objective = input.objective.split_whitespace().collect::<Vec<_>>().join(" ");
    if !objective.contains(char::is_alphanumeric) {
        return Err(DraftError::NoObjective);
    }
    if !(1..=COUNT_MAX).contains(&input.count) {
        return Err(DraftError::BadCount(input.count));
    }
    if input.agent_types.is_empty() {
        return Err(DraftError::NoAgents);
    }
    let subject = subject(&objective);
    let topic = topic(&objective);
    let created_at = input.created_at.to_string();
    let perspectives = (0..input.count)
        .map(|index| perspective(index, &subject, topic, input.agent_types))
        .collect();
    Ok(Perspectives {
        schema_version: "perspectives.v1".to_owned(),
        run_id: input.run_id.map_or_else(|| run_id(&objective, &created_at), str::to_owned),
        created_at,
        perspectives,
    })
}

/// Merges a router's answer into `plain`. Each perspective gets its number as id and an existing
/// agent. A perspective that breaks a rule is replaced by the drafted one. Also returns how many
/// were replaced.
pub fn adopt(answer: &Value, input: DraftInput<'_>, plain: Perspectives) -> (Perspectives, usize) {
    let answered = answer["perspectives"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut drafted = plain.clone();
    let mut left_out = 0;
    for (index, (place, found)) in drafted.perspectives.iter_mut().zip(answered).enumerate() {
        let mut found = found.clone();
        if let Some(members) = found.as_object_mut() {
            members.insert("id".to_owned(), json!(place.id));
            // Agents alternate, so the answer's agent types are ignored.
            let agent = &input.agent_types[index % input.agent_types.len()];
            members.insert("agent_type".to_owned(), json!(agent));
        }
        match serde_json::from_value::<Perspective>(found) {
            Ok(mut one) if keeps_rules(&plain, &one, input.agent_types) => {
                one.title = with_objective(&one.title, input.objective);
                *place = one;
            }
            _ => left_out += 1,
        }
    }
    (drafted, left_out)
}

/// A title that says what the research is about. The agent that gets a perspective is told its title
/// and no objective, so a title that leaves out words of the objective gets them added.
pub(super) fn with_objective(title: &str, objective: &str) -> String {
    let objective = objective.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: BTreeSet<String> = words(title).collect();
    let missing = words(&objective).any(|word| word.chars().count() > 3 && !said.contains(&word));
    let title = title.trim().trim_end_matches(['.', ':', ' ']);
    // The beginning of the objective, cut to fit, gives way to the whole of it.
    let begins = |part: &str| {
        let part = part.trim_end_matches(['…', ' ']);
        !part.is_empty() && objective.starts_with(part)
    };
    match missing {
        true => {
            let cut =
                title.match_indices(": ").find(|(at, mark)| begins(&title[at + mark.len()..]));
            let head = cut.map_or(title, |(at, _)| &title[..at]);
            format!("{head}: {}", subject(&objective))
        }
        false => title.to_owned(),
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase)
}

/// True when a document with only this perspective passes the check.
fn keeps_rules(plain: &Perspectives, one: &Perspective, agent_types: &[String]) -> bool {
    let alone = Perspectives { perspectives: vec![one.clone()], ..plain.clone() };
    let Ok(value) = serde_json::to_value(&alone) else { return false };
    let mut findings = Findings::default();
    let agent_types = &AgentTypes::named(agent_types.to_vec());
    check(&value, "draft", PerspectiveRules { agent_types, run_id: None }, &mut findings);
    findings.passes() && !one.title.trim().is_empty() && one.source_artifact.is_none()
}

fn run_id(objective: &str, created_at: &str) -> String {
    let day: String = created_at.chars().take(10).filter(char::is_ascii_digit).collect();
    format!("dr_{day}_{}", &sha256(objective).hex()[..8])
}

/// The objective within a title. It stands there whole: an agent is told nothing else of it.
fn subject(objective: &str) -> String {
    objective.trim_end_matches(['.', '?', '!', ' ']).to_owned()
}

fn perspective(index: usize, subject: &str, topic: &Topic, agent_types: &[String]) -> Perspective {
    const TRACKS: [Track; 3] = [Track::Standard, Track::Independent, Track::Contrarian];
    let track = TRACKS[index % TRACKS.len()];
    let round = index / TRACKS.len();
    let angles = TABLE.angles.of(track);
    let again = match round / angles.len() {
        0 => String::new(),
        more => format!(" ({})", more + 1),
    };
    Perspective {
        id: format!("p{}", index + 1),
        title: format!("{}{again}: {subject}", angles[round % angles.len()]),
        track,
        agent_type: agent_types[index % agent_types.len()].clone(),
        prompt_contract: contract(),
        expected_platforms: topic.platforms.of(track).to_vec(),
        source_artifact: None,
    }
}

fn contract() -> PromptContract {
    let budget = [("search_calls", SEARCH_CALLS_MAX), ("fetch_calls", FETCH_CALLS_MAX)];
    PromptContract {
        max_words: Number::from(WORDS_MAX),
        max_sources: Number::from(SOURCES_MAX),
        tool_budget: budget
            .map(|(tool, calls)| (tool.to_owned(), Number::from(calls)))
            .into_iter()
            .collect::<BTreeMap<_, _>>(),
        must_include_sections: SECTIONS.map(str::to_owned).to_vec(),
    }
}

/// Texts for each track.
#[derive(Deserialize)]
struct ByTrack {
    standard: Vec<String>,
    independent: Vec<String>,
    contrarian: Vec<String>,
}

impl ByTrack {
    fn of(&self, track: Track) -> &[String] {
        match track {
            Track::Standard => &self.standard,
            Track::Independent => &self.independent,
            Track::Contrarian => &self.contrarian,
        }
    }
}

#[derive(Deserialize)]
struct Topic {
    words: BTreeSet<String>,
    platforms: ByTrack,
}

/// What `draft.toml` holds.
#[derive(Deserialize)]
struct Table {
    angles: ByTrack,
    topics: Vec<Topic>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("draft.toml")).expect("draft.toml is read by a test")
});

/// The topic with the most words in the objective; of equal ones the first, and without words the last.
fn topic(objective: &str) -> &'static Topic {
    let lower = objective.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let count = |topic: &Topic| words.iter().filter(|word| topic.words.contains(**word)).count();
    let mut best = TABLE.topics.last().expect("draft.toml has topics");
    for topic in &TABLE.topics {
        if count(topic) > count(best) {
            best = topic;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::agents::AgentTypes;
    use super::super::finding::Findings;
    use super::super::perspectives::{PerspectiveRules, check};
    use super::*;
    use proptest::prelude::*;

    fn of(objective: &str, count: usize) -> Result<Perspectives, DraftError> {
        let agents = AgentTypes::usual().names;
        let created_at = Timestamp(1_770_984_300_000);
        draft(DraftInput { objective, count, agent_types: &agents, run_id: None, created_at })
    }

    #[test]
    fn tracks_and_agents_take_turns() {
        let draft = of("How should logs be compacted with snapshots?", 7).unwrap();
        let tracks: Vec<Track> = draft.perspectives.iter().map(|p| p.track).collect();
        assert_eq!(tracks[..3], [Track::Standard, Track::Independent, Track::Contrarian]);
        assert_eq!(tracks[6], Track::Standard);
        let first = &draft.perspectives[0];
        assert_eq!(
            first.title,
            "Established knowledge: How should logs be compacted with snapshots"
        );
        assert_eq!(first.expected_platforms, ["docs", "github", "blog"]);
        assert_eq!(first.agent_type, "ClaudeResearcher");
        assert_eq!(draft.perspectives[5].agent_type, "ClaudeResearcher");
        assert_eq!(
            draft.run_id,
            of("How should logs be  compacted with snapshots?", 1).unwrap().run_id
        );
        assert!(draft.run_id.starts_with("dr_20260213_"));
    }

    #[test]
    fn invalid_draft_inputs_are_refused() {
        assert_eq!(of(" \n", 3), Err(DraftError::NoObjective));
        assert_eq!(of("???", 3), Err(DraftError::NoObjective));
        assert_eq!(of("x", 0), Err(DraftError::BadCount(0)));
        assert_eq!(of("x", 51), Err(DraftError::BadCount(51)));
        let nobody = DraftInput {
            objective: "x",
            count: 1,
            agent_types: &[],
            run_id: None,
            created_at: Timestamp(0),
        };
        assert_eq!(draft(nobody), Err(DraftError::NoAgents));
    }

    #[test]
    fn titles_of_the_router_keep_the_objective() {
        let objective = "Where does SQLite lose  writes after a power cut?";
        assert_eq!(
            with_objective("SQLite: technical overview", objective),
            "SQLite: technical overview: Where does SQLite lose writes after a power cut"
        );
        assert_eq!(
            with_objective("Costs: Where does SQLite lose wri…", objective),
            "Costs: Where does SQLite lose writes after a power cut"
        );
        let whole = "Objections: where does SQLite lose writes after a power cut";
        assert_eq!(with_objective(whole, objective), whole);
    }

    proptest! {
        #![proptest_config(crate::proptests::config())]

        #[test]
        fn every_draft_is_valid_and_repeatable(objective in ".{0,200}", count in 1_usize..50) {
            if let Ok(draft) = of(&objective, count) {
                let value = serde_json::to_value(&draft).unwrap();
                let agents = AgentTypes::usual();
                let mut findings = Findings::default();
                let rules = PerspectiveRules { agent_types: &agents, run_id: None };
                let checked = check(&value, "draft", rules, &mut findings);
                prop_assert_eq!(findings, Findings::default());
                prop_assert_eq!(checked.as_ref(), Some(&draft));
                prop_assert_eq!(of(&objective, count).unwrap(), draft);
            }
        }
    }
}
