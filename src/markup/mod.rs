//! Markup read as text: the only place that knows HTML, Markdown, LaTeX and mail.
//!
//! Contract: `docs/source-text-hash.md` specifies the text of an HTML page and of a LaTeX file, with
//! vectors that a second implementation checks. Every reader takes time linear in its input and
//! accepts any input: broken markup gives some text, never an error.
//!
//! Nothing here renders, fetches or executes anything.

pub(crate) mod authors;
pub mod cards;
pub mod document;
pub mod html;
pub mod latex;
mod latex_marks;
mod layout;
pub mod mail;
pub mod markdown;
pub(crate) mod marks;
pub(crate) mod members;
pub(crate) mod org;
mod quantity;
pub(crate) mod records;
mod recurrence;
pub(crate) mod roff;
mod rst;
pub mod subtitles;

/// The longest prefix of at most `bytes` bytes that ends between characters.
pub(crate) fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::document;
    use crate::upstream::text::normalize;

    #[derive(Deserialize)]
    struct Vector {
        name: String,
        kind: String,
        source: String,
        text: String,
    }

    /// `tests/tools/source_text.py` computes the same vectors by itself.
    #[test]
    fn the_vectors_of_the_contract_hold() {
        let vectors = include_str!("../../tests/golden/markup/vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(vectors).unwrap();
        let mut wrong = Vec::new();
        for vector in &vectors {
            let name = format!("x.{}", vector.kind);
            let read = document::read(&name, vector.source.as_bytes()).unwrap();
            let text = normalize(&read.text);
            if text != vector.text {
                wrong.push(format!("{}\n  {text:?}\n  {:?}", vector.name, vector.text));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
