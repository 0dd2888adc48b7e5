//! What makes a sentence fit or unfit for a summary whatever it is about: where it stands, what kind
//! of block holds it, who says it, how long it is, and the phrases that announce or disclaim.

use super::super::lexicon::{Phrases, Words, lexicon};
use super::super::text::stopwords::is_stop_word;
use super::super::text::words::{Token, fold, spaced};
use super::super::text::{Block, Kind, Role, Text, inline, lines, manuals};

/// Sentences of a part over which its lead fades.
const LEAD_FADE: f64 = 2.0;
/// Sentences of a part among which one may say what the thing is, and words of it in which it does.
const DEFINED_SENTENCES: u32 = 8;
const DEFINED_WORDS: usize = 6;
/// Position credit of a sentence that says it.
const DEFINED: f64 = 1.6;
/// Words with content from which on a sentence is not worth more for having them.
const CONTENT_FULL: usize = 30;
/// Factors of a sentence that announces what decides, of one under a heading that does, and of one with
/// a number.
const ANNOUNCED: f64 = 1.5;
const HEADED: f64 = 1.3;
/// How many blocks above a sentence its heading is looked for.
const SECTION_BLOCKS_MAX: usize = 200;
const FIGURE: f64 = 1.4;
/// Factor of a long sentence that begins with thanks or a greeting.
const THANKED: f64 = 0.5;
/// Factor of a sentence about licences, and of one under a heading for what is beside the matter.
const ASIDE: f64 = 0.2;
/// Words of a heading for what is beside the matter. A longer one is about more.
const ASIDE_WORDS_MAX: usize = 4;
/// Blocks above a name in which the line that announces it is looked for.
const NAMES_MAX: usize = 40;
/// Factor of a list of who was at a meeting.
const ATTENDANCE: f64 = 0.02;
/// Factor of a sentence that says that a meeting begins or ends.
const FORMAL: f64 = 0.1;
/// Words beside a phrase of politeness from which on a sentence says something of its own.
const MORE_WORDS_MAX: usize = 10;
/// The end of a longer part counts a little: conclusions live there.
const CLOSING: f64 = 0.4;

/// Position credit of every sentence: full at the start of a part, fading; a part of many
/// sections starts anew, weaker, under each heading.
pub fn lead(text: &Text<'_>) -> Vec<f64> {
    let mut scores = Vec::with_capacity(text.sentences.len());
    let (mut part, mut section) = (usize::MAX, usize::MAX);
    let (mut in_part, mut in_section) = (0_u32, 0_u32);
    let mut title = None;
    let is_page = text.blocks.iter().any(|block| matches!(block.kind, Kind::Code | Kind::Link));
    for (index, sentence) in text.sentences.iter().enumerate() {
        let block = &text.blocks[sentence.block];
        if sentence.part != part {
            (part, section, in_part, in_section) = (sentence.part, block.section, 0, 0);
            title = None;
        }
        if matches!(block.kind, Kind::Heading(_)) && in_part == 0 {
            title = title.or(Some(index));
        }
        if block.section != section {
            (section, in_section) = (block.section, 0);
        }
        let from_part = LEAD_FADE / (LEAD_FADE + f64::from(in_part));
        let from_section = 0.6 / (1.0 + f64::from(in_section));
        let last = text.sentences.get(index + 1).is_none_or(|next| next.part != part);
        let closing = if last && in_part > 5 { CLOSING } else { 0.0 };
        let is_defined = in_part < DEFINED_SENTENCES
            && is_prose(block.kind)
            && title.is_some_and(|title| defines(text, title, index));
        // So does the first sentence below the title of a page with code or links.
        let is_first = is_page && in_part == 0 && is_prose(block.kind) && title.is_some();
        let whole = if is_defined || is_first { DEFINED } else { 0.0 };
        scores.push(from_part.max(from_section).max(closing).max(whole));
        if matches!(block.kind, Kind::Paragraph | Kind::Item) && courtesy(text, index).is_none() {
            in_part += 1;
            in_section += 1;
        }
    }
    scores
}

/// Whether a sentence says what the thing is that the title names: `Serde is a framework …`. `The library is closed` says
/// how it is.
fn defines(text: &Text<'_>, title: usize, sentence: usize) -> bool {
    let tokens = text.tokens_of(sentence);
    let weight = &lexicon().weight;
    let is_one = |at: usize, words: &Words| {
        tokens.get(at).is_some_and(|token| words.contains(text.folded(token)))
    };
    let is_kind = |at: usize| is_one(at, &weight.being) && is_one(at + 1, &weight.kind_articles);
    let verb = (0..DEFINED_WORDS).find(|at| is_one(*at, &weight.defines) || is_kind(*at));
    let named = |token: &Token| {
        let term = text.term(token);
        term.is_some() && text.tokens_of(title).iter().any(|other| text.term(other) == term)
    };
    verb.is_some_and(|verb| tokens[..verb].iter().any(named))
}

/// Whether a block is part of the running text. Other blocks, such as headings, are summarized only when a
/// text has no running text.
pub(crate) fn is_prose(kind: Kind) -> bool {
    matches!(kind, Kind::Paragraph | Kind::Item)
}

/// Factor for a sentence, above 0.
pub fn of(text: &Text<'_>, sentence: usize) -> f64 {
    let block = text.block_of(sentence);
    by_kind(block.kind)
        * by_role(block.role)
        * by_length(text, sentence)
        * by_phrases(text, sentence)
}

fn by_kind(kind: Kind) -> f64 {
    match kind {
        Kind::Paragraph => 1.0,
        Kind::Item => 0.9,
        Kind::Heading(_) => 0.25,
        Kind::Quote => 0.25,
        // Only where there is no running text: then the names of the columns say most.
        Kind::Columns => 0.5,
        Kind::Table => 0.2,
        Kind::Header => 0.12,
        Kind::Code | Kind::Link => 0.05,
        Kind::Signature => 0.03,
    }
}

fn by_role(role: Role) -> f64 {
    match role {
        Role::None | Role::User | Role::Person => 1.0,
        Role::Assistant => 0.85,
        Role::System => 0.3,
        Role::Tool => 0.25,
    }
}

fn by_length(text: &Text<'_>, sentence: usize) -> f64 {
    let tokens = text.tokens_of(sentence);
    let content = tokens.iter().filter(|token| text.term(token).is_some()).count();
    let letters: usize = tokens.iter().map(|token| (token.end - token.start) as usize).sum();
    let bytes = inline::visible_bytes(text.sentence(sentence));
    let dense = if letters * 2 < bytes { 0.2 } else { 1.0 };
    let length = match content {
        0 => 0.05,
        1..=2 => 0.35,
        3..=4 => 0.75,
        5..=7 => 0.9,
        8..=35 => 1.0,
        36..=60 => 0.8,
        _ => 0.4,
    };
    dense * length * share_of_full(content)
}

/// How much a sentence says, above 0 and at most 1: part of its score.
pub fn said(text: &Text<'_>, sentence: usize) -> f64 {
    let tokens = text.tokens_of(sentence);
    share_of_full(tokens.iter().filter(|token| text.term(token).is_some()).count())
}

#[allow(clippy::cast_precision_loss, reason = "a few words")]
fn share_of_full(content: usize) -> f64 {
    (content.clamp(1, CONTENT_FULL) as f64 / CONTENT_FULL as f64).sqrt()
}

fn by_phrases(text: &Text<'_>, sentence: usize) -> f64 {
    if let Some(factor) = courtesy(text, sentence) {
        return factor;
    }
    // Who came says nothing of what was said.
    if lines::lists_attendance(text.sentence(sentence)) || is_among_names(text, sentence) {
        return ATTENDANCE;
    }
    // Every meeting begins and ends.
    if says_any(text, sentence, &lexicon().weight.formal) {
        return FORMAL;
    }
    let mut factor = 1.0;
    if says_any(text, sentence, &lexicon().weight.announce) {
        factor *= ANNOUNCED;
    }
    if is_announced(text, sentence) {
        factor *= HEADED;
    }
    if thanks(text, sentence) {
        factor *= THANKED;
    }
    if has_figure(text, sentence) {
        factor *= FIGURE;
    }
    if says_any(text, sentence, &lexicon().weight.disclaim) {
        factor *= 0.5;
    }
    if is_beside(text, sentence) {
        factor *= ASIDE;
    }
    let first = text.tokens_of(sentence).first();
    if first.is_some_and(|first| lexicon().weight.lean.contains(text.folded(first))) {
        factor *= 0.85;
    }
    if text.sentence(sentence).ends_with(':') {
        factor *= if leads_to_code(text, sentence) { 0.2 } else { 0.6 };
    }
    factor
}

/// Whether a sentence stands in the list that a line such as `Those present:` announces.
fn is_among_names(text: &Text<'_>, sentence: usize) -> bool {
    let at = text.sentences[sentence].block;
    let part = text.blocks[at].part;
    let is_item = |block: &Block| block.kind == Kind::Item;
    let said = |block: &Block| said_in(text, block);
    let above =
        text.blocks[..at].iter().rev().take(NAMES_MAX).take_while(|block| block.part == part);
    let mut above = above.skip_while(|block| is_item(&text.blocks[at]) && is_item(block));
    // `Those present:`, `The members of the board:`, and then the names.
    let announced =
        above.by_ref().take(2).take_while(|block| said(block).trim_end().ends_with(':'));
    announced.into_iter().any(|block| {
        let said = said(block);
        lines::announces_attendance(said.rsplit('\n').next().unwrap_or(said))
    })
}

/// The heading above a sentence, by its block.
fn heading_above<'t>(text: &'t Text<'_>, sentence: usize) -> Option<&'t Block> {
    let block = text.block_of(sentence);
    let first = text.sentences[sentence].block;
    let above = text.blocks[..=first].iter().rev().take(SECTION_BLOCKS_MAX);
    let mut above =
        above.take_while(|other| other.part == block.part && other.section == block.section);
    above.find(|other| matches!(other.kind, Kind::Heading(_)))
}

/// Whether the heading above a sentence announces what decides: `Breaking changes`.
fn is_announced(text: &Text<'_>, sentence: usize) -> bool {
    let Some(heading) = heading_above(text, sentence) else { return false };
    let mut titles = heading.sentences.clone().filter(|at| *at != sentence);
    titles.any(|at| says_any(text, at, &lexicon().weight.announce))
}

/// Whether a sentence is beside the matter of most texts: about a licence, or about how to take part.
pub(crate) fn is_beside(text: &Text<'_>, sentence: usize) -> bool {
    let block = text.block_of(sentence);
    is_aside(text, sentence)
        || says_any(text, sentence, &lexicon().weight.licences)
        || block.kind == Kind::Item && manuals::is_usual_option(said_in(text, block))
}

/// Whether the heading above a sentence is one for what is beside the matter: `License`, `How to contribute`.
pub(crate) fn is_aside(text: &Text<'_>, sentence: usize) -> bool {
    let asides = text.asides.get_or_init(|| asides(text));
    let block = text.block_of(sentence);
    !matches!(block.kind, Kind::Heading(_)) && asides[text.sentences[sentence].block]
}

/// Whether each block stands in a section that is beside the matter, or in one below such a section.
fn asides(text: &Text<'_>) -> Vec<bool> {
    let mut aside: Option<(usize, u8)> = None;
    let mut found = Vec::with_capacity(text.blocks.len());
    // The label stands outside of a header.
    let line = |block: &Block| {
        let source = text.parts[block.part].text;
        let start = source[..block.text.start].rfind('\n').map_or(0, |at| at + 1);
        &source[start..block.text.end]
    };
    let is_record = text.blocks.iter().any(|block| lines::lists_attendance(line(block)));
    for block in &text.blocks {
        aside = aside.filter(|(part, _)| *part == block.part);
        if let Kind::Heading(level) = block.kind {
            aside = aside.filter(|(_, open)| *open < level);
            let is_aside = block.sentences.clone().any(|at| names_aside(text, at, is_record));
            aside = aside.or_else(|| is_aside.then_some((block.part, level)));
        }
        found.push(aside.is_some());
    }
    found
}

/// Whether a heading is one for what is beside the matter. In minutes the agenda is said again below.
fn names_aside(text: &Text<'_>, heading: usize, is_record: bool) -> bool {
    let weight = &lexicon().weight;
    text.tokens_of(heading).len() <= ASIDE_WORDS_MAX
        && (says_any(text, heading, &weight.asides)
            || is_record && says_any(text, heading, &weight.agendas))
}

fn said_in<'t>(text: &'t Text<'_>, block: &Block) -> &'t str {
    &text.parts[block.part].text[block.text.clone()]
}

/// Whether a sentence only leads to what stands below it: `For example:` above code.
pub(crate) fn leads_to_code(text: &Text<'_>, sentence: usize) -> bool {
    let at = text.sentences[sentence].block;
    let block = &text.blocks[at];
    let next = text.blocks.get(at + 1).filter(|next| next.part == block.part);
    let ends = |sign: char| matches!(sign, '*' | '_' | ' ');
    block.sentences.end == sentence + 1
        && text.sentence(sentence).trim_end_matches(ends).ends_with(':')
        && next.is_none_or(|next| matches!(next.kind, Kind::Code | Kind::Link | Kind::Heading(_)))
}

/// Whether a sentence has a number that is more than an ordinal: an amount, a share, a time, a day.
fn has_figure(text: &Text<'_>, sentence: usize) -> bool {
    let said = text.sentence(sentence);
    let digits = said.bytes().filter(u8::is_ascii_digit).count();
    digits >= 2 || (digits > 0 && said.contains(['%', '$', '€', '£']))
}

/// Whether a sentence says what is not so: `Other calls are not repeated.`
pub(crate) fn denies(text: &Text<'_>, sentence: usize) -> bool {
    let denials = &lexicon().denials;
    text.tokens_of(sentence).iter().any(|token| denials.contains(text.folded(token)))
}

/// Whether a sentence begins with thanks or a greeting, and asks for nothing.
fn thanks(text: &Text<'_>, sentence: usize) -> bool {
    starts_with(text, text.tokens_of(sentence), &lexicon().weight.courtesy)
        && !asks_by_thanks(text.sentence(sentence))
}

/// Factor of a greeting, a thank-you or a goodbye; `None` for anything else.
pub(crate) fn courtesy(text: &Text<'_>, sentence: usize) -> Option<f64> {
    let tokens = text.tokens_of(sentence);
    match tokens.len() {
        _ if !thanks(text, sentence) => None,
        0..=4 => Some(0.08),
        5..=9 => Some(0.35),
        _ => None,
    }
}

/// Whether a sentence is nothing but politeness: it says one of these phrases, hardly more, and no number.
pub(crate) fn is_pleasantry(text: &Text<'_>, sentence: usize) -> bool {
    let tokens = text.tokens_of(sentence);
    let said = text.sentence(sentence);
    if is_greeting_question(said) {
        return true;
    }
    if said.contains(|c: char| c.is_ascii_digit()) || asks_by_thanks(said) {
        return false;
    }
    let phrases = &lexicon().weight.pleasantries;
    let word = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    let said = (0..tokens.len()).find_map(|from| phrases.starts(|at| word(from + at)));
    said.is_some_and(|words| tokens.len() <= words + MORE_WORDS_MAX)
}

/// Whether thanks are for what is still to be done: `Merci de rappeler Ana`, `Thanks for sending the plan by Friday`.
pub(crate) fn asks_by_thanks(said: &str) -> bool {
    /// Words of a greeting before the thanks, and words between the thanks and their verb.
    const BEFORE_MAX: usize = 3;
    const BETWEEN_MAX: usize = 4;
    const LETTERS_MIN: usize = 4;
    let (ask, dates) = (&lexicon().ask, &lexicon().dates);
    let line = spaced(said);
    let behind = |phrases: &[String]| {
        let found = phrases.iter().filter_map(|phrase| {
            let at = line.find(&format!(" {phrase} "))?;
            let is_first = line[..at].split_whitespace().count() <= BEFORE_MAX;
            is_first.then_some(at + phrase.len() + 1)
        });
        found.max().map(|end| line[end..].split_whitespace())
    };
    let ends = |word: &str, endings: &[String]| {
        word.len() >= LETTERS_MIN
            && !ask.not_thanked.contains(word)
            && endings.iter().any(|end| word.ends_with(end.as_str()))
    };
    let is_order = behind(&ask.thanked_orders).is_some_and(|words| {
        let mut words = words.take(BETWEEN_MAX + 1);
        words
            .find(|word| !ask.behind_thanks.contains(*word))
            .is_some_and(|verb| ends(verb, &ask.infinitive_endings))
    });
    if is_order {
        return true;
    }
    let Some(mut words) = behind(&ask.thanked_wishes) else { return false };
    let is_bygone = words.clone().any(|word| ask.bygone.contains(word));
    let is_day = |word: &str| {
        dates.weekdays.number(word).is_some()
            || dates.months.number(word).is_some()
            || lexicon().days.get(word).is_some_and(|days| days.iter().any(|day| day.after >= 0))
    };
    let said: Vec<&str> = words.clone().collect();
    let has_term = (0..said.len()).any(|at| {
        dates.due.starts(|next| said.get(at + next).copied().unwrap_or_default()).is_some()
    });
    let is_later = said.iter().any(|word| is_day(word));
    let verb = words.next().unwrap_or_default();
    let hands_over = || {
        lexicon().languages.iter().any(|habits| {
            let stem = habits.done.stem(verb);
            habits.done.handing_over.iter().any(|one| habits.done.stem(one) == stem)
        })
    };
    let is_verb = ends(verb, &ask.performed_endings)
        || said.iter().any(|word| ends(word, &ask.performed_endings)) && line.contains(" dass ");
    !is_bygone && is_later && is_verb && (has_term || hands_over())
}

/// Whether a sentence is a question of a greeting, which asks nothing: `How are you?`, `Hola, Ivo, ¿cómo va todo?`
pub(crate) fn is_greeting_question(said: &str) -> bool {
    const WORDS_MAX: usize = 10;
    let said = said.trim();
    if !said.ends_with('?') {
        return false;
    }
    // Who is greeted may stand at the end: `How are you doing today, Ben?`
    let named = said.trim_end_matches(['?', ' ']).rsplit_once(',');
    let said = named.filter(|(_, name)| lines::is_name(name.trim())).map_or(said, |(said, _)| said);
    let pieces = || said.split(|c: char| !c.is_alphanumeric()).filter(|piece| !piece.is_empty());
    let words: Vec<String> = pieces().map(fold).collect();
    if words.len() > WORDS_MAX {
        return false;
    }
    let is_name =
        |at: usize| pieces().nth(at).is_some_and(|word| word.starts_with(char::is_uppercase));
    let greets = |word: &str| {
        lexicon().mail.greetings.iter().any(|one| one.trim_end_matches('*') == word)
            || lexicon().weight.joining.contains(word)
    };
    lexicon().mail.greeting_questions.iter().any(|phrase| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        let mut places = words.windows(phrase.len()).enumerate();
        let found = places.find(|(_, window)| window.iter().eq(phrase.iter()));
        found.is_some_and(|(at, _)| {
            (0..at).all(|before| greets(&words[before]) || is_name(before))
                && ((at + phrase.len()..words.len()).all(|behind| is_stop_word(&words[behind]))
                    || (at + phrase.len()..words.len()).all(is_name))
        })
    })
}

fn starts_with(text: &Text<'_>, tokens: &[Token], phrases: &Phrases) -> bool {
    phrases.starts(|at| tokens.get(at).map_or("", |token| text.folded(token))).is_some()
}

fn says_any(text: &Text<'_>, sentence: usize, phrases: &Phrases) -> bool {
    let tokens = text.tokens_of(sentence);
    (0..tokens.len()).any(|at| starts_with(text, &tokens[at..], phrases))
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    #[test]
    fn politeness_without_news_is_told_from_requests() {
        let said = |source: &str| {
            let text = Text::new(vec![Part { id: "m", text: source }]);
            is_pleasantry(&text, text.sentences.len() - 1)
        };
        for polite in [
            "Dear tenant, I hope you are well.",
            "I hope this email finds you well!",
            "Please do not hesitate to contact me if you have any questions.",
            "Espero que se encuentre muy bien.",
            "Sehr geehrte Eltern, ich hoffe, es geht Ihnen gut.",
            "Je reste à votre disposition pour tout renseignement.",
        ] {
            assert!(said(polite), "{polite}");
        }
        for news in [
            "The lease ends on 31 March.",
            "I hope you are well, the rent rises to 910 EUR.",
            "I hope you are home on Friday because the plumber comes and needs the key of the cellar from you.",
            "Send me the signed copy.",
        ] {
            assert!(!said(news), "{news}");
        }
    }

    #[test]
    fn names_of_those_present_weigh_little_and_licences_less_than_the_rest() {
        for (source, names) in [
            (
                "Etaient présents :\n\nMesdames et Messieurs les Conseillers :\n\n- Josiane MARTY, Isabelle VINCENT,\n- Alain GAUCHER\n",
                3,
            ),
            ("Anwesend:\nAna Ruiz, Ben Okafor, Kim Sato\n\nDas Dach wird repariert.\n", 1),
        ] {
            let text = Text::new(vec![Part { id: "m", text: source }]);
            let listed = (0..text.sentences.len()).filter(|at| is_among_names(&text, *at));
            let listed: Vec<&str> = listed.map(|at| text.sentence(at)).collect();
            assert_eq!(listed.len(), names, "{listed:?}");
        }
        let source = "# Roof\n\nRoof counts the tiles of a house and says how many are broken.\n\n## License\n\nThe tiles and the \
            words of this page are for everybody.\n\n## Parts\n\nThe parts are licensed under the same terms as the tiles.\n";
        let text = Text::new(vec![Part { id: "m", text: source }]);
        let beside = (0..text.sentences.len()).filter(|at| is_beside(&text, *at));
        let beside: Vec<&str> = beside.map(|at| text.sentence(at)).collect();
        assert_eq!(beside.len(), 2, "{beside:?}");
        assert!(beside[0].starts_with("The tiles") && beside[1].starts_with("The parts"));
    }

    #[test]
    fn sections_beside_the_matter_are_left_out_with_those_below_them() {
        let source = "# Roof\n\n## Contributing\n\nOne.\n\n### Tests\n\nTwo.\n\n## Use\n\nThree.\n\n## Literatur\n\n- Four.\n";
        let text = Text::new(vec![Part { id: "m", text: source }]);
        let aside = (0..text.sentences.len()).filter(|at| is_aside(&text, *at));
        let aside: Vec<&str> = aside.map(|at| text.sentence(at)).collect();
        assert_eq!(aside, ["One.", "Two.", "Four."]);
        // An agenda is beside the matter in minutes only.
        let agenda = "## Agenda\n\n- The roof\n\n## Roof\n\nWe mend the roof.\n";
        let minutes = format!("Present: Ana, Ben\n\n{agenda}");
        for (source, expected) in [(agenda, 0), (minutes.as_str(), 1)] {
            let text = Text::new(vec![Part { id: "m", text: source }]);
            let aside = (0..text.sentences.len()).filter(|at| is_aside(&text, *at)).count();
            assert_eq!(aside, expected, "{source}");
        }
    }

    #[test]
    fn a_sentence_that_leads_to_code_is_told_from_one_that_leads_to_a_list() {
        let source = "Run this:\n\n```\nls\n```\n\nBring these:\n\n- a hose\n";
        let text = Text::new(vec![Part { id: "m", text: source }]);
        let leading: Vec<bool> =
            (0..text.sentences.len()).map(|at| leads_to_code(&text, at)).collect();
        assert_eq!(leading.iter().filter(|leads| **leads).count(), 1, "{leading:?}");
    }

    #[test]
    fn the_sentence_that_says_what_the_title_names_has_the_most_credit() {
        for source in [
            "# The pump\n\nThanks to all.\n\nA word first. The pump is a machine that moves water.\n",
            "# Pumpe\n\nEin Wort vorab. Die Pumpe ist eine Maschine, die Wasser bewegt.\n",
            "# La bomba\n\nUna palabra antes. La bomba es una máquina que mueve el agua.\n",
        ] {
            let text = Text::new(vec![Part { id: "m", text: source }]);
            let lead = lead(&text);
            assert_eq!(lead.last(), Some(&DEFINED), "{source}");
        }
        let source = "# Library loans\n\nTwo books are due. The library is closed on 20 March.\n";
        let lead = lead(&Text::new(vec![Part { id: "m", text: source }]));
        assert!(lead.iter().all(|credit| *credit < DEFINED), "{lead:?}");
    }

    #[test]
    fn thanks_for_what_is_to_be_done_are_requests() {
        for request in [
            "Merci de payer le loyer avant vendredi.",
            "Merci d'appeler Paul.",
            "Bonjour Eva, merci d'acheter les billets pour Lyon avant jeudi.",
            "Merci de ne pas appeler le propriétaire.",
            "Merci de me rappeler demain.",
            "Thanks for sending the invoice by Friday.",
            "Thank you for returning the form before 12 March.",
            "Gracias por enviar la factura el viernes.",
            "Gracias por confirmar antes del 3 de mayo.",
            "Danke, dass du die Rechnung bis Freitag schickst und die Kopie mitbringen kannst.",
        ] {
            assert!(asks_by_thanks(request), "{request}");
        }
        for thanks in [
            "Merci de votre aide.",
            "Merci d'avance pour votre réponse.",
            "Merci d'être venus hier.",
            "Merci de m'avoir aidé vendredi.",
            "Thanks for coming on Friday.",
            "Thanks for sending the plan yesterday.",
            "Thanks for the cake.",
            "Gracias por venir el viernes.",
            "Gracias por haber enviado la factura el viernes.",
            "Danke, dass du gestern gekommen bist.",
            "Vielen Dank für die Einladung.",
        ] {
            assert!(!asks_by_thanks(thanks), "{thanks}");
        }
    }

    #[test]
    fn a_question_of_a_greeting_asks_nothing() {
        for greeting in [
            "How are you?",
            "How are you doing today, Ben?",
            "¿Y la familia?",
            "Na, wie läuft's bei euch?",
            "Salut, ça va bien chez vous ?",
            "Hi Ute, how are you today?",
            "¿Qué tal todo?",
            "Hola, Ivo, ¿cómo va todo?",
            "Comment vas-tu ?",
            "Ça va ?",
            "Wie geht's?",
            "Und wie geht es dir?",
        ] {
            assert!(is_greeting_question(greeting), "{greeting}");
        }
        for question in [
            "How are you getting to Leeds?",
            "How are the tomatoes?",
            "¿Cómo va la obra?",
            "¿Qué tal el viernes?",
            "Comment vas-tu à Lyon ?",
            "Wie geht es weiter mit dem Dach?",
            "Alles gut mit der Rechnung?",
            "How are you.",
        ] {
            assert!(!is_greeting_question(question), "{question}");
        }
    }

    #[test]
    fn courtesy_signatures_and_code_weigh_little() {
        let source = "Hi Ana,\n\nThe audit found three open invoices in March.\n\nBest regards,\nBob\n--\nBob Smith, sales manager of the whole company\n";
        let text = Text::new(vec![Part { id: "m", text: source }]);
        let best = (0..text.sentences.len())
            .max_by(|&a, &b| of(&text, a).total_cmp(&of(&text, b)))
            .expect("sentences");
        assert!(text.sentence(best).starts_with("The audit"));
    }
}
