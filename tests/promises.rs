//! The pages about safety keep to what is true: each promise names a test that exists, and each advisory
//! that is let through has a reason and a date.
#![allow(clippy::unwrap_used, reason = "a test stops at a surprise")]

use std::collections::BTreeSet;
use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The rows of the table of promises: the promise, and the tests that show it.
fn promises() -> Vec<(String, Vec<String>)> {
    let page = text("docs/security.md");
    let (_, table) = page.split_once("## Promises and their tests").unwrap();
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let read = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let tests = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (cells[0].to_owned(), tests)
    };
    rows.map(read).collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let promises = promises();
    assert!(promises.len() >= 20, "{} promises", promises.len());
    for (promise, tests) in promises {
        assert!(!tests.is_empty(), "{promise}: no test");
        for test in tests {
            let (file, name) = test.split_once(' ').unwrap_or_else(|| panic!("{promise}: {test}"));
            let source = text(file);
            let (before, _) = source
                .split_once(&format!("fn {name}()"))
                .unwrap_or_else(|| panic!("{promise}: {file} has no test {name}"));
            let marked = before.trim_end().ends_with("#[test]");
            assert!(marked, "{test} is no test");
        }
    }
}

#[test]
fn each_promise_is_listed_once() {
    let promises: Vec<String> = promises().into_iter().map(|(promise, _)| promise).collect();
    assert_eq!(promises.iter().collect::<BTreeSet<_>>().len(), promises.len());
}

#[test]
fn every_advisory_that_is_let_through_has_a_reason_and_a_date() {
    let settings: toml::Table = text("deny.toml").parse().unwrap();
    let ignored = settings["advisories"]["ignore"].as_array().unwrap();
    for one in ignored {
        let id = one["id"].as_str().unwrap_or_else(|| panic!("{one} has no id"));
        let reason = one["reason"].as_str().unwrap_or_else(|| panic!("{id} has no reason"));
        let (date, why) = reason.split_once(": ").unwrap_or_else(|| panic!("{id}: no date"));
        let date = chrono::NaiveDate::parse_from_str(date, "%Y-%m-%d");
        assert!(date.is_ok() && why.len() > 40, "{id}: {reason}");
    }
    // An advisory that is not listed fails the checks wherever the database is there.
    let checks = text(".ci/run");
    let (_, audit) = checks.split_once("section \"dependency audit\"").unwrap();
    assert!(
        audit.contains("cargo deny --offline check advisories\n"),
        "advisories fail the checks"
    );
}
