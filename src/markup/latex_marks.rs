//! Marks as private in the commands of a LaTeX source: key words, properties of its PDF file, watermarks.
//!
//! Contract: pure. Comments and what is shown as it is written say nothing here.

use crate::contract::publish::{is_plain_mark, is_private_title, labels_said};

use super::prefix;

/// Longest argument that is looked at, in bytes.
const ARGUMENT_BYTES_MAX: usize = 4 << 10;
/// Environments whose lines are shown as they are written.
const WRITTEN: [&str; 3] = ["verbatim", "lstlisting", "minted"];
/// Commands that have such a name and another meaning.
const OTHERS: [&str; 5] = ["label", "tag", "title", "flag", "hide"];

/// Whether a command of the source is a mark.
pub(super) fn is_private(source: &str) -> bool {
    any_command(source, &mut says_no)
}

/// The key words of the source.
pub(super) fn key_words(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    any_command(source, &mut |name, arguments, after| {
        let text = arguments.last;
        match name {
            "hypersetup" | "usepackage" | "documentclass" | "RequirePackage" | "pdfinfo" => {
                for options in [arguments.optional, text] {
                    let named = named_options(options).into_iter();
                    let named = named.filter(|(name, _)| is_of_keywords(name));
                    named.for_each(|(_, words)| found.extend(labels_said(&words.into())));
                }
            }
            "begin" if is_of_keywords(text) => {
                found.extend(labels_said(&with_commas(body_of(after)).into()));
            }
            _ if is_of_keywords(name) => found.extend(labels_said(&with_commas(text).into())),
            _ => {}
        }
        false
    });
    found
}

/// Whether something is true of a command, which is given with its arguments and with what stands behind its name.
fn any_command(source: &str, holds: &mut dyn FnMut(&str, &Arguments<'_>, &str) -> bool) -> bool {
    let mut left = source;
    let mut shown_until = None;
    while let Some(at) = left.find(['\\', '%']) {
        let rest = &left[at..];
        if rest.starts_with('%') {
            left = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let name = &rest[1..];
        let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        // A sign behind the backslash is no name: `\%`.
        left = if name.is_empty() { skip_one(after) } else { after };
        let arguments = Arguments::of(after);
        match shown_until {
            Some(wanted) if name == "end" && arguments.last == wanted => shown_until = None,
            Some(_) => {}
            None if name == "begin" && WRITTEN.contains(&arguments.last) => {
                shown_until = Some(arguments.last);
            }
            None if holds(name, &arguments, left) => return true,
            None => {}
        }
    }
    false
}

fn skip_one(text: &str) -> &str {
    let mut chars = text.chars();
    chars.next();
    chars.as_str()
}

fn says_no(name: &str, arguments: &Arguments<'_>, after: &str) -> bool {
    let text = arguments.last;
    match name {
        "hypersetup" | "usepackage" | "documentclass" | "RequirePackage" | "pdfinfo" => {
            [arguments.optional, text].into_iter().any(has_private_option)
                || is_of_watermarks(text) && shows_private_words(arguments.optional)
        }
        "begin" if is_of_keywords(text) => are_private(body_of(after)),
        _ if is_of_keywords(name) => are_private(text),
        _ if is_of_watermarks(name) => {
            is_private_title(&bare_words(text)) || shows_private_words(text)
        }
        _ => !text.is_empty() && !OTHERS.contains(&name) && is_plain_mark(name, &text.into()),
    }
}

/// `SetWatermarkText`, `draftwatermark`, `backgroundsetup`: a word that lies under every page.
fn is_of_watermarks(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("watermark") || name.starts_with("background")
}

/// Whether an option of a watermark is a text that says so: `text=CONFIDENTIAL`.
fn shows_private_words(options: &str) -> bool {
    let shown = parts_of(options).into_iter().filter_map(|part| part.split_once('='));
    let mut texts = shown.filter(|(name, _)| matches!(name.trim(), "text" | "contents"));
    texts.any(|(_, text)| is_private_title(&bare_words(text)))
}

/// The words of an argument without its commands: `\textbf{CONFIDENTIAL}`.
fn bare_words(argument: &str) -> String {
    let mut words = String::new();
    let mut parts = argument.split('\\');
    words.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let name = part.chars().take_while(char::is_ascii_alphabetic).count();
        words.push_str(&part[name..]);
    }
    words.replace(['{', '}'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `keywords`, `IEEEkeywords`, `keyword`, `keyphrases`, `kwd`.
fn is_of_keywords(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["keywords", "keyword", "keyphrases", "kwd"].iter().any(|end| name.ends_with(end))
}

/// What stands in an environment, behind the name of its `\begin`.
fn body_of(after: &str) -> &str {
    let body = after.split_once('}').map_or("", |(_, body)| body);
    let body = body.split_once("\\end{").map_or("", |(body, _)| body);
    prefix(body, ARGUMENT_BYTES_MAX)
}

fn are_private(words: &str) -> bool {
    is_plain_mark("keywords", &with_commas(words).into())
}

/// Key words with commas between them.
fn with_commas(words: &str) -> String {
    let words = ["\\sep", "\\and", "\\\\", "\n\n"]
        .iter()
        .fold(words.to_owned(), |words, sign| words.replace(sign, ","));
    words.trim().trim_end_matches('.').to_owned()
}

/// Options as `name=value` or `name={value}`, and properties as `/Keywords (value)`.
fn has_private_option(options: &str) -> bool {
    named_options(options).into_iter().any(|(name, value)| {
        let is_title = matches!(name, "title" | "subject" | "Title" | "Subject");
        is_title && is_private_title(value) || is_plain_mark(name, &value.into())
    })
}

/// The names and values of options and properties.
fn named_options(options: &str) -> Vec<(&str, &str)> {
    let properties = options.split('/').filter_map(|part| part.split_once('('));
    let properties = properties.map(|(name, rest)| (name, rest.split(')').next().unwrap_or("")));
    let options = parts_of(options).into_iter().filter_map(|part| part.split_once('='));
    options.chain(properties).map(bare_option).collect()
}

fn bare_option<'a>((name, value): (&'a str, &'a str)) -> (&'a str, &'a str) {
    let value = value.trim().trim_matches(['{', '}', '(', ')']).trim();
    (name.trim().trim_start_matches("pdf"), value)
}

/// The parts between the commas that stand in no braces.
fn parts_of(options: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_end = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth <= 0
    };
    options.split(is_end).collect()
}

/// The optional argument of a command and the one in braces; empty where there is none.
struct Arguments<'a> {
    optional: &'a str,
    last: &'a str,
}

impl<'a> Arguments<'a> {
    fn of(after: &'a str) -> Arguments<'a> {
        let after = prefix(after, ARGUMENT_BYTES_MAX).trim_start_matches('*').trim_start();
        let (optional, rest) = match after.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or(("", rest)),
            None => ("", after),
        };
        let last = rest.trim_start().strip_prefix('{').map_or("", in_braces);
        Arguments { optional, last }
    }
}

/// The text up to the brace that closes it.
fn in_braces(rest: &str) -> &str {
    let mut depth = 1_i32;
    let end = rest.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    end.map_or("", |(end, _)| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_words_properties_and_watermarks_are_marks_and_text_is_none() {
        for (source, expected) in [
            ("\\keywords{private}", true),
            ("\\keywords{garden \\sep Private}", true),
            ("\\begin{IEEEkeywords}\ngarden, private.\n\\end{IEEEkeywords}", true),
            ("\\hypersetup{colorlinks=true, pdfkeywords={garden, private}}", true),
            ("\\hypersetup{pdfkeywords=private}", true),
            ("\\hypersetup{pdfsubject={Confidential}}", true),
            ("\\usepackage[pdfkeywords={private}]{hyperref}", true),
            ("\\pdfinfo{/Title (A) /Keywords (private)}", true),
            ("\\SetWatermarkText{CONFIDENTIAL}", true),
            ("\\SetWatermarkText{\\textbf{CONFIDENTIAL}}", true),
            ("\\DraftwatermarkOptions{text=CONFIDENTIAL}", true),
            ("\\DraftwatermarkOptions{scale=2, text={\\bf PRIVATE}}", true),
            ("\\usepackage[text=CONFIDENTIAL]{draftwatermark}", true),
            ("\\backgroundsetup{contents=CONFIDENTIAL}", true),
            ("\\SetWatermarkText{The garden club}", false),
            ("\\usepackage[text=The garden club]{draftwatermark}", false),
            ("\\classification{confidential}", true),
            ("\\publish{no}", true),
            ("\\keywords{private sector}", false),
            ("% \\keywords{private}\nText", false),
            ("\\begin{verbatim}\n\\keywords{private}\n\\end{verbatim}", false),
            ("\\label{private}\\section{Private}", false),
            ("\\documentclass[draft]{article}", false),
            ("A share of 5\\% is \\emph{private}.", false),
        ] {
            assert_eq!(is_private(source), expected, "{source}");
        }
    }
}
