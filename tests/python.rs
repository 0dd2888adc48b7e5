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

/// The example for pytest makes its own homes. It runs where pytest is installed.
#[test]
fn the_example_for_pytest_passes() {
    let pytest = |args: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pytest"]).args(args).env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python"));
        let binary = Path::new(env!("CARGO_BIN_EXE_summarizer")).parent().unwrap().to_owned();
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let paths = std::iter::once(binary).chain(std::env::split_paths(&paths));
        command.env("PATH", std::env::join_paths(paths).unwrap()).env_remove("SUMMARIZER_HOME");
        command.env("PYTHONPATH", ".");
        command.output().unwrap()
    };
    if !has_python() || !pytest(&["--version"]).status.success() {
        return;
    }
    let ran = Ran::of(pytest(&["-q", "-p", "no:cacheprovider", "examples"]));
    assert_eq!(ran.exit, Some(0), "{}\n{}", ran.out, ran.err);
}
