//! What leaves the repository: the archive of a release, and the package of crates.io.
//!
//! See docs/adr/0103-what-a-release-contains.md.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]
#![allow(clippy::disallowed_methods, reason = "a test writes the program that is to be packed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    let folder = archive.strip_suffix(".tar.gz").unwrap();
    let unpacked = dir.path().join(folder);
    assert_binstall_finds(archive, folder);
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
    // C code in folders of a package has licences of its own.
    for carried in ["mimalloc", "zstd", "fiat"] {
        let folder = |line: &str| line.contains(", its folder ") && line.contains(carried);
        assert!(licences.lines().any(folder), "the licence of {carried} is missing");
    }
    for shipped in ["redb", "serde", "ureq", "minijinja", "tokio-postgres"] {
        assert!(names.contains(shipped), "{shipped} is missing");
    }
    for tests_only in ["criterion", "proptest", "rusqlite", "summarizer"] {
        assert!(!names.contains(tests_only), "{tests_only} is not in the program");
    }
}

fn manifest() -> toml::Table {
    fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap()
}

/// `cargo binstall` computes the names of the archive and of the program in it from its settings in Cargo.toml.
fn assert_binstall_finds(archive: &str, folder: &str) {
    let manifest = manifest();
    let package = &manifest["package"];
    let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
    let target = folder.strip_prefix(&format!("{name}-{version}-")).unwrap();
    let filled = |key: &str| {
        let mut text = package["metadata"]["binstall"][key].as_str().unwrap().to_owned();
        let values = [("name", name), ("version", version), ("target", target), ("bin", name)];
        for (placeholder, value) in values.into_iter().chain([("binary-ext", ""), ("repo", "")]) {
            text = text.replace(&format!("{{ {placeholder} }}"), value);
        }
        assert!(!text.contains('{'), "{key} has an unknown placeholder: {text}");
        text
    };
    assert_eq!(filled("pkg-url"), format!("/releases/download/v{version}/{archive}"));
    assert_eq!(filled("pkg-fmt"), "tgz");
    assert_eq!(filled("bin-dir"), format!("{folder}/{name}"));
}

#[test]
fn every_file_of_the_debian_package_is_there() {
    let manifest = manifest();
    let deb = &manifest["package"]["metadata"]["deb"];
    let program = format!("target/release/{}", manifest["bin"][0]["name"].as_str().unwrap());
    let assets = deb["assets"].as_array().unwrap();
    let mut files: Vec<&str> = assets.iter().map(|asset| asset[0].as_str().unwrap()).collect();
    files.push(deb["license-file"][0].as_str().unwrap());
    assert!(files.contains(&program.as_str()), "the package lacks the program");
    // `packaging/release.py --licences` makes this file: docs/how-to/install.md.
    let licences = "target/THIRD-PARTY-LICENSES.txt";
    assert!(files.contains(&licences), "the package lacks the licences of the dependencies");
    for file in files.into_iter().filter(|file| *file != program && *file != licences) {
        assert!(root().join(file).is_file(), "{file} does not exist");
    }
}

/// The instructions of the Containerfile: a line that ends with a backslash goes on.
fn instructions() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("Containerfile")).unwrap().replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(word, rest)| {
            (word.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn of<'a>(instructions: &'a [(String, String)], word: &'a str) -> Vec<&'a str> {
    let found = instructions.iter().filter(|(own, _)| own == word);
    found.map(|(_, rest)| rest.as_str()).collect()
}

/// No container engine runs here. So this test does with folders what the file tells an engine to do.
#[test]
fn the_container_file_copies_what_cargo_needs_and_starts_a_home() {
    let file = instructions();
    let source = tempfile::tempdir().unwrap();
    for copy in of(&file, "COPY").into_iter().filter(|copy| !copy.starts_with("--from")) {
        let (sources, target) = copy.rsplit_once(' ').unwrap();
        for one in sources.split(' ') {
            let mut copying = Command::new("cp");
            run(copying.arg("-r").arg(root().join(one)).arg(source.path().join(target)));
        }
    }
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--locked", "--offline", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&run(metadata.current_dir(source.path()))).unwrap();
    let targets = metadata["packages"][0]["targets"].as_array().unwrap();
    for target in targets {
        let path = Path::new(target["src_path"].as_str().unwrap());
        assert!(path.is_file(), "the image lacks {}", path.display());
    }
    for needed in ["src", "registry", "schemas", "build.rs"] {
        assert!(source.path().join(needed).exists(), "the image lacks {needed}");
    }

    let build = of(&file, "RUN").concat();
    let licences = build.split(" && ").find(|step| step.contains("--licences")).unwrap();
    let (script, made) = licences.split_once(" --licences ").unwrap();
    let folder = format!("--from=build {} ", Path::new(made).parent().unwrap().display());
    let kept = of(&file, "COPY").into_iter().any(|copy| copy.starts_with(&folder));
    assert!(kept, "the image lacks the licences of the dependencies");
    if has_python() {
        let written = source.path().join("licences.txt");
        run(Command::new(source.path().join(script)).arg("--licences").arg(&written));
        assert!(fs::read_to_string(written).unwrap().contains("\nredb "));
    }

    let word_after = |option: &str| {
        build.split_once(&format!("{option} ")).unwrap().1.split(' ').next().unwrap().to_owned()
    };
    let (profile, program) = (word_after("--profile"), word_after("--bin"));
    assert!(manifest()["profile"].get(&profile).is_some(), "Cargo.toml has no profile {profile}");
    let built = format!("target/{profile}/{program}");
    assert!(build.contains(&format!("strip --strip-all {built}")), "{build}");
    let entry: Vec<String> = serde_json::from_str(of(&file, "ENTRYPOINT")[0]).unwrap();
    let workdir = of(&file, "WORKDIR")[0];
    let installed = format!("--from=build {workdir}/{built} {}", entry[0]);
    assert!(of(&file, "COPY").contains(&installed.as_str()), "the entry point is not the program");

    // The image has no shell and no variables but those of the file. Its home is empty at first.
    let (variable, home) = of(&file, "ENV")[0].split_once('=').unwrap();
    assert!(of(&file, "COPY").iter().any(|copy| copy.ends_with(home)), "nobody may write {home}");
    let volume = tempfile::tempdir().unwrap();
    let in_image = |arguments: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command.env_clear().env(variable, volume.path()).current_dir(volume.path());
        command.args(arguments);
        command
    };
    run(&mut in_image(&["init".to_owned()]));
    let serve: Vec<String> = serde_json::from_str(of(&file, "CMD")[0]).unwrap();
    let mut service = in_image(&serve).stderr(Stdio::null()).spawn().unwrap();
    let status = || in_image(&["status".to_owned(), "--json".to_owned()]).output().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let serving = || {
        let status = serde_json::from_slice::<Value>(&status().stdout).unwrap_or_default();
        status["session"]["command"] == "serve"
    };
    while !serving() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let last = status();
    let signal = of(&file, "STOPSIGNAL")[0];
    let signal: nix::sys::signal::Signal = signal.parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(service.id().cast_signed()), signal).unwrap();
    assert!(service.wait().unwrap().success(), "the service did not end in order: {last:?}");
}

/// docs/figures.md says how much a person types before the first summary. The program that counts it runs.
#[test]
fn the_first_summary_takes_one_command_and_took_six() {
    if !has_python() {
        return;
    }
    let typed = |steps: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(root().join("tests/tools/first_minute.py")).args(steps);
        run(command.arg("--program").arg(env!("CARGO_BIN_EXE_summarizer")))
    };
    assert!(typed(&[]).contains("1 command, 1 line;"));
    assert!(typed(&["--steps", "2026-11-22"]).contains("6 commands, 6 lines;"));
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
