//! Four times the text takes about four times the work, whatever the text is: a file from a stranger must
//! not hold up the work of others. A reader or a summarizer that looks back over everything for each mark
//! takes sixteen times as much.
//!
//! The texts are repeated from pieces that make work: each piece alone, and seeded mixtures of several pieces, of one
//! kind and of others. The deep form draws more of them.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests, and make their own files"
)]

#[path = "growth/kinds.rs"]
mod kinds;
#[path = "support/mod.rs"]
mod support;
#[path = "support/zip.rs"]
mod zip;

use std::collections::BTreeSet;
use std::path::Path;

use kinds::{KINDS, Kind};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use summarizer::contract::time::Timestamp;
use summarizer::flow::{self, LoadedPack, RunOptions};
use summarizer::import::Target;
use summarizer::import::both_ways::read_both_ways;
use summarizer::markup::{cards, document, subtitles};
use summarizer::model::builtin::Builtin;
use summarizer::os::Machine;
use summarizer::registry::Registry;
use support::Rng;
use zip::{Entry, archive};

const FLOW: &str = "docs.chunk_set.summarize.brief.v1";
/// Bytes of the shorter text; three times as many in the deep form.
const BYTES: usize = 5_000;
/// How often the longer text is as long.
const TIMES: usize = 4;
/// How many times as much work the longer text may take. Twice what is linear leaves room for a sort.
const WORK_MAX: f64 = 9.0;
/// Work below this is not compared: most of it does not depend on the text. In milliseconds of a
/// processor.
const SMALL_MS: f64 = 30.0;

/// What a text is repeated from, by the kind of its file.
const PARTS: [(&str, &[&str]); 11] = [
    (
        "txt",
        &[
            "1.",
            "a.",
            "...",
            "etc... a",
            "-- \n",
            "Dr. ",
            "A. B. ",
            "10:00 ",
            "12/3 ",
            "\"",
            "(",
            ". \"(",
            "word",
            "é",
            "😀",
            "!",
            "…",
            "\n> ",
            "On Mon wrote:\n",
            "x@y.z ",
            "http://a.b/",
            "- [ ] a\n",
            "a: b\n",
            "A\n\n",
            "no. 1 no. ",
            "p. ",
            "€ 5 ",
            "Ana: yes\n",
            "Thanks and regards, ",
            "[a](b",
            "[a][",
            "![a](b ",
            "**a *b _c ",
            "` `` ``` ",
            "<a <!-- ",
            "<!--\n",
            "~~a ~",
            "## 1.2\n- a\n",
            "[a]: b\n",
            "12.",
            "Mon ",
            "data:image/",
            "tomorrow ",
            "2026-02-19 ",
            "am 3. März ",
            "by next Friday ",
            "el 5 de mayo de ",
            "due: 1/2/2026 ",
            // Many short lines: each costs as much as a sentence.
            "a\n",
        ],
    ),
    (
        "md",
        &[
            "[", "![", "*", "_", "`", "> ", "- ", "#", "<", "|", "1.", "[a](", "***a", "~~~\n",
            "<!--", "    a\n", "\\",
        ],
    ),
    (
        "html",
        &[
            "<div>",
            "<table><tr><td>",
            "&",
            "<!--",
            "<a href=\"",
            "<p",
            "<ul><li>",
            "<b>a",
            "</p>",
            "<script>",
            "<style>",
            "<![CDATA[",
            "<pre>",
            "&#",
            "<br>",
            "<svg>",
            "<p hidden>",
        ],
    ),
    (
        "tex",
        &[
            "$",
            "$$",
            "\\(",
            "\\cite{",
            "\\href{",
            "\\textbf{",
            "\\section{",
            "\\begin{a}",
            "\\begin{equation}",
            "\\verb|",
            "{",
            "}",
            "\\footnote{",
            "\\item ",
            "\\begin{itemize}\\item ",
            "%\n",
            "\\[",
            "\\x[",
            "\\'",
            "\\newtheorem{",
            "\\\\",
            "&",
            "\\end{a}",
            "\\begin{tabular}",
            "\\newcommand{\\a}{b}",
            "\\newcommand{\\a}[1]{#1#1}\\a{",
            "\\def\\a{\\a\\a}\\a",
            "\\input{a}",
            "\\begin{comment}",
            "\\iffalse ",
        ],
    ),
    (
        "org",
        &[
            "* ",
            "** TODO a\n",
            "- [ ] a\n",
            "#+BEGIN_SRC\n",
            ":PROPERTIES:\n",
            "[[",
            "[[a][b",
            "<2026-",
            "|",
            "=",
            "SCHEDULED: <2026-02-19 Thu>\n",
            "#+",
        ],
    ),
    ("json", &["[", "{\"a\":", "\"a\\", "{\"a\":1}\n", "1,"]),
    (
        "ics",
        &[
            "BEGIN:A\nEND:x\n",
            "BEGIN:VEVENT\n",
            "BEGIN:VEVENT\nATTENDEE:a\n",
            "A:b\n c\n",
            " a\n",
            "RRULE:FREQ=DAILY;",
        ],
    ),
    (
        "vcf",
        &[
            "QUOTED-PRINTABLE=\n",
            "NOTE;ENCODING=QUOTED-PRINTABLE:a=\n",
            "QUOTED-PRINTABLE\n a=\n",
            "TEL:1,",
            "\\",
            ";",
        ],
    ),
    ("srt", &["1\n", "\n", "1\n0:1 --> 0:2\n", "0:1 --> 0:2\na\n", "<v a>"]),
    ("csv", &[",", "\"", "a,b\n", "\"a\"\"", "\n"]),
    (
        "eml",
        &[
            "Subject: a\n",
            "Received: from a\n\t",
            "Content-Type: multipart/mixed; boundary=a\n\n--a\n",
            "=?utf-8?q?",
            "\n--a\n",
        ],
    ),
];

/// What this thread used of a processor, in milliseconds. The load of the machine does not count.
fn used_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Bytes of the shorter text.
fn bytes() -> usize {
    if support::deep() { 3 * BYTES } else { BYTES }
}

/// Mixtures of each kind for the readers, and mixtures of texts for a whole flow.
fn mixtures() -> (u64, u64) {
    if support::deep() { (40, 200) } else { (6, 12) }
}

/// A text of about so many bytes out of some pieces: in turn, each as a block, or in any order. In a piece, `%N` is
/// the number of the piece in the text, and `%P` the one before.
fn mixed(pieces: &[&str], bytes: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let (order, mut text) = (rng.below(3), String::new());
    let mut number = 0;
    while text.len() < bytes {
        let at = match order {
            0 => number % pieces.len(),
            1 => (text.len() * pieces.len() / bytes).min(pieces.len() - 1),
            _ => rng.below(pieces.len() as u64) as usize,
        };
        let piece = pieces[at];
        match piece.contains('%') {
            true => {
                let before = number.saturating_sub(1).to_string();
                text.push_str(&piece.replace("%N", &number.to_string()).replace("%P", &before));
            }
            false => text.push_str(piece),
        }
        number += 1;
    }
    text
}

/// Some pieces for a seed: of the kind, and of any other kind of text.
fn drawn(own: &[&'static str], others: &[&'static str], seed: u64) -> Vec<&'static str> {
    let mut rng = Rng::new(seed);
    let count = 2 + rng.below(3);
    let one = |rng: &mut Rng| match !others.is_empty() && rng.chance(25) {
        true => others[rng.below(others.len() as u64) as usize],
        false => own[rng.below(own.len() as u64) as usize],
    };
    (0..count).map(|_| one(&mut rng)).collect()
}

/// The pieces of all kinds of text.
fn pieces_of_texts() -> Vec<&'static str> {
    PARTS.iter().flat_map(|(_, parts)| parts.iter().copied()).collect()
}

/// The file of a kind with this text between its beginning and its end.
fn file_of(kind: &Kind, inner: &str) -> Vec<u8> {
    let text = [kind.begin, inner, kind.end].concat();
    match kind.archive {
        "" => text.into_bytes(),
        "epub" => {
            let container =
                "<container><rootfiles><rootfile full-path='p.opf'/></rootfiles></container>";
            archive(&[
                Entry::new("META-INF/container.xml", container),
                Entry::new("p.opf", kinds::PACKAGE),
                Entry::new("a.xhtml", &text),
            ])
        }
        "opf" => {
            let container =
                "<container><rootfiles><rootfile full-path='p.opf'/></rootfiles></container>";
            archive(&[
                Entry::new("META-INF/container.xml", container),
                Entry::new("p.opf", &text),
                Entry::new("a.xhtml", "<p>A page.</p>"),
            ])
        }
        name => archive(&[Entry::new(name, &text)]),
    }
}

/// The work of reading a file both ways into an empty home; the kind that it was taken for.
fn reading(kind: &Kind, bytes: &[u8]) -> (f64, Option<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(kind.name);
    std::fs::write(&path, bytes).unwrap();
    let machine = Machine::real();
    let target = Target {
        disk: machine.disk.as_ref(),
        root: &folder.path().join("buses"),
        zone: chrono_tz::UTC,
        now: Timestamp(1_772_445_600_000),
    };
    let before = used_ms();
    let read = read_both_ways(target, Path::new(&path), &["cat", "{}"]);
    let used = used_ms() - before;
    (used, read.ok().flatten().map(|(kind, _)| kind))
}

/// Whether the long text takes more than its share. A machine with much other work now and then counts the work of a
/// thread wrong, so what is steep is measured again.
fn is_steep(mut short: impl FnMut() -> f64, mut long: impl FnMut() -> f64) -> Option<String> {
    let mut found = None;
    for _ in 0..3 {
        let (before, after) = (short().max(SMALL_MS / WORK_MAX), long());
        if after <= SMALL_MS || after / before <= WORK_MAX {
            return None;
        }
        found = Some(format!("{before:.0} ms, then {after:.0} ms"));
    }
    found
}

/// Every kind of file that `add`, `sum` and `import` read, as they read it.
#[test]
fn the_work_of_every_reader_grows_with_its_file_and_no_faster() {
    let (texts, mut steep, mut read) = (pieces_of_texts(), Vec::new(), BTreeSet::new());
    for kind in KINDS {
        let own = match PARTS.iter().find(|(end, _)| *end == kind.parts) {
            Some((_, parts)) => [kind.pieces, parts].concat(),
            None => kind.pieces.to_vec(),
        };
        let others: &[&str] = if kind.is_strict { &[] } else { &texts };
        let alone = kind.pieces.iter().map(|piece| (vec![*piece], 0));
        let mixtures = (1..=mixtures().0).map(|seed| (drawn(&own, others, seed), seed));
        for (pieces, seed) in alone.chain(mixtures) {
            let file = |bytes| file_of(kind, &mixed(&pieces, bytes, seed));
            let (short, long) = (file(bytes()), file(bytes() * TIMES));
            read.extend(reading(kind, &short).1);
            let found = is_steep(|| reading(kind, &short).0, || reading(kind, &long).0);
            steep.extend(found.map(|how| format!("{} {seed} {pieces:?}: {how}", kind.name)));
        }
    }
    assert!(steep.is_empty(), "{steep:#?}");
    let all = [
        "text",
        "markdown",
        "org",
        "manual page",
        "html",
        "latex",
        "csv",
        "calendar",
        "contacts",
        "subtitles",
        "json",
        "pdf",
        "docx",
        "epub",
        "mail",
        "mailbox",
        "chatgpt export",
        "claude export",
        "chat messages",
        "chat log",
        "chat export",
        "feed",
    ];
    assert_eq!(read, all.into_iter().collect(), "kinds that were read");
}

#[test]
fn work_grows_with_the_length_of_a_mixture_and_no_faster() {
    let (texts, pack, mut steep) = (pieces_of_texts(), pack(), Vec::new());
    for seed in 1..=mixtures().1 {
        let (kind, own) = PARTS[seed as usize % PARTS.len()];
        let pieces = drawn(own, &texts, seed);
        let text = |bytes| mixed(&pieces, bytes, seed);
        let (short, long) = (text(bytes()), text(bytes() * TIMES));
        let found = is_steep(|| work(&pack, kind, &short), || work(&pack, kind, &long));
        steep.extend(found.map(|how| format!("{kind} {seed} {pieces:?}: {how}")));
    }
    assert!(steep.is_empty(), "{steep:#?}");
}

fn pack() -> LoadedPack {
    let registry = Registry::embedded().unwrap();
    let machine = Machine::real();
    let record = registry.find(FLOW, None).unwrap();
    let files = registry.files(machine.disk.as_ref(), record).unwrap();
    LoadedPack::load(record, &files).unwrap()
}

fn work(pack: &LoadedPack, kind: &str, text: &str) -> f64 {
    let before = used_ms();
    let read = match kind {
        "ics" | "vcf" => Ok(cards::document("ics", text)),
        "srt" => Ok(subtitles::document(text)),
        _ => document::read(&format!("a.{kind}"), text.as_bytes()),
    };
    let text = read.map_or_else(|_| text.to_owned(), |document| document.text);
    let inputs = Map::from_iter([("text".to_owned(), Value::from(text))]);
    let inputs = pack_inputs(pack, inputs);
    let _ = flow::run(pack, inputs, &[], &Builtin, &RunOptions::default());
    used_ms() - before
}

/// The brief takes its texts under the name of its main input.
fn pack_inputs(pack: &LoadedPack, inputs: Map<String, Value>) -> Map<String, Value> {
    let main = pack.record().io_contract.inputs.iter().find(|input| input.main);
    let name = main.map_or("text", |main| main.name.as_str()).to_owned();
    inputs.into_iter().map(|(_, value)| (name.clone(), value)).collect()
}

#[test]
fn work_grows_with_the_length_of_a_text_and_no_faster() {
    let (pack, mut steep) = (pack(), Vec::new());
    for (kind, parts) in PARTS {
        for part in parts {
            let text = |bytes: usize| part.repeat(bytes / part.len() + 1);
            let (short, long) = (text(bytes()), text(bytes() * TIMES));
            let found = is_steep(|| work(&pack, kind, &short), || work(&pack, kind, &long));
            steep.extend(found.map(|how| format!("{kind} {part:?}: {how}")));
        }
    }
    assert!(steep.is_empty(), "{steep:#?}");
}
