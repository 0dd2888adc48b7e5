//! A text too long to be analysed whole: of each stretch, the sentences that say most are kept.
//!
//! Contract: what an analysis takes, some twenty times its text, is bounded whatever the length of the
//! text. Up to [`READ_BYTES_MAX`] nothing is left out. Beyond, every byte is read once in a stretch of
//! its own, and every stretch keeps its share of `KEPT_BYTES`; what is kept is a view of its part, so
//! that spans still point into the source.
//!
//! See docs/adr/0056-reading-very-long-texts-in-windows.md.

use std::ops::Range;

use super::super::rank::{Matrix, score};
use super::super::text::{Part, Text};
use super::gather::Gathered;
use crate::markup::html::View;
use crate::markup::prefix;

/// Most text that is analysed as a whole.
pub(crate) const READ_BYTES_MAX: usize = 16 << 20;
/// What is kept of a longer text.
const KEPT_BYTES: usize = 4 << 20;
const STRETCH_BYTES: usize = 1 << 20;

/// The sizes; tests use smaller ones.
#[derive(Clone, Copy)]
struct Sizes {
    whole: usize,
    kept: usize,
    stretch: usize,
}

/// The parts, or what is kept of them when they are too long together.
pub(crate) fn excerpt(parts: Vec<Gathered<'_>>) -> Vec<Gathered<'_>> {
    let sizes = Sizes { whole: READ_BYTES_MAX, kept: KEPT_BYTES, stretch: STRETCH_BYTES };
    excerpt_to(parts, sizes)
}

/// A stretch of one part.
type Window = (usize, Range<usize>);

fn excerpt_to(parts: Vec<Gathered<'_>>, sizes: Sizes) -> Vec<Gathered<'_>> {
    let total: usize = parts.iter().map(|part| part.text.len()).sum();
    if total <= sizes.whole || parts.iter().any(|part| part.item.is_some()) {
        return parts;
    }
    let mut kept: Vec<Vec<Range<usize>>> = vec![Vec::new(); parts.len()];
    let mut stretch: Vec<Window> = Vec::new();
    let mut bytes = 0;
    for (index, part) in parts.iter().enumerate() {
        for window in windows(&part.text, sizes.stretch) {
            if bytes + window.len() > sizes.stretch {
                keep(&parts, &std::mem::take(&mut stretch), (sizes.kept, total), &mut kept);
                bytes = 0;
            }
            bytes += window.len();
            stretch.push((index, window));
        }
    }
    keep(&parts, &stretch, (sizes.kept, total), &mut kept);
    let parts = parts.into_iter().zip(kept).filter(|(_, ranges)| !ranges.is_empty());
    let shortened = parts.map(|(part, ranges)| {
        let mut view = View::excerpt(&part.text, &ranges, part.view);
        let text = std::mem::take(&mut view.text).into();
        Gathered { text, view: Some(Box::new(view)), ..part }
    });
    shortened.collect()
}

/// Consecutive ranges of at most `max` bytes, cut between lines or words where there are some.
fn windows(text: &str, max: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let mut end = (start + max).min(text.len());
        if end < text.len() {
            let window = &text[start..prefix(text, end).len()];
            let cut = ["\n", " "].iter().find_map(|sign| window.rfind(sign).filter(|at| *at > 0));
            end = start + cut.map_or(window.len(), |at| at + 1);
        }
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// Puts the best sentences of a stretch, in its order, to what is kept: so many bytes of all.
fn keep(
    parts: &[Gathered<'_>],
    stretch: &[Window],
    (wanted, total): (usize, usize),
    kept: &mut [Vec<Range<usize>>],
) {
    let pieces = stretch.iter().map(|(part, window)| &parts[*part].text[window.clone()]);
    let text = Text::new(pieces.map(|text| Part { id: "", text }).collect());
    let scores = score(&text, &Matrix::new(&text));
    let mut best: Vec<usize> = (0..text.sentences.len()).collect();
    best.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    let length: usize = stretch.iter().map(|(_, window)| window.len()).sum();
    let mut room = (length as u128 * wanted as u128 / total as u128) as usize;
    best.retain(|at| {
        let sentence = &text.sentences[*at];
        let bytes = sentence.end - sentence.start;
        let fits = bytes <= room;
        room -= if fits { bytes } else { 0 };
        fits
    });
    best.sort_unstable();
    for at in best {
        let sentence = &text.sentences[at];
        let (part, window) = &stretch[sentence.part];
        kept[*part].push(window.start + sentence.start..window.start + sentence.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(index: usize, text: &str) -> Gathered<'_> {
        Gathered { source: Some(index), text: text.into(), ..Gathered::default() }
    }

    #[test]
    fn short_texts_are_left_alone() {
        let parts = excerpt(vec![part(0, "One. Two."), part(1, "")]);
        assert!(parts.len() == 2 && parts.iter().all(|part| part.view.is_none()));
    }

    #[test]
    fn every_stretch_keeps_its_share_and_spans_lead_to_the_source() {
        let texts: Vec<String> = (0..40)
            .map(|at| {
                format!("Pump {at} of the harbour ran dry. Señor {at} filled it. Ok.\n\nIt runs.")
            })
            .collect();
        let given = || texts.iter().enumerate().map(|(at, text)| part(at, text)).collect();
        let sizes = Sizes { whole: 500, kept: 800, stretch: 300 };
        let parts = excerpt_to(given(), sizes);
        let kept: usize = parts.iter().map(|part| part.text.len()).sum();
        assert!((300..=1_000).contains(&kept), "{kept}");
        let named: Vec<usize> = parts.iter().filter_map(|part| part.source).collect();
        assert!(named.is_sorted() && named[0] < 4 && *named.last().unwrap() >= 36, "{named:?}");
        for part in &parts {
            let (view, source) = (part.view.as_ref().unwrap(), &texts[part.source.unwrap()]);
            let mut start = 0;
            for words in part.text.split("\n\n") {
                let (from, to) = view.locate(start, start + words.len()).unwrap();
                assert_eq!(&source[from..to], words);
                start += words.len() + 2;
            }
        }
        let again = excerpt_to(given(), sizes);
        assert!(parts.iter().zip(&again).all(|(one, two)| one.text == two.text));
    }

    #[test]
    fn windows_cover_the_text_and_split_no_character() {
        for text in ["", "a", &"é".repeat(50), &"word ".repeat(50), &"line\n".repeat(30)] {
            let ranges = windows(text, 21);
            let whole: String = ranges.iter().map(|range| &text[range.clone()]).collect();
            assert_eq!(whole, text);
            assert!(ranges.iter().all(|range| range.len() <= 21));
        }
    }
}
