//! Parses the lines of a part of a run log, in order, on as many threads as pay off.
//!
//! Contract: the result does not depend on the number of threads. Parsing stops at the first line
//! that is not an event, because no line after it counts.

use std::num::NonZero;
use std::ops::Range;
use std::thread;

use serde_json::Value;

use super::event::{Class, EventError, RunEvent};
use super::event_parser::Parser;
use crate::contract::hash::Digest;
use crate::contract::json::jcs_hash;

/// Bytes for which another thread pays off.
const THREAD_BYTES_MIN: usize = 128 << 10;
/// With more threads the fold becomes the bottleneck.
const THREADS_MAX: usize = 8;

/// One line that is not blank.
#[derive(Debug)]
pub struct ParsedLine {
    pub number: u64,
    /// Byte range without the line end.
    pub place: Range<usize>,
    pub event: Result<RunEvent, EventError>,
    /// The digest of the content; only for an event that has an id from its producer.
    pub digest: Option<Digest>,
    /// The hash of all that the line says but its place in the run; only when it was asked for and
    /// the event counts.
    pub whole: Option<Digest>,
}

/// Parses lines; the last one may lack its line end. `first` is the number of the first line.
pub fn parse(text: &[u8], first: u64) -> Vec<ParsedLine> {
    parse_on(text, first, threads_for(text), false)
}

/// The same with the hash of all that each line says.
pub(crate) fn parse_whole(text: &[u8], first: u64) -> Vec<ParsedLine> {
    parse_on(text, first, threads_for(text), true)
}

fn threads_for(text: &[u8]) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    cores.min(THREADS_MAX).min(text.len() / THREAD_BYTES_MIN).max(1)
}

/// Number of lines, blank ones included.
pub fn count(text: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text).count() as u64;
    ends + u64::from(text.last().is_some_and(|byte| *byte != b'\n'))
}

fn parse_on(text: &[u8], first: u64, threads: usize, whole: bool) -> Vec<ParsedLine> {
    let mut pieces = pieces(text, first, threads).into_iter();
    let Some(piece) = pieces.next() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = pieces.map(|piece| scope.spawn(move || piece.parse(whole))).collect();
        let mut lines = piece.parse(whole);
        for other in others {
            match other.join() {
                Ok(more) if lines.last().is_none_or(|line| line.event.is_ok()) => {
                    lines.extend(more);
                }
                Ok(_) => {}
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        lines
    })
}

/// Whole lines for one thread.
struct LineRange<'a> {
    text: &'a [u8],
    at: usize,
    first: u64,
}

/// Splits lines into ranges of about the same size.
fn pieces(text: &[u8], first: u64, threads: usize) -> Vec<LineRange<'_>> {
    let mut pieces = Vec::with_capacity(threads);
    let (mut at, mut number) = (0, first);
    for place in 1..=threads {
        let aim = (text.len() * place / threads).max(at);
        let end = memchr::memchr(b'\n', &text[aim..]).map_or(text.len(), |end| aim + end + 1);
        let piece = LineRange { text: &text[at..end], at, first: number };
        number += count(piece.text);
        at = end;
        pieces.push(piece);
    }
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

impl LineRange<'_> {
    fn parse(&self, whole: bool) -> Vec<ParsedLine> {
        let mut parser = Parser::default();
        let mut lines = Vec::new();
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', self.text).chain([self.text.len()]);
        for (number, end) in (self.first..).zip(ends) {
            let text = &self.text[start..end];
            let place = self.at + start..self.at + end;
            start = end + 1;
            if text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let event = parser.parse(text);
            let given = event.as_ref().ok().filter(|event| event.given_id.is_some());
            let digest = given.map(RunEvent::content_digest);
            let counts = event.as_ref().is_ok_and(|event| event.class() != Class::Verbose);
            let whole = (whole && counts).then(|| hash_of(text)).flatten();
            let failed = event.is_err();
            lines.push(ParsedLine { number, place, event, digest, whole });
            if failed {
                break;
            }
        }
        lines
    }
}

/// The hash of a line in canonical form, without its number in the run: verbose events may come and go
/// before it.
fn hash_of(line: &[u8]) -> Option<Digest> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    value.as_object_mut()?.shift_remove("seq");
    Some(jcs_hash(&value))
}

#[cfg(test)]
mod tests {
    use super::super::tuning::shapes;
    use super::*;

    fn said(lines: &[ParsedLine]) -> Vec<(u64, Range<usize>, String)> {
        let told = |line: &ParsedLine| match &line.event {
            Ok(event) => format!("{event:?} {:?}", line.digest),
            Err(error) => error.to_string(),
        };
        lines.iter().map(|line| (line.number, line.place.clone(), told(line))).collect()
    }

    fn log(events: usize) -> Vec<u8> {
        let mut text = String::new();
        for (number, mut event) in shapes::generate(5, 1, events).into_iter().enumerate() {
            if number % 3 == 0 {
                event.given_id = Some(format!("id-{number}").as_str().into());
            }
            text.push_str(&event.to_line());
            text.push_str(if number % 5 == 0 { "\r\n  \n" } else { "" });
        }
        text.into_bytes()
    }

    #[test]
    fn any_number_of_threads_reads_the_same() {
        let text = log(200);
        let alone = said(&parse_on(&text, 7, 1, false));
        assert_eq!(alone[0].0, 7);
        assert!(alone.len() > 300);
        assert_eq!(alone.last().unwrap().0, 7 + count(&text) - 1);
        for threads in 2..12 {
            assert_eq!(said(&parse_on(&text, 7, threads, false)), alone, "{threads}");
        }
        assert_eq!(said(&parse(&text, 7)), alone);
        assert_eq!(
            said(&parse_on(&text[..text.len() - 1], 7, 3, false)),
            alone,
            "without the last end"
        );
    }

    #[test]
    fn parsing_stops_at_the_first_bad_line() {
        let mut text = log(60);
        let places: Vec<_> =
            parse_on(&text, 1, 1, false).iter().map(|line| line.place.clone()).collect();
        let bad = places.len() / 3;
        text[places[bad].start] = b'?';
        text[places[bad + 20].start] = b'?';
        for threads in 1..9 {
            let lines = parse_on(&text, 1, threads, false);
            assert_eq!(lines.len(), bad + 1, "{threads}");
            assert!(lines[bad].event.is_err());
            assert!(lines[..bad].iter().all(|line| line.event.is_ok()));
        }
    }

    #[test]
    fn blank_lines_are_skipped() {
        for text in ["", "\n", "\n \r\n\t\n", "   "] {
            for threads in 1..4 {
                assert!(parse_on(text.as_bytes(), 1, threads, false).is_empty(), "{text:?}");
            }
        }
        assert_eq!([count(b""), count(b"\n"), count(b"a"), count(b"a\nb")], [0, 1, 1, 2]);
    }
}
