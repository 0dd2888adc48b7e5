//! Atom feeds: an exporter that is off until `exports.feed` turns it on.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use super::*;

/// Prints, for each feed, what a reader of Atom needs: an independent parser reads the XML.
const READER: &str = r#"
import json, sys, xml.etree.ElementTree as tree
atom = "{http://www.w3.org/2005/Atom}"
feed = tree.parse(sys.argv[1]).getroot()
assert feed.tag == atom + "feed", feed.tag
text = lambda of, name: of.find(atom + name).text
entries = [{
    "id": text(one, "id"), "title": text(one, "title"), "updated": text(one, "updated"),
    "content": text(one, "content"), "stream": one.find(atom + "category").get("term"),
} for one in feed.findall(atom + "entry")]
print(json.dumps({
    "id": text(feed, "id"), "title": text(feed, "title"), "updated": text(feed, "updated"),
    "author": feed.find(atom + "author").find(atom + "name").text, "entries": entries,
}))
"#;

/// The feed as Python reads it; `None` where there is no Python.
fn parsed(path: &Path) -> Option<Value> {
    let read = Command::new("python3").arg("-c").arg(READER).arg(path).output().ok()?;
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    Some(serde_json::from_slice(&read.stdout).unwrap())
}

fn feeds(home: &ProcessHome) -> BTreeMap<PathBuf, Vec<u8>> {
    tree(&home.path("buses/feeds"))
}

/// A home with feeds turned on, a note that XML must escape, and work done twice over.
fn with_feeds() -> ProcessHome {
    let home = home();
    std::fs::write(home.path("summarizer.toml"), "[exports]\nfeed = true\n").unwrap();
    home.note("sharp.txt", "Costs <b>rose</b> & fell; \"why\" is 'open' ]]> today.\r\nIt ended.");
    let mut asked = of_every_stream();
    asked.push(ask("sharp", "document_summary", "other", &["sharp.txt"]));
    for some in asked.chunks(4) {
        home.append(&support::requests::lines(some));
        home.expect(0, &["drain"]);
    }
    home
}

#[test]
fn a_feed_lists_each_summary_of_its_day_in_valid_atom() {
    let home = with_feeds();
    let mut made: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for lines in tree(&home.path("buses/summaries")).iter().filter_map(|(path, bytes)| {
        path.extension().is_some_and(|end| end == "jsonl").then_some(bytes)
    }) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let item: Value = serde_json::from_slice(line).unwrap();
            let text = item["outputs"]["summary_text"].as_str().unwrap().to_owned();
            made.entry(item["day"].as_str().unwrap().to_owned()).or_default().insert(text);
        }
    }
    let feeds = feeds(&home);
    assert_eq!(feeds.len(), made.len());
    let mut ids = BTreeSet::new();
    for (day, texts) in &made {
        let path = home.path(&format!("buses/feeds/{day}.atom.xml"));
        let xml = std::fs::read_to_string(&path).unwrap();
        assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns="));
        assert_eq!(xml.matches("<entry>").count(), texts.len(), "{xml}");
        assert!(!xml.contains("<b>") && !xml.contains("]]>"), "{xml}");
        let Some(feed) = parsed(&path) else { continue };
        assert_eq!(feed["title"], format!("Summaries of {day}"));
        assert_eq!(feed["author"], "summarizer");
        let entries = list(&feed["entries"]);
        let found = entries.iter().map(|entry| entry["content"].as_str().unwrap().to_owned());
        assert_eq!(&found.collect::<BTreeSet<_>>(), texts);
        for entry in entries.iter().chain([&feed]) {
            assert!(ids.insert(entry["id"].as_str().unwrap().to_owned()), "an id is there twice");
            assert!(entry["updated"].as_str().unwrap().ends_with('Z'));
        }
        let newest = entries.iter().map(|entry| entry["updated"].as_str().unwrap()).max();
        assert_eq!(feed["updated"].as_str(), newest);
    }
}

#[test]
fn feeds_are_compared_repaired_and_exported_like_every_projection() {
    let home = with_feeds();
    home.expect(0, &["replay", "--verify"]);
    let before = feeds(&home);
    let name = before.keys().next().unwrap().clone();
    let path = home.path("buses/feeds").join(&name);
    std::fs::write(&path, "<feed/>").unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["feeds/", "differs from the log"]);
    home.expect(1, &["doctor", "--deep"]).says(&["feeds", "summarizer export --repair"]);
    home.expect(0, &["export", "--repair"]);
    assert_eq!(feeds(&home), before);
    std::fs::write(home.path("buses/feeds/1999-01-01.atom.xml"), "<feed/>").unwrap();
    home.expect(1, &["replay", "--verify"]).says(&["1999-01-01.atom.xml", "is not in the log"]);
    home.expect(0, &["export", "--repair"]);
    assert_eq!(feeds(&home), before);
    // A feed that is gone comes back with the next publication, from the cache or without it.
    std::fs::remove_file(&path).unwrap();
    home.expect(0, &["drain"]);
    assert_eq!(feeds(&home), before);
    std::fs::remove_file(home.path("run/feed-index.redb")).unwrap();
    home.expect(0, &["drain"]);
    assert_eq!(feeds(&home), before);
    home.expect(0, &["replay", "--verify"]);
    let to = home.path("elsewhere");
    home.expect(0, &["export", "--to", to.to_str().unwrap()]);
    assert_eq!(tree(&to.join("buses/feeds")), before);
    assert!(!to.join("run/feed-index.redb").exists());
    let to = home.path("copy");
    home.expect(0, &["backup", to.to_str().unwrap()]);
    assert_eq!(tree(&to.join("buses/feeds")), before);
}

#[test]
fn no_feed_is_written_unless_it_is_turned_on() {
    let home = home();
    home.append(&support::requests::lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    assert!(!home.path("buses/feeds").exists());
    home.expect(0, &["replay", "--verify"]);
}
