//! Pages made from hostile texts and answers, read by the MDX compiler: nothing in them acts.
//!
//! The compiler is a package of npm. `.ci/run` puts it into `target/mdx`; by hand:
//! `cp -r tests/mdx target/ && npm ci --prefix target/mdx`. Without it these tests say so and end.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use summarizer::flow::page::inert;
use support::process::{ProcessHome, Ran};

/// Parts of hostile pages. Each one that acts alone is marked.
const PARTS: &[(&str, bool)] = &[
    ("{process.pid}", true),
    ("{require('fs').readFileSync('/etc/passwd')}", true),
    ("text {`${process.env.HOME}`} text", true),
    ("<script>alert(1)</script>", true),
    ("<img src=x onerror=alert(1) />", true),
    ("<Evil />", true),
    ("<a href=\"javascript:alert(1)\">x</a>", true),
    ("import fs from 'fs'", true),
    ("export const x = process.exit()", true),
    ("export default function X() { return null }", true),
    ("[x](javascript:alert(1))", true),
    ("[x](<javascript:alert(1)>)", true),
    ("[x](JaVaScRiPt:alert(1) \"title\")", true),
    ("[x](data:text/html,hi)", true),
    ("[x](../../../etc/passwd)", true),
    ("[x](/admin)", true),
    ("![x](https://example.org/track.png)", true),
    ("![x](../../secret.png)", true),
    ("[x][r]\n\n[r]: javascript:alert(1)", true),
    ("![x][r]\n\n[r]: https://example.org/a.png", true),
    ("note[^1]\n\n[^1]: {process.pid}", true),
    (":::danger\nx\n:::", true),
    ("::leaf[x]{onclick=alert(1)}", true),
    ("a :name[x]{onclick=alert(1)} b", true),
    ("## Head {#id}", true),
    ("<!-- comment -->", true),
    ("```mdx-code-block\n<Evil />\n```", true),
    ("```js live title={x}\n{process.pid}\n```", true),
    ("- item\n\n  ```\n  {process.pid}\n  ```\n  {process.pid}", true),
    ("> ```\n> {process.pid}\n> ```\n{process.pid}", true),
    ("~~~\n```\n{process.pid}\n~~~", false),
    ("`code {x}` and ` {process.pid}", true),
    ("``a ` {b}`` ` {process.pid}", true),
    ("\\`{process.pid}`", true),
    ("\\\\{process.pid}", true),
    ("| a | b |\n| - | - |\n| `x|{process.pid}` | y |", true),
    ("$\\frac{a}{process.pid}$", true),
    ("$$\n{process.pid}\n$$", true),
    ("    {process.pid}", true),
    ("1. one\n   import x from 'y'\n\nimport x from 'y'", true),
    ("<https://example.org>", true),
    ("a\r\nimport x from 'y'\r\n\r\nexport const y = 1", true),
    ("\u{feff}import x from 'y'", true),
    ("\u{2028}import x from 'y'", false),
    ("a\n=\n{process.pid}", true),
    ("***bold* {process.pid}**", true),
    ("plain words, *emphasis*, `code`, [a link](https://example.org/a_(b)?c=d)", false),
    ("- [ ] open\n- [x] done", false),
    ("Price < 5 and > 3, a & b, {", true),
    ("```", false),
    ("`", false),
    ("[", false),
    ("$", false),
];

/// What acts in each page; `None` without the compiler.
fn acting(pages: &[String]) -> Option<Vec<Vec<String>>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("mdx");
    if !folder.join("node_modules/@mdx-js/mdx").exists() {
        eprintln!("LEFT OUT: no MDX compiler in {}", folder.display());
        assert!(std::env::var_os("SUMMARIZER_TEST_MDX").is_none(), "it was said to be there");
        return None;
    }
    // The script of this checkout, beside the packages that it imports.
    let script = folder.join("check.mjs");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mdx/check.mjs"), &script)
        .unwrap();
    let mut node = Command::new("node");
    let mut node = node.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = node.stdin.take().unwrap();
    let text = serde_json::to_string(pages).unwrap();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let ended = node.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(ended.status.success());
    Some(serde_json::from_slice(&ended.stdout).unwrap())
}

fn assert_inert(pages: &[String]) {
    let Some(found) = acting(pages) else { return };
    for (page, found) in pages.iter().zip(found) {
        assert!(found.is_empty(), "{found:?} in\n{page}");
    }
}

#[test]
fn no_part_of_a_hostile_page_acts_after_it_is_made_inert() {
    let raw: Vec<String> = PARTS.iter().map(|(part, _)| (*part).to_owned()).collect();
    let Some(before) = acting(&raw) else { return };
    for ((part, acts), found) in PARTS.iter().zip(before) {
        assert_eq!(!found.is_empty(), *acts, "the compiler finds {found:?} in\n{part}");
    }
    let pages: Vec<String> = PARTS.iter().map(|(part, _)| inert(part)).collect();
    assert_inert(&pages);
}

#[test]
fn no_mixture_of_hostile_parts_acts() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 1_000_003).unwrap() % below
    };
    let joints = ["", "\n", "\n\n", " ", "\n> ", "\n- ", "\n   ", "|", "\\", "`", "**", "\n# "];
    let mut pages = Vec::new();
    for _ in 0..1_500 {
        let mut page = String::new();
        for _ in 0..=random(5) {
            page.push_str(PARTS[random(PARTS.len())].0);
            page.push_str(joints[random(joints.len())]);
        }
        pages.push(inert(&page));
    }
    assert_inert(&pages);
}

/// The page that a flow makes of a text.
fn page_of(home: &ProcessHome, flow: &str, provider: &str, text: &str) -> String {
    let file = home.path("input.txt");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.args(["--config", home.path("summarizer.toml").to_str().unwrap(), "flow", "run", flow]);
    command.args(["--input", file.to_str().unwrap(), "--provider", provider, "--json"]);
    let ran = Ran::of(command.output().unwrap());
    assert_eq!(ran.exit, Some(0), "{flow} {text}\n{}\n{}", ran.out, ran.err);
    let said: Value = serde_json::from_str(&ran.out).unwrap();
    said["outputs"]["structured"]["markdown"].as_str().unwrap().to_owned()
}

#[test]
fn pages_of_both_packs_only_show_text() {
    let home = ProcessHome::new();
    let answer = home.path("answer.md");
    let settings = "[provider.hostile]\nkind = \"command\"\ncommand = [\"cat\", \"ANSWER\"]\n";
    let settings = settings.replace("ANSWER", answer.to_str().unwrap());
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    let hostile: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
    let mut pages = Vec::new();
    let flows = ["docs.page.generate.docusaurus_md.v1", "latex.section.convert.docusaurus_md.v1"];
    for flow in flows {
        let front = "---\nslug: ../../admin\ntitle: \"{process.pid}\"\ncustom_edit_url: javascript:x\nformat: mdx\n---\n";
        std::fs::write(&answer, format!("{front}{}", hostile.join("\n\n"))).unwrap();
        let page = page_of(&home, flow, "hostile", "A text about nothing in particular.");
        assert!(page.contains("slug: \"admin\"\n") && !page.contains("edit_url"), "{page}");
        pages.push(page);
        // The embedded provider writes what the text says.
        for text in hostile.chunks(9) {
            let text = format!("\\section{{One}}\n{}\n\nThe end is near.", text.join("\n\n"));
            pages.push(page_of(&home, flow, "builtin", &text));
        }
    }
    assert_inert(&pages);
}
