//! The text as a Markdown page: front matter, a lead, a section for each heading wanted or found, the
//! ids each section rests on.

use serde_json::{Map, Value};

use super::super::rank::select::Quoted;
use super::super::text::Kind;
use super::super::text::words::fold;
use super::elements::sections;
use super::filled::Filled;
use super::objects;
use super::rule::{Rule, Style};
use super::scene::{Focus, Scene, plain};
use super::texts::{capitalize, tag, text_of};
use crate::markup::html;

const SECTIONS_MAX: usize = 12;
/// Most ids named behind a section.
const CITED_MAX: usize = 3;
/// Shorter words of a wanted heading find too much.
const HEADING_WORD_BYTES_MIN: usize = 4;

/// How a pack wants its pages.
pub(crate) struct PageHint<'h> {
    pub title: &'h Rule,
    pub outline: &'h str,
    pub(crate) untitled: &'h str,
    pub(crate) front_matter: &'h Map<String, Value>,
}

pub(super) fn page(scene: &Scene<'_, '_>, hint: &PageHint<'_>) -> Filled {
    let focus = scene.all();
    let title = text_of(scene.eval(hint.title, &focus)).trim().to_string();
    if focus.sentences.is_empty() && title.is_empty() {
        return Filled::Nothing;
    }
    let lead = scene.summary(&focus, 2, 400);
    let tags: Vec<String> = scene.phrases(5, Style::Tag, &focus).into_iter().map(text_of).collect();
    let mut page = Quoted::plain(front_matter(hint.front_matter, &title, &lead.text, &tags));
    page.push_plain(&format!("# {}\n\n", escape_text(&capitalize(&title))));
    push_escaped(&mut page, &lead);
    let is_wanted =
        scene.input(hint.outline, &focus).is_some_and(|wanted| !plain(wanted).is_empty());
    for (heading, sentences) in headings(scene, hint, &focus) {
        let says = |at: &usize| {
            !matches!(
                scene.text.block_of(*at).kind,
                Kind::Heading(_) | Kind::Link | Kind::Signature
            )
        };
        if !sentences.iter().any(says) {
            continue;
        }
        let section = Focus { sentences, ..Focus::default() };
        let body = scene.summary(&section, 4, 900);
        // A text of one stretch says the same as the lead.
        let said = lead.text.contains(&body.text) || fold(&heading) == fold(&title);
        if (said || body.text == lead.text) && !is_wanted {
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

/// The ids a section rests on; none where the whole page rests on one source.
fn cited(scene: &Scene<'_, '_>, section: &Focus) -> Vec<String> {
    let ids = objects::ids(scene, section);
    let is_part = |id: &String| scene.text.parts.iter().any(|part| part.id == id);
    let labelled = !section.sentences.is_empty() && !ids.iter().all(is_part);
    if scene.text.parts.len() < 2 && !labelled {
        return Vec::new();
    }
    ids.iter().take(CITED_MAX).map(|id| escape_text(id)).collect()
}

fn headings(
    scene: &Scene<'_, '_>,
    hint: &PageHint<'_>,
    focus: &Focus,
) -> Vec<(String, Vec<usize>)> {
    let wanted: Vec<String> = match scene.input(hint.outline, focus) {
        Some(Value::Array(list)) => list.iter().map(plain).map(html::plain).collect(),
        Some(Value::String(text)) => text
            .lines()
            .map(|line| line.trim().trim_matches(['-', '*', '#', ' ']).to_string())
            .collect(),
        _ => Vec::new(),
    };
    let wanted: Vec<String> = wanted.into_iter().filter(|heading| !heading.is_empty()).collect();
    if wanted.is_empty() {
        let sections = sections(scene, focus).into_iter().take(SECTIONS_MAX);
        let headed = |sentences: Vec<usize>| (heading_of(scene, hint, &sentences), sentences);
        return sections.map(headed).collect();
    }
    let about = |heading: &String| {
        let words: Vec<String> = fold(heading)
            .split_whitespace()
            .filter(|word| word.len() >= HEADING_WORD_BYTES_MIN)
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
    let place = |at: usize| (scene.text.block_of(at).part, scene.text.block_of(at).section);
    let under: Vec<(usize, usize)> = said.iter().copied().filter(heads).map(place).collect();
    if under.is_empty() {
        return said;
    }
    (0..scene.text.sentences.len()).filter(|&at| under.contains(&place(at))).collect()
}

fn heading_of(scene: &Scene<'_, '_>, hint: &PageHint<'_>, sentences: &[usize]) -> String {
    let first = sentences.first().copied().unwrap_or_default();
    if matches!(scene.text.block_of(first).kind, Kind::Heading(_)) {
        return scene.text.sentence(first).trim_matches(['*', '#', ':', ' ']).to_string();
    }
    let focus = Focus { sentences: sentences.to_vec(), ..Focus::default() };
    let phrases: Vec<String> =
        scene.phrases(2, Style::Plain, &focus).into_iter().map(text_of).collect();
    match phrases.is_empty() {
        true => hint.untitled.to_string(),
        false => capitalize(&phrases.join(", ")),
    }
}

/// Front matter in the shape a pack gives: `{title}`, `{description}`, `{slug}` and `{tags}` stand for
/// what the page has, every string is a quoted YAML string.
pub(crate) fn front_matter(
    shape: &Map<String, Value>,
    title: &str,
    description: &str,
    tags: &[String],
) -> String {
    let one_line = |text: &str| {
        Value::String(text.split_whitespace().collect::<Vec<_>>().join(" ")).to_string()
    };
    let slug = tag(title).replace('_', "-");
    let slug = if slug.is_empty() { "page" } else { &slug };
    let mut out = "---\n".to_string();
    for (name, value) in shape {
        let value = match value.as_str() {
            Some("{title}") => one_line(title),
            Some("{description}") => one_line(description),
            Some("{slug}") => one_line(slug),
            Some("{tags}") => {
                let list: Vec<String> = tags.iter().map(|tag| one_line(tag)).collect();
                format!("[{}]", list.join(", "))
            }
            _ => value.to_string(),
        };
        out.push_str(&format!("{name}: {value}\n"));
    }
    out + "---\n\n"
}

/// Text that MDX must not read as markup.
pub(crate) fn escape_text(text: &str) -> String {
    text.replace('{', "\\{").replace('}', "\\}").replace('<', "&lt;")
}

fn push_escaped(page: &mut Quoted, text: &Quoted) {
    if text.text.contains(['{', '}', '<']) {
        page.push_plain(&escape_text(&text.text));
    } else {
        page.push(text);
    }
}
