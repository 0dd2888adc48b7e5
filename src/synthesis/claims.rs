//! The claims of a text: the sentences that state something by themselves.
//!
//! Headings, tables, signatures, greetings, questions, lead-ins, requests, items to do, notices below a
//! mail, names alone, lines of logs and fragments of a few words state nothing that a reader could check,
//! so they are left out, each with its reason; a label before such a sentence changes nothing. A sentence
//! that was said before is one claim with both sources.
//!
//! What a flow put around a sentence is no part of it: labels before it are removed, a day behind its full
//! stop is taken into it. The label of who says it stays before it. An address becomes the name of its host, because a sentence without it is broken.
//!
//! See docs/adr/0093-claims-and-labels-of-packs-from-summaries.md.

use crate::contract::time::parse_instant;
use crate::digest::said::{name_before, without_rules};
use crate::digest::tasks::day_in_brackets;
use crate::model::builtin::done;
use crate::model::builtin::fill::duties::{is_labelled, names_remainder};
use crate::model::builtin::lexicon::lexicon;
use crate::model::builtin::rank::quality;
use crate::model::builtin::rank::select::{begun_otherwise, follows_greeting};
use crate::model::builtin::text::lines::{
    box_before, entry_head, labelled, list_item, says_something,
};
use crate::model::builtin::text::words::fold;
use crate::model::builtin::text::{Block, Kind, Part, Text};

use super::no_claims::{COURTESY, ONLY_NAMES, states_nothing, without_notices};
use super::{inline, raw_url};

/// What ends a sentence.
const STOPS: [char; 7] = ['.', '!', '?', '…', '。', '！', '？'];
/// Fewest words of a sentence.
const WORDS_MIN: usize = 4;
/// Fewest words of a sentence with a number.
const WORDS_WITH_FIGURE_MIN: usize = 3;
/// Fewest words of a text that does not end like a sentence.
const WORDS_OPEN_MIN: usize = 6;
/// Fewest words that carry meaning.
const CONTENT_MIN: usize = 2;
/// Most sentences that are taken from one text.
pub(crate) const SENTENCES_MAX: usize = 200;

/// A sentence of a text, with the reason when it is no claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// One line of plain text.
    pub text: String,
    pub why_not: Option<&'static str>,
}

pub(crate) fn statements(id: &str, source: &str) -> Vec<Statement> {
    let source = with_days_inside(&raw_url::with_hosts(source));
    let text = Text::new(vec![Part { id, text: &source }]);
    let name = name_before(&source).map(folded);
    let mut found: Vec<Statement> = Vec::new();
    for at in 0..text.sentences.len() {
        let said = without_labels(text.sentence(at));
        let (said, is_log) = without_log_head(said, begins_line(&text, at));
        let Some(plain) = inline::read(said, 0) else { continue };
        if !plain.text.contains(char::is_alphanumeric) {
            continue;
        }
        let plain = without_rules(&plain.text);
        let (rest, has_notice) = without_notices(&plain);
        // A notice beside a statement leaves alone.
        let said = if has_notice && !rest.is_empty() { rest } else { plain };
        let why_not = match is_log {
            true => Some("a line of a log"),
            false if found.is_empty() && name.as_deref() == Some(&folded(&said)) => {
                Some("a heading")
            }
            false => why_not(&text, at, &said),
        };
        let text = match said_by(&text, at) {
            Some(name) => format!("{name}: {said}"),
            None if follows_greeting(&text, at) && said.starts_with(char::is_lowercase) => {
                begun_otherwise(&said).unwrap_or(said)
            }
            None => said,
        };
        found.push(Statement { text, why_not });
        if found.len() >= SENTENCES_MAX {
            break;
        }
    }
    found
}

/// The label of a person or a role that a sentence stands behind. Without it, what an assistant advises would
/// read as what the user says. A label within an item of a list is that of the item; any other label is that of
/// everything up to the next label or heading.
fn said_by<'t>(text: &'t Text<'_>, at: usize) -> Option<&'t str> {
    let block = text.block_of(at);
    let source = text.parts[block.part].text;
    let label = block.speaker.clone()?;
    let same = |other: &&Block| other.part == block.part && other.speaker == block.speaker;
    let first = text.blocks.iter().find(same)?;
    let line = source[..label.start].rfind('\n').map_or(0, |end| end + 1);
    let reaches = match list_item(&source[line..]).is_some() {
        true => first.text == block.text,
        false => first.section == block.section,
    };
    reaches.then(|| source[label].trim()).filter(|name| !name.is_empty())
}

/// Moves a day that stands behind the full stop of its sentence before it: `Ana calls. (2026-03-05)`
/// would read as the day of the next sentence.
fn with_days_inside(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(day) = day_in_brackets(rest) {
        let (head, behind) = (&rest[..day.start], &rest[day.end..]);
        let stopped = head.strip_suffix(' ').filter(|head| head.ends_with(STOPS));
        if let Some(stopped) = stopped {
            let said = stopped.trim_end_matches(STOPS);
            text.push_str(&format!("{said} {}{}", &rest[day], &stopped[said.len()..]));
            rest = behind.strip_prefix('.').unwrap_or(behind);
        } else {
            text.push_str(&rest[..day.end]);
            rest = behind;
        }
    }
    text + rest
}

/// A claim without the day that was taken into it.
pub(crate) fn without_day(claim: &str) -> String {
    let mut from = 0;
    while let Some(day) = day_in_brackets(&claim[from..]) {
        let behind = from + day.end;
        if claim.len() <= behind + 1 {
            return format!("{}{}", claim[..from + day.start].trim_end(), &claim[behind..]);
        }
        from = behind;
    }
    claim.to_owned()
}

/// A sentence without the labels that a flow put before it: `task / private / 2026-03-05: The rest.`
fn without_labels(sentence: &str) -> &str {
    let labels = |head: &str| {
        head.contains(" / ") && head.split(" / ").all(|label| !label.trim().contains(' '))
    };
    match sentence.split_once(": ") {
        Some((head, rest)) if labels(head) => rest.trim_start(),
        _ => sentence,
    }
}

/// Whether nothing but the mark of an item stands before a sentence on its line.
fn begins_line(text: &Text<'_>, at: usize) -> bool {
    let sentence = &text.sentences[at];
    let before = text.parts[sentence.part].text[..sentence.start].rsplit('\n').next();
    before.unwrap_or_default().chars().all(|c| " \t\r-*•>".contains(c))
}

/// Whether digits stand before and behind a colon: a day alone is the day of an entry.
fn has_clock(head: &str) -> bool {
    let is_clock =
        |three: &[u8]| three[1] == b':' && three[0].is_ascii_digit() && three[2].is_ascii_digit();
    head.as_bytes().windows(3).any(is_clock)
}

/// What a line of a log says behind its time and its level, and whether it only says that all is well. A
/// sentence within a line may begin with a time and name two settings, and is no line of a log.
fn without_log_head(sentence: &str, begins_line: bool) -> (&str, bool) {
    const TROUBLE: &[&str] = &["WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"];
    let (head, rest) = sentence.split_at(entry_head(sentence));
    let words = || head.split([' ', '[', ']', ':']);
    let is_stamped = head.split_whitespace().next().is_some_and(|word| parse_instant(word).is_ok())
        || head.contains('-') && has_clock(head);
    let has_level =
        words().any(|word| word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase()));
    let pair = |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    let begins_with_pairs =
        rest.split_whitespace().take(2).filter(pair).count() == 2 && head.is_empty();
    match has_level || begins_line && (is_stamped || begins_with_pairs) {
        true if words().any(|word| TROUBLE.contains(&word)) => (rest, false),
        true => (sentence, true),
        false => (sentence, false),
    }
}

fn why_not(text: &Text<'_>, at: usize, plain: &str) -> Option<&'static str> {
    match text.block_of(at).kind {
        Kind::Paragraph | Kind::Item => {}
        Kind::Heading(_) => return Some("a heading"),
        Kind::Signature => return Some("a greeting, a signature or a notice"),
        Kind::Quote => return Some("a quotation of another text"),
        Kind::Table | Kind::Columns => return Some("a table"),
        _ => return Some("a header line, code or a link"),
    }
    let sentence = &text.sentences[at];
    let before = &text.parts[sentence.part].text[..sentence.start];
    let said = spoken(plain);
    match box_before(before).or_else(|| box_at(plain)).or_else(|| box_at(said)) {
        Some(true) => return Some("an item that is done"),
        Some(false) => return Some("an item to do"),
        None => {}
    }
    if is_labelled(plain) || names_remainder(said) {
        return Some("an item to do");
    }
    if is_courtesy(said) || is_thanks(said) {
        return Some(COURTESY);
    }
    let is_labelled = said.len() < plain.len();
    // `Winner: Ana Ruiz.` says who won.
    if let Some(why) = states_nothing(said).filter(|why| !is_labelled || *why != ONLY_NAMES) {
        return Some(why);
    }
    if is_task(text, at, said) {
        return Some("an item to do");
    }
    let (words, mut content) = weight(said);
    let has_figure = said.contains(|c: char| c.is_ascii_digit());
    let enough = match (has_figure, is_labelled) {
        // `Total: 4,300 EUR.`
        (true, true) => 1,
        (true, false) => WORDS_WITH_FIGURE_MIN,
        // `Nightly build failed.`
        (false, false) if done::has_past(said) => WORDS_WITH_FIGURE_MIN,
        (false, _) => WORDS_MIN,
    };
    if has_figure && is_labelled {
        content = weight(plain).1;
    }
    let content_min = if has_figure || has_subject_and_verb(said) { 1 } else { CONTENT_MIN };
    let last = plain.trim_end_matches(['"', '”', '»', '\'', '’', ')', ']']).chars().next_back();
    match last {
        Some('?' | '？') => Some("a question"),
        Some(':' | '：') => Some("the lead-in of a list"),
        _ if content < content_min => Some("too few words"),
        Some(last) if STOPS.contains(&last) && words >= enough => None,
        Some(last) if STOPS.contains(&last) => Some("too few words"),
        _ if words >= WORDS_OPEN_MIN => None,
        _ => Some("too few words"),
    }
}

/// Labels before one sentence: `Chat: Ana: …`.
const LABELS_MAX: usize = 3;

/// What a line says behind its labels: the speaker of a chat, the name of a fact.
pub(crate) fn spoken(plain: &str) -> &str {
    let mut said = plain;
    for _ in 0..LABELS_MAX {
        let value = labelled(said).map(|line| &said[line.value]);
        match value.filter(|value| value.contains(char::is_alphanumeric)) {
            Some(value) => said = value,
            None => break,
        }
    }
    said
}

/// Whether words begin with a box, and whether it is ticked. A sign of a tick ends them as well. In
/// their midst `[x]` is something else: `The value of a[x] doubles.`
fn box_at(words: &str) -> Option<bool> {
    let words = words.trim();
    let sign = |c: Option<char>| c.filter(|c| !c.is_ascii()).map(String::from);
    let bracket = words.get(..3).filter(|head| head.starts_with('['));
    let bracket = bracket.filter(|_| words[3..].is_empty() || words[3..].starts_with(' '));
    let first = bracket.map(str::to_owned).or_else(|| sign(words.chars().next()));
    let last = sign(words.trim_end_matches('.').chars().next_back());
    first.into_iter().chain(last).find_map(|sign| box_before(&sign))
}

/// Whether a sentence is an item under a heading for tasks, without a verb that states something.
fn is_task(text: &Text<'_>, at: usize, said: &str) -> bool {
    let block = text.block_of(at);
    let heads = |other: &&Block| {
        other.part == block.part
            && other.section == block.section
            && matches!(other.kind, Kind::Heading(_))
    };
    let heading =
        text.blocks.iter().find(heads).map(|one| &text.parts[one.part].text[one.text.clone()]);
    let Some(heading) = heading else { return false };
    let named = fold(heading.trim_matches(|c: char| !c.is_alphanumeric()));
    block.kind == Kind::Item
        && lexicon().ask.headings.contains(&named)
        && !says_something(said.trim_end_matches(STOPS))
}

/// Whether a sentence has a verb that states something, and more than `it` or `that` before it.
fn has_subject_and_verb(said: &str) -> bool {
    let folded = fold(said);
    let mut words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let leans = words.next().is_none_or(|first| lexicon().weight.lean.contains(first));
    !leans && words.any(|word| lexicon().phrases.finite.contains(word))
}

/// Whether a sentence is nothing but politeness. What follows a word of politeness and a comma may say
/// something: `Thanks, the budget is confirmed now.`
fn is_courtesy(said: &str) -> bool {
    let text = Text::new(vec![Part { id: "said", text: said }]);
    if text.sentences.is_empty() || quality::is_pleasantry(&text, 0) {
        return !text.sentences.is_empty();
    }
    let says_more = |rest: &str| {
        let (words, content) = weight(rest);
        words >= WORDS_MIN && content >= CONTENT_MIN
    };
    quality::courtesy(&text, 0).is_some()
        && !said.split_once(',').is_some_and(|(_, rest)| says_more(rest))
}

/// A few words of which a part is nothing but thanks: `Perfecto, gracias.`
fn is_thanks(said: &str) -> bool {
    const WORDS_MAX: usize = 4;
    const THANKS: &[&str] =
        &["danke", "vielen dank", "besten dank", "herzlichen dank", "grazie", "obrigad"];
    let parts = || said.split([',', '!', '.', '¡']).map(str::trim).filter(|part| !part.is_empty());
    let thanks = |part: &str| {
        let text = Text::new(vec![Part { id: "said", text: part }]);
        let folded = fold(part);
        THANKS.iter().any(|thanks| folded.starts_with(thanks))
            || !text.sentences.is_empty() && quality::courtesy(&text, 0).is_some()
    };
    said.split_whitespace().count() <= WORDS_MAX
        && !said.contains(|c: char| c.is_ascii_digit())
        && !has_subject_and_verb(said)
        && parts().any(thanks)
}

/// How many words a text has, and how many of them carry meaning.
fn weight(said: &str) -> (usize, usize) {
    let words = said.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    // In scripts without spaces each sign says about half of a word.
    let signs = said.chars().filter(|c| is_sign(*c)).count();
    let text = Text::new(vec![Part { id: "said", text: said }]);
    let content = text.tokens.iter().filter(|token| text.term(token).is_some()).count();
    (words + signs, content.max(signs / 2))
}

/// Whether a character is one of Chinese or Japanese.
fn is_sign(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')
}

/// A form in which two spellings of one statement are equal.
pub(crate) fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        folded.push_str(&word.to_lowercase());
        folded.push(' ');
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(source: &str) -> Vec<String> {
        let found = statements("s", source).into_iter();
        found.filter(|one| one.why_not.is_none()).map(|one| one.text).collect()
    }

    #[test]
    fn only_sentences_that_state_something_are_claims() {
        let source = "# Weekly report\n\nHi Ana,\n\nThe queue lost forty lines on Monday. Why did it happen?\n\
                      What was done:\n\n- Bob wrote a test that repeats the loss.\n- Tests.\n- Ana Ruiz\n\n\
                      Thanks a lot,\nBob\n";
        assert_eq!(
            claims(source),
            ["The queue lost forty lines on Monday.", "Bob wrote a test that repeats the loss."]
        );
        let spanish = "Hola Ana:\n\nEl turno de la guardia empieza a las ocho. Un saludo,\nBeto\n";
        assert_eq!(claims(spanish), ["El turno de la guardia empieza a las ocho."]);
        let why: Vec<&str> =
            statements("s", source).into_iter().filter_map(|one| one.why_not).collect();
        assert!(why.contains(&"a heading") && why.contains(&"a question"), "{why:?}");
    }

    #[test]
    fn a_claim_names_who_says_it() {
        let summary = "### Key Activities\n\n- Budget 900 EUR.\n- Assistant: You should take the night bus. It \
                       costs 60 EUR each.\n- We decided to fly instead.\n- Bo Li: The cat needs a sitter.\n- Bo \
                       Li: The plants need none.\n\n### Next Steps\n\n- We will book the flights.\n";
        assert_eq!(
            claims(summary),
            [
                "Budget 900 EUR.",
                "Assistant: You should take the night bus.",
                "Assistant: It costs 60 EUR each.",
                "We decided to fly instead.",
                "Bo Li: The cat needs a sitter.",
                "Bo Li: The plants need none.",
                "We will book the flights."
            ]
        );
        let chat = "User: We are going to Salta in July.\n\nAssistant: Two bus companies sell cheap \
                    tickets.\n\n- The night bus is cheap.\n\nThe market is cheap too.\n\n## Later\n\nThe \
                    trip was moved to May.\n";
        assert_eq!(
            claims(chat),
            [
                "User: We are going to Salta in July.",
                "Assistant: Two bus companies sell cheap tickets.",
                "Assistant: The night bus is cheap.",
                "Assistant: The market is cheap too.",
                "The trip was moved to May."
            ]
        );
    }

    #[test]
    fn the_day_behind_a_sentence_stays_with_it() {
        assert_eq!(
            claims(
                "Ana will send the new draft. (2026-03-05) Rosa will update the client library."
            ),
            ["Ana will send the new draft (2026-03-05).", "Rosa will update the client library."]
        );
        assert_eq!(
            with_days_inside("It ended. (see 4) So (2026-03-05)"),
            "It ended. (see 4) So (2026-03-05)"
        );
        assert_eq!(
            with_days_inside("Call him! (2026-03-05 10:30)."),
            "Call him (2026-03-05 10:30)!"
        );
    }

    #[test]
    fn what_a_flow_or_a_machine_writes_around_a_statement_is_no_claim() {
        assert_eq!(
            claims(
                "triage_event / software_dev / normal / 2026-03-05: The parser drops the last line."
            ),
            ["The parser drops the last line."]
        );
        assert_eq!(
            claims(
                "2026-03-03T02:00:05Z INFO step fetch ok rows=12000.\n\n2026-03-03T02:00:09Z ERROR promote failed: no manifest was found.\n"
            ),
            ["promote failed: no manifest was found."]
        );
        assert!(
            claims(
                "- [ ] buy four bags of compost for the beds.\n- [x] call the plumber on Monday.\n"
            )
            .is_empty()
        );
        for courtesy in
            ["Marta: Found it, thanks.", "Luis: Perfecto, somos ocho.", "Thanks for all your help."]
        {
            assert!(claims(courtesy).is_empty(), "{courtesy}");
        }
        for (said, why) in [
            ("Perfecto, gracias.", "a greeting or thanks"),
            ("Super, danke!", "a greeting or thanks"),
            ("Parfait, merci.", "a greeting or thanks"),
            ("Perfect, thanks!", "a greeting or thanks"),
            ("Congratulations!", "too few words"),
            ("Falta reservar la cabaña del lago.", "an item to do"),
            ("Reste à envoyer le constat au maire.", "an item to do"),
        ] {
            let found = statements("s", said);
            assert_eq!(found.first().and_then(|one| one.why_not), Some(why), "{said}: {found:?}");
        }
        assert_eq!(
            claims("Nota sobre el piano. El piano necesita una cuerda."),
            ["El piano necesita una cuerda."]
        );
        assert_eq!(
            claims("The value of a[x] doubles each step."),
            ["The value of a[x] doubles each step."]
        );
    }

    #[test]
    fn a_time_or_two_settings_within_a_line_make_no_line_of_a_log() {
        for fact in [
            "The freeze of the queue moved. 2026-03-05T10:00:00Z is its new start.",
            "The freeze begins at 2026-03-05T10:00:00Z and lasts two days.",
            "2026-03-05: the bridge at the mill was opened.",
            "The worker runs with threads=4 and depth=2 from now on.",
        ] {
            assert_eq!(claims(fact).join(" "), fact);
        }
        for line in [
            "2026-03-05T10:00:00Z the worker of the queue has started.",
            "- 2026-03-05 10:00:00 the worker of the queue has started.",
            "level=info msg=started the worker of the queue.",
        ] {
            assert!(claims(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn facts_that_are_polite_or_short_are_claims() {
        for fact in [
            "Gracias, el presupuesto ya está confirmado.",
            "Thanks, the budget of the workshop is confirmed.",
            "Salary 32,000 EUR.",
        ] {
            assert_eq!(claims(fact), [fact]);
        }
        assert_eq!(
            claims("Hi all, the meeting moved to Tuesday."),
            ["The meeting moved to Tuesday."]
        );
    }

    #[test]
    fn short_statements_and_other_scripts_are_claims() {
        for fact in [
            "Nightly build failed.",
            "Decision: the pump is new.",
            "The pump is new.",
            "Total: 4,300 EUR.",
            "The launch is on 4 May.",
            "The ratio a|b is 3.",
            "会议定于星期五上午十点举行。",
            "新しいポンプは金曜日に届きます。",
        ] {
            let found = statements("s", fact);
            assert_eq!(claims(fact), [fact], "{found:?}");
            let within = format!("# Notes\n\nThe hall was painted in May.\n\n{fact}\n");
            assert!(claims(&within).contains(&fact.to_owned()), "{:?}", statements("s", &within));
        }
    }

    #[test]
    fn a_label_before_what_states_nothing_makes_no_claim_of_it() {
        for nothing in [
            "Please send me the signed copy before Friday.",
            "Rogamos envíen el formulario antes del viernes.",
            "This message is confidential and intended only for the addressee.",
            "Thanks for all your help.",
        ] {
            for label in ["", "Ana: ", "Next step: ", "Chat: Ana: ", "- ", "**Note:** "] {
                let said = format!("{label}{nothing}");
                assert!(claims(&said).is_empty(), "{said}: {:?}", statements("s", &said));
            }
        }
        for (nothing, why) in [
            ("- [ ] buy four bags of compost for the beds", "an item to do"),
            ("☐ buy four bags of compost for the beds.", "an item to do"),
            ("Ana: [ ] buy four bags of compost for the beds.", "an item to do"),
            ("Ana: [x] four bags of compost were bought.", "an item that is done"),
            ("The four bags of compost were bought ✅", "an item that is done"),
            ("## Actions\n\n- Peter: the quotes of the three firms.\n", "an item to do"),
            ("## Actions\n\n- four quotes of three firms for Peter.\n", "an item to do"),
        ] {
            let found = statements("s", nothing);
            let last = found.last().and_then(|one| one.why_not);
            assert_eq!(last, Some(why), "{nothing}: {found:?}");
        }
    }

    #[test]
    fn a_box_within_a_sentence_makes_no_item_of_it() {
        for fact in [
            "The value of a[x] doubles each step.",
            "a[x] doubles each step of the loop.",
            "The form prints [ ] for each task that is open.",
            "The page shows ☐ before each open task.",
        ] {
            assert_eq!(claims(fact), [fact], "{:?}", statements("s", fact));
        }
    }

    #[test]
    fn an_address_leaves_the_name_of_its_host() {
        assert_eq!(
            claims(
                "The notes lie at https://www.docs.example/a?b=1 and on the desk. See <https://x.example/a>, the page of the archive."
            ),
            [
                "The notes lie at docs.example and on the desk.",
                "See x.example, the page of the archive."
            ]
        );
    }

    #[test]
    fn spellings_of_one_statement_are_equal() {
        assert_eq!(folded("The queue, lost 40 lines."), folded("the  queue lost 40 lines"));
        assert_ne!(folded("It works."), folded("It does not work."));
    }
}
