//! What frauds demand, told from what honest mails ask for. The words stand in `[fraud]` of the language
//! files.
//!
//! Contract. A demand is a sentence that orders, and names what no honest sender asks for in this way: a
//! secret with a link or in haste, an account together with identity papers or over another channel, codes
//! of gift cards, coins, or a transfer in haste that no invoice, rent or contract explains. A sentence that
//! warns of such demands is none.

use super::super::lexicon::lexicon;
use super::super::text::words::fold;

/// Sentences around a demand that may explain it or press for it count too.
pub(crate) fn demands<'t>(sentences: impl Iterator<Item = &'t str>) -> bool {
    let sentences: Vec<String> = sentences.map(spaced).collect();
    let words = &lexicon().fraud;
    let is_warning = |sentence: &String| says(sentence, &words.denials);
    let said: Vec<&String> = sentences.iter().filter(|sentence| !is_warning(sentence)).collect();
    let anywhere = |list: &[String]| said.iter().any(|sentence| says(sentence, list));
    let (pressed, explained) = (anywhere(&words.pressure), anywhere(&words.reasons));
    let elsewhere = anywhere(&words.ways);
    said.iter().filter(|sentence| orders(sentence)).any(|sentence| {
        let has = |list: &[String]| says(sentence, list);
        has(&words.secrets) && (elsewhere || pressed)
            || has(&words.accounts)
                && !explained
                && (has(&words.papers) || elsewhere || has(&words.pressure))
            || has(&words.papers) && elsewhere && !explained
            || has(&words.vouchers) && anywhere(&words.codes)
            || has(&words.coins) && !explained
            || has(&words.transfers) && pressed && !explained
    })
}

/// Whether a sentence orders: one of the words stands first or behind a joint, or a phrase anywhere.
fn orders(spaced: &str) -> bool {
    lexicon().fraud.orders.iter().any(|order| match order.strip_prefix("… ") {
        Some(anywhere) => spaced.contains(&format!(" {anywhere} ")),
        None => {
            let begins = spaced.strip_prefix(" please ").map(|rest| format!(" {rest}"));
            let begins = begins.as_deref().unwrap_or(spaced);
            begins.starts_with(&format!(" {order} "))
                || ["and", "y", "e", "und", "et"]
                    .iter()
                    .any(|joint| spaced.contains(&format!(" {joint} {order} ")))
        }
    })
}

fn says(spaced: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| match phrase.strip_suffix('*') {
        Some(beginning) => spaced.contains(&format!(" {beginning}")),
        None => spaced.contains(&format!(" {phrase} ")),
    })
}

/// The words of a text with a blank around each, for looking up phrases.
pub(crate) fn spaced(text: &str) -> String {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}

/// The sentences of a text, cut roughly: a cut too many only takes words from a sentence.
pub(crate) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    // A stop inside a number ends nothing: `0.5 bitcoin`.
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = |(at, mark): (usize, &str)| {
            let end = at + mark.len();
            rest[end..].is_empty() || rest[end..].starts_with(char::is_whitespace)
        };
        let marks = rest.match_indices(['.', '!', '?']);
        let end = marks.filter(|one| ends(*one)).map(|(at, mark)| at + mark.len()).next();
        let (sentence, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        Some(sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::super::signals::reads_like_fraud;

    /// `+` marks a text that demands what frauds demand, `-` an honest one.
    fn texts(file: &'static str) -> Vec<(bool, &'static str)> {
        let cases = file.lines().filter_map(|line| {
            let (mark, text) = line.split_once(' ')?;
            matches!(mark, "+" | "-").then_some((mark == "+", text))
        });
        cases.collect()
    }

    #[test]
    fn demands_of_frauds_are_told_from_honest_requests() {
        let cases = texts(include_str!("../../../../tests/fixtures/fraud_texts.txt"));
        let frauds = cases.iter().filter(|(is_fraud, _)| *is_fraud).count();
        assert!(frauds >= 30 && cases.len() - frauds >= 30);
        let wrong: Vec<String> = cases
            .iter()
            .filter(|(is_fraud, text)| reads_like_fraud(text) != *is_fraud)
            .map(|(is_fraud, text)| format!("{} {text}", if *is_fraud { "+" } else { "-" }))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The rules were written without these texts, so they are counted and not shown.
    #[test]
    fn rules_hold_for_texts_that_they_were_not_written_by() {
        let (mut right, mut all) = ([0, 0], [0, 0]);
        for (is_fraud, text) in
            texts(include_str!("../../../../tests/fixtures/held/fraud_texts.txt"))
        {
            let kind = usize::from(is_fraud);
            all[kind] += 1;
            right[kind] += usize::from(reads_like_fraud(text) == is_fraud);
        }
        println!("honest {}/{}, frauds {}/{}", right[0], all[0], right[1], all[1]);
        assert!(right[0] >= 25 && right[1] >= 10, "{right:?} of {all:?}");
    }
}
