//! Whether the text itself marks a sentence as done: by a box, a label, a struck line or a heading.
//!
//! Contract. `[x] Call Ana`, `Done: call Ana`, `Call Ana (done)`, `~~Call Ana~~`, and the items of a list under a
//! heading such as `Done` or `Completed tasks` are done. An open box is not, wherever it stands. What a sentence says
//! with a verb is not read here.

use super::super::lexicon::lexicon;
use super::blocks::Kind;
use super::words::fold;
use super::{Text, lines, stopwords};

/// How many blocks above an item its heading is looked for.
const SECTION_BLOCKS_MAX: usize = 200;
/// Words beside that for what is done in a heading: `Done this week`.
const BESIDE_MAX: usize = 2;

impl Text<'_> {
    /// Whether a sentence is marked as done, or as still to do; `None` where no mark stands.
    pub(crate) fn mark_of(&self, sentence: usize) -> Option<bool> {
        let block = self.block_of(sentence);
        let source = self.parts[block.part].text;
        let is_item = block.kind == Kind::Item;
        let ticked = is_item.then(|| lines::box_before(&source[..block.text.start])).flatten();
        let is_done =
            || says_done(self.sentence(sentence)) || self.heading_of_done(sentence).is_some();
        ticked.or_else(|| is_done().then_some(true))
    }

    /// The heading above an item that says that the items below it are done.
    pub(crate) fn heading_of_done(&self, sentence: usize) -> Option<usize> {
        self.heading_above(sentence).filter(|heading| self.names_what_is_done(*heading))
    }

    /// The heading above an item without which the item reads as something else: `Fixed`, `Your tasks`.
    pub(crate) fn heading_that_tells(&self, sentence: usize) -> Option<usize> {
        let heading = self.heading_above(sentence)?;
        let (words, known) = (self.sentence(heading), lexicon());
        let named = fold(words.trim_matches(|c: char| !c.is_alphanumeric()));
        let is_plain = || known.ask.headings.contains(&named);
        let tells = known.weight.telling.contains(&named)
            || known.posting.duties.contains(&named) && !is_plain()
            || known.posting.profile.contains(&named);
        tells.then_some(heading)
    }

    /// The heading of the section in which an item stands.
    fn heading_above(&self, sentence: usize) -> Option<usize> {
        let (at, block) = (self.sentences[sentence].block, self.block_of(sentence));
        // A paragraph may go on where its heading ends: `What you will do: mow the lawns …`
        let goes_on = || {
            let is_first = block.sentences.start == sentence
                && matches!(self.blocks[..at].last().map(|one| one.kind), Some(Kind::Heading(_)));
            is_first && self.sentence(sentence).starts_with(char::is_lowercase)
        };
        let is_below = block.kind == Kind::Item || block.kind == Kind::Paragraph && goes_on();
        if !is_below || block.section == 0 {
            return None;
        }
        let above = self.blocks[..at].iter().rev().take(SECTION_BLOCKS_MAX);
        let mut above =
            above.take_while(|one| one.part == block.part && one.section == block.section);
        let heading = above.find(|one| matches!(one.kind, Kind::Heading(_)))?;
        heading.sentences.clone().next()
    }

    /// Whether a heading is a word for what is done and hardly more, as `Completed tasks`.
    fn names_what_is_done(&self, heading: usize) -> bool {
        let ask = &lexicon().ask;
        let words = self.tokens_of(heading).iter().map(|token| self.folded(token));
        let (done, rest): (Vec<&str>, Vec<&str>) = words
            .filter(|word| word.contains(char::is_alphabetic))
            .partition(|word| ask.finished.contains(*word));
        let is_beside = |word: &&str| {
            stopwords::is_stop_word(word) || ask.headings.iter().any(|one| one == *word)
        };
        let others = rest.iter().filter(|word| !is_beside(word)).count();
        // `Not done` says the opposite.
        let denies = |word: &str| {
            ask.still_open.contains(word)
                || lexicon().denials.contains(word)
                || lexicon().languages.iter().any(|habits| {
                    let open = [&habits.done.not_yet, &habits.done.not_yet_here];
                    open.iter().any(|list| list.iter().any(|one| one == word))
                })
        };
        let is_denied = rest.iter().any(|word| denies(word));
        done.len() == 1
            && !is_denied
            && rest.len() <= BESIDE_MAX
            && others <= 1
            && !self.sentence(heading).ends_with('?')
    }
}

/// Whether a line is struck out, but for a remark in brackets: `~~Call Ana~~ (no answer)`.
pub(crate) fn is_struck(said: &str) -> bool {
    let said = said.trim().trim_end_matches(['.', '!', ';']);
    let struck = said.strip_prefix("~~").and_then(|rest| rest.split_once("~~"));
    struck.is_some_and(|(inner, rest)| {
        let rest = rest.trim();
        let is_remark = rest.starts_with('(') && rest.ends_with(')');
        !inner.trim().is_empty() && (rest.is_empty() || is_remark)
    })
}

/// Whether a sentence says of itself that it is done, in front or at its end: `Done: call Ana`, `Call Ana – done`.
pub(crate) fn says_done(said: &str) -> bool {
    is_struck(said) || lines::is_labelled_done(said) || ends_done(said)
}

fn ends_done(said: &str) -> bool {
    let said = said.trim().trim_end_matches(['.', '!', ';', '\u{fe0f}']).trim_end();
    if said.ends_with(['✅', '✔', '✓', '☑']) {
        return true;
    }
    let in_brackets = said.strip_suffix([')', ']']).and_then(|rest| rest.rsplit_once(['(', '[']));
    let behind_dash = || {
        let dashes = [" – ", " — ", " - "];
        dashes.iter().find_map(|dash| said.rsplit_once(dash))
    };
    let last = in_brackets.or_else(behind_dash);
    last.is_some_and(|(before, word)| !before.trim().is_empty() && lines::is_word_for_done(word))
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    /// The sentences of a text that are marked, those that are done with a plus.
    fn marks(source: &str) -> Vec<String> {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        let all = 0..text.sentences.len();
        let marked = all.filter_map(|at| Some((text.mark_of(at)?, text.sentence(at))));
        marked.map(|(done, said)| format!("{}{said}", if done { '+' } else { '-' })).collect()
    }

    #[test]
    fn what_a_text_marks_as_done_is_done_in_every_language() {
        for (source, expected) in [
            (
                "# Hut\n\nDone: order the paint\nDone: call Ana\n\n- [ ] Sweep\n- [x] Wash the pane\n",
                &["+Done: order the paint", "+Done: call Ana", "-Sweep", "+Wash the pane"][..],
            ),
            (
                "Erledigt: Farbe holen\nErledigt: Ana anrufen\n",
                &["+Erledigt: Farbe holen", "+Erledigt: Ana anrufen"],
            ),
            (
                "Hecho: pedir la pintura\n\nFait : appeler Ana\n",
                &["+Hecho: pedir la pintura", "+Fait : appeler Ana"],
            ),
            ("## Erledigte Aufgaben\n\n- Farbe holen\n\n## Offen\n\n- Fegen\n", &["+Farbe holen"]),
            ("## Tareas hechas\n\n- Barrer\n", &["+Barrer"]),
            ("**Fait :**\n- Balayer\n- [ ] Peindre\n", &["+Balayer", "-Peindre"]),
            ("## Done this week\n\n- Sweep the hut\n", &["+Sweep the hut"]),
            (
                "~~Hire a bus~~\n\n- ~~Buy tape~~ (no need)\n",
                &["+~~Hire a bus~~", "+~~Buy tape~~ (no need)"],
            ),
            (
                "- Call Ana (done)\n- Sweep – erledigt\n- Paint ✅\n",
                &["+Call Ana (done)", "+Sweep – erledigt", "+Paint ✅"],
            ),
            ("☑\u{fe0f} Wash\n✓ Sweep\n", &["+Wash", "+Sweep"]),
            ("## To be done\n\n- Sweep\n\n## Done by Friday\n\n- Paint\n", &[]),
            ("## Pas encore fait\n\n- Balayer\n\n## Almost done\n\n- Paint\n", &[]),
        ] {
            assert_eq!(marks(source), expected, "{source}");
        }
        for source in [
            "## Not done yet\n\n- Sweep\n",
            "## What is to be done?\n\n- Sweep\n",
            "It is done: the hut is sold.\n",
            "The price was ~~40~~ 45 EUR.\n",
            "## Offen\n\n- Fegen\n",
        ] {
            assert!(marks(source).is_empty(), "{source}: {:?}", marks(source));
        }
    }
}
