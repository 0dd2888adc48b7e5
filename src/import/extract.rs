//! Text of files that another program reads, such as `pdftotext` for PDF.
//!
//! The configuration names the program: `[extract] pdf = ["pdftotext", "-layout", "{}", "-"]`. It runs
//! without a shell, with a time limit and bounded output; `{}` stands for the path of a private copy of the
//! file, so that it reads the bytes that were looked at and no other file that took their place.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::os::jail::Jail;
use crate::os::process::{self, ProcessError, Program};

/// Longest time for one file.
const TIME_MAX: Duration = Duration::from_secs(120);
/// Most text of one file.
const TEXT_BYTES_MAX: usize = 64 << 20;
/// A page that holds only pictures still gives form feeds and blanks.
const LETTERS_MIN: usize = 8;

/// The program that is used when the settings name no other. A program that a person chose may need any
/// file, so only this one is jailed.
const PDF_READER: &str = "pdftotext";
/// A line of less than this share of the widest one ends early.
const LINE_PERCENT_MIN: usize = 60;
/// Most memory it may take.
const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// It reads the file and changes nothing.
fn jail(file: &str) -> Jail {
    Jail {
        read: vec![file.into()],
        write: Vec::new(),
        network: false,
        memory_bytes_max: MEMORY_BYTES_MAX,
        cpu_seconds_max: TIME_MAX.as_secs(),
    }
}

/// The text of a PDF file.
pub(super) fn pdf(command: &[String], bytes: &[u8]) -> Result<String, String> {
    let read = process::in_private_file(bytes, ".pdf", |file| read_by(command, file));
    read.map_err(|error| format!("it cannot be given to a program: {error}"))?
}

fn read_by(command: &[String], file: &Path) -> Result<String, String> {
    let Some((program, args)) = command.split_first() else {
        return Err("extract.pdf names no program".to_owned());
    };
    let path = file.to_string_lossy();
    let args = args.iter().map(|arg| OsString::from(arg.replace("{}", &path))).collect();
    let program = Program {
        variables: Vec::new(),
        dies_with_us: true,
        program: program.into(),
        args,
        folder: None,
        environment: Vec::new(),
        stdout_bytes_max: TEXT_BYTES_MAX,
        timeout: TIME_MAX,
        jail: (*program == *PDF_READER).then(|| jail(&path)),
    };
    let finished = process::run(&program, b"").map_err(|error| match error {
        ProcessError::Start { ref source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            format!("needs {}", needed(&command[0]))
        }
        error => error.to_string(),
    })?;
    if finished.code != Some(0) {
        let said = finished.stderr.lines().next().unwrap_or_default().trim();
        return Err(format!("{} cannot read it: {said}", command[0]));
    }
    let text = String::from_utf8_lossy(&finished.stdout).replace('\u{c}', "\n\n");
    match text.chars().filter(|c| c.is_alphanumeric()).count() < LETTERS_MIN {
        true => Err("it has pictures but no text".to_owned()),
        false => Ok(joined_lines(&text)),
    }
}

fn needed(program: &str) -> String {
    match program {
        "pdftotext" => "pdftotext: install poppler-utils (apt) or poppler (brew, dnf)".to_owned(),
        other => format!("{other}, which extract.pdf of summarizer.toml names"),
    }
}

/// Paragraphs again: lines end where the page ends, and words are split by hyphens there. A line that ends
/// early before one that begins anew is a heading, a row or a line of an address, and stays apart.
fn joined_lines(text: &str) -> String {
    let chars =
        |line: &str| line.split_whitespace().map(|word| word.chars().count() + 1).sum::<usize>();
    let widest: usize = text.lines().map(chars).max().unwrap_or(0);
    let ends_early = |line: &str| chars(line) * 100 < widest * LINE_PERCENT_MIN;
    let begins_anew = |line: &str| !line.starts_with(char::is_lowercase);
    let mut out = String::new();
    for paragraph in text.split("\n\n") {
        let mut joined = String::new();
        let mut before = "";
        for line in paragraph.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !joined.is_empty() && ends_early(before) && begins_anew(line) {
                out.push_str(&std::mem::take(&mut joined));
                out.push_str("\n\n");
            }
            before = line;
            let splits_word = joined.ends_with('-')
                && joined.chars().rev().nth(1).is_some_and(char::is_lowercase)
                && line.chars().next().is_some_and(char::is_lowercase);
            match splits_word {
                true => drop(joined.pop()),
                false if joined.is_empty() => {}
                false => joined.push(' '),
            }
            joined.push_str(line);
        }
        if !joined.is_empty() {
            out.push_str(&joined);
            out.push_str("\n\n");
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_page_become_paragraphs() {
        let page = "  The gar-\nden needs\nwater.\n\nA well-\nKnown fact.\n\n\n 2 \n";
        assert_eq!(joined_lines(page), "The garden needs water.\n\nA well- Known fact.\n\n2");
        let policy = "Home insurance 2026\nThe yearly premium rises to 236 EUR on 1 April, and\nYou pay it \
                      at once.\nExcess\n200 EUR";
        assert_eq!(
            joined_lines(policy),
            "Home insurance 2026\n\nThe yearly premium rises to 236 EUR on 1 April, and You pay it at \
             once.\n\nExcess\n\n200 EUR"
        );
    }

    #[test]
    fn the_program_gets_the_path_and_its_failures_are_told() {
        let run = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            read_by(&command, Path::new("/tmp/-x.pdf"))
        };
        assert_eq!(run(&["echo", "the text of {}"]).unwrap(), "the text of /tmp/-x.pdf");
        assert!(run(&["no-such-program-here"]).unwrap_err().contains("no-such-program-here"));
        assert!(run(&["sh", "-c", "echo broken >&2; exit 3"]).unwrap_err().contains("broken"));
        assert!(run(&["true"]).unwrap_err().contains("pictures"));
        assert!(run(&[]).is_err());
    }
}
