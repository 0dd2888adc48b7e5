//! The Python client, tested by its own tests against a running service.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::path::Path;
use std::process::Command;

use support::process::{ProcessHome, Ran, Running};
use support::requests::ACTIVE;
use support::running::has_python;

#[test]
fn the_client_submits_waits_reads_and_verifies() {
    if !has_python() {
        return;
    }
    let home = ProcessHome::new();
    std::fs::write(home.path("summarizer.toml"), "[export]\nmin_interval = \"50 ms\"\n").unwrap();
    let service = Running::start(&home, &["serve", "--quiet"]);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    let mut tests = Command::new("python3");
    tests
        .args(["-W", "error", "-m", "unittest", "-q", "test_client"])
        .current_dir(client.join("tests"))
        .env("PYTHONPATH", &client)
        .env("SUMMARIZER_HOME", home.root())
        .env("SUMMARIZER_TEST_FLOW", ACTIVE)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::of(tests.output().unwrap());
    assert_eq!(ran.exit, Some(0), "{}\n{}", ran.out, ran.err);
    assert_eq!(service.terminate(), Some(0));
    home.expect(0, &["verify"]);
    home.expect(0, &["replay", "--verify"]);
}

/// Builds what pip installs, installs it without the sources beside it, and runs the example and the checks of types.
/// `SUMMARIZER_TEST_PYTHON` names a Python with setuptools, pytest and mypy.
#[test]
fn the_package_installs_with_its_licences_and_types_and_its_example_passes() {
    let Some(python) = std::env::var_os("SUMMARIZER_TEST_PYTHON") else {
        eprintln!("SUMMARIZER_TEST_PYTHON is not set, so no Python package is built");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let client = dir.path().join("client");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // A build writes beside the sources, so it gets a copy of them: the files, not the links to them.
    let copied =
        Command::new("cp").arg("-rL").arg(root.join("clients/python")).arg(&client).status();
    assert!(copied.unwrap().success());
    let site = dir.path().join("site");
    let run = |folder: &Path, args: &[&str]| {
        let mut command = Command::new(&python);
        command.args(args).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
        let binary = Path::new(env!("CARGO_BIN_EXE_summarizer")).parent().unwrap().to_owned();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(binary).chain(std::env::split_paths(&paths));
        command.env("PATH", std::env::join_paths(paths).unwrap()).env_remove("SUMMARIZER_HOME");
        let ran = Ran::of(command.env("PYTHONPATH", &site).output().unwrap());
        assert_eq!(ran.exit, Some(0), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran.out
    };
    let build = "import os, setuptools.build_meta as b; os.makedirs('../dist'); \
                 b.build_sdist('../dist'); b.build_wheel('../dist')";
    run(&client, &["-W", "error", "-c", build]);
    let names = "import glob, tarfile, zipfile; \
                 print(tarfile.open(glob.glob('dist/*.tar.gz')[0]).getnames()); \
                 print(zipfile.ZipFile(glob.glob('dist/*.whl')[0]).namelist())";
    let names = run(dir.path(), &["-c", names]);
    let (sources, wheel) = names.trim().split_once('\n').unwrap();
    for file in ["LICENSE-MIT", "LICENSE-APACHE", "summarizer_client/py.typed"] {
        assert!(sources.contains(file) && wheel.contains(file), "{file} is missing\n{wheel}");
    }
    for file in ["examples/test_notes.py", "tests/test_client.py"] {
        assert!(sources.contains(file) && !wheel.contains(file), "{file}\n{sources}\n{wheel}");
    }

    let install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"];
    let file = "import glob; print(*glob.glob('dist/*.whl'))";
    let file = run(dir.path(), &["-c", file]);
    run(dir.path(), &[&install[..], &[site.to_str().unwrap(), file.trim()]].concat());
    std::fs::remove_dir_all(client.join("summarizer_client")).unwrap();
    run(&client, &["-m", "pytest", "-q", "-p", "no:cacheprovider", "examples"]);
    run(&client, &["-m", "mypy", "--strict", "examples", "tests"]);
    let package = site.join("summarizer_client");
    run(&client, &["-m", "mypy", "--strict", package.to_str().unwrap()]);
}
