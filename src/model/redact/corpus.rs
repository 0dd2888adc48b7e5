//! Measures redaction on a corpus: how much of what must go is found, and how much of what is
//! replaced had to go. `cargo test -- --nocapture redaction_is_measured` prints a row for
//! each class of the corpus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::time::Instant;

use super::Redaction;

const CORPUS: &str = include_str!("corpus.txt");
const ALL: Redaction = Redaction { emails: true, phones: true, keys: true, accounts: true };

struct Case {
    class: String,
    text: String,
    secrets: Vec<Range<usize>>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut class = String::new();
    for line in CORPUS.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            class = name.to_owned();
        }
        if line.starts_with('#') {
            continue;
        }
        let line = line
            .replace("\\n", "\n")
            .replace("\\s", "\u{a0}")
            .replace("\\z", "\u{200b}")
            .replace("\\b", "\\");
        let (mut text, mut secrets) = (String::new(), Vec::new());
        for (at, part) in line.split('⟦').enumerate() {
            match part.split_once('⟧') {
                Some((marked, rest)) if at > 0 && marked.contains(':') => {
                    let secret = marked.split_once(':').unwrap().1;
                    let start = text.len() + secret.len() - secret.trim_start().len();
                    text.push_str(secret);
                    secrets.push(start..text.len());
                    text.push_str(rest);
                }
                _ => text.push_str(part),
            }
        }
        cases.push(Case { class: class.clone(), text, secrets });
    }
    cases
}

#[derive(Default)]
struct Score {
    secrets: usize,
    removed: usize,
    passages: usize,
    right: usize,
}

#[test]
fn redaction_is_measured() {
    let mut scores: BTreeMap<String, Score> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Case { class, text, secrets } in cases() {
        let passages = ALL.passages(&text);
        let score = scores.entry(class).or_default();
        let covered = |secret: &&Range<usize>| {
            let inside = |at: usize| passages.iter().any(|(passage, _)| passage.contains(&at));
            text[(*secret).clone()]
                .char_indices()
                .all(|(at, c)| !c.is_alphanumeric() || inside(secret.start + at))
        };
        let removed = secrets.iter().filter(covered).count();
        let right = passages
            .iter()
            .filter(|(passage, _)| {
                secrets.iter().any(|s| s.start < passage.end && passage.start < s.end)
            })
            .count();
        score.secrets += secrets.len();
        score.removed += removed;
        score.passages += passages.len();
        score.right += right;
        if removed < secrets.len() || right < passages.len() {
            wrong.push(format!("{text:?} -> {:?}", ALL.apply(&text).0));
        }
    }
    let mut table = "| class | to remove | removed | replaced | rightly |\n".to_owned();
    for (class, score) in &scores {
        let Score { secrets, removed, passages, right } = score;
        writeln!(table, "| {class} | {secrets} | {removed} | {passages} | {right} |").unwrap();
    }
    let total = |of: fn(&Score) -> usize| scores.values().map(of).sum::<usize>() as f64;
    let recall = total(|s| s.removed) / total(|s| s.secrets);
    let precision = total(|s| s.right) / total(|s| s.passages);
    writeln!(table, "recall {recall:.3}, precision {precision:.3}").unwrap();
    std::io::stderr().write_all(table.as_bytes()).unwrap();
    assert!(recall >= 0.97 && precision >= 0.97, "{}", wrong.join("\n"));
}

/// Four times the text must not take much more than four times as long, whatever it repeats.
#[test]
fn the_time_grows_with_the_text_and_no_faster() {
    let pieces = [
        "@",
        "a@",
        "a.",
        "(at)",
        " at a dot ",
        "+1 ",
        "1 ",
        "12-",
        "(1)",
        "+",
        "1/",
        "4111 1111 ",
        "ES91",
        "a1",
        "A",
        "sk-",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY",
        "password: ",
        "password is ",
        "://a:",
        "://",
        "\"",
        "=",
        "é:",
        "clave es x1 ",
        "Authorization: ",
        "Cookie: a",
        "eyJ",
        "?token=",
        "1234567890:",
        "x.y.",
        "    ",
        "tel ",
        "4111  ",
        "4111.",
        "4\u{200b}",
        "DE89370400440532013000",
        "mysql -pa ",
        "-u a -p ",
        "abc8Q~",
        "password:\n",
        "password:\n\"",
        "password\n- ",
        "password:\nsix words on a line ",
        "token: the ",
        "token: a b c d ",
        "password: \\\"",
        "\\\"",
        "\\",
        "pat0123456789abcd.",
        "keyAB1cdEFgh23ijKL",
        "1//",
        "1/a",
        "EAA",
        "AC0123456789abcdef0123456789abcdef:",
        "123456789012345|",
        "&nbsp;",
        "1&nbsp;",
        "&",
        "\\u00a0",
        "\\u",
    ];
    let time = |text: &str| {
        let start = Instant::now();
        std::hint::black_box(ALL.apply(text));
        start.elapsed().as_secs_f64()
    };
    for piece in pieces {
        let text = |bytes: usize| piece.repeat(bytes / piece.len());
        let (short, long) = (text(6 << 10), text(24 << 10));
        // A quadratic search takes sixteen times as long each time; a busy machine only now and then.
        let grows = (0..12).map(|_| time(&long) / time(&short).max(1e-3)).fold(f64::MAX, f64::min);
        assert!(grows < 10.0, "{piece:?}: four times the text takes {grows:.1} times as long");
    }
}
