//! Whether what is shown as a sentence is one, judged by where it stands in its source.
//!
//! A sentence is broken when it begins or ends in the middle of what the source says, when it is cut, or
//! when it is no statement: a greeting, a line above quoted mail, an unsubscribe line. The judge knows
//! nothing of the summarizer's own rules.

use serde_json::Value;

use super::score::fold;

/// Members that hold running text.
const PROSE: [&str; 9] = [
    "summary_text",
    "one_line",
    "summary",
    "notes",
    "reason",
    "news_angle",
    "draft_editorial_angle",
    "thesis",
    "description",
];
/// Lists whose elements hold running text in `text`, `name` or `action`, or are running text.
const LISTS: [&str; 9] = [
    "key_points",
    "highlights",
    "decisions",
    "risks",
    "tasks",
    "next_actions",
    "next_steps",
    "pending_tasks",
    "achievements",
];
const LITTLE: &str = " a an the and or of in on at to for with from by as is are was were be this that it its \
el la los las un una unos unas y o de del en a al con por para que se su sus es son lo como \
der die das den dem des ein eine einen einem und oder von vom im in am an auf zu zum zur fur mit bei ist sind \
le les du des une et ou dans sur au aux pour par avec est sont ";
const BOILERPLATE: [&str; 22] = [
    " wrote",
    "escribio",
    " schrieb",
    "a ecrit",
    "unsubscribe",
    "darse de baja",
    "abmelden",
    "se desinscrire",
    "sent from my",
    "enviado desde mi",
    "envoye de mon",
    "gesendet von",
    "view in browser",
    "all rights reserved",
    "todos los derechos",
    "confidential",
    "confidencial",
    "best regards",
    "kind regards",
    "saludos cordiales",
    "freundlichen grussen",
    "cordialement",
];
const GREETINGS: [&str; 12] = [
    "hi ",
    "hello ",
    "dear ",
    "hola ",
    "estimad",
    "buenos dias",
    "hallo ",
    "liebe ",
    "sehr geehrte",
    "bonjour",
    "querid",
    "hey ",
];

/// A little word: no tag begins or ends with one.
pub fn is_little(word: &str) -> bool {
    LITTLE.contains(&format!(" {word} "))
}

/// How many sentences an output shows, and which of these are broken.
pub fn judge(source: &str, output: &Value) -> (usize, Vec<String>) {
    let source = Source::new(&source.replace("\\n", "\n").replace("\\\"", "\""));
    let mut shown: Vec<String> = Vec::new();
    for (name, value) in output.as_object().into_iter().flatten() {
        match value {
            Value::String(text) if PROSE.contains(&name.as_str()) => shown.extend(sentences(text)),
            Value::Array(list) if LISTS.contains(&name.as_str()) => {
                for element in list {
                    let said = ["text", "name", "action"].iter().find_map(|name| element.get(name));
                    let text = said.unwrap_or(element).as_str().unwrap_or_default();
                    shown.push(text.to_string());
                }
            }
            _ => {}
        }
    }
    shown.retain(|said| said.len() > 3 && !said.starts_with("###"));
    let broken = shown.iter().filter(|said| source.breaks(said)).cloned().collect();
    (shown.len(), broken)
}

fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['-', ' ', '#']);
        let mut start = 0;
        for (at, mark) in line.char_indices() {
            let next = at + mark.len_utf8();
            let ends = matches!(mark, '.' | '!' | '?' | '…')
                && line[next..].starts_with(' ')
                && line[next..]
                    .trim_start()
                    .starts_with(|c: char| c.is_uppercase() || matches!(c, '¿' | '¡'))
                && line[start..at].len() > 18;
            if ends {
                found.push(line[start..next].trim().to_string());
                start = next;
            }
        }
        found.push(line[start..].trim().to_string());
    }
    found.retain(|said| !said.is_empty());
    found
}

struct Source {
    /// White space as one space, a line end as `\n`.
    flat: String,
    /// As `flat`, with spaces for line ends and quote marks.
    plain: String,
}

impl Source {
    fn new(text: &str) -> Source {
        let flat: String = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("\n");
        let plain = flat.replace('\n', " ");
        Source { flat, plain }
    }

    fn breaks(&self, said: &str) -> bool {
        let folded = fold(said);
        let greets = folded.split(' ').count() <= 6
            && GREETINGS.iter().any(|start| format!("{folded} ").starts_with(start));
        if greets
            || said.starts_with('>')
            || (BOILERPLATE.iter().any(|mark| folded.contains(mark))
                && folded.split(' ').count() < 16)
        {
            return true;
        }
        let last = folded.split(' ').next_back().unwrap_or_default();
        let whole = said.trim_end_matches('…');
        let bare = whole.trim_end_matches(['.', ' ']);
        let cut = said.ends_with('…') && !self.plain.contains(said);
        if cut
            || (is_little(last)
                && !said.ends_with(['?', '!'])
                && !self.plain.contains(&format!("{bare}.")))
        {
            return true;
        }
        let squeezed = bare.split_whitespace().collect::<Vec<_>>().join(" ");
        // A text of our own, or markup taken off: only its looks can be judged.
        let Some(start) = self.plain.find(&squeezed).filter(|_| !squeezed.is_empty()) else {
            return false;
        };
        let end = start + squeezed.len();
        self.begins_inside(start) || self.ends_inside(end)
    }

    fn begins_inside(&self, start: usize) -> bool {
        let before = &self.flat[..start];
        let first = self.flat[start..].chars().next().unwrap_or(' ');
        match before.chars().next_back() {
            Some('\n') => {
                let line = before.trim_end_matches('\n').rsplit('\n').next().unwrap_or_default();
                let blank = before.ends_with("\n\n");
                let open = line.ends_with(|c: char| c.is_alphanumeric() || c == ',');
                !blank && line.len() > 48 && open && first.is_lowercase()
            }
            Some(' ') => {
                let word = before.trim_end().chars().next_back().unwrap_or('.');
                word.is_alphanumeric() && first.is_lowercase() || matches!(word, ',' | '(')
            }
            _ => false,
        }
    }

    fn ends_inside(&self, end: usize) -> bool {
        let after = &self.flat[end..];
        let mut rest = after.chars();
        match rest.next() {
            Some('\n') => {
                let line = self.flat[..end].rsplit('\n').next().unwrap_or_default();
                let below = after[1..].lines().next().unwrap_or_default();
                let next = below.chars().next().unwrap_or('\n');
                // `assistant: …` is a turn of its own.
                let turn = below.split(' ').next().is_some_and(|word| word.ends_with(':'));
                line.len() > 48
                    && !turn
                    && next.is_lowercase()
                    && !self.flat[..end].ends_with(['.', '!', '?', ':', ';'])
            }
            Some(' ') => {
                rest.next().is_some_and(char::is_lowercase)
                    && !self.flat[..end].ends_with(['.', '!', '?', '…'])
            }
            Some(c) => c.is_alphanumeric(),
            None => false,
        }
    }
}
