//! Four times the text takes about four times the work, whatever the text is: a file from a stranger must
//! not hold up the work of others. A reader or a summarizer that looks back over everything for each mark
//! takes sixteen times as much.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use summarizer::flow::{self, LoadedPack, RunOptions};
use summarizer::markup::{cards, document, subtitles};
use summarizer::model::builtin::Builtin;
use summarizer::os::Machine;
use summarizer::registry::Registry;

const FLOW: &str = "docs.chunk_set.summarize.brief.v1";
/// Bytes of the shorter text.
const BYTES: usize = 16_000;
/// How often the longer text is as long.
const TIMES: usize = 4;
/// How many times as much work the longer text may take. Twice what is linear leaves room for a sort.
const WORK_MAX: f64 = 9.0;
/// Work below this is not compared: most of it does not depend on the text. In milliseconds of a
/// processor.
const SMALL_MS: f64 = 60.0;

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
    let registry = Registry::embedded().unwrap();
    let machine = Machine::real();
    let record = registry.find(FLOW, None).unwrap();
    let files = registry.files(machine.disk.as_ref(), record).unwrap();
    let pack = LoadedPack::load(record, &files).unwrap();
    let mut steep = Vec::new();
    for (kind, parts) in PARTS {
        for part in parts {
            let text = |bytes: usize| part.repeat(bytes / part.len() + 1);
            let short = work(&pack, kind, &text(BYTES)).max(SMALL_MS / WORK_MAX);
            let long = work(&pack, kind, &text(BYTES * TIMES));
            if long > SMALL_MS && long / short > WORK_MAX {
                steep.push(format!("{kind} {part:?}: {short:.0} ms, then {long:.0} ms"));
            }
        }
    }
    assert!(steep.is_empty(), "{steep:#?}");
}
