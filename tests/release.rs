//! What leaves the repository: the archive of a release, and the package of crates.io.
//!
//! See docs/adr/0103-what-a-release-contains.md.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "a test writes the program that is to be packed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}\n{err}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Packs a program from another folder and with another umask, so that neither can matter.
fn pack(program: &Path, out: &Path, folder: &Path, umask: &str) {
    let mut command = Command::new("sh");
    let script = format!("umask {umask} && exec python3 \"$0\" --binary \"$1\" --out \"$2\"");
    command.args(["-c", &script]).arg(root().join("packaging/release.py")).arg(program).arg(out);
    run(command.current_dir(folder).env_remove("SOURCE_DATE_EPOCH"));
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn a_release_has_checksums_licences_a_bill_of_materials_and_the_same_bytes_twice() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("summarizer");
    fs::write(&program, "#!/bin/sh\necho \"prints $@\"\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    pack(&program, &first, dir.path(), "022");
    pack(&program, &second, root(), "077");
    let files = contents(&first);
    assert!(files == contents(&second), "two runs over one program gave different bytes");

    let sums = String::from_utf8(files["SHA256SUMS"].clone()).unwrap();
    assert_eq!(sums.lines().count(), files.len() - 1);
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&first));

    let archive = files.keys().find(|name| name.ends_with(".tar.gz")).unwrap();
    run(Command::new("tar").arg("xzf").arg(first.join(archive)).current_dir(dir.path()));
    let unpacked = dir.path().join(archive.strip_suffix(".tar.gz").unwrap());
    let text = |name: &str| fs::read_to_string(unpacked.join(name)).unwrap();
    assert_eq!(text("man/summarizer.1"), "prints man\n");
    assert_eq!(text("LICENSE-MIT"), fs::read_to_string(root().join("LICENSE-MIT")).unwrap());
    let mode = fs::metadata(unpacked.join("summarizer")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the program can be started");

    let bill: Value = serde_json::from_str(&text("bom.cdx.json")).unwrap();
    let licences = text("THIRD-PARTY-LICENSES.txt");
    let mut names = BTreeSet::new();
    for component in bill["components"].as_array().unwrap() {
        let (name, version) =
            (component["name"].as_str().unwrap(), component["version"].as_str().unwrap());
        assert_ne!(component["licenses"][0]["expression"], "NOASSERTION", "{name} has no licence");
        assert!(component["hashes"][0]["content"].is_string(), "{name} has no checksum");
        assert!(
            licences.contains(&format!("\n{name} {version}: ")),
            "{name} is not in the licences"
        );
        names.insert(name);
    }
    for shipped in ["redb", "serde", "ureq", "minijinja"] {
        assert!(names.contains(shipped), "{shipped} is missing");
    }
    for tests_only in ["criterion", "proptest", "rusqlite", "summarizer"] {
        assert!(!names.contains(tests_only), "{tests_only} is not in the program");
    }
}

/// Targets of `include_str!` in a file, relative to the repository.
fn included(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let targets = text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
    targets
        .map(|target| file.parent().unwrap().join(target).canonicalize().unwrap())
        .map(|path| {
            path.strip_prefix(root().canonicalize().unwrap()).unwrap().to_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn the_package_has_what_the_program_needs_and_nothing_else() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["package", "--list", "--allow-dirty", "--offline"]).current_dir(root());
    let listed = run(&mut command);
    let listed: BTreeSet<&str> = listed.lines().collect();
    let code: Vec<&&str> =
        listed.iter().filter(|file| file.starts_with("src/") && file.ends_with(".rs")).collect();
    assert!(code.len() > 300, "{} files of code", code.len());
    let mut needed = BTreeSet::new();
    for file in code {
        needed.extend(included(&root().join(file)));
    }
    for file in &needed {
        assert!(listed.contains(file.as_str()), "code includes {file}, the package lacks it");
    }
    let folders = ["src/", "schemas/", "registry/"];
    let top =
        ["Cargo.lock", "Cargo.toml", "Cargo.toml.orig", "build.rs", "README.md", "CHANGELOG.md"];
    let more: Vec<_> = listed
        .iter()
        .filter(|file| !folders.iter().any(|folder| file.starts_with(folder)))
        .filter(|file| {
            !top.contains(file) && !file.starts_with("LICENSE") && !needed.contains(**file)
        })
        .filter(|file| **file != ".cargo_vcs_info.json")
        .collect();
    assert!(more.is_empty(), "the package has files that the program does not need: {more:?}");
}
