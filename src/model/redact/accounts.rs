//! Finds IBANs and payment cards. Both carry check digits, so other long numbers stay.

use std::ops::Range;

use super::is_space;

/// Length of an IBAN for each country that issues them.
const IBAN_LENGTHS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 \
    DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 \
    KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 \
    RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20";

const IBAN_LENGTH_MAX: usize = 34;
/// IBANs that stand together without a sign between them.
const GLUED_MAX: usize = 8;
const CARD_DIGITS: std::ops::RangeInclusive<usize> = 13..=19;

/// Adds each account number in `gap` to `found`.
pub(super) fn find(text: &str, gap: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut from = gap.start;
    let mut previous = None;
    for (at, c) in text[gap.clone()].char_indices() {
        let at = gap.start + at;
        let starts_word = !previous.is_some_and(|p: char| p.is_alphanumeric() || p == '_');
        previous = Some(c);
        if at < from || !starts_word {
            continue;
        }
        let end = match c {
            'A'..='Z' | 'a'..='z' => iban_end(&text[at..gap.end]),
            '2'..='6' => card_end(&text[at..gap.end]),
            _ => None,
        };
        if let Some(end) = end {
            from = at + end;
            found.push(at..from);
        }
    }
}

/// Signs between two groups of a number.
const SEPARATORS_MAX: usize = 3;

/// Characters of a number that may be written in groups, with the end of each. Groups are separated
/// by a few spaces, hyphens or dots.
fn grouped(text: &str, most: usize) -> impl Iterator<Item = (u8, usize)> {
    let mut separators = 0;
    text.char_indices()
        .map_while(move |(at, c)| {
            let is_separator =
                is_space(c) || matches!(c, '-' | '.' | '·' | '\u{2010}'..='\u{2013}');
            if c.is_ascii_alphanumeric() {
                separators = 0;
                Some(Some((c.to_ascii_uppercase() as u8, at + 1)))
            } else if is_separator && separators < SEPARATORS_MAX {
                separators += 1;
                Some(None)
            } else {
                None
            }
        })
        .flatten()
        .take(most)
}

fn ends_here(text: &str, end: usize) -> bool {
    !text[end..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The end of an IBAN, or of several without a sign between them.
fn iban_end(text: &str) -> Option<usize> {
    let mut end = 0;
    for _ in 0..GLUED_MAX {
        end += one_iban_end(&text[end..])?;
        if ends_here(text, end) {
            return Some(end);
        }
    }
    None
}

fn one_iban_end(text: &str) -> Option<usize> {
    let country = text.get(..2)?.to_ascii_uppercase();
    let length: usize =
        IBAN_LENGTHS.split(' ').find_map(|entry| entry.strip_prefix(&country))?.parse().ok()?;
    let signs: Vec<(u8, usize)> = grouped(text, length.min(IBAN_LENGTH_MAX)).collect();
    let end = signs.get(length - 1)?.1;
    let digits = signs[2..4].iter().all(|(sign, _)| sign.is_ascii_digit());
    // ISO 7064: country and check digits move to the end, letters count from 10.
    let rest =
        signs.iter().cycle().skip(4).take(length).fold(0_u32, |rest, (sign, _)| match sign {
            b'0'..=b'9' => (rest * 10 + u32::from(sign - b'0')) % 97,
            _ => (rest * 100 + u32::from(sign - b'A') + 10) % 97,
        });
    (digits && rest == 1).then_some(end)
}

fn card_end(text: &str) -> Option<usize> {
    let signs: Vec<(u8, usize)> = grouped(text, CARD_DIGITS.end() + 1)
        .take_while(|(sign, _)| sign.is_ascii_digit())
        .collect();
    // The longest number first: a shorter one would leave digits behind.
    CARD_DIGITS.rev().filter(|count| *count <= signs.len()).find_map(|count| {
        let end = signs[count - 1].1;
        let signs = &signs[..count];
        let is_usual =
            || is_written_usually(&text[..end]) || (begins_with_four(text) && is_of_network(signs));
        let is_one = || is_card(signs) && is_usual() && !is_amount(&text[..end]);
        (ends_here(text, end) && is_one()).then_some(end)
    })
}

/// Whether at most one space or hyphen stands between two groups. Other signs stand between the columns of a table
/// and in amounts, too.
fn is_written_usually(number: &str) -> bool {
    let mut is_separated = false;
    number.chars().all(|c| {
        let is_digit = c.is_ascii_digit();
        let is_usual = is_digit || (!is_separated && c != '.' && c != '·');
        is_separated = !is_digit;
        is_usual
    })
}

/// Whether a number has a space between its thousands, as an amount has and no card.
fn is_amount(number: &str) -> bool {
    let mut groups = number.split(|c: char| !c.is_ascii_digit()).map(str::len).peekable();
    let first = groups.next().unwrap_or_default();
    first <= 3 && groups.peek().is_some() && groups.all(|digits| digits == 3)
}

/// Whether the first group has four digits, as on a card. The first group of an amount has at most three.
fn begins_with_four(number: &str) -> bool {
    number.bytes().take_while(u8::is_ascii_digit).count() == 4
}

/// Whether a network of cards has numbers with this beginning and this length.
fn is_of_network(signs: &[(u8, usize)]) -> bool {
    let first: String = signs.iter().take(4).map(|(sign, _)| char::from(*sign)).collect();
    let first: u32 = first.parse().unwrap_or_default();
    match signs.len() {
        13 | 19 => first / 1000 == 4,
        14 => matches!(first / 100, 30 | 36 | 38),
        15 => matches!(first / 100, 34 | 37),
        16 => {
            let of_two = matches!(first / 100, 35 | 51..=55 | 62 | 65);
            first / 1000 == 4 || of_two || matches!(first, 2221..=2720 | 6011 | 6440..=6499)
        }
        _ => false,
    }
}

/// The Luhn check. A number of equal digits passes it and is no card.
fn is_card(signs: &[(u8, usize)]) -> bool {
    let sum: u32 = signs
        .iter()
        .rev()
        .enumerate()
        .map(|(at, (sign, _))| {
            let digit = u32::from(sign - b'0');
            match at % 2 {
                0 => digit,
                _ if digit > 4 => digit * 2 - 9,
                _ => digit * 2,
            }
        })
        .sum();
    sum.is_multiple_of(10) && signs.iter().any(|(sign, _)| *sign != signs[0].0)
}
