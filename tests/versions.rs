//! A person edits, hides, removes and renames files: which summary is the current one, and what every
//! command shows of the others.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "the test writes files as the person would")]
#![allow(dead_code, reason = "helpers")]

mod support;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::running::{Running, test_now, until};

struct Person(tempfile::TempDir);

struct Ran {
    out: String,
    err: String,
}

impl Person {
    /// A person with a home and no file.
    fn new() -> Person {
        let person = Person(tempfile::tempdir().unwrap());
        person.run(0, &["init", "home"]);
        person
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_summarizer"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("nobody"))
            .env("SUMMARIZER_TEST_NOW", test_now())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, exit: i32, args: &[&str]) -> Ran {
        let args = match args[0] {
            "init" => vec!["--home", args[1], "init"],
            _ => [&["--home", "home"], args].concat(),
        };
        let output = self.command(&args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ran = Ran { out: text(&output.stdout), err: text(&output.stderr) };
        assert_eq!(output.status.code(), Some(exit), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.run(0, &[&["--json"], args].concat());
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A service that runs until the end of the test.
    fn service(&self) -> Running {
        let mut command = self.command(&["--home", "home", "serve"]);
        let service = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        until("the service answers", || {
            let mut status = self.command(&["--home", "home", "--json", "status"]);
            let told = status.output().unwrap().stdout;
            serde_json::from_slice::<Value>(&told).is_ok_and(|told| told["session"].is_object())
        });
        service
    }
}

fn says(text: &str, words: &[&str]) {
    words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in\n{text}"));
}

const PLAN: &str = "# Garden plan\n\nWe plant tomatoes in April. The budget is 40 EUR.\n";

#[test]
fn what_add_made_beside_a_service_can_be_read_and_digested_at_once() {
    let person = Person::new();
    let service = person.service();
    for round in 0..3 {
        let budget = format!("The budget is {} EUR.", 40 + round);
        person.write("notes/plan.md", &PLAN.replace("The budget is 40 EUR.", &budget));
        let added = person.run(0, &["add", "notes"]);
        says(&added.out, &["notes/plan.md", &budget]);
        says(&person.run(0, &["read", "plan.md"]).out, &[&budget]);
        says(&person.run(0, &["digest", "build"]).out, &["published"]);
    }
    assert_eq!(service.terminate(), Some(0));
}

fn mail(id: &str, subject: &str, text: &str) -> String {
    format!(
        "Message-ID: <{id}@example.org>\nFrom: Ana <ana@example.org>\nSubject: {subject}\n\
         Date: Wed, 11 Feb 2026 10:00:00 +0000\n\n{text}\n"
    )
}

#[test]
fn a_name_that_fits_several_sources_lists_them_and_an_exact_name_wins() {
    let person = Person::new();
    person.write("mail/1.eml", &mail("1", "Offer", "The roof costs 900 EUR without tax."));
    person.write("mail/2.eml", &mail("2", "Offer for the kitchen", "It costs 300 EUR."));
    person.run(0, &["add", "mail"]);
    says(&person.run(0, &["show", "Offer"]).out, &["The roof costs 900 EUR"]);
    says(&person.run(0, &["explain", "offer"]).out, &["The roof costs 900 EUR"]);
    let several = person.run(5, &["explain", "ffer"]).err;
    says(&several, &["ffer names several sources", "Offer for the kitchen", "sum_"]);
    person.write("mail/3.eml", &mail("3", "Offer", "The cellar costs 500 EUR without tax."));
    person.run(0, &["add", "mail"]);
    let several = person.run(5, &["show", "Offer"]).err;
    says(&several, &["Offer names several sources", "give the id of one"]);
    assert_eq!(several.matches("sum_").count(), 2, "{several}");
}
