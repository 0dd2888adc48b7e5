//! `import`: own data onto the upstream buses within a minute.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Context;
use super::failure::{Exit, Failure};
use super::forgotten_files::{ComeAgain, away};
use super::held_home::{importing, is_home, no_home};
use super::interrupt::{listen, stopped};
use super::settings::load_config;
use super::source_files::{folder_for_home, name_for_home, name_not_read};
use crate::config::Config;
use crate::contract::places::folder_of;
use crate::home::Home;
use crate::import::collect::{NamedFile, PART_OF_EXPORT, is_part_of_export, known_kind};
use crate::import::intake::{Intake, Settings};
use crate::import::kind::FileKind;
use crate::import::read::{Readers, holds_projects};
use crate::import::{
    self, FoundFiles, HIDDEN_END, ImportError, LINK_END, LeftOut, Others, Report, Target,
    documents, fields, mail,
};
use crate::os::InPlace;

/// Ends of the names of files with records.
const JSON_ENDS: [&str; 3] = ["jsonl", "json", "ndjson"];
const REJECTED_SHOWN: usize = 10;

/// Put your own data on the upstream buses: chats, mail, feeds, JSON lines, folders of text
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    what: ImportKind,
}

#[derive(Debug, Subcommand)]
enum ImportKind {
    /// Put chat messages on the event bus, and their conversations as sessions on the session bus
    ///
    /// It reads the exports of ChatGPT, Claude, Telegram, Slack, Discord and Messenger, and messages as JSON: one object
    /// on each line, or a list. A message has its words in `content` or `text`, its time in `timestamp_ms`, `timestamp`, `ts_abs_ms`, `ts_abs`,
    /// `create_time`, `created_at`, `sent_at`, `date` or `time`, and may have `id`, `role`, `author`, `title` and
    /// `conversation_id`. For other names use `import jsonl`.
    ChatExport {
        /// A file, the .zip of an export, or a folder of .jsonl and .json files
        path: PathBuf,
    },
    /// Put a folder of texts (.md, .txt, .rst, .html, .tex) on the chunk bus
    Text {
        /// The folder, or one file
        path: PathBuf,
        /// The chunk partition to append to [default: the folder's name]
        #[arg(long, value_name = "NAME")]
        partition: Option<String>,
    },
    /// Put mail (.mbox or .eml) on the event bus
    Mail {
        /// A file, or a folder of them
        path: PathBuf,
    },
    /// Put feed items in JSON on the event bus
    RssJson {
        /// A file, or a folder of .json and .jsonl files
        path: PathBuf,
    },
    /// Put JSON lines of any form on the event bus; options name the fields
    Jsonl(JsonlArgs),
}

impl ImportKind {
    fn path(&self) -> &Path {
        match self {
            ImportKind::ChatExport { path }
            | ImportKind::Text { path, .. }
            | ImportKind::Mail { path }
            | ImportKind::RssJson { path }
            | ImportKind::Jsonl(JsonlArgs { path, .. }) => path,
        }
    }
}

/// The names of the fields. A name may be a dotted path; of several names, separated by commas, the first one
/// that a line has counts.
#[derive(Debug, Args)]
struct JsonlArgs {
    /// A file, or a folder of .jsonl and .json files
    path: PathBuf,
    /// Field with the time: milliseconds, seconds, ISO 8601 or RFC 2822. A time without an offset is on the
    /// clock of the home
    #[arg(long, value_name = "FIELD", value_delimiter = ',', required = true)]
    time: Vec<String>,
    /// Field with the text
    #[arg(long, value_name = "FIELD", value_delimiter = ',', required = true)]
    text: Vec<String>,
    /// Field with the id [default: derived from the content]
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    id: Vec<String>,
    /// Field with the title
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    title: Vec<String>,
    /// Field with the role
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    role: Vec<String>,
    /// Field with the conversation; messages of one conversation become a session
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    conversation: Vec<String>,
    /// The name of the source in the provenance
    #[arg(long, value_name = "NAME", default_value = "jsonl")]
    source: String,
    /// event_kind/event_subkind of every record [default: chat turns by role]
    #[arg(long, value_name = "KIND/SUBKIND")]
    kind: Option<String>,
    /// The texts are HTML
    #[arg(long)]
    html: bool,
}

impl ImportArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let config = load_config(context)?;
        let root = context.home.join(&config.bus_home);
        // In a folder that a person names, a link may have taken the place of a file since it was found.
        let disk = context.machine.disk.as_ref();
        let is_dir = |path: &&Path| disk.stat(path).is_ok_and(|at| at.is_some_and(|at| at.is_dir));
        let folder = Some(self.what.path()).filter(is_dir);
        let below = InPlace(disk, folder);
        let target = Target {
            disk: if folder.is_some() { &below } else { disk },
            root: &root,
            zone: config.timezone,
            now: context.machine.clock.now(),
        };
        let mut report = Report::default();
        let stop = listen(context, "the file under way ends first", || ())?;
        if !is_home(context)? {
            return Err(no_home(context, "make one there with `summarizer init`"));
        }
        let _importing = importing(context, &Home::new(&context.home, &config))?;
        let home = Home::new(&context.home, &config);
        let away = away(context, &home, target).map_err(|error| failure(&error))?;
        let outcome = match &self.what {
            ImportKind::ChatExport { path } => chats(context, &config, target, path, &mut report),
            ImportKind::RssJson { path } => {
                by_fields(context, target, path, &fields::Mapping::feed(), &mut report)
            }
            ImportKind::Jsonl(args) if !args.conversation.is_empty() => {
                let mapping = args.mapping();
                sessions(
                    context,
                    &config,
                    target,
                    &args.path,
                    &mut report,
                    |intake, file, report| {
                        let folder = folder_for_home(target.disk, &context.home, file);
                        intake.take_messages((file, folder.as_deref()), &mapping, report)
                    },
                )
            }
            ImportKind::Jsonl(args) => {
                by_fields(context, target, &args.path, &args.mapping(), &mut report)
            }
            ImportKind::Text { path, partition } => {
                let folder = path.file_name().unwrap_or_default().to_string_lossy();
                let name = match partition {
                    Some(name) => name.clone(),
                    None => import::partition_of_folder(&folder),
                };
                check_partition(&name)?;
                let bar = context.ui.progress("reading", 0);
                let name_of = |file: &Path| name_for_home(target.disk, &context.home, file);
                let placing = documents::Placing {
                    partition: &name,
                    is_chosen: partition.is_some(),
                    name_of: &name_of,
                };
                documents::import_folder(target, path, &placing, &mut report, || {
                    bar.inc_length(1);
                    bar.inc(1);
                    !stop.is_raised()
                })
            }
            ImportKind::Mail { path } => {
                let readers = Readers { pdf: config.extract_pdf.clone() };
                each(context, target, path, &["eml", "mbox"], |file| {
                    let folder = folder_for_home(target.disk, &context.home, file);
                    mail::import_file(target, &readers, (file, folder.as_deref()), &mut report)
                })
                .map(|others| report.tell_of(others))
            }
        };
        outcome.map_err(|error| failure(&error))?;
        let come_again = ComeAgain::after(target, away, |_| false);
        let come_again = come_again.map_err(|error| failure(&error))?;
        let exit = show(context, &report);
        if !context.ui.json {
            come_again.talk(context.ui);
        }
        match stop.is_raised() {
            true => Err(stopped(
                "the files that were read are imported, and the others are not",
                "run the same command again: imported data is not added twice",
            )),
            false => Ok(exit),
        }
    }
}

impl JsonlArgs {
    fn mapping(&self) -> fields::Mapping {
        let kind = self.kind.as_deref().map(|kind| match kind.split_once('/') {
            Some((kind, subkind)) => (kind.to_owned(), subkind.to_owned()),
            None => (kind.to_owned(), "other".to_owned()),
        });
        fields::Mapping {
            source_system: self.source.clone(),
            id: self.id.clone(),
            address: Vec::new(),
            time: self.time.clone(),
            text: self.text.clone(),
            title: self.title.clone(),
            role: self.role.clone(),
            conversation: self.conversation.clone(),
            kind,
            html: self.html,
            otherwise: fields::Otherwise::Nothing,
        }
    }
}

fn by_fields(
    context: &Context,
    target: Target<'_>,
    path: &Path,
    mapping: &fields::Mapping,
    report: &mut Report,
) -> Result<(), ImportError> {
    each(context, target, path, &JSON_ENDS, |file| {
        let folder = folder_for_home(target.disk, &context.home, file);
        fields::import_file(target, mapping, (file, folder.as_deref()), report)
    })
    .map(|others| report.tell_of(others))
}

/// Exports of chats, each by its own reader; other files hold messages.
fn chats(
    context: &Context,
    config: &Config,
    target: Target<'_>,
    path: &Path,
    report: &mut Report,
) -> Result<(), ImportError> {
    let mapping = fields::Mapping::chat_export();
    sessions(context, config, target, path, report, |intake, file, report| {
        let has_reader = match known_kind(target.disk, file) {
            Some(
                kind @ (FileKind::ChatGpt
                | FileKind::Claude
                | FileKind::ChatArchive
                | FileKind::ChatText
                | FileKind::ChatJson),
            ) => Some(kind),
            // Beside its conversations an export of Claude has the documents of projects.
            Some(kind @ FileKind::Json) => {
                target.disk.read(file).is_ok_and(|bytes| holds_projects(&bytes)).then_some(kind)
            }
            _ => None,
        };
        let name = name_for_home(target.disk, &context.home, file);
        if file != path && is_part_of_export(target.disk, file) {
            let why = PART_OF_EXPORT.to_owned();
            report.leave_out(&name, 1, LeftOut::Entry { name: name.clone(), why });
            return Ok(());
        }
        let Some(kind) = has_reader else {
            return intake.take_messages((file, folder_of(&name)), &mapping, report);
        };
        intake.take(&NamedFile { path: file.to_owned(), in_folder: None, name, kind }, report)
    })
}

/// Messages, and the sessions of their conversations.
fn sessions(
    context: &Context,
    config: &Config,
    target: Target<'_>,
    path: &Path,
    report: &mut Report,
    mut take: impl FnMut(&mut Intake<'_>, &Path, &mut Report) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let settings =
        Settings { gap_ms: config.session_gap_ms, only_chats: true, ..Settings::default() };
    let mut intake = Intake::new(target, settings);
    let others = each(context, target, path, &JSON_ENDS, |file| take(&mut intake, file, report))?;
    intake.finish(report)?;
    report.tell_of(others);
    Ok(())
}

/// Imports each file with one of the ends. Gives back what lies beside them.
fn each(
    context: &Context,
    target: Target<'_>,
    path: &Path,
    extensions: &[&str],
    mut import: impl FnMut(&Path) -> Result<(), ImportError>,
) -> Result<Others, ImportError> {
    let FoundFiles { files, others } = import::files(target.disk, path, extensions)?;
    let bar = context.ui.progress("importing", files.len() as u64);
    for file in files.iter().take_while(|_| !context.stop.is_raised()) {
        import(file)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(others)
}

/// The folder's name in the letters partition names may have.
fn check_partition(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && !name.starts_with('.') && name.len() <= 120 && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{name}` cannot name a partition"))
        .hint("use letters, digits, `-`, `_` and `.`"))
}

fn failure(error: &ImportError) -> Failure {
    let failure = Failure::new(Exit::Input, "cannot import").because(error);
    match error {
        ImportError::Foreign { .. } => {
            failure.hint("an import appends only to partitions that an import made")
        }
        ImportError::Nothing { passed_over, .. } if !passed_over.is_empty() => {
            let all = by_ending(passed_over);
            failure.hint(format!("it passed over {all}; `summarizer add` reads more kinds"))
        }
        ImportError::Nothing { .. } => failure.hint("the folder holds no files"),
        _ => failure,
    }
}

/// Files counted by the end of their names.
fn by_ending(counts: &BTreeMap<String, u64>) -> String {
    let shown = |(end, count): (&String, &u64)| match end.is_empty() {
        true => format!("{count} without an ending"),
        false if end == HIDDEN_END => format!("{count} hidden"),
        false if end == LINK_END && *count == 1 => "1 link".to_owned(),
        false if end == LINK_END => format!("{count} links"),
        false => format!("{count} .{end}"),
    };
    counts.iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn show(context: &Context, report: &Report) -> Exit {
    if context.ui.json {
        context.ui.json(report);
    } else {
        for partition in &report.partitions {
            context.ui.out(partition);
        }
        let (added, known) = (report.added, report.known);
        let files = match report.files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        context.ui.talk(format!("{files}: {added} added, {known} known already"));
        let told = [
            report.repeated_ids(),
            report.kept_texts(),
            report.kept_projects(),
            report.one_cells(),
        ];
        told.into_iter().flatten().for_each(|told| context.ui.talk(told));
        if !report.passed_over.is_empty() {
            let all = by_ending(&report.passed_over);
            context.ui.talk(format!("passed over: {all} (`summarizer add` reads more kinds)"));
        }
        if added > 0 {
            let next = "next: `summarizer submit --all-new` requests summaries of the new data";
            context.ui.talk(super::ui::dim(next));
        }
        for one in report.rejected.iter().take(REJECTED_SHOWN) {
            context.ui.complain(format!("{}:{}: left out: {}", one.file, one.number, one.why));
        }
        name_not_read(context.ui, &report.not_read, report.not_read_omitted);
        let listed = report.rejected.len() as u64;
        let more = (listed + report.rejected_omitted).saturating_sub(REJECTED_SHOWN as u64);
        if more > 0 {
            context.ui.complain(format!("and {more} more; `--json` lists the first {listed}"));
        }
    }
    if report.faults == 0 { Exit::Done } else { Exit::Wrong }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test needs no durable file")]
mod tests {
    use super::*;

    #[test]
    fn an_import_waits_for_other_imports_into_the_same_home() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f.jsonl");
        let row = r#"{"id": "1", "timestamp": "2026-02-11T10:00:00Z", "text": "The pump."}"#;
        std::fs::write(&file, row).unwrap();
        let context = Context::of_test(dir.path());
        let import =
            || ImportArgs { what: ImportKind::ChatExport { path: file.clone() } }.run(&context);
        let refused = import().unwrap_err().in_short();
        assert!(refused.contains("is not a summarizer home"), "{refused}");
        let run = dir.path().join("run");
        std::fs::create_dir_all(&run).unwrap();
        assert_eq!(import().unwrap(), Exit::Done);
        // The lock cannot be taken: then nothing is imported.
        let lock = run.join("import.lock");
        let _ = std::fs::remove_file(&lock);
        std::fs::create_dir_all(&lock).unwrap();
        let error = import().unwrap_err().in_short();
        assert!(error.contains("cannot lock the home for an import"), "{error}");
    }

    #[test]
    fn partitions_get_plain_names() {
        assert_eq!(import::partition_of_folder("My Notes (2026)"), "my-notes--2026");
        assert_eq!(import::partition_of_folder(".."), "imported");
        assert!(check_partition("../x").is_err());
        assert!(check_partition("notes.2026_a-b").is_ok());
    }
}
