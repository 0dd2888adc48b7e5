//! The rule for a property that has no hint: by its type and the usual meaning of its name.
//!
//! Only names whose meaning is common are known; anything else stays empty rather than being filled
//! with something plausible.

use serde_json::json;

use super::super::extract::cues::Purpose;
use super::super::text::words::fold;
use super::conform::Node;
use super::filled::Filled;
use super::hints::{KindHint, Over, Part, Rule, Scale, Style};
use super::rules::tag;
use super::scene::{Focus, Scene};

/// Finds a value for a property by its name and schema.
pub fn guess(name: &str, node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let choices = node.enum_strings();
    if !choices.is_empty() {
        return by_own_words(&choices, scene, focus);
    }
    if let Some(value) = scene.input(name, focus) {
        return Filled::Value(value.clone());
    }
    if node.allows("array") && !node.allows("string") {
        return list(name, node, scene, focus);
    }
    if node.properties().is_some() {
        return Filled::Object(members(node, scene, focus));
    }
    if node.allows("boolean") && !node.allows("string") {
        return Filled::Nothing;
    }
    let numeric = !node.allows("string");
    rule(name, numeric)
        .map(|rule| scene.eval(&rule, focus))
        .unwrap_or_else(|| confidence(name, numeric))
}

fn members(node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Vec<(String, Filled)> {
    let names = node.properties().into_iter().flat_map(|properties| properties.keys());
    names
        .filter_map(|name| {
            node.property(name).map(|property| (name.clone(), guess(name, property, scene, focus)))
        })
        .collect()
}

fn by_own_words(choices: &[&str], scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    let said = choices
        .iter()
        .map(|choice| (choice, scene.mentions(&choice.replace('_', " "), focus).len()));
    match said.filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count) {
        Some((choice, _)) => Filled::text(*choice),
        None => Filled::Nothing,
    }
}

fn list(name: &str, node: Node<'_>, scene: &Scene<'_, '_>, focus: &Focus) -> Filled {
    if let Some(items) = node.items().filter(|items| items.properties().is_some()) {
        let Some(purpose) = purpose_of(&fold(name)) else { return Filled::List(Vec::new()) };
        let over = Over { purpose: Some(purpose), ..Over::default() };
        let chosen = scene.best_of(scene.select(&over, focus, None), 10);
        let make = |at: usize| {
            Filled::Object(members(
                items,
                scene,
                &Focus { sentences: vec![at], ..Focus::default() },
            ))
        };
        return Filled::List(chosen.into_iter().map(make).collect());
    }
    let folded = fold(name);
    let rule = match folded.as_str() {
        _ if ["tag", "label"].iter().any(|word| folded.contains(word)) => {
            Rule::Phrases { most: 6, style: Style::Tag }
        }
        _ if ["topic", "keyword", "theme", "phrase", "tema"]
            .iter()
            .any(|word| folded.contains(word)) =>
        {
            Rule::Phrases { most: 6, style: Style::Plain }
        }
        _ if ["entit", "names", "people", "persons", "organi"]
            .iter()
            .any(|word| folded.contains(word)) =>
        {
            Rule::Names { most: 10 }
        }
        _ => Rule::Sentences { over: over_for(&folded), most: 5, bytes: 240, who: None },
    };
    scene.eval(&rule, focus)
}

fn over_for(name: &str) -> Over {
    match purpose_of(name) {
        Some(purpose) => Over { purpose: Some(purpose), ..Over::default() },
        None if ["point", "highlight", "fact", "finding", "bullet", "claim"]
            .iter()
            .any(|word| name.contains(word)) =>
        {
            Over { best: true, ..Over::default() }
        }
        None => Over { cues: vec![name.replace('_', " ")], ..Over::default() },
    }
}

fn purpose_of(name: &str) -> Option<Purpose> {
    const NAMES: [(&str, Purpose); 18] = [
        ("task", Purpose::Action),
        ("action", Purpose::Action),
        ("todo", Purpose::Action),
        ("next_step", Purpose::Pending),
        ("pending", Purpose::Pending),
        ("question", Purpose::Question),
        ("decision", Purpose::Decision),
        ("goal", Purpose::Goal),
        ("objective", Purpose::Goal),
        ("achievement", Purpose::Result),
        ("result", Purpose::Result),
        ("outcome", Purpose::Result),
        ("risk", Purpose::Problem),
        ("problem", Purpose::Problem),
        ("issue", Purpose::Problem),
        ("error", Purpose::Problem),
        ("quote", Purpose::Speech),
        ("uncertain", Purpose::Doubt),
    ];
    NAMES.iter().find(|(word, _)| name.contains(word)).map(|(_, purpose)| *purpose)
}

fn rule(name: &str, numeric: bool) -> Option<Rule> {
    let name = tag(name);
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if numeric {
        return has(&["minutes", "duration"]).then_some(Rule::Duration);
    }
    Some(match name.as_str() {
        "title" | "name" | "headline" | "subject" | "titulo" => {
            Rule::Title { inputs: Vec::new(), bytes: 120 }
        }
        "text" | "output" | "answer" | "content" | "body" => {
            Rule::Summary { sentences: 5, bytes: 900 }
        }
        "language" | "lang" | "idioma" => Rule::Language,
        "country" => Rule::Country,
        _ if has(&[
            "summary",
            "resumen",
            "abstract",
            "description",
            "overview",
            "brief",
            "tldr",
        ]) =>
        {
            Rule::Summary { sentences: 3, bytes: 600 }
        }
        _ if has(&["one_line", "short"]) => Rule::Summary { sentences: 1, bytes: 200 },
        _ if has(&["email", "mail"]) => Rule::Email,
        _ if has(&["url", "link"]) => Rule::Url { prefer: Vec::new(), inputs: Vec::new() },
        _ if has(&["deadline", "due", "date", "fecha", "day"]) => {
            Rule::When { part: Part::Date, cues: Vec::new(), only: false, without: Vec::new() }
        }
        _ if has(&["start", "time", "when"]) => {
            Rule::When { part: Part::DateTime, cues: Vec::new(), only: false, without: Vec::new() }
        }
        _ if has(&["price", "amount", "salary", "cost", "budget", "precio", "monto"]) => {
            Rule::Amount { cues: Vec::new() }
        }
        _ if has(&["company", "organization", "organisation", "employer"]) => {
            Rule::Name { kind: KindHint::Organization }
        }
        _ if has(&["topic", "category", "theme", "tema"]) => Rule::Phrase { style: Style::Plain },
        _ => {
            let purpose = purpose_of(&name)?;
            Rule::Sentence {
                over: Over { purpose: Some(purpose), ..Over::default() },
                bytes: 240,
                who: None,
                bare: false,
            }
        }
    })
}

fn confidence(name: &str, numeric: bool) -> Filled {
    if !fold(name).contains("confidence") {
        return Filled::Nothing;
    }
    match numeric {
        true => Filled::Value(json!(0.3)),
        false => super::confidence(0, 0, Scale::Level),
    }
}
