//! The Python client, tested by its own tests against a running service.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::path::Path;
use std::process::Command;

use support::process::{ProcessHome, Ran};
use support::requests::ACTIVE;

#[test]
fn the_client_submits_waits_reads_and_verifies() {
    let mut version = Command::new("python3");
    version.args(["-c", "import sys; print(sys.version_info >= (3, 9))"]);
    if !version.output().is_ok_and(|told| told.stdout.starts_with(b"True")) {
        use std::io::Write as _;
        let told = "LEFT OUT: there is no python3 (3.9 or newer): clients/python is not tested";
        let _ = writeln!(std::io::stderr().lock(), "!! {told}");
        return;
    }
    let home = ProcessHome::new();
    std::fs::write(home.path("summarizer.toml"), "[export]\nmin_interval = \"50 ms\"\n").unwrap();
    let mut service = home.command(&["serve", "--quiet"]).spawn().unwrap();
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python");
    let mut tests = Command::new("python3");
    tests
        .args(["-W", "error", "-m", "unittest", "-q", "test_summarizer"])
        .current_dir(&client)
        .env("SUMMARIZER_HOME", home.root())
        .env("SUMMARIZER_TEST_FLOW", ACTIVE)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = Ran::of(tests.output().unwrap());
    let stopped = Command::new("kill").arg(service.id().to_string()).status().unwrap();
    assert!(stopped.success() && service.wait().unwrap().success());
    assert_eq!(ran.exit, Some(0), "{}\n{}", ran.out, ran.err);
    home.expect(0, &["verify"]);
    home.expect(0, &["replay", "--verify"]);
}
