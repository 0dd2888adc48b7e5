//! Perspectives on an objective: a fixed, sensible set, titled by the objective's own key phrases.
//!
//! Nothing is known about the objective but its words, so the set is always the same six views: three
//! standard, two independent, one contrarian, each with the contract a wave writer needs.

use serde_json::{Value, json};

use super::super::text::language::Language;
use super::filled::Filled;
use super::hints::Style;
use super::pages::text_of;
use super::rules::capitalize;
use super::scene::Scene;

const VIEWS: [(&str, &str, &[&str]); 6] = [
    ("Technical overview", "standard", &["docs", "github"]),
    ("Current practice and alternatives", "standard", &["docs", "blog"]),
    ("Costs, risks and limits", "standard", &["blog", "forum"]),
    ("Primary sources and data", "independent", &["papers", "official"]),
    ("Experience of those who use it", "independent", &["forum", "github"]),
    ("The case against", "contrarian", &["papers", "blog"]),
];

/// The same views, said in Spanish.
const VIEWS_ES: [&str; 6] = [
    "Panorama técnico",
    "Práctica actual y alternativas",
    "Costos, riesgos y límites",
    "Fuentes primarias y datos",
    "Experiencia de quienes lo usan",
    "Los argumentos en contra",
];

/// The perspectives, as many as the input `max_perspectives` allows.
pub fn perspectives(scene: &Scene<'_, '_>) -> Filled {
    let all = scene.all();
    if scene.text.is_blank() {
        return Filled::List(Vec::new());
    }
    let subject = {
        let phrases: Vec<String> =
            scene.phrases(8, Style::Plain, &all).into_iter().map(text_of).collect();
        phrases
            .iter()
            .find(|phrase| phrase.contains(' '))
            .or(phrases.first())
            .map(|phrase| capitalize(phrase))
    };
    let agent =
        scene.input_text("agent_type", &all).unwrap_or_else(|| "ClaudeResearcher".to_string());
    let wanted = scene
        .input("max_perspectives", &all)
        .and_then(Value::as_u64)
        .unwrap_or(4)
        .clamp(1, VIEWS.len() as u64) as usize;
    let order: &[usize] = match wanted {
        1..=2 => &[0, 5],
        3 => &[0, 3, 5],
        4 => &[0, 2, 3, 5],
        _ => &[0, 1, 2, 3, 5, 4],
    };
    let spanish = scene.text.language == Language::Spanish;
    let make = |(at, &view): (usize, &usize)| {
        let (title, track, platforms) = VIEWS[view];
        let title = if spanish { VIEWS_ES[view] } else { title };
        let title = subject
            .as_ref()
            .map_or(title.to_string(), |subject| format!("{subject}: {}", title.to_lowercase()));
        json!({
            "id": format!("p{}", at + 1), "title": title, "track": track, "agent_type": agent,
            "prompt_contract": {"max_words": 900, "max_sources": 10, "tool_budget": {"search_calls": 3, "fetch_calls": 4},
                                "must_include_sections": ["Findings", "Sources", "Gaps"]},
            "expected_platforms": platforms
        })
    };
    Filled::Value(order.iter().take(wanted).enumerate().map(make).collect())
}
