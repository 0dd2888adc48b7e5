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
        .args(["-W", "error", "-m", "unittest", "-q", "test_summarizer"])
        .current_dir(&client)
        .env("SUMMARIZER_HOME", home.root())
        .env("SUMMARIZER_TEST_FLOW", ACTIVE)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::of(tests.output().unwrap());
    assert_eq!(ran.exit, Some(0), "{}\n{}", ran.out, ran.err);
    assert_eq!(service.terminate(), Some(0));
    home.expect(0, &["verify"]);
    home.expect(0, &["replay", "--verify"]);
}
