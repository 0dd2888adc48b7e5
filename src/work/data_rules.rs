//! What the rules, the data and the request say of the privacy of one request.
//!
//! Contract: the strictest word wins, so each of them can only add reasons. What was made from data that
//! stays on this machine stays there too: a summary carries the mark, and a request over it inherits it.
//!
//! See docs/adr/0118-rules-about-data.md.

use std::collections::HashSet;

use crate::config::Config;
use crate::contract::places::DataPlace;
use crate::contract::privacy::{Confinement, OF_REQUEST, says_local_only};
use crate::contract::request::Request;
use crate::contract::source::InputContext;
use crate::contract::vocabulary::{Bus, SummaryKind};
use crate::upstream::context::{DataFacts, data_of};
use crate::upstream::defect::Defect;
use crate::upstream::{InputSpec, Options, Resolved, Upstream, resolve};

/// Most sources below summaries that are looked at for one request.
const BELOW_MAX: usize = 20_000;
/// The reason when there are more.
const TOO_MANY: &str = "summaries of more sources than are looked at";

/// What keeps the sources of a request on this machine, and what keeps its summary unpublished.
/// `context` is what was read of the sources; `None` where they are too many.
pub(crate) fn confinement(
    config: &Config,
    upstream: &Upstream,
    request: &Request,
    resolved: &Resolved,
    context: Option<&InputContext>,
) -> Result<Confinement, Box<Defect>> {
    let has_rules = !config.privacy.is_empty();
    let facts = data_of(resolved, upstream, config.timezone, context, has_rules);
    let facts = facts.map_err(Box::new)?;
    let DataFacts { mut places, mut marked, mut private, made_from } = facts;
    let below = below_sources(config, upstream, made_from);
    places.extend(&below.places);
    marked.extend(below.marked);
    private.extend(below.private);
    places.add(DataPlace::Repo, &request.requested_by.repo);
    let params = &request.work.params;
    let project = params.get("project").and_then(serde_json::Value::as_str);
    project.into_iter().for_each(|name| places.add(DataPlace::Project, name));
    let mut found = config.privacy.of(&places);
    marked.iter().for_each(|id| found.keep_here(id));
    found.private.extend(private);
    if found.private.is_empty() {
        found.private.extend(resolved.private_whole());
    }
    if says_local_only(params) {
        found.keep_here(OF_REQUEST);
    }
    Ok(found)
}

/// What the sources of summaries say, the sources of those that are summaries, and the newest documents of
/// files. A rule or a mark may be younger than a summary, and a summary of several sources names no place of
/// theirs. What is not there any more says nothing; the summary itself carries the marks of its time.
fn below_sources(
    config: &Config,
    upstream: &Upstream,
    mut open: Vec<(Bus, Vec<String>)>,
) -> DataFacts {
    let mut all = DataFacts::default();
    let mut seen = HashSet::new();
    while let Some((bus, mut ids)) = open.pop() {
        ids.retain(|id| seen.insert((bus, id.clone())));
        if seen.len() > BELOW_MAX {
            // What was not looked at may be anything.
            all.marked.push(TOO_MANY.to_owned());
            all.private.push(TOO_MANY.to_owned());
            return all;
        }
        let facts = facts_of(config, upstream, bus, ids.clone());
        let facts: Vec<DataFacts> = match facts {
            Some(facts) => vec![facts],
            // One that is gone hides the others.
            None => {
                ids.into_iter().filter_map(|id| facts_of(config, upstream, bus, vec![id])).collect()
            }
        };
        for one in facts {
            all.places.extend(&one.places);
            all.marked.extend(one.marked);
            all.private.extend(one.private);
            open.extend(one.made_from);
        }
    }
    all
}

fn facts_of(config: &Config, upstream: &Upstream, bus: Bus, ids: Vec<String>) -> Option<DataFacts> {
    let options = Options { zone: Some(config.timezone), ..Options::default() };
    let input = InputSpec::Ids { bus, ids };
    let resolved = resolve(upstream, &input, SummaryKind::Other, &options).ok()?;
    let mut facts = data_of(&resolved, upstream, config.timezone, None, true).ok()?;
    if facts.private.is_empty() {
        facts.private.extend(resolved.private_whole());
    }
    Some(facts)
}
