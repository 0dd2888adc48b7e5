//! Lines of Markdown, and text that cannot break them. Characters that steer a terminal are shown as
//! escapes.

use super::evidence::EvidenceRef;
use crate::contract::shown::escaped;

const NONE: &str = "- none\n";

#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        let mut text = String::new();
        let _ = text.write_fmt(line);
        self.0.push_str(&escaped(&text));
        self.0.push('\n');
    }

    pub(super) fn heading(&mut self, heading: &str) {
        self.line(format_args!("\n## {heading}"));
    }

    pub(super) fn none(&mut self) {
        self.0.push_str(NONE);
    }

    pub(super) fn section<T>(&mut self, heading: &str, items: &[T], each: impl Fn(&mut Page, &T)) {
        self.heading(heading);
        for item in items {
            each(self, item);
        }
        if items.is_empty() {
            self.none();
        }
    }

    pub(super) fn pointers(&mut self, refs: &[EvidenceRef], label: &str) {
        for evidence in refs {
            self.line(format_args!(
                "  - {label}`{}` chunk `{}` span {}..{}",
                flat(&evidence.evidence_id),
                flat(&evidence.chunk_id),
                evidence.span.start,
                evidence.span.end
            ));
        }
    }

    pub(super) fn text(self) -> String {
        self.0
    }
}

/// Runs of whitespace become one space, so that no text can open a heading or a list.
pub(super) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
