//! What a model thought before its answer, where it stands in the text: `<think>…</think>`.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// The answer behind the thoughts; `None` for a text without thoughts. A text that ends inside them has no
/// answer yet.
pub(crate) fn after(text: &str) -> Option<&str> {
    let inside = text.trim_start().strip_prefix(OPEN)?;
    Some(inside.split_once(CLOSE).map_or("", |(_, said)| said.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_behind_its_thoughts() {
        for (text, said) in [
            ("<think>\nHm.\n</think>\n\nIt is so.\n", Some("It is so.\n")),
            (" <think></think>{\"a\": 1}", Some("{\"a\": 1}")),
            ("<think>first <b>", Some("")),
            ("<think>x</think>", Some("")),
            ("It is <think>so</think>.", None),
            ("<thinking>so</thinking>", None),
            ("", None),
        ] {
            assert_eq!(after(text), said, "{text:?}");
        }
    }
}
