//! Stores of every format that was ever released still open, verify, and lead to the files they
//! led to then, byte for byte.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use support::process::ProcessHome;

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    collect(root, root, &mut found);
    found
}

fn collect(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            found
                .insert(path.strip_prefix(root).unwrap().to_owned(), std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_store_of_format_1_opens_and_leads_to_the_same_files() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store_v1");
    let home = ProcessHome { dir: tempfile::tempdir().unwrap() };
    std::fs::create_dir_all(home.path("run")).unwrap();
    let packed = std::fs::read(fixture.join("summarizer.redb.zst")).unwrap();
    let store = zstd::bulk::decompress(&packed, 64 << 20).unwrap();
    std::fs::write(home.path("run/summarizer.redb"), store).unwrap();
    home.expect(0, &["log", "verify"]);
    home.expect(0, &["export", "--to", home.path("again").to_str().unwrap()]);
    let (again, expected) = (tree(&home.path("again")), tree(&fixture.join("expected")));
    assert!(expected.len() > 8, "{:?}", expected.keys());
    for (path, bytes) in &expected {
        let found = again.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert_eq!(found.as_deref(), Some(&*String::from_utf8_lossy(bytes)), "{}", path.display());
    }
    // Only the log was kept: the snapshot files it speaks of are missed, and written again.
    home.expect(1, &["replay", "--verify"]).says(&["snapshot.json: it is missing"]);
    home.expect(0, &["export", "--repair"]);
    home.expect(0, &["replay", "--verify"]);
    let status = home.expect(0, &["status", "--json"]).json();
    assert_eq!(status["requests"]["by_status"]["completed"], 4);
    assert_eq!((&status["requests"]["open"], &status["quarantined"]), (&1.into(), &2.into()));
    home.expect(0, &["show", "later"]).says(&["waiting"]);
    // And it goes on: the store is not only read.
    home.append(b"one more line that is no request\n");
    home.expect(5, &["drain"]).says(&["queue adopt"]);
    home.expect(0, &["queue", "adopt", "--from", "start"]);
    home.expect(0, &["drain"]);
    home.expect(0, &["replay", "--verify"]);
}
