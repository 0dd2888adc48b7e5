//! Finds telephone numbers by their groups of digits and by the numbering plans of countries.

use std::ops::Range;

use super::{is_space, words_before};

/// Digits of a number that stands without a word such as `tel.` before it.
const DIGITS_MIN: usize = 9;
/// Digits of a number after a word such as `tel.`.
const LABELLED_DIGITS_MIN: usize = 7;
/// Digits of any number, by E.164.
const DIGITS_MAX: usize = 15;
/// Bytes before a number that are searched for a word such as `tel.`.
const LABEL_BYTES: usize = 40;

/// Country codes with the fewest and the most digits that follow. Other codes take 6 to 12.
const PLANS: [(&str, usize, usize); 40] = [
    ("1", 10, 10),
    ("7", 10, 10),
    ("20", 8, 10),
    ("27", 9, 9),
    ("30", 10, 10),
    ("31", 9, 9),
    ("32", 8, 9),
    ("33", 9, 9),
    ("34", 9, 9),
    ("36", 8, 9),
    ("39", 6, 11),
    ("40", 9, 9),
    ("41", 9, 9),
    ("43", 7, 13),
    ("44", 9, 10),
    ("45", 8, 8),
    ("46", 7, 9),
    ("47", 8, 8),
    ("48", 9, 9),
    ("49", 6, 11),
    ("51", 8, 9),
    ("52", 10, 11),
    ("54", 10, 11),
    ("55", 10, 11),
    ("56", 9, 9),
    ("57", 8, 10),
    ("58", 10, 10),
    ("61", 9, 9),
    ("64", 8, 10),
    ("65", 8, 8),
    ("81", 9, 10),
    ("82", 8, 10),
    ("86", 10, 11),
    ("90", 10, 10),
    ("91", 10, 10),
    ("351", 9, 9),
    ("353", 7, 9),
    ("420", 9, 9),
    ("593", 8, 9),
    ("598", 7, 8),
];

/// Words that announce a telephone number, in lower case.
const LABELS: [&str; 34] = [
    "tel",
    "tel.",
    "tél",
    "tél.",
    "telephone",
    "phone",
    "mobile",
    "cell",
    "cel",
    "cel.",
    "fax",
    "call",
    "ring",
    "whatsapp",
    "signal",
    "sms",
    "teléfono",
    "telefono",
    "móvil",
    "movil",
    "celular",
    "llama",
    "llamá",
    "llámame",
    "llamame",
    "llamar",
    "telefon",
    "handy",
    "rufnummer",
    "ruf",
    "téléphone",
    "portable",
    "appelez",
    "mobil",
];
/// Whether a word, in lower case, announces a telephone number.
pub(super) fn announces(word: &str) -> bool {
    LABELS.contains(&word)
}

/// Words after which a long number is something else.
const OTHER_NUMBERS: [&str; 19] = [
    "isbn",
    "issn",
    "ean",
    "doi",
    "version",
    "order",
    "invoice",
    "ticket",
    "tracking",
    "unix",
    "timestamp",
    "pedido",
    "factura",
    "bestellung",
    "rechnung",
    "commande",
    "facture",
    "iban",
    "bic",
];
/// What follows an amount of money.
const CURRENCIES: [&str; 14] = [
    "€", "$", "£", "%", "eur", "usd", "gbp", "ars", "chf", "mxn", "euros", "dollars", "pesos",
    "bytes",
];

/// A group of digits, and what stands before it.
struct Group {
    start: usize,
    end: usize,
    before: Before,
}

impl Group {
    /// Whether the group may belong to the same number as the one before it.
    fn goes_on(&self) -> bool {
        !matches!(self.before, Before::Plus | Before::Slash | Before::Bracket)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// One sign that groups digits: a space, a hyphen, a dot.
    Space,
    Hyphen,
    Dot,
    /// `/`: separates two numbers, or an area code from its number.
    Slash,
    /// `+`: a country code follows.
    Plus,
    /// An opening bracket: an area code follows.
    Bracket,
}

/// Adds each telephone number in `gap` to `found`.
pub(super) fn find(text: &str, gap: Range<usize>, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = gap.start;
    while at < gap.end {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (groups, end) = groups(text, at, gap.end, gap.start);
        numbers(text, &groups, found);
        at = end;
    }
}

/// The groups of digits from `at`, up to the first sign that no number contains.
fn groups(text: &str, at: usize, until: usize, from: usize) -> (Vec<Group>, usize) {
    let mut groups = Vec::new();
    let mut start = at;
    let head = text[from..at].trim_end_matches(' ');
    let mut before = match head.as_bytes().last() {
        Some(b'+') => Before::Plus,
        Some(b'(') => Before::Bracket,
        _ => Before::Space,
    };
    loop {
        let length =
            text.as_bytes()[start..until].iter().take_while(|b| b.is_ascii_digit()).count();
        let end = start + length;
        groups.push(Group { start, end, before });
        let mut next = end;
        let (mut spaces, mut marks, mut separator) = (0, 0, None);
        for c in text[end..until].chars() {
            match c {
                ')' => {}
                '(' => separator = Some(Before::Bracket),
                '+' => separator = Some(Before::Plus),
                '-' | '\u{2010}'..='\u{2013}' => {
                    (marks, separator) = (marks + 1, separator.or(Some(Before::Hyphen)))
                }
                '.' => (marks, separator) = (marks + 1, separator.or(Some(Before::Dot))),
                '/' => (marks, separator) = (marks + 1, Some(Before::Slash)),
                c if is_space(c) => spaces += 1,
                _ => break,
            }
            next += c.len_utf8();
        }
        let digit = text.as_bytes().get(next).is_some_and(u8::is_ascii_digit) && next < until;
        if !digit || marks > 1 || spaces > 2 || next == end {
            return (groups, end.max(next.min(until)));
        }
        // Two spaces, or a sign between spaces, separate two numbers as `/` does.
        before = match separator {
            None if spaces > 1 => Before::Slash,
            None => Before::Space,
            Some(Before::Hyphen | Before::Dot) if spaces > 1 => Before::Slash,
            Some(separator) => separator,
        };
        start = next;
    }
}

/// The telephone numbers in one run of groups.
fn numbers(text: &str, groups: &[Group], found: &mut Vec<Range<usize>>) {
    let Some((first, last)) = groups.first().zip(groups.last()) else { return };
    let words = words_before(text, first.start, LABEL_BYTES);
    let labelled = words.iter().rev().take(4).any(|word| announces(word));
    let other = words.iter().rev().take(3).any(|word| OTHER_NUMBERS.contains(&word.as_str()));
    if !labelled && (other || is_list(text, groups)) {
        return;
    }
    let mut groups = groups;
    if !labelled && part_of_a_name(text, first.start) {
        // "Room B7, +34 600 123 456": what belongs to the name ends at a space, `+` or a bracket.
        let is_of_name =
            |group: &&Group| matches!(group.before, Before::Hyphen | Before::Dot | Before::Slash);
        let skipped = 1 + groups[1..].iter().take_while(is_of_name).count();
        groups = &groups[skipped..];
    }
    let Some(first) = groups.first() else { return };
    // The hour of `2026-02-11 10:30`, and digits that run into a word, belong to no number.
    let mut head = text[..first.start].chars().rev();
    if head.next() == Some(':') && head.next().is_some_and(|c| c.is_ascii_digit()) {
        groups = &groups[1..]; // the minutes
    }
    let mut after = text[last.end..].chars();
    let follows = after.next();
    let time = follows == Some(':') && after.next().is_some_and(|c| c.is_ascii_digit());
    if time || follows.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        groups = &groups[..groups.len().saturating_sub(1)];
    } else if is_amount(text, groups, last.end) {
        return;
    }
    let mut at = 0;
    while at < groups.len() {
        let skipped = date(text, &groups[at..]).or_else(|| address(text, &groups[at..]));
        if let Some(count) = skipped {
            at += count;
            continue;
        }
        match number(text, &groups[at..], labelled) {
            Some(count) => {
                found.push(opening(text, &groups[at])..groups[at + count - 1].end);
                at += count;
            }
            // Parts of a longer number are no telephone number.
            None => at += 1 + groups[at + 1..].iter().take_while(|group| group.goes_on()).count(),
        }
    }
}

/// "Phases 1 2 3 4 5 6", "rows 100 200 300", and seconds since 1970.
fn is_list(text: &str, groups: &[Group]) -> bool {
    let Some(first) = groups.first() else { return false };
    let digits = |group: &Group| &text[group.start..group.end];
    let is_dialled = matches!(first.before, Before::Plus | Before::Bracket);
    if is_dialled || digits(first).starts_with('0') {
        return false;
    }
    let small = groups.len() > 5 && groups.iter().all(|group| digits(group).len() < 3);
    let round = groups.len() > 2 && groups.iter().all(|group| digits(group).ends_with("00"));
    let seconds = groups.len() == 1 && digits(first).len() == 10 && digits(first).starts_with('1');
    small || round || seconds
}

/// Whether the digits are the end of a name such as `INV-2026-0001`, or follow `#`.
fn part_of_a_name(text: &str, start: usize) -> bool {
    let mut before = text[..start].chars().rev();
    match before.next() {
        Some('-' | '.' | '/' | '_') => before.next().is_some_and(char::is_alphanumeric),
        Some(c) => c.is_alphabetic() || c == '#' || c == '_',
        None => false,
    }
}

/// The start of the number with its `+` or `(`.
fn opening(text: &str, group: &Group) -> usize {
    let head = &text[..group.start];
    let bare = head.trim_end_matches(is_space);
    match bare.chars().next_back() {
        Some('+' | '(') if bare.ends_with("(+") => bare.len() - 2,
        Some('+' | '(') => bare.len() - 1,
        _ => group.start,
    }
}

/// How many of the first groups are one telephone number.
fn number(text: &str, groups: &[Group], labelled: bool) -> Option<usize> {
    // A number ends where the next begins: at `+`, at a bracket after enough digits, at `/`.
    let mut counts = Vec::new();
    let mut digits = 0;
    let mut too_long = false;
    for (at, group) in groups.iter().enumerate() {
        let area = at == 1 && digits <= 5;
        let ends = match group.before {
            Before::Plus => true,
            Before::Bracket => digits >= LABELLED_DIGITS_MIN,
            Before::Slash => !area,
            Before::Space | Before::Hyphen | Before::Dot => false,
        };
        digits += group.end - group.start;
        too_long = digits > DIGITS_MAX;
        if (at > 0 && ends) || too_long {
            break;
        }
        counts.push(digits);
    }
    if groups[0].before == Before::Plus {
        return international(text, groups, &counts);
    }
    let least = if labelled { LABELLED_DIGITS_MIN } else { DIGITS_MIN };
    let rest: usize = groups[if too_long { counts.len() } else { groups.len() }..]
        .iter()
        .take_while(|group| group.goes_on())
        .take(DIGITS_MAX) // enough to decide; a run may have a million groups
        .map(|group| group.end - group.start)
        .sum();
    let whole = counts.last().copied().unwrap_or(0);
    if rest == 0 && whole >= least {
        return Some(counts.len());
    }
    if rest == 0 {
        return is_local(text, groups, &counts).then_some(2);
    }
    // Several numbers side by side: the shortest that leaves enough digits for the next.
    counts
        .iter()
        .position(|count| *count >= least && whole - count + rest >= least)
        .map(|at| at + 1)
}

/// By its country code: as many groups as the numbering plan allows.
fn international(text: &str, groups: &[Group], counts: &[usize]) -> Option<usize> {
    let start: String = groups
        .iter()
        .take(counts.len())
        .flat_map(|group| text[group.start..group.end].chars())
        .take(3)
        .collect();
    let plan = PLANS
        .iter()
        .filter(|(code, ..)| start.starts_with(code))
        .max_by_key(|(code, ..)| code.len());
    let (code, least, most) =
        plan.map_or((2, 6, 12), |(code, least, most)| (code.len(), *least, *most));
    // `+44 (0) 20 …`: the zero in brackets is dialled within the country only.
    let trunk = groups
        .iter()
        .take(3)
        .any(|group| group.before == Before::Bracket && &text[group.start..group.end] == "0");
    let most = code + most + usize::from(trunk);
    let fits = counts.iter().rposition(|count| (code + least..=most).contains(count));
    fits.or_else(|| counts.iter().rposition(|count| *count >= LABELLED_DIGITS_MIN)).map(|at| at + 1)
}

/// `4555-1234`: eight digits in two halves that are neither years nor round amounts.
fn is_local(text: &str, groups: &[Group], counts: &[usize]) -> bool {
    let [first, second] = groups else { return false };
    let halves = [&text[first.start..first.end], &text[second.start..second.end]];
    let year = halves.iter().all(|half| half.starts_with("19") || half.starts_with("20"));
    let round = halves.iter().all(|half| half.ends_with("00"));
    counts == [4, 8] && second.before == Before::Hyphen && !year && !round
}

/// Three groups that are a date: `2026-02-11`, `11/02/2026`.
fn date(text: &str, groups: &[Group]) -> Option<usize> {
    let [a, b, c, ..] = groups else { return None };
    let same =
        b.before == c.before && matches!(b.before, Before::Hyphen | Before::Slash | Before::Dot);
    let number = |group: &Group| text[group.start..group.end].parse::<u32>().ok();
    let (a, b, c, lengths) =
        (number(a)?, number(b)?, number(c)?, [a.end - a.start, b.end - b.start, c.end - c.start]);
    let (day, month) = (1..=31, 1..=12);
    let year = 1900..=2099;
    let year_first = lengths[0] == 4 && year.contains(&a) && month.contains(&b) && day.contains(&c);
    let year_last = lengths[2] == 4
        && year.contains(&c)
        && ((day.contains(&a) && month.contains(&b)) || (month.contains(&a) && day.contains(&b)));
    (same && lengths[1] <= 2 && (year_first || year_last)).then_some(3)
}

/// Four groups that are a network address.
fn address(text: &str, groups: &[Group]) -> Option<usize> {
    let four = groups.get(..4)?;
    let dotted = four[1..].iter().all(|group| group.before == Before::Dot);
    let small = four.iter().all(|group| {
        let digits = &text[group.start..group.end];
        digits.parse::<u8>().is_ok() && (digits == "0" || !digits.starts_with('0'))
    });
    let more = groups.get(4).is_some_and(|group| group.before == Before::Dot);
    (dotted && small && !more).then_some(4)
}

/// `1.250.000.000`, `3.14159265358`, and what has a currency beside it.
fn is_amount(text: &str, groups: &[Group], end: usize) -> bool {
    let Some(first) = groups.first() else { return true };
    let lengths: Vec<usize> = groups.iter().map(|group| group.end - group.start).collect();
    let zero = text[first.start..].starts_with('0');
    let plain = !matches!(first.before, Before::Plus | Before::Bracket) && !zero;
    let thousands = plain
        && groups.len() > 1
        && lengths[0] < 3
        && lengths[1..].iter().all(|length| *length == 3);
    let decimal =
        groups.len() == 2 && groups[1].before == Before::Dot && lengths[0] <= 3 && lengths[1] > 4;
    let behind = text[end..].trim_start_matches(is_space);
    let currency = CURRENCIES.iter().any(|currency| {
        behind.get(..currency.len()).is_some_and(|start| start.eq_ignore_ascii_case(currency))
            && !behind[currency.len()..].starts_with(char::is_alphabetic)
    });
    let before = text[..first.start].trim_end_matches(is_space);
    thousands || decimal || currency || before.ends_with(['€', '$', '£'])
}
