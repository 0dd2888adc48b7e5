//! Whether words carry a judgement, or only stand in a text by accident.
//!
//! Contract: one everyday word judges nothing: a tennis court is no lawsuit. A judgement needs a phrase of several
//! words, a word that means nothing else, a word in a heading, a subject or a very short line, a word between signs,
//! `(remote)`, two different words, or one that comes again and again.

use std::collections::BTreeSet;

use super::super::extract::Mention;
use super::super::text::Kind;
use super::super::text::words::fold;
use super::scene::Scene;

/// Words of a line that says little else: `Location: Remote`.
const LINE_WORDS_MAX: usize = 4;
/// Times that one word stands in a text which is about it.
const TIMES: usize = 3;

/// What the mentions of the cues of one judgement give.
#[derive(Default)]
pub(super) struct Backing {
    is_certain: bool,
    words: BTreeSet<String>,
    mentions: usize,
}

impl Backing {
    /// Counts a mention. `alone`: its word means nothing else.
    pub(super) fn add(&mut self, scene: &Scene<'_, '_>, mention: Mention, alone: bool) {
        let sentence = mention.sentence;
        let part = scene.text.parts[scene.text.sentences[sentence].part].text;
        let words = fold(&part[mention.start..mention.end]);
        let is_headed =
            matches!(scene.text.block_of(sentence).kind, Kind::Heading(_) | Kind::Header);
        let is_line = scene.text.tokens_of(sentence).len() <= LINE_WORDS_MAX;
        let is_phrase = words.contains(char::is_whitespace);
        let alone = alone || stands_alone(part, mention);
        self.is_certain |= alone || is_phrase || is_headed || is_line;
        self.words.insert(words);
        self.mentions += 1;
    }

    pub(super) fn is_enough(&self) -> bool {
        self.is_certain || self.words.len() > 1 || self.mentions >= TIMES
    }
}

/// Whether signs or ends of lines stand on both sides of a word: `Hybrid: three days`, `(remote)`.
fn stands_alone(part: &str, mention: Mention) -> bool {
    let is_space = |c: &char| matches!(c, ' ' | '*' | '_');
    let before = part[..mention.start].chars().rev().find(|c| !is_space(c));
    let after = part[mention.end..].chars().find(|c| !is_space(c));
    let opens = |c: char| ".,;:!?(|/•·–—\n".contains(c);
    let closes = |c: char| ".,;:!?()|/•·–—\n".contains(c);
    before.is_none_or(opens) && after.is_none_or(closes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::super::super::text::{Part, Text};
    use super::super::hints::Hints;
    use super::super::rule::Rule;
    use super::super::scene::Scene;
    use super::super::texts::text_of;

    fn judged(source: &str, rule: &Value) -> String {
        let rule: Rule = serde_json::from_value(rule.clone()).unwrap();
        let read = Text::new(vec![Part { id: "a", text: source }]);
        let (inputs, hints) = (Map::new(), Hints::default());
        let scene = Scene::new(&read, &[], &inputs, &hints, 100);
        text_of(scene.eval(&rule, &scene.all()))
    }

    #[test]
    fn one_word_in_a_sentence_names_no_value() {
        let rule = json!({"use": "enum", "fallback": "unknown", "strong": ["invoice"], "values": {
            "finance": ["bank", "payment", "transfer", "invoice", "late fee"],
            "health": ["doctor", "clinic"]}});
        for (source, value) in [
            ("We met on the bank of the river and had a long talk.", "unknown"),
            ("My neighbour the doctor plays the piano on Sunday evenings.", "unknown"),
            ("The bank sent the payment back to the club again.", "finance"),
            ("Please find the invoice of the painter below this line.", "finance"),
            ("There is a late fee of 5 EUR on top of the rest.", "finance"),
            ("# The doctor\n\nShe comes to the village on Monday morning.", "health"),
            ("Subject: doctor", "health"),
            ("The village has much to do (doctor) in the coming weeks.", "health"),
            ("Who comes: doctor (on Mondays, in the hall of the club)", "health"),
            (
                "The doctor comes to the village. Ask the doctor for the form. Then the doctor signs it for you.",
                "health",
            ),
            (
                "The doctor in the family plays the piano, and the bank sent the payment back to us.",
                "finance",
            ),
        ] {
            assert_eq!(judged(source, &rule), value, "{source}");
        }
    }

    #[test]
    fn one_word_of_the_law_or_of_haste_is_no_sign() {
        let steps = json!({"use": "signs", "steps": [{"all": ["legal"], "value": "legal"},
            {"all": ["stake"], "value": "stake"}, {"all": ["urgent"], "value": "urgent"}]});
        for (source, value) in [
            ("The tennis court is closed for the whole of the winter.", ""),
            ("Traje mermelada de mora para la merienda de los chicos del club.", ""),
            ("The emergency exit of the hall is painted green this year.", ""),
            ("Nuestra demanda de energía baja un poco cada año en la casa.", ""),
            ("My lawyer takes this to court if the roof is not mended.", "legal"),
            ("We are ready to take legal action because of the roof here.", "legal"),
            ("The fee of the club is overdue since the first of January.", "stake"),
            ("This is an urgent request to all people of the house here.", "urgent"),
        ] {
            assert_eq!(judged(source, &steps), value, "{source}");
        }
    }
}
