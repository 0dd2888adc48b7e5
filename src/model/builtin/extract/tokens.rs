//! Things with a spelling of their own: e-mail addresses, URLs, amounts of money, file paths.

use super::super::lexicon::lexicon;
use super::super::text::Text;
use super::super::text::words::char_at;
use super::Mention;

/// Longest address or URL reported.
const LENGTH_MAX: usize = 2000;

const CURRENCY_MARKS: [char; 6] = ['$', '€', '£', '¥', '₹', '₿'];
pub fn emails(text: &Text<'_>, sentence: usize) -> Vec<Mention> {
    scan(text, sentence, '@', |source, floor, at, ceiling| {
        let local = source[floor..at]
            .bytes()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte))
            .count();
        let domain = source[at + 1..ceiling]
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
            .count();
        let end = at + 1 + source[at + 1..at + 1 + domain].trim_end_matches(['.', '-']).len();
        let (_, top) = source[at + 1..end].rsplit_once('.')?;
        let known =
            local > 0 && top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_alphabetic());
        known.then_some((at - local, end))
    })
}

pub fn urls(text: &Text<'_>, sentence: usize) -> Vec<Mention> {
    scan(text, sentence, ':', |source, floor, at, ceiling| {
        if !source[at..ceiling].starts_with("://") {
            return None;
        }
        let scheme = source[floor..at].bytes().rev().take_while(u8::is_ascii_alphabetic).count();
        if !matches!(&source[at - scheme..at].to_ascii_lowercase()[..], "http" | "https" | "ftp") {
            return None;
        }
        let body = source[at + 3..ceiling]
            .find(|c: char| {
                c.is_whitespace()
                    || matches!(c, '<' | '>' | '"' | '`' | '|' | '\\' | '^' | '{' | '}')
            })
            .unwrap_or(ceiling - at - 3);
        let mut url = &source[at + 3..at + 3 + body];
        loop {
            let open = url.contains('(');
            let shorter =
                url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', ']', '*', '_', '»', '”']);
            let shorter = if open { shorter } else { shorter.trim_end_matches(')') };
            if shorter.len() == url.len() {
                break;
            }
            url = shorter;
        }
        (url.len() > 2).then_some((at - scheme, at + 3 + url.len()))
    })
}

fn scan(
    text: &Text<'_>,
    sentence: usize,
    mark: char,
    read: impl Fn(&str, usize, usize, usize) -> Option<(usize, usize)>,
) -> Vec<Mention> {
    let place = &text.sentences[sentence];
    let source = text.parts[place.part].text;
    let mut found: Vec<Mention> = Vec::new();
    let mut floor = place.start;
    for (offset, _) in source[place.start..place.end].match_indices(mark) {
        let at = place.start + offset;
        if at < floor {
            continue;
        }
        if let Some((start, end)) =
            read(source, floor, at, place.end).filter(|(start, end)| end - start <= LENGTH_MAX)
        {
            found.push(Mention { sentence, start, end });
            floor = end;
        }
    }
    found
}

/// Amounts of money of a sentence, ranges as one (`60.000–75.000 €`, `USD 5k per month`).
pub(crate) fn amounts(text: &Text<'_>, sentence: usize) -> Vec<Mention> {
    let place = &text.sentences[sentence];
    let source = text.parts[place.part].text;
    let tokens = text.tokens_of(sentence);
    let mut found: Vec<Mention> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let (start, mut end) = (token.start as usize, token.end as usize);
        if !is_quantity(&source[start..end]) || found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let mut from = start;
        let before = source[place.start..start].trim_end_matches([' ', '\u{a0}']);
        let mut money = false;
        if before.ends_with(CURRENCY_MARKS) {
            from = before.trim_end_matches(CURRENCY_MARKS).len() + place.start;
            from -= source[place.start..from]
                .bytes()
                .rev()
                .take_while(u8::is_ascii_uppercase)
                .count()
                .min(3);
            money = true;
        } else if index > 0 && is_currency(text, &tokens[index - 1]) {
            from = tokens[index - 1].start as usize;
            money = true;
        }
        let mut next = index + 1;
        if let Some(more) = range(source, end, place.end, tokens, next) {
            end = more;
            next += 1;
        }
        end = scale_word(text, tokens, &mut next, end);
        let tail = &source[end..place.end];
        let tail_mark = tail.trim_start_matches([' ', '\u{a0}']);
        if tail_mark.starts_with(CURRENCY_MARKS) && tail.len() - tail_mark.len() <= 2 {
            end += tail.len() - tail_mark.len() + char_at(tail_mark, 0).1;
            money = true;
        } else if tokens.get(next).is_some_and(|after| is_currency(text, after)) {
            end = tokens[next].end as usize;
            money = true;
        }
        if money {
            found.push(Mention { sentence, start: from, end: per(source, end, place.end) });
        }
    }
    found
}

fn is_quantity(word: &str) -> bool {
    let digits = word.trim_end_matches(['k', 'K', 'm', 'M']);
    word.len() - digits.len() <= 1
        && digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',')
}

fn is_currency(text: &Text<'_>, token: &super::super::text::words::Token) -> bool {
    lexicon().money.currencies.contains(text.folded(token))
}

fn range(
    source: &str,
    end: usize,
    limit: usize,
    tokens: &[super::super::text::words::Token],
    next: usize,
) -> Option<usize> {
    let token = tokens.get(next)?;
    let (start, stop) = (token.start as usize, token.end as usize);
    let gap = source[end..start]
        .trim_matches(|c: char| c == ' ' || CURRENCY_MARKS.contains(&c) || c == '\u{a0}');
    (stop <= limit && matches!(gap, "-" | "–" | "—") && is_quantity(&source[start..stop]))
        .then_some(stop)
}

fn scale_word(
    text: &Text<'_>,
    tokens: &[super::super::text::words::Token],
    next: &mut usize,
    end: usize,
) -> usize {
    let money = &lexicon().money;
    let folded = |at: usize| tokens.get(at).map_or("", |token| text.folded(token));
    if !money.scales.contains(folded(*next)) {
        return end;
    }
    let end = tokens[*next].end as usize;
    // `3 millones de euros`: the link is part of the amount only where a currency follows.
    *next += if money.links.contains(folded(*next + 1)) { 2 } else { 1 };
    end
}

fn per(source: &str, end: usize, limit: usize) -> usize {
    let periods = &lexicon().money.periods;
    let mut end = end;
    while let Some(period) =
        periods.iter().find(|period| source[end..limit].starts_with(period.as_str()))
    {
        end += period.len();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Part;
    use super::*;

    fn said(source: &str, find: fn(&Text<'_>, usize) -> Vec<Mention>) -> Vec<String> {
        let text = Text::new(vec![Part { id: "a", text: source }]);
        (0..text.sentences.len())
            .flat_map(|at| find(&text, at))
            .map(|found| source[found.start..found.end].to_string())
            .collect()
    }

    #[test]
    fn addresses_lose_their_punctuation() {
        assert_eq!(
            said("Write to ana.perez+x@mail.example.org, please.", emails),
            ["ana.perez+x@mail.example.org"]
        );
        assert_eq!(said("Not @home nor a@b.", emails), Vec::<String>::new());
        assert_eq!(
            said("See (https://x.org/a?b=1), or http://y.org/w_(z).", urls),
            ["https://x.org/a?b=1", "http://y.org/w_(z)"]
        );
    }

    #[test]
    fn amounts_keep_ranges_scales_and_periods() {
        let cases = [
            ("It pays $120k–$150k per year.", "$120k–$150k per year"),
            ("Sueldo: 60.000–75.000 € brutos anuales", "60.000–75.000 € brutos anuales"),
            ("They raised USD 5.5 million in May.", "USD 5.5 million"),
            ("Cuesta 3 millones de euros en total.", "3 millones de euros"),
            ("A fee of US$ 40 applies.", "US$ 40"),
        ];
        for (source, expected) in cases {
            assert_eq!(said(source, amounts), [expected], "{source}");
        }
        assert!(said("In 2026 there were 30 cats.", amounts).is_empty());
    }
}
