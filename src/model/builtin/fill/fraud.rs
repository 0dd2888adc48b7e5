//! Distinguishes the demands of frauds from the requests of honest mails. The words are in `[fraud]` of the
//! language files.
//!
//! Contract. A demand is a sentence that orders, and names what no honest sender asks for in this way:
//!
//! - a secret, by a link or a message, under a threat or for a gain;
//! - any data of the reader behind a link, because an account is locked;
//! - an account together with identity papers or for a gain, or in secrecy;
//! - codes of gift cards;
//! - an amount of coins;
//! - money to a new account, or from somebody who cannot be asked back;
//! - a copy of identity papers and money at once, in haste;
//! - the fee of a parcel behind a link.
//!
//! Haste alone makes no fraud: people are in haste every day. A sentence that warns of such demands is none.

use super::super::lexicon::lexicon;
use super::super::text::words::spaced;

/// Sentences around a demand that press for it count too.
pub(crate) fn demands<'t>(sentences: impl Iterator<Item = &'t str>) -> bool {
    let words = &lexicon().fraud;
    let sentences: Vec<String> = sentences.map(in_words).collect();
    // `Pay to the new account and do not call` warns of nothing.
    let warns = |sentence: &String| warns(sentence) && !says(sentence, &words.secrecy);
    let said: Vec<&String> = sentences.iter().filter(|sentence| !warns(sentence)).collect();
    let anywhere = |list: &[String]| said.iter().any(|sentence| says(sentence, list));
    let is_voucher = |sentence: &&String| {
        says(sentence, &words.vouchers)
            || says(sentence, &words.cards) && says(sentence, &words.brands)
    };
    let pressed = anywhere(&words.ways) || anywhere(&words.threats);
    let pays = |sentence: &String| says(sentence, &words.payments) || names_amount(sentence);
    let asks_money =
        said.iter().any(|one| orders(one) && (pays(one) || says(one, &words.advances)));
    let in_haste = || pressed || anywhere(&words.haste);
    // `Our invoices are paid to the new account FR76 …` orders without an order.
    let moves_account = said.iter().any(|one| says(one, &words.new_accounts) && names_iban(one));
    if moves_account && said.iter().any(|one| pays(one) || says(one, &words.bills)) {
        return true;
    }
    let in_secret = anywhere(&words.secrecy);
    let buys_vouchers = said.iter().any(is_voucher);
    said.iter().filter(|sentence| orders(sentence)).any(|sentence| {
        let has = |list: &[String]| says(sentence, list);
        let has_identity = has(&words.accounts) || has(&words.papers);
        has(&words.secrets) && (pressed || anywhere(&words.gains))
            || (has(&words.data) || has(&words.secrets))
                && anywhere(&words.locked)
                && anywhere(&words.ways)
            || has(&words.accounts) && in_secret
            || has(&words.accounts) && has(&words.papers) && !anywhere(&words.reasons)
            || has_identity && anywhere(&words.gains)
            || has(&words.papers)
                && has(&words.sends)
                && asks_money
                && in_haste()
                && !anywhere(&words.reasons)
            || has(&words.codes) && buys_vouchers
            || names_coins(sentence)
            || pays(sentence) && (in_secret || anywhere(&words.new_accounts))
            || has(&words.fees) && has(&words.ways) && anywhere(&words.parcels)
    })
}

/// The words of a sentence, with those for signs of money.
fn in_words(sentence: &str) -> String {
    let named = [("€", " eur "), ("$", " usd "), ("£", " gbp ")];
    spaced(&named.iter().fold(sentence.to_owned(), |text, (sign, name)| text.replace(sign, name)))
}

/// Whether a sentence orders: one of the words stands first or behind a joint, or a phrase anywhere.
fn orders(spaced: &str) -> bool {
    lexicon().fraud.orders.iter().any(|order| match order.strip_prefix("… ") {
        Some(anywhere) => spaced.contains(&format!(" {anywhere} ")),
        None => {
            let order = format!(" {order} ");
            let stands_first = |(at, _): (usize, &str)| at == 0 || ends_in_joint(&spaced[..at]);
            spaced.match_indices(&order).any(stands_first)
        }
    })
}

fn ends_in_joint(words: &str) -> bool {
    let last = words.rsplit(' ').next().unwrap_or_default();
    lexicon().languages.iter().any(|habits| habits.done.joints.contains(last))
}

/// Whether a sentence warns of frauds, or tells the reader not to act: `do not send`.
fn warns(spaced: &str) -> bool {
    let words = &lexicon().fraud;
    words.denials.iter().any(|denial| match denial.strip_suffix(" …") {
        Some(denial) => {
            words.orders.iter().any(|order| spaced.contains(&format!(" {denial} {order} ")))
        }
        None => spaced.contains(&format!(" {denial} ")),
    })
}

fn says(spaced: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| spaced.contains(&format!(" {phrase} ")))
}

fn is_currency(word: &str) -> bool {
    let words = lexicon();
    words.money.currencies.contains(word) || words.fraud.currencies.iter().any(|one| one == word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `900 EUR` or `EUR 900`.
fn names_amount(spaced: &str) -> bool {
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let is_amount = |one: &str, other: &str| is_number(one) && is_currency(other);
    words.windows(2).any(|two| is_amount(two[0], two[1]) || is_amount(two[1], two[0]))
}

/// The number of an account: `FR76 3000 6000`.
fn names_iban(spaced: &str) -> bool {
    const BEGIN: usize = 4;
    let begins = |word: &str| {
        let bytes = word.as_bytes();
        bytes.len() >= BEGIN
            && bytes[..2].iter().all(u8::is_ascii_alphabetic)
            && bytes[2..BEGIN].iter().all(u8::is_ascii_digit)
    };
    spaced.split_whitespace().any(begins)
}

/// `0.5 bitcoin` or `300 euros in bitcoin`, and not `the bitcoin report`.
fn names_coins(spaced: &str) -> bool {
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let is_coin = |word: &str| lexicon().fraud.coins.iter().any(|coin| coin == word);
    let has_amount = |before: &[&str]| match before {
        [.., amount] if is_number(amount) => true,
        [.., amount, currency, _] => is_number(amount) && is_currency(currency),
        _ => false,
    };
    (0..words.len()).any(|at| is_coin(words[at]) && has_amount(&words[..at]))
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
    use super::*;

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

    #[test]
    fn words_of_frauds_are_folded() {
        let words = &lexicon().fraud;
        let lists = [
            &words.orders,
            &words.denials,
            &words.secrets,
            &words.ways,
            &words.threats,
            &words.locked,
            &words.data,
            &words.accounts,
            &words.papers,
            &words.reasons,
            &words.gains,
            &words.vouchers,
            &words.cards,
            &words.brands,
            &words.codes,
            &words.coins,
            &words.currencies,
            &words.payments,
            &words.secrecy,
            &words.sends,
            &words.haste,
            &words.advances,
            &words.bills,
            &words.new_accounts,
            &words.parcels,
            &words.fees,
        ];
        for phrase in lists.into_iter().flatten() {
            let plain = phrase.replace('…', " ");
            assert_eq!(spaced(&plain).trim(), plain.trim(), "{phrase}");
        }
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
        assert!(right[0] >= 58 && right[1] >= 41, "{right:?} of {all:?}");
    }
}
