//! Every entry of the list of projections: a changed byte in any of its files is found by each
//! command that checks a home, and the command that repairs a home writes the file again.

use std::collections::BTreeSet;

use summarizer::projections::exporters::ALL;

use super::*;

/// Changes one bit of some bytes of a file.
fn flip_at(path: &Path, places: &[usize]) {
    let mut bytes = std::fs::read(path).unwrap();
    places.iter().for_each(|at| bytes[*at] ^= 1);
    std::fs::write(path, bytes).unwrap();
}

/// A home in which each entry has files.
pub(super) fn with_everything() -> ProcessHome {
    let home = home();
    let settings = "[exports]\nfeed = true\nmetrics = true\n";
    std::fs::write(home.path("summarizer.toml"), settings).unwrap();
    home.append(b"{\"no\": \"request\"}\n");
    home.append(&support::requests::lines(&of_every_stream()));
    home.expect(0, &["drain"]);
    // The same question again: its answer takes the place of the first.
    let mut newer = ask("newer", "document_summary", "other", &["notes/a.md"]);
    newer["work"]["params"] = serde_json::json!({"again": 1});
    home.append(&support::requests::lines(&[newer]));
    home.expect(0, &["drain"]);
    home.expect(0, &["digest", "build", "--all"]);
    home.expect(0, &["drain"]);
    home
}

/// Files of an entry, each with a byte to change: the one in the middle.
fn files_of(home: &ProcessHome, files: &[&str], folders: &[&str]) -> Vec<(PathBuf, Vec<usize>)> {
    let paths = files.iter().map(|file| home.path(file));
    let folders = folders.iter().map(|folder| home.path("buses").join(folder));
    let mut found = Vec::new();
    for path in paths.chain(folders) {
        let below: Vec<PathBuf> = match path.is_dir() {
            true => tree(&path).into_keys().map(|name| path.join(name)).collect(),
            false => Vec::from_iter(path.is_file().then_some(path)),
        };
        let mut kinds = BTreeSet::new();
        for path in below {
            // One file of each kind: by its folder and the end of its name.
            let kind = (path.parent().map(Path::to_owned), path.extension().map(ToOwned::to_owned));
            let middle = usize::try_from(std::fs::metadata(&path).unwrap().len() / 2).unwrap();
            if middle > 0 && kinds.insert(kind) {
                found.push((path, vec![middle]));
            }
        }
    }
    found
}

/// A byte of each copy of a row: a cache file also holds copies that are no longer in use, and a
/// change of those means nothing.
fn of_a_row(home: &ProcessHome, path: &Path) -> Vec<usize> {
    use sha2::Digest as _;
    let bytes = std::fs::read(path).unwrap();
    let data = std::fs::read(home.path("buses/other/notes/a.md")).unwrap();
    let hash = sha2::Sha256::digest(data).to_vec();
    let rows = [hash, b"\"summary_id\":".to_vec(), b"\"log\":".to_vec()];
    let places = rows.iter().map(|row| -> Vec<usize> {
        let found = bytes.windows(row.len()).enumerate();
        found.filter(|(_, window)| *window == row.as_slice()).map(|(at, _)| at).collect()
    });
    places.into_iter().find(|places| !places.is_empty()).unwrap_or_default()
}

/// The commands that check a home.
const CHECKS: [&[&str]; 3] = [&["replay", "--verify"], &["doctor", "--deep"], &["verify"]];

/// The first byte, the last one, and some between, one after the other. No byte is free. Each check takes its turn,
/// and in the deep form all of them look at each byte. The file is left changed.
fn every_byte_counts(
    home: &ProcessHome,
    path: &Path,
    whole: &[u8],
    turn: usize,
    rng: &mut support::Rng,
) {
    let mut places = vec![0, whole.len() - 1];
    let more = if support::deep() { 100 } else { 2 };
    places.extend((0..more).map(|_| rng.below(whole.len() as u64) as usize));
    for (number, at) in places.into_iter().enumerate() {
        let mut changed = whole.to_vec();
        changed[at] ^= 1 << rng.below(8);
        std::fs::write(path, changed).unwrap();
        let one = [CHECKS[(turn + number) % CHECKS.len()]];
        let checks = if support::deep() { &CHECKS[..] } else { &one };
        for check in checks {
            let found = home.run(check);
            let said = format!("{check:?}, byte {at} of {}: {}", path.display(), found.out);
            assert_eq!(found.exit, Some(1), "{said}");
        }
    }
}

#[test]
fn a_changed_byte_in_a_file_of_any_projection_is_found_and_mended() {
    let home = with_everything();
    for command in CHECKS {
        home.expect(0, command);
    }
    let mut turn = 0;
    let mut changed = BTreeSet::new();
    let mut rng = support::Rng::new(5);
    for exporter in ALL {
        let mut files = files_of(&home, exporter.files, exporter.folders);
        if exporter.name == "caches" {
            files.retain(|(path, _)| !of_a_row(&home, path).is_empty());
        }
        for (path, mut places) in files {
            if exporter.name == "caches" {
                // Repairing another file wrote this one again.
                places = of_a_row(&home, &path);
            }
            let before = std::fs::read(&path).unwrap();
            flip_at(&path, &places);
            let said = format!("{} of {}", path.display(), exporter.name);
            let name = path.file_name().unwrap().to_str().unwrap();
            for command in CHECKS {
                let found = home.run(command);
                assert_eq!(found.exit, Some(1), "{command:?}: {said}: {}", found.out);
                assert!(
                    found.out.contains(name) || command[0] == "doctor",
                    "{said}: {}",
                    found.out
                );
            }
            if exporter.name != "caches" {
                every_byte_counts(&home, &path, &before, turn, &mut rng);
                turn += 1;
            }
            home.expect(0, &["export", "--repair"]);
            if exporter.name != "caches" {
                assert!(std::fs::read(&path).unwrap() == before, "{said}");
            }
            home.expect(0, &["replay", "--verify"]);
            changed.insert(exporter.name);
        }
    }
    // Archived acks have no file before a retention; the tests of a bad day change one.
    let with_files = ALL.iter().filter(|one| !(one.files.is_empty() && one.folders.is_empty()));
    assert_eq!(changed, with_files.map(|exporter| exporter.name).collect());
}

#[test]
fn metrics_count_the_whole_log_over_restarts() {
    let home = with_everything();
    let path = home.path("run/metrics.prom");
    let count = |name: &str| -> u64 {
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| line.starts_with(name));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let completed = "summarizer_outcomes_total{outcome=\"completed\"}";
    assert_eq!(count(completed), 6);
    assert_eq!(count("summarizer_outcomes_total{outcome=\"quarantined\"}"), 1);
    assert_eq!(count("summarizer_provider_items_total{provider=\"builtin\"}"), 6);
    home.append(&support::requests::lines(&[ask(
        "more",
        "document_summary",
        "other",
        &["notes/a.md"],
    )]));
    home.expect(0, &["drain"]);
    let sessions = count("summarizer_events_total{event=\"SessionStarted\"}");
    assert!(sessions >= 3, "{sessions}");
    let with_cache = std::fs::read(&path).unwrap();
    std::fs::remove_file(home.path("run/metrics-index.redb")).unwrap();
    home.expect(0, &["export", "--repair"]);
    home.expect(0, &["replay", "--verify"]);
    let events = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let of_log = text.lines().filter(|line| line.contains("outcomes_total"));
        of_log.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(events(&std::fs::read(&path).unwrap()), events(&with_cache));
    let to = home.path("elsewhere");
    home.expect(0, &["export", "--to", to.to_str().unwrap()]);
    assert!(to.join("run/metrics.prom").exists() && !to.join("run/metrics-index.redb").exists());
}
