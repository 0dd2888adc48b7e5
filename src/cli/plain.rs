//! Foreign text made safe to print: on a terminal it moves and colours nothing.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text without characters that move the cursor, change colours or turn the direction of writing.
pub(super) fn plain(text: &str) -> String {
    let steers = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(*c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(*c, '\u{e0000}'..='\u{e007f}')
    };
    let kept = text.chars().filter(|c| !steers(c));
    kept.map(|c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c }).collect()
}

/// The same on one line.
pub(super) fn plain_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first words, with a mark where some are left out.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    let text = plain_line(text);
    if text.width() <= columns {
        return text;
    }
    let mut used = 0;
    let fits = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used < columns
    });
    let cut: String = fits.collect();
    let end = cut.rfind(' ').filter(|end| *end > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{9b}c\u{202e}d\r\u{2028}e"), "a[2Jbcd\ne");
        assert_eq!(shortened("a sentence that is long", 12), "a sentence…");
        assert_eq!(shortened("日本語の文", 5), "日本…");
    }
}
