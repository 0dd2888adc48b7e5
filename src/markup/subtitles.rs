//! Subtitles (`.srt`, `.vtt`) as running text: what is said, without numbers, times and styles.
//!
//! Contract: every shown line is kept, in order. A line that the next subtitle repeats is kept once. The name
//! of a speaker comes before the words.

use std::collections::BTreeSet;

use super::document::Document;
use super::members::add_people;
use super::{html, marks};

/// Whether a text begins as subtitles do.
pub(crate) fn is_subtitles(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    is_webvtt(first) && (first == "WEBVTT" || lines.any(is_time))
        || is_number(first) && lines.next().is_some_and(is_time)
}

fn is_webvtt(line: &str) -> bool {
    line.strip_prefix("WEBVTT").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// `00:00:01,000 --> 00:00:04,000`, with what may stand behind it. Programs break the arrow: `->`, `–>`, `→`.
fn is_time(line: &str) -> bool {
    let is_clock = |text: &str| {
        text.contains(':')
            && text.bytes().all(|byte| byte.is_ascii_digit() || b":.,".contains(&byte))
    };
    let end = line.find(|c: char| !(c.is_ascii_digit() || ":.,".contains(c))).unwrap_or(line.len());
    let (from, rest) = line.split_at(end);
    let to = rest.trim_start_matches(|c: char| c.is_whitespace() || "-–—=>→".contains(c));
    let arrow = &rest[..rest.len() - to.len()];
    let to = to.split(char::is_whitespace).next().unwrap_or_default();
    (arrow.contains(['>', '→']) || arrow.contains("--")) && is_clock(from) && is_clock(to)
}

/// The number of a subtitle.
fn is_number(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads subtitles.
pub fn document(text: &str) -> Document {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_webvtt = lines.iter().find(|line| !line.is_empty()).is_some_and(|line| is_webvtt(line));
    let (mut out, mut is_shown) = (Spoken::default(), false);
    for (at, line) in lines.iter().enumerate() {
        let below = || lines[at + 1..].iter().find(|line| !line.is_empty());
        if is_time(line) {
            (is_shown, out.begins) = (true, true);
        } else if line.is_empty() {
            // In WebVTT a name, a note or a style may follow. Elsewhere it is a line of the subtitle.
            is_shown &= !is_webvtt;
        } else if is_shown && !(is_number(line) && below().is_some_and(|line| is_time(line))) {
            out.line(line);
        }
    }
    let document = Document { kind: "vtt", text: out.text, ..Document::default() };
    let mut document = document.with(marks::in_text("vtt", text));
    add_people(&mut document.members, out.speakers);
    document
}

#[derive(Default)]
struct Spoken {
    text: String,
    last: String,
    speaker: String,
    speakers: BTreeSet<String>,
    /// Whether the next line is the first one of its subtitle.
    begins: bool,
}

impl Spoken {
    /// A line of a subtitle, in which several people may speak.
    fn line(&mut self, line: &str) {
        let mut rest = line;
        while let Some(at) = voice(rest) {
            let (said, next) = rest.split_at(at);
            // A dash or a blank before a voice is no word.
            if said.contains(char::is_alphanumeric) {
                self.part(said);
            }
            rest = next;
        }
        self.part(rest);
    }

    fn part(&mut self, part: &str) {
        let tag = part.trim_start().strip_prefix("<v").and_then(|rest| rest.split_once('>'));
        let name = tag.and_then(|(tag, _)| Some(tag.split_once(char::is_whitespace)?.1));
        let name = name.map(html::unescape);
        let speaker = name.map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "));
        let speaker = speaker.filter(|name| !name.is_empty());
        let words = match part.contains(['<', '&']) {
            true => html::page(part).text,
            false => part.to_owned(),
        };
        let words = words.trim();
        let changes = speaker.as_ref().is_some_and(|speaker| *speaker != self.speaker);
        let is_again = std::mem::take(&mut self.begins) && !changes && words == self.last;
        if words.is_empty() || is_again {
            return;
        }
        self.last = words.to_owned();
        let ends = self.text.ends_with(['.', '!', '?', '…', '♪', '"', '”']);
        if !self.text.is_empty() {
            self.text.push(if changes || ends { '\n' } else { ' ' });
        }
        if let Some(speaker) = speaker.filter(|_| changes) {
            self.text.push_str(&format!("{speaker}: "));
            self.speakers.insert(speaker.clone());
            self.speaker = speaker;
        }
        self.text.push_str(words);
    }
}

/// Where a further voice begins in a line: `<v Ana>`, `<v.loud Ana>`.
fn voice(line: &str) -> Option<usize> {
    let begins = |(at, _): &(usize, &str)| {
        *at > 0 && line[at + 2..].starts_with(|c: char| c.is_whitespace() || c == '.')
    };
    line.match_indices("<v").find(begins).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtitles_are_what_is_said() {
        let srt = "1\n00:00:01,000 --> 00:00:04,000\n<i>Welcome &amp; hello.</i>\n\n2\n00:00:04,500 --> 00:00:08,000\n\
                   Today we repair a pump\nand test it.\n\n3\n00:00:08,500 --> 00:00:12,000\nand test it.\nThen we go.\n";
        assert!(is_subtitles(srt));
        assert_eq!(
            document(srt).text,
            "Welcome & hello.\nToday we repair a pump and test it.\nThen we go."
        );
        let vtt = "WEBVTT - Garden\n\nNOTE by hand\n\nSTYLE\n::cue { color: red }\n\nintro\n00:01.000 --> 00:04.000 align:start\n\
                   <v Ana>Welcome.</v>\n\n00:04.500 --> 00:08.000\n<v Tom>It is a <c.red>pump</c>.\n";
        assert!(is_subtitles(vtt));
        assert_eq!(document(vtt).text, "Ana: Welcome.\nTom: It is a pump.");
        let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Tom>Yes</v>\n\n00:02.000 --> 00:03.000\n<v Eva>Yes</v>\n<v Eva>Yes</v>\n";
        assert_eq!(document(vtt).text, "Tom: Yes\nEva: Yes Yes");
        assert!(!is_subtitles("1\nOne point --> another\n"));
        assert!(!is_subtitles("WEBVTTX is no file\n"));
    }

    #[test]
    fn a_subtitle_goes_on_to_the_next_time() {
        for srt in [
            "1\n00:00:01,000 --> 00:00:04,000\nOne.\n\nTwo.\n\n2\n00:00:05,000 --> 00:00:06,000\nThree.\n",
            "1\n00:00:01,000 -> 00:00:04,000\nOne.\nTwo.\n2\n\n00:00:05,000 –> 00:00:06,000\nThree.\n",
            "1\n00:00:01,000 → 00:00:04,000 X1:40\nOne.\nTwo.\n00:00:05,000-->00:00:06,000\nThree.\n",
        ] {
            assert!(is_subtitles(srt), "{srt}");
            assert_eq!(document(srt).text, "One.\nTwo.\nThree.", "{srt}");
        }
        let srt = "1\n00:00:01,000 --> 00:00:04,000\n42\n10:00 - 11:00 is lunch\n";
        assert_eq!(document(srt).text, "42 10:00 - 11:00 is lunch");
        assert!(!is_time("10:00") && !is_time("é --> 10:00") && !is_time("-->"));
    }
}
