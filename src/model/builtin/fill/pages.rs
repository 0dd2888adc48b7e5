//! Markdown put together from findings: headed bullets, and whole Docusaurus pages.

use serde_json::Value;

use super::super::rank::select::Quoted;
use super::super::text::Kind;
use super::super::text::language::Language;
use super::super::text::words::fold;
use super::filled::Filled;
use super::hints::{Rule, SectionHint, Style};
use super::objects;
use super::rules::{capitalize, tag};
use super::scene::{Focus, Scene, plain};
use crate::markup::html;

/// Most sections of a page.
const SECTIONS_MAX: usize = 12;

/// Headed bullets; sections without content are left out.
pub fn compose(scene: &Scene<'_, '_>, sections: &[SectionHint], focus: &Focus) -> Filled {
    let mut quoted = Quoted::default();
    for section in sections {
        let spanish = scene.text.language == Language::Spanish;
        let heading = section.heading_es.as_deref().filter(|_| spanish).unwrap_or(&section.heading);
        let bullets = bullets(scene.eval(&section.of, focus));
        if bullets.text.is_empty() {
            continue;
        }
        if !quoted.text.is_empty() {
            quoted.push_plain("\n\n");
        }
        quoted.push_plain(&format!("### {heading}\n\n"));
        quoted.push(&bullets);
    }
    Filled::quoted(quoted)
}

fn bullets(found: Filled) -> Quoted {
    let mut quoted = Quoted::default();
    match found {
        Filled::Text(text) => quoted.push(&text),
        Filled::List(list) => {
            for element in list.into_iter().filter(|element| !element.is_empty()) {
                if !quoted.text.is_empty() {
                    quoted.push_plain("\n");
                }
                quoted.push_plain("- ");
                match element {
                    Filled::Text(text) => quoted.push(&text),
                    Filled::Value(value) => quoted.push_plain(&plain(&value)),
                    Filled::Nothing | Filled::List(_) | Filled::Object(_) => {}
                }
            }
        }
        Filled::Value(value) => quoted.push_plain(&plain(&value)),
        Filled::Nothing | Filled::Object(_) => {}
    }
    quoted
}

/// A page on a topic: front matter, a lead, a section for each heading wanted or found, the sources.
pub fn page(scene: &Scene<'_, '_>, topic: &str, outline: &str) -> Filled {
    let focus = scene.all();
    if focus.sentences.is_empty() && scene.input_text(topic, &focus).is_none() {
        return Filled::Nothing;
    }
    let title = scene.input_text(topic, &focus).unwrap_or_else(|| {
        text_of(scene.eval(&Rule::Title { inputs: Vec::new(), bytes: 90 }, &focus))
    });
    let lead = scene.summary(&focus, 2, 400);
    let tags: Vec<String> = scene.phrases(5, Style::Tag, &focus).into_iter().map(text_of).collect();
    let mut page = Quoted::plain(front_matter(&title, &lead.text, &tags));
    page.push_plain(&format!("# {}\n\n", escape_text(&capitalize(&title))));
    push_escaped(&mut page, &lead);
    let is_wanted = scene.input(outline, &focus).is_some();
    for (heading, sentences) in headings(scene, outline, &focus) {
        let section = Focus { sentences, ..Focus::default() };
        let body = scene.summary(&section, 4, 900);
        // A text of one stretch says the same as the lead.
        if body.text == lead.text && !is_wanted {
            continue;
        }
        page.push_plain(&format!("\n\n## {}\n\n", escape_text(&heading)));
        push_escaped(&mut page, &body);
        let ids = cited(scene, &section);
        if !ids.is_empty() {
            page.push_plain(&format!(" [{}]", ids.join("] [")));
        }
    }
    page.push_plain("\n");
    Filled::quoted(page)
}

fn cited(scene: &Scene<'_, '_>, section: &Focus) -> Vec<String> {
    let ids = match objects::ids(scene, section) {
        Filled::Value(Value::Array(ids)) => ids,
        _ => Vec::new(),
    };
    let labelled = section.sentences.iter().any(|_| {
        ids.iter().any(|id| {
            id.as_str().is_some_and(|id| scene.text.parts.iter().all(|part| part.id != id))
        })
    });
    if scene.text.parts.len() < 2 && !labelled {
        Vec::new()
    } else {
        ids.iter().map(plain).take(3).map(|id| escape_text(&id)).collect()
    }
}

fn headings(scene: &Scene<'_, '_>, outline: &str, focus: &Focus) -> Vec<(String, Vec<usize>)> {
    let wanted: Vec<String> = match scene.input(outline, focus) {
        Some(Value::Array(list)) => list.iter().map(plain).map(html::plain).collect(),
        Some(Value::String(text)) => text
            .lines()
            .map(|line| line.trim().trim_matches(['-', '*', '#', ' ']).to_string())
            .collect(),
        _ => Vec::new(),
    };
    let wanted: Vec<String> = wanted.into_iter().filter(|heading| !heading.is_empty()).collect();
    if wanted.is_empty() {
        let sections = objects::sections(scene, focus).into_iter().take(SECTIONS_MAX);
        return sections.map(|sentences| (heading_of(scene, &sentences), sentences)).collect();
    }
    let about = |heading: &String| {
        let words: Vec<String> = fold(heading)
            .split_whitespace()
            .filter(|word| word.len() > 3)
            .map(|word| format!("{word}*"))
            .collect();
        let said = with_sections(scene, scene.saying(&words, focus));
        (!said.is_empty()).then(|| (heading.clone(), said))
    };
    wanted.iter().filter_map(about).take(SECTIONS_MAX).collect()
}

/// A heading that is said stands for the text under it.
fn with_sections(scene: &Scene<'_, '_>, said: Vec<usize>) -> Vec<usize> {
    let heads = |at: &usize| matches!(scene.text.block_of(*at).kind, Kind::Heading(_));
    let under: Vec<(usize, usize)> = said
        .iter()
        .filter(|at| heads(at))
        .map(|&at| (scene.text.block_of(at).part, scene.text.block_of(at).section))
        .collect();
    if under.is_empty() {
        return said;
    }
    let inside = |at: &usize| {
        let block = scene.text.block_of(*at);
        under.contains(&(block.part, block.section))
    };
    (0..scene.text.sentences.len()).filter(inside).collect()
}

fn heading_of(scene: &Scene<'_, '_>, sentences: &[usize]) -> String {
    let first = sentences.first().copied().unwrap_or_default();
    if matches!(scene.text.block_of(first).kind, super::super::text::Kind::Heading(_)) {
        return scene.text.sentence(first).trim_matches(['*', '#', ':', ' ']).to_string();
    }
    let focus = Focus { sentences: sentences.to_vec(), ..Focus::default() };
    let phrases: Vec<String> =
        scene.phrases(2, Style::Plain, &focus).into_iter().map(text_of).collect();
    if phrases.is_empty() { "Notes".to_string() } else { capitalize(&phrases.join(", ")) }
}

/// The text of a finding.
pub fn text_of(found: Filled) -> String {
    match found {
        Filled::Text(quoted) => quoted.text,
        Filled::Value(value) => plain(&value),
        _ => String::new(),
    }
}

/// Docusaurus front matter, every value a quoted YAML string.
pub fn front_matter(title: &str, description: &str, tags: &[String]) -> String {
    let quote = |text: &str| {
        Value::String(text.split_whitespace().collect::<Vec<_>>().join(" ")).to_string()
    };
    let list = tags.iter().map(|tag| quote(tag)).collect::<Vec<_>>().join(", ");
    let slug = tag(title).replace('_', "-");
    let slug = if slug.is_empty() { "page".to_string() } else { slug };
    format!(
        "---\nsidebar_position: 1\nslug: {}\ntitle: {}\ndescription: {}\nkeywords: [{list}]\ntags: [{list}]\n---\n\n",
        quote(&slug),
        quote(title),
        quote(description)
    )
}

/// Text that MDX must not read as markup.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '{' => out.push_str("\\{"),
            '}' => out.push_str("\\}"),
            '<' => out.push_str("&lt;"),
            other => out.push(other),
        }
    }
    out
}

fn push_escaped(page: &mut Quoted, text: &Quoted) {
    if text.text.contains(['{', '}', '<']) {
        page.push_plain(&escape_text(&text.text));
    } else {
        page.push(text);
    }
}
