//! Checks the source tree by reading it: which room may use which, which rooms may print, write files
//! or read the clock, that files do not use each other in a circle, and that links in pages work.
//!
//! The rules for rooms and names read text without comments and `#[cfg(test)]` blocks; the rule for
//! circles reads tokens (`tidy/imports.rs`). Exceptions are listed here with their reason. An
//! exception that is not needed any more fails, so the lists can only shrink.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod tidy {
    pub mod imports;
}

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidy::imports;

/// The layers, lowest first. A room may use rooms of its own layer and of lower ones.
const LAYERS: &[&[&str]] = &[
    &["contract", "limits"],
    &["facts"],
    &["markup"],
    &["state", "config", "os"],
    &["flow", "model", "upstream", "registry", "seam", "export", "log"],
    &["home", "compaction", "digest", "verify", "bus", "telemetry"],
    &["sequencer"],
    &["work", "cluster"],
    &["projections"],
    &["replay", "synthesis", "import", "upkeep"],
    &["explain"],
    &["control"],
    &["service"],
    &["web"],
    &["cli"],
    &["main", "lib"],
];

/// Names that a room must not use, and why.
struct Ban {
    rooms: &'static [&'static str],
    names: &'static [&'static str],
    why: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        rooms: &["state"],
        names: &[
            "crate::os",
            "redb",
            "std::fs",
            "std::time",
            "std::env",
            "serde",
            "std::net",
            "chrono",
            "rustix",
            "SystemTime",
            "Instant::now",
        ],
        why: "the core is pure: it gets time, ids and facts as data",
    },
    Ban {
        rooms: &["contract", "facts", "limits", "config"],
        names: &["crate::os", "std::fs", "SystemTime", "Instant::now"],
        why: "these are functions of their arguments",
    },
    Ban {
        rooms: &["replay"],
        names: &["crate::model", "crate::flow", "crate::upstream", "crate::seam", "crate::service"],
        why: "replay applies events and calls no model",
    },
];

/// Names that only some places may use, and why.
struct Home {
    names: &'static [&'static str],
    places: &'static [&'static str],
    why: &'static str,
}

const HOMES: &[Home] = &[
    Home {
        names: &["redb::", "use redb"],
        places: &["src/log/store/", "src/log/store.rs"],
        why: "only the store names its engine, so that the engine can be replaced",
    },
    Home {
        names: &["bincode"],
        places: &["src/log/codec.rs"],
        why: "only the codec names its library",
    },
    Home {
        names: &["codec::decode("],
        // The report of a worker has no sequence number yet.
        places: &["src/log/", "src/cluster/outcomes.rs"],
        why: "an event that does not decode is an error with its sequence number: `Entry::event`",
    },
    Home { names: &["ureq"], places: &["src/model/"], why: "only providers reach the network" },
    Home {
        names: &["tokio", "tokio_postgres", "rustls::", "summarizer.heads", "summarizer.commits"],
        places: &["src/cluster/postgres/"],
        why: "only this module knows SQL and the library that speaks it",
    },
    Home {
        names: &["println!", "eprintln!", "print!", "eprint!", "io::stdout"],
        places: &["src/cli/"],
        why: "only the command line prints",
    },
    Home {
        names: &["SystemTime::now", "Utc::now", "Local::now"],
        places: &["src/os/"],
        why: "other rooms get the time as data",
    },
    Home {
        names: &[
            "fs::write",
            "fs::rename",
            "fs::remove_",
            "fs::create_dir",
            "fs::set_permissions",
            "fs::copy",
            "fs::hard_link",
            "File::create",
            "OpenOptions",
        ],
        places: &["src/os/"],
        why: "other rooms write through the disk trait, which is durable and testable",
    },
];

/// Allowed uses of such names in other places, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "src/control/socket.rs",
        "fs::remove_",
        "a left-over socket is removed under the lock; it holds no data",
    ),
    (
        "src/control/socket.rs",
        "fs::set_permissions",
        "a socket gets its mode by its name after it is bound",
    ),
];

/// Files that use each other in a circle and are still to be separated: one entry for each circle.
/// A file that is in no circle any more must leave its entry.
const FILE_CIRCLES: &[&[&str]] = &[];

/// Rooms that use each other in a circle and are still to be separated.
const ROOM_CIRCLES: &[&[&str]] = &[];

/// Type names that say nothing about what a type is.
const EMPTY_NAMES: &[&str] = &[
    "Piece", "Found", "Shelf", "Book", "Press", "Desk", "Kept", "Held", "Told", "Look", "Luck",
    "Wish", "Shared", "Whole", "Notary", "What", "Who", "Why",
];

/// Files that still lack a module doc.
const UNDOCUMENTED: &[&str] = &[];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), Path::new(folder), ending, &mut found);
    found.sort();
    found
}

fn collect(root: &Path, folder: &Path, ending: &str, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            collect(root, &path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The numbered lines of the shipped code: without comments and test modules.
fn shipped(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        if let Some(after) = test_module(&lines, index) {
            index = after;
            continue;
        }
        let line = lines[index];
        let code = if line.trim_start().starts_with("//") { "" } else { line };
        let code = code.split_once(" // ").map_or(code, |(code, _)| code);
        index += 1;
        kept.push((index, code.to_owned()));
    }
    kept
}

/// The line after a test module that starts here: after the brace in the first column.
fn test_module(lines: &[&str], start: usize) -> Option<usize> {
    if lines[start] != "#[cfg(test)]" {
        return None;
    }
    let attributes = lines[start..].iter().take_while(|line| line.starts_with("#[")).count();
    let opening = start + attributes;
    let module = lines.get(opening)?;
    if !(module.starts_with("mod ") && module.ends_with('{')) {
        return None;
    }
    let length = lines[opening..].iter().position(|line| *line == "}")?;
    Some(opening + length + 1)
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// `src/log/store/reader.rs` is in the room `log`, `src/bus.rs` in `bus`.
fn room(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap_or(path);
    let first = inside.split('/').next().unwrap_or(inside);
    first.strip_suffix(".rs").unwrap_or(first)
}

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|rooms| rooms.contains(&room))
}

/// The rooms a line names: `crate::log::…`, `use crate::{log, os::Disk};`.
fn rooms_named(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        let rest = &code[at + prefix.len()..];
        let starts: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => top_level(list),
            None => vec![rest],
        };
        for start in starts {
            let end = start.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(start.len());
            if end > 0 {
                rooms.push(start[..end].to_owned());
            }
        }
    }
    rooms
}

/// The parts between commas, outside inner braces.
fn top_level(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(list[from..at].trim());
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts
}

/// Whether a name occurs as a whole word: `print!` does not occur in `eprint!`.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

fn report(wrong: &[String], what: &str) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn the_reader_of_sources_finds_what_ships() {
    let text = "use crate::os;\n// use redb;\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    use redb;\n}\nfn f() {}";
    let code: Vec<(usize, String)> =
        shipped(text).into_iter().filter(|(_, code)| !code.is_empty()).collect();
    assert_eq!(code, [(1, "use crate::os;".to_owned()), (8, "fn f() {}".to_owned())]);
    assert_eq!(rooms_named("use crate::{log::{Entry, Reader}, os};"), ["log", "os"]);
    assert_eq!(rooms_named("a: crate::state::Row, b: crate::seam::X"), ["state", "seam"]);
    assert!(names("print!()", "print!") && !names("eprint!()", "print!"));
    assert_eq!((room("src/log/store/reader.rs"), room("src/main.rs")), ("log", "main"));
}

#[test]
fn every_file_begins_with_a_module_doc() {
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for path in files("src", ".rs").into_iter().chain(files("tests", ".rs")) {
        if !read(&path).starts_with("//!") {
            missing.insert(path);
        }
    }
    let known: BTreeSet<String> = UNDOCUMENTED.iter().map(|path| (*path).to_owned()).collect();
    let new: Vec<String> = missing.difference(&known).cloned().collect();
    report(&new, "files that do not begin with a `//!` module doc");
    let stale: Vec<String> = known.difference(&missing).cloned().collect();
    report(&stale, "these files have a module doc now; take them off the list");
}

#[test]
fn rooms_use_only_their_own_layer_and_lower_ones() {
    let mut wrong = Vec::new();
    for path in files("src", ".rs") {
        let from = room(&path);
        let Some(mine) = layer(from) else {
            wrong.push(format!("{path}: the room `{from}` has no layer; give it one in LAYERS"));
            continue;
        };
        for (number, code) in shipped(&read(&path)) {
            for to in rooms_named(&code) {
                // Other names are items of the crate's root.
                let Some(theirs) = layer(&to) else { continue };
                if theirs > mine {
                    wrong.push(format!(
                        "{path}:{number}: `{from}` uses `{to}`, which is in a higher layer"
                    ));
                }
            }
        }
    }
    report(&wrong, "a room uses a room of a higher layer");
}

/// Compares circles with the known ones, and names what each member of a new one takes.
fn report_circles(found: &[Vec<String>], known: &[&[&str]], names: &imports::Uses) {
    let mut wrong = Vec::new();
    let excused = |circle: &[String]| {
        known.iter().any(|known| circle.iter().all(|member| known.contains(&member.as_str())))
    };
    for circle in found.iter().filter(|circle| !excused(circle)) {
        wrong.push(format!("circle of {}: {circle:?}", circle.len()));
        for (from, to) in circle.iter().flat_map(|from| circle.iter().map(move |to| (from, to))) {
            if let Some(taken) = names.get(from).and_then(|uses| uses.get(to)) {
                let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
                wrong.push(format!("    {from} -> {to}: {}", taken.join(", ")));
            }
        }
    }
    report(&wrong, "circles that are not in the list of exceptions");
    let stale: Vec<String> = known
        .iter()
        .flat_map(|known| known.iter())
        .filter(|member| !found.iter().flatten().any(|other| other == *member))
        .map(|member| (*member).to_owned())
        .collect();
    report(&stale, "in no circle any more; take them off the list of exceptions");
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let uses = imports::uses(&root());
    assert!(uses["src/sequencer/engine.rs"].len() > 3, "the reading finds what a file uses");
    let edges = uses
        .iter()
        .map(|(from, to)| (from.clone(), to.keys().cloned().collect()))
        .collect::<BTreeMap<String, BTreeSet<String>>>();
    report_circles(&imports::circles(&edges), FILE_CIRCLES, &uses);
}

#[test]
fn rooms_do_not_use_each_other_in_a_circle() {
    let mut uses = imports::Uses::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, targets) in imports::uses(&root()) {
        for (to, names) in targets.into_iter().filter(|(to, _)| room(&from) != room(to)) {
            let taken = uses.entry(room(&from).to_owned()).or_default();
            let names = names.iter().map(|name| format!("{from} takes {name}"));
            taken.entry(room(&to).to_owned()).or_default().extend(names);
            edges.entry(room(&from).to_owned()).or_default().insert(room(&to).to_owned());
        }
    }
    report_circles(&imports::circles(&edges), ROOM_CIRCLES, &uses);
}

#[test]
fn type_names_say_what_the_type_is() {
    let mut wrong = Vec::new();
    for path in files("src", ".rs") {
        for (number, code) in shipped(&read(&path)) {
            let words: Vec<&str> =
                code.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
            for pair in words.windows(2) {
                let defines = ["struct", "enum", "trait", "type"].contains(&pair[0]);
                if defines && EMPTY_NAMES.contains(&pair[1]) {
                    wrong.push(format!("{path}:{number}: `{}` says nothing", pair[1]));
                }
            }
        }
    }
    report(&wrong, "types with an empty name");
}

#[test]
fn rooms_do_not_name_what_is_banned_there() {
    let mut wrong = Vec::new();
    for path in files("src", ".rs").iter().filter(|path| !is_test_file(path)) {
        for ban in BANS.iter().filter(|ban| ban.rooms.contains(&room(path))) {
            for (number, code) in shipped(&read(path)) {
                for name in ban.names.iter().filter(|name| names(&code, name)) {
                    wrong.push(format!("{path}:{number}: `{name}`: {}", ban.why));
                }
                // `use crate::{os, …}` does not contain the text `crate::os`.
                for to in rooms_named(&code) {
                    let spelled = format!("crate::{to}");
                    let banned = ban.names.contains(&spelled.as_str());
                    if banned && !code.contains(&spelled) {
                        wrong.push(format!("{path}:{number}: `{spelled}`: {}", ban.why));
                    }
                }
            }
        }
    }
    report(&wrong, "names that a room must not know");
}

#[test]
fn names_of_one_place_stay_there() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for path in files("src", ".rs").iter().filter(|path| !is_test_file(path)) {
        let lines = shipped(&read(path));
        for home in HOMES {
            if home.places.iter().any(|place| path.starts_with(place)) {
                continue;
            }
            for (number, code) in &lines {
                for name in home.names.iter().filter(|name| names(code, name)) {
                    let excused = EXCEPTIONS
                        .iter()
                        .find(|(file, allowed, _)| file == path && allowed == name);
                    match excused {
                        Some((file, allowed, _)) => drop(used.insert((*file, *allowed))),
                        None => {
                            wrong.push(format!("{path}:{number}: `{name}`: {}", home.why));
                        }
                    }
                }
            }
        }
    }
    report(&wrong, "names outside the place they belong to");
    let stale: Vec<String> = EXCEPTIONS
        .iter()
        .filter(|(file, name, _)| !used.contains(&(*file, *name)))
        .map(|(file, name, why)| format!("{file}: `{name}` ({why})"))
        .collect();
    report(&stale, "exceptions that nothing needs any more");
}

#[test]
fn the_binary_knows_every_schema() {
    let summarizer = || Command::new(env!("CARGO_BIN_EXE_summarizer"));
    let listed = summarizer().arg("schema").output().unwrap();
    assert!(listed.status.success());
    let listed: BTreeSet<String> =
        String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect();
    let on_disk: BTreeMap<String, String> = files("schemas", ".schema.json")
        .into_iter()
        .map(|path| {
            let name = path.trim_start_matches("schemas/").trim_end_matches(".schema.json");
            (name.to_owned(), path.clone())
        })
        .collect();
    assert!(!on_disk.is_empty());
    assert_eq!(listed, on_disk.keys().cloned().collect());
    for (name, path) in on_disk {
        let printed = summarizer().args(["schema", &name]).output().unwrap();
        assert!(printed.status.success(), "{name}");
        let same = printed.stdout == fs::read(root().join(&path)).unwrap();
        assert!(same, "`summarizer schema {name}` differs from {path}");
    }
}

fn pages() -> Vec<String> {
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(str::to_owned);
    top.into_iter().chain(files("docs", ".md")).collect()
}

/// Targets of `[text](target)` outside fenced blocks and code spans.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            if let Some((target, _)) = prose[at + 2..].split_once(')') {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

/// The anchor that a Markdown viewer gives a heading.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_lead_to_existing_targets() {
    let mut wrong = Vec::new();
    for page in pages() {
        let folder = Path::new(&page).parent().unwrap().to_owned();
        for (number, target) in links(&read(&page)) {
            if target.contains("://") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let path =
                if file.is_empty() { root().join(&page) } else { root().join(&folder).join(file) };
            if !path.exists() {
                wrong.push(format!("{page}:{number}: {target}"));
                continue;
            }
            let is_page = path.extension().is_some_and(|extension| extension == "md");
            if is_page && !fragment.is_empty() {
                let text = fs::read_to_string(&path).unwrap();
                let known = text.lines().filter(|line| line.starts_with('#')).map(anchor);
                if !known.collect::<Vec<_>>().contains(&fragment.to_owned()) {
                    wrong.push(format!("{page}:{number}: no heading for {target}"));
                }
            }
        }
    }
    report(&wrong, "links without a target");
}

#[test]
fn the_book_has_every_page_of_docs_once() {
    let summary = "docs/SUMMARY.md";
    let listed: Vec<String> =
        links(&read(summary)).into_iter().map(|(_, target)| format!("docs/{target}")).collect();
    let pages = files("docs", ".md").into_iter().filter(|page| page != summary);
    let wrong: Vec<String> = pages
        .filter(|page| listed.iter().filter(|target| *target == page).count() != 1)
        .map(|page| {
            let title = read(&page).lines().next().unwrap_or_default().replace("# ", "");
            format!("{page}; its line: - [{title}]({})", page.trim_start_matches("docs/"))
        })
        .collect();
    report(&wrong, "pages that docs/SUMMARY.md does not list exactly once");
}

/// The site has the pages of `docs` only, so a link to another file of the repository would be dead there.
#[test]
fn pages_of_the_book_link_to_pages_of_the_book() {
    let mut wrong = Vec::new();
    for page in files("docs", ".md") {
        let depth = page.matches('/').count() - 1;
        for (number, target) in links(&read(&page)) {
            if target.matches("../").count() > depth {
                wrong.push(format!("{page}:{number}: {target}"));
            }
        }
    }
    report(&wrong, "links that leave docs/; write the path as `code`");
}

/// The pages of decisions in the order of their numbers, without the index.
fn decisions() -> Vec<String> {
    let pages = files("docs/adr", ".md");
    pages.into_iter().filter(|path| path != "docs/adr/README.md").collect()
}

#[test]
fn decisions_are_numbered_and_have_four_parts() {
    let mut wrong = Vec::new();
    for (index, path) in decisions().iter().enumerate() {
        let number = format!("{:04}", index + 1);
        let name = path.trim_start_matches("docs/adr/");
        if !name.starts_with(&format!("{number}-")) {
            wrong.push(format!("{path}: its number should be {number}"));
        }
        let text = read(path);
        if !text.starts_with(&format!("# {number} ")) {
            wrong.push(format!("{path}: its title should begin with `# {number} `"));
        }
        let parts = ["Status", "Context", "Decision", "Consequences"]
            .map(|part| text.lines().position(|line| line == format!("## {part}")));
        if parts.contains(&None) || !parts.is_sorted() {
            wrong.push(format!("{path}: wants status, context, decision, consequences"));
        }
    }
    report(&wrong, "decisions that are not in the form docs/adr/README.md asks for");
}

#[test]
fn the_index_lists_every_decision_once() {
    let index = read("docs/adr/README.md");
    let listed: Vec<String> =
        links(&index).into_iter().map(|(_, target)| format!("docs/adr/{target}")).collect();
    let wrong: Vec<String> = decisions()
        .into_iter()
        .filter(|path| listed.iter().filter(|target| *target == path).count() != 1)
        .collect();
    report(&wrong, "decisions that docs/adr/README.md does not list exactly once");
}

#[test]
fn every_decision_in_force_is_linked_from_code() {
    let code = ["src", "tests", "benches"].into_iter().flat_map(|folder| files(folder, ".rs"));
    let code: Vec<String> = code.map(|path| read(&path)).collect();
    let unlinked: Vec<String> = decisions()
        .into_iter()
        .filter(|path| !read(path).contains("## Status\n\nReplaced"))
        .filter(|path| !code.iter().any(|text| text.contains(path.as_str())))
        .collect();
    report(
        &unlinked,
        "decisions that no code links to; add the link to the code that depends on them",
    );
}

/// `[0047](adr/0047-privacy-flag.md)`: a label of four digits is the number of the page.
#[test]
fn numbers_in_links_are_those_of_the_decisions() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        for (at, before) in text.match_indices("](").map(|(at, _)| (at, &text[..at])) {
            let label = before.rsplit('[').next().unwrap_or_default();
            let target = text[at + 2..].split(')').next().unwrap_or_default();
            let name = target.rsplit('/').next().unwrap_or_default();
            let is_number = label.len() == 4 && label.bytes().all(|byte| byte.is_ascii_digit());
            if is_number && !name.starts_with(label) {
                wrong.push(format!("{page}: [{label}]({target})"));
            }
        }
    }
    report(&wrong, "links to decisions under the number of another one");
}

#[test]
fn code_links_to_decisions_that_exist() {
    let mut wrong = Vec::new();
    for path in ["src", "tests", "benches"].into_iter().flat_map(|folder| files(folder, ".rs")) {
        for (index, line) in read(&path).lines().enumerate() {
            let comment = line.split_once("//").map_or("", |(_, comment)| comment);
            for (at, prefix) in comment.match_indices("docs/adr/0") {
                let rest = &comment[at..];
                let end = rest.find(".md").map_or(prefix.len(), |end| end + 3);
                if !root().join(&rest[..end]).exists() {
                    wrong.push(format!("{path}:{}: {}", index + 1, &rest[..end]));
                }
            }
        }
    }
    report(&wrong, "links from code to decisions that do not exist");
}

#[test]
fn no_marks_of_unfinished_work_are_left() {
    // Joined here, so that this file does not contain the marks itself.
    let marks: Vec<String> = [("TO", "DO"), ("FIX", "ME"), ("X", "XX"), ("HA", "CK")]
        .map(|(a, b)| a.to_owned() + b)
        .into();
    let conflicts: Vec<String> = ['<', '>'].map(|c| c.to_string().repeat(7) + " ").into();
    let rust = ["src", "tests", "benches"].into_iter().flat_map(|folder| files(folder, ".rs"));
    let mut wrong = Vec::new();
    for path in rust.chain(pages()) {
        let text = read(&path);
        for (index, line) in text.lines().enumerate() {
            // In Rust only comments count: a program may search texts for these words.
            let prose = match path.ends_with(".rs") {
                true => line.split_once("//").map_or("", |(_, comment)| comment),
                false => line,
            };
            let marked = marks.iter().any(|mark| names(prose, mark));
            if marked || conflicts.iter().any(|mark| line.starts_with(mark.as_str())) {
                wrong.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    report(&wrong, "marks of unfinished work");
}
