//! Files that are small and ask for very much: one file is refused, the files beside it are read, and neither the
//! memory nor the time follows what such a file asks for.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "helpers of a test may panic")]

#[path = "support/flow_home.rs"]
#[allow(unused_imports, reason = "this file waits for no service")]
mod flow_home;
#[path = "support/running.rs"]
mod running;
#[path = "support/server.rs"]
mod server;
#[path = "support/zip.rs"]
mod zip;

use std::path::Path;
use std::time::{Duration, Instant};

use flow_home::{FREE, Home, QUICK};
use zip::{Entry, archive};

/// Most memory of a command that reads them all, which is a build without optimization.
const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Most time of one. On a machine with other work it takes some seconds.
const TIME_MAX: Duration = Duration::from_secs(240);
/// More than an archive may hold.
const LARGE: usize = 65 << 20;

const CONTAINER: &str =
    "<container><rootfiles><rootfile full-path='p.opf'/></rootfiles></container>";

fn docx(document: Entry<'_>) -> Vec<u8> {
    archive(&[Entry::new("[Content_Types].xml", "<Types/>"), document])
}

fn epub(package: &str, page: Entry<'_>) -> Vec<u8> {
    archive(&[
        Entry::new("mimetype", "application/epub+zip"),
        Entry::new("META-INF/container.xml", CONTAINER),
        Entry::new("p.opf", package),
        page,
    ])
}

/// A text that names an entity again and again, and grows to gigabytes.
fn entities(begin: &str, end: &str) -> String {
    let long = "Pump words. ".repeat(50_000);
    let named = "&e;".repeat(20_000);
    format!("<!DOCTYPE a [<!ENTITY e '{long}'>]>{begin}{named}{end}")
}

/// The bombs, each with whether its kind has a reader.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let large = Entry::new("", &"0".repeat(LARGE));
    let whole = |name| Entry { name, ..large.clone() };
    let package = |pages: usize| {
        let items = "<item id='a' href='a.xhtml'/>";
        let spine = "<itemref idref='a'/>".repeat(pages);
        format!("<package><manifest>{items}</manifest><spine>{spine}</spine></package>")
    };
    let word = |inner: &str| {
        Entry::new("word/document.xml", &format!("<w:document xmlns:w='w'>{inner}</w:document>"))
    };
    let page = format!("<html><body><p>{}</p></body></html>", "Pump. ".repeat(200_000));
    // Its directory says that it is small.
    let lying = Entry { size: 1000, ..whole("word/document.xml") };
    let names: String = (0..100_000).map(|at| format!(" a{at}=''")).collect();
    let in_word = entities("<w:document xmlns:w='w'><w:p>", "</w:p></w:document>");
    vec![
        ("large.docx", docx(whole("word/document.xml"))),
        ("lying.docx", docx(lying)),
        ("entities.docx", docx(Entry::new("word/document.xml", &in_word))),
        ("attributes.docx", docx(word(&format!("<w:p{names}/>")))),
        ("nodes.docx", docx(word(&"<a/>".repeat(4_000_000)))),
        ("large.epub", epub(&package(1), whole("a.xhtml"))),
        ("again.epub", epub(&package(1000), Entry::new("a.xhtml", &page))),
        ("large.odt", archive(&[whole("content.xml")])),
        ("large.xlsx", archive(&[whole("xl/worksheets/sheet1.xml")])),
        ("chats.zip", archive(&[whole("conversations.json")])),
        (
            "feed.xml",
            entities("<rss><channel><item><title>", "</title></item></channel></rss>").into(),
        ),
    ]
}

/// Runs a command, watched: what it says, and the most memory that it had.
fn watched(home: &Home, args: &[&str]) -> (String, u64) {
    let out = home.path("said.txt");
    let mut command = home.command(args);
    let file = std::fs::File::create(&out).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = running::Running(command.spawn().unwrap());
    let (began, mut most) = (Instant::now(), 0);
    while child.0.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < TIME_MAX, "{args:?} takes longer than {TIME_MAX:?}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.0.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(peak.unwrap_or_default() << 10);
        std::thread::sleep(Duration::from_millis(5));
    }
    (std::fs::read_to_string(out).unwrap(), most)
}

fn put(folder: &Path, files: &[(&'static str, Vec<u8>)]) {
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn a_file_that_grows_without_measure_is_refused_and_the_files_beside_it_are_read() {
    let home = Home::new(QUICK);
    let folder = tempfile::tempdir().unwrap();
    let bombs = bombs();
    let bytes: usize = bombs.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes < 8 << 20, "{bytes} bytes are small files");
    put(folder.path(), &bombs);
    let sound = "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>The pump works again.</w:t></w:r></w:p>\
                 </w:body></w:document>";
    put(
        folder.path(),
        &[
            ("a.txt", b"The pump failed on Monday. Ana mended it on Tuesday.".to_vec()),
            ("z.md", b"# Roof\n\nThe roof leaks. Bo will look at it on Friday.".to_vec()),
            ("sound.docx", docx(Entry::new("word/document.xml", sound))),
        ],
    );
    let path = folder.path().to_str().unwrap();
    for args in [
        vec!["sum", "--flow", FREE, "--json", path],
        vec!["add", "--flow", FREE, "--no-wait", "--json", path],
    ] {
        let (said, memory) = watched(&home, &args);
        assert!(memory > 0 && memory < MEMORY_BYTES_MAX, "{args:?}: {} MiB", memory >> 20);
        for (name, _) in &bombs {
            assert!(said.contains(name), "{args:?} names {name}: {said}");
        }
        assert!(!said.contains("error of this program"), "{said}");
    }
    home.ok(&["drain"]);
    let read = home.ok(&["--json", "search", "pump"]);
    assert!(read.contains("a.txt") && read.contains("sound.docx"), "{read}");
    for (name, _) in &bombs {
        assert!(!read.contains(name), "{name} was read: {read}");
    }
    home.ok(&["verify"]);
}
