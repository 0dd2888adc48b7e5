//! Tags that a pack writes in fixed words: they say which flow read a text and not what the text is
//! about, on however many of its outputs they are.
//!
//! Only the packs of this program are known here. For other packs a tag on all outputs of a window is
//! recognized by its count.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::tags::canonical;
use crate::registry::{Registry, embedded_files};

/// A fixed word, or the fixed beginning of one.
#[derive(Debug, PartialEq, Eq)]
enum Stamp {
    Whole(String),
    Beginning(String),
}

static STAMPS: LazyLock<HashMap<String, Vec<Stamp>>> = LazyLock::new(|| {
    let files: HashMap<&str, &[u8]> = embedded_files().collect();
    let mut stamps: HashMap<String, Vec<Stamp>> = HashMap::new();
    for record in Registry::embedded().iter().flat_map(Registry::records) {
        let path = format!("{}/projection.json", record.pack_dir.trim_end_matches('/'));
        let projection = files.get(path.as_str()).copied().unwrap_or_default();
        let projection: Value = serde_json::from_slice(projection).unwrap_or_default();
        let tags = projection["tags"].as_array().into_iter().flatten();
        let found = tags.flat_map(|rule| {
            let whole = rule["const"].as_str().map(|word| Stamp::Whole(canonical(word)));
            whole.into_iter().chain(fixed_words(rule["template"].as_str().unwrap_or_default()))
        });
        stamps.entry(record.flow_id.clone()).or_default().extend(found);
    }
    stamps
});

/// The fixed words of a template: what stands between its conditions.
fn fixed_words(template: &str) -> Vec<Stamp> {
    let mut words = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (text, behind) = rest.split_once("{%").unwrap_or((rest, ""));
        let text = text.trim();
        match text.split_once("{{") {
            None if !text.is_empty() => words.push(Stamp::Whole(canonical(text))),
            Some((head, _)) if !head.is_empty() && !head.contains(':') => {
                words.push(Stamp::Beginning(format!("free:{head}")));
            }
            _ => {}
        }
        rest = behind.split_once("%}").map_or("", |(_, behind)| behind);
    }
    words
}

/// Whether the pack of a flow writes this tag in fixed words.
pub(super) fn is_stamp(flow_id: &str, tag: &str) -> bool {
    let stamps = STAMPS.get(flow_id).map(Vec::as_slice).unwrap_or_default();
    stamps.iter().any(|stamp| match stamp {
        Stamp::Whole(word) => word == tag,
        Stamp::Beginning(head) => tag.starts_with(head.as_str()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_words_of_a_template_are_found() {
        let whole = |word: &str| Stamp::Whole(format!("free:{word}"));
        for (template, words) in [
            (
                "{% if a %}yes_word{% else %}no_word{% endif %}",
                vec![whole("yes_word"), whole("no_word")],
            ),
            (
                "{% if a %}lever_{{ a }}{% endif %}",
                vec![Stamp::Beginning("free:lever_".to_owned())],
            ),
            ("{% if a %}stage:{{ a }}{% endif %}", vec![]),
            ("{{ a }}", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(fixed_words(template), words, "{template}");
        }
    }

    #[test]
    fn the_packs_of_this_program_have_such_tags() {
        for (flow, tag) in [
            ("email.triage.extract_event.calendar_event.v1", "free:calendar_event"),
            ("jobs.posting.screen.job_screening.v1", "free:job_posting"),
            ("ops.run.summarize.pipeline_run.v1", "free:pipeline_run"),
        ] {
            assert!(is_stamp(flow, tag), "{tag}");
            assert!(!is_stamp(flow, "free:garden") && !is_stamp("another.flow", tag), "{tag}");
        }
    }
}
