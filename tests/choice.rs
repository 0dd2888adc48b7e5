//! What a small model is asked: prompts that it can read.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests"
)]

use std::fs;
use std::path::PathBuf;

/// A small model reads a prompt slowly, and forgets the beginning of a long one.
#[test]
fn prompts_of_all_packs_are_short_before_the_text() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut counted = 0;
    for pack in fs::read_dir(root.join("registry/packs")).unwrap() {
        for file in fs::read_dir(pack.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "jinja2") {
                let tokens = tokens_of(&fixed_text(&fs::read_to_string(&file).unwrap()));
                assert!(tokens < 1_200, "{}: {tokens} tokens", file.display());
                assert!(tokens > 300, "{}: {tokens} tokens", file.display());
                counted += 1;
            }
        }
    }
    assert!(counted >= 21, "{counted} templates");
}

/// A template without its tags. Of the parts for the modes only the longest stands in a prompt.
fn fixed_text(template: &str) -> String {
    let (mut fixed, mut longest) = (String::new(), String::new());
    let mut mode: Option<String> = None;
    for line in template.lines() {
        if line.starts_with("{% if mode ==") {
            mode = Some(String::new());
        } else if line.starts_with("{% endif %}") && mode.is_some() {
            let part = mode.take().unwrap();
            longest = if part.len() > longest.len() { part } else { longest };
        } else if !line.starts_with("{%") {
            let text = mode.as_mut().unwrap_or(&mut fixed);
            text.push_str(line);
            text.push('\n');
        }
    }
    let text = fixed + &longest;
    let mut parts = text.split("{{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("}}").map_or(part, |(_, rest)| rest))
}

/// A cautious count: eight letters, three digits, one mark or some line ends are a token. Common tokenizers
/// need fewer.
fn tokens_of(text: &str) -> usize {
    let mut tokens = 0;
    let mut letters = 0;
    let mut digits = 0;
    let mut last = ' ';
    for c in text.chars().chain([' ']) {
        if !c.is_alphabetic() {
            tokens += usize::div_ceil(letters, 8);
            letters = 0;
        }
        if !c.is_ascii_digit() {
            tokens += usize::div_ceil(digits, 3);
            digits = 0;
        }
        match c {
            c if c.is_alphabetic() => letters += 1,
            c if c.is_ascii_digit() => digits += 1,
            ' ' => {}
            '\n' if last == '\n' => {}
            _ => tokens += 1,
        }
        last = c;
    }
    tokens
}
