//! Subtitles (`.srt`, `.vtt`) as running text: what is said, without numbers, times and styles.
//!
//! Contract: every line that is shown stays, in its order. A line that is shown again in the next subtitle
//! is said once. A speaker that is named stands before what they say.

use super::document::Document;
use super::{html, marks};

/// Whether a text begins as subtitles do.
pub(crate) fn is_subtitles(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    is_webvtt(first) || is_number && lines.next().is_some_and(is_time)
}

fn is_webvtt(line: &str) -> bool {
    line.strip_prefix("WEBVTT").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// `00:00:01,000 --> 00:00:04,000`, with what may stand behind it.
fn is_time(line: &str) -> bool {
    let is_clock = |text: &str| {
        let text = text.trim().split(' ').next().unwrap_or_default();
        text.contains(':')
            && text.bytes().all(|byte| byte.is_ascii_digit() || b":.,".contains(&byte))
    };
    line.split_once("-->").is_some_and(|(from, to)| is_clock(from) && is_clock(to))
}

/// Reads subtitles.
pub(crate) fn document(text: &str) -> Document {
    let mut out = Spoken::default();
    let all: Vec<&str> = text.lines().map(str::trim).collect();
    for block in all.split(|line| line.is_empty()) {
        // What stands before the time is the number or the name of a subtitle. A block without a time is
        // a note or a style.
        if let Some(at) = block.iter().position(|line| is_time(line)) {
            block[at + 1..].iter().for_each(|line| out.line(line));
        }
    }
    let publish = marks::said_in_text("vtt", text);
    Document { kind: "vtt", text: out.text, publish, ..Document::default() }
}

#[derive(Default)]
struct Spoken {
    text: String,
    last: String,
    speaker: String,
}

impl Spoken {
    fn line(&mut self, line: &str) {
        let speaker = line.split_once("<v").and_then(|(_, rest)| rest.split_once('>'));
        let speaker =
            speaker.and_then(|(name, _)| name.split_once(' ')).map(|(_, name)| name.trim());
        let words = match line.contains(['<', '&']) {
            true => html::page(line).text,
            false => line.to_owned(),
        };
        let words = words.trim();
        if words.is_empty() || words == self.last {
            return;
        }
        self.last = words.to_owned();
        let changes = speaker.is_some_and(|speaker| speaker != self.speaker);
        let ends = self.text.ends_with(['.', '!', '?', '…', '♪', '"', '”']);
        if !self.text.is_empty() {
            self.text.push(if changes || ends { '\n' } else { ' ' });
        }
        if let Some(speaker) = speaker.filter(|_| changes) {
            self.speaker = speaker.to_owned();
            self.text.push_str(&format!("{speaker}: "));
        }
        self.text.push_str(words);
    }
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
        assert!(!is_subtitles("1\nOne point --> another\n"));
        assert!(!is_subtitles("WEBVTTX is no file\n"));
    }
}
