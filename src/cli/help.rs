//! The help of the program: its commands in groups, and an example for each.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _};

use super::failure::{Exit, Failure};
use super::{Cli, names, plain, ui};
use crate::contract::shown::named;

/// The greatest width of the list of commands.
const COLUMNS: usize = 80;

/// The commands in the groups of `docs/commands.md`.
const GROUPS: &[(&str, &[&str])] = &[
    ("Read your texts", &["sum", "add", "read", "search", "open"]),
    ("Start", &["demo", "init", "doctor", "config", "schema", "completions", "man"]),
    ("Run", &["serve", "drain", "watch", "pause", "resume", "reload", "retry", "cancel", "queue"]),
    ("Ask", &["submit", "quarantine"]),
    ("Look", &["status", "requests", "show", "explain", "trace", "log"]),
    ("Prove", &["verify", "replay", "export"]),
    ("Keep", &["backup", "recover", "retain", "forget", "service"]),
    #[cfg(feature = "cluster")]
    ("Several hosts", &["cluster"]),
    ("Data and digests", &["import", "select", "day", "digest", "task"]),
    ("Flows", &["registry", "flow"]),
    ("Research and agents", &["compact", "tune", "perspectives", "wave", "pack"]),
];

/// An example for each command that has none in its definition. Tests parse every line.
const EXAMPLES: &[(&str, &str)] = &[
    ("demo", "summarizer demo my-demo"),
    ("init", "summarizer --home my-home init"),
    ("serve", "summarizer --home my-home serve"),
    ("drain", "summarizer drain --fail-on-error"),
    ("status", "summarizer status --watch"),
    ("requests", "summarizer requests --state failed_permanent --since 7d"),
    ("show", "summarizer show bike-repair.md"),
    ("explain", "summarizer explain bike-repair.md --verify"),
    ("retry", "summarizer retry note-1"),
    ("cancel", "summarizer cancel note-1"),
    ("pause", "summarizer pause"),
    ("resume", "summarizer resume"),
    ("reload", "summarizer reload"),
    ("import chat-export", "summarizer import chat-export chats"),
    ("import text", "summarizer import text notes --partition notes"),
    ("import mail", "summarizer import mail inbox.mbox"),
    ("import rss-json", "summarizer import rss-json feed.json"),
    ("import jsonl", "summarizer import jsonl log.jsonl --time at --text message"),
    ("select", "summarizer select --bus event_bus --day 2026-02-11"),
    ("names", "summarizer names flows"),
    ("digest build", "summarizer digest build"),
    ("digest list", "summarizer digest list --selector overview.daily"),
    ("digest preview", "summarizer digest preview --selector overview.daily"),
    ("digest diff", "summarizer digest diff bag_1 bag_2"),
    ("digest gc", "summarizer digest gc --dry-run"),
    ("verify", "summarizer verify"),
    ("trace", "summarizer trace bike-repair.md"),
    ("day open", "summarizer day open 2026-02-11"),
    ("quarantine list", "summarizer quarantine list"),
    ("quarantine show", "summarizer quarantine show 12"),
    ("quarantine release", "summarizer quarantine release 12 corrected.json"),
    ("task list", "summarizer task list --all"),
    ("task done", "summarizer task done task_3f62"),
    ("task reopen", "summarizer task reopen task_3f62"),
    ("watch add", "summarizer watch add ~/notes --project garden"),
    ("watch list", "summarizer watch list"),
    ("watch remove", "summarizer watch remove ~/notes"),
    ("queue adopt", "summarizer queue adopt --dry-run"),
    ("log dump", "summarizer log dump"),
    ("log stats", "summarizer log stats"),
    ("log verify", "summarizer log verify"),
    ("log archive", "summarizer log archive --before 100000"),
    ("replay", "summarizer replay --verify"),
    ("export", "summarizer export --to copy"),
    ("doctor", "summarizer doctor --deep"),
    ("backup", "summarizer backup copy-of-my-home"),
    ("retain", "summarizer retain --dry-run"),
    ("service install", "summarizer service install --user --print"),
    ("service uninstall", "summarizer service uninstall --user"),
    #[cfg(feature = "cluster")]
    ("cluster init", "summarizer cluster init --role app"),
    #[cfg(feature = "cluster")]
    ("cluster join", "summarizer --home my-home cluster join"),
    #[cfg(feature = "cluster")]
    ("cluster status", "summarizer cluster status"),
    #[cfg(feature = "cluster")]
    ("cluster promote", "summarizer cluster promote host-b"),
    #[cfg(feature = "cluster")]
    ("cluster verify", "summarizer cluster verify"),
    #[cfg(feature = "cluster")]
    ("cluster trim", "summarizer cluster trim copy-of-my-home"),
    #[cfg(feature = "cluster")]
    ("cluster leave", "summarizer cluster leave host-b"),
    ("recover", "summarizer recover"),
    ("config", "summarizer config --defaults"),
    ("registry list", "summarizer registry list"),
    ("registry show", "summarizer registry show docs.chunk_set.summarize.brief.v1"),
    ("registry check", "summarizer registry check"),
    ("registry hash", "summarizer registry hash docs.chunk_set.summarize.brief.v1"),
    ("registry add", "summarizer registry add my-pack"),
    ("registry seal", "summarizer registry seal docs.chunk_set.summarize.brief.v1"),
    ("flow run", "summarizer flow run brief --input note.txt"),
    (
        "flow compare",
        "summarizer flow compare docs.chunk_set.summarize.brief.v1 --providers builtin,ollama --inputs notes",
    ),
    (
        "flow batch export",
        "summarizer flow batch export docs.chunk_set.summarize.brief.v1 --input note.txt --into batch",
    ),
    ("flow batch import", "summarizer flow batch import batch results.jsonl"),
    ("flow new", "summarizer flow new my.note.summarize.brief.v1"),
    ("schema", "summarizer schema summary_request.v1"),
    ("completions", "summarizer completions bash"),
    ("man", "summarizer man"),
    ("pack build", "summarizer pack build my-run"),
    ("pack check", "summarizer pack check my-run"),
    ("perspectives check", "summarizer perspectives check my-run"),
    ("perspectives write", "summarizer perspectives write my-run --from perspectives.json"),
    ("perspectives draft", "summarizer perspectives draft --objective batteries"),
    ("wave check", "summarizer wave check my-run"),
    ("compact", "summarizer compact run.jsonl --out snapshots"),
    ("tune", "summarizer tune run.jsonl --out tune"),
];

/// The definition of the command line, with groups and examples.
pub(super) fn command() -> Command {
    let mut command = Cli::command();
    for (path, example) in EXAMPLES {
        let names: Vec<&str> = path.split(' ').collect();
        command = with_example(command, &names, example);
    }
    command = with_examples_below(command);
    let columns =
        plain::columns(&std::io::stdout()).map_or(COLUMNS, |columns| columns.min(COLUMNS));
    let groups = groups(&command, columns);
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\n\nOptions:\n{{options}}{{after-help}}",
        groups.trim_end()
    ))
}

/// An error about a mistyped command, with the command that was most likely meant.
pub(super) fn with_nearest_command(
    mut error: clap::Error,
    words: impl Iterator<Item = String>,
) -> clap::Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let all = command();
    // The command before the mistyped word; the words between are options and their values.
    let before = words.take_while(|word| word != typed);
    let at = before.fold(&all, |at, word| at.find_subcommand(word).unwrap_or(at));
    let shown = at.get_subcommands().filter(|one| !one.is_hide_set());
    let known: Vec<&str> = shown.map(Command::get_name).collect();
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(near) = names::nearest_of(typed, known.iter().copied())
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near]));
    }
    error
}

/// A usage error for people. It quotes arguments, so nothing of it steers a terminal.
pub(super) fn told(error: &clap::Error) -> String {
    const LABEL: &str = "error:";
    let plain = error.render().to_string();
    let shown = named(&plain);
    match shown.strip_prefix(LABEL) {
        Some(rest) => format!("{}{rest}", ui::red(LABEL)),
        None => shown.into_owned(),
    }
}

/// A usage error for programs: what is wrong, and the advice of the parser.
pub(super) fn usage_failure(told: &str) -> Failure {
    let mut parts = told.trim().split("\n\n");
    let one_line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    let what = one_line(parts.next().unwrap_or_default());
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let advice: Vec<String> = parts.map(one_line).collect();
    let failure = Failure::new(Exit::Usage, what);
    if advice.is_empty() { failure } else { failure.hint(advice.join("; ")) }
}

fn with_example(command: Command, path: &[&str], example: &str) -> Command {
    match path.split_first() {
        None => command.after_help(format!("Example:\n  {example}")),
        Some((name, rest)) => {
            command.mut_subcommand(*name, |below| with_example(below, rest, example))
        }
    }
}

/// Gives a command that only holds others their examples.
fn with_examples_below(mut command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |below| {
            let below = with_examples_below(below);
            let examples = examples_below(&below);
            match examples.is_empty() || below.get_after_help().is_some() {
                true => below,
                false => below.after_help(format!("Examples:\n{}", examples.join("\n"))),
            }
        });
    }
    command
}

/// The first example of each command below.
fn examples_below(command: &Command) -> Vec<String> {
    let first = |below: &Command| {
        let help = below.get_after_help()?.to_string();
        help.lines().find(|line| line.starts_with("  ")).map(str::to_owned)
    };
    command.get_subcommands().filter_map(first).collect()
}

fn groups(command: &Command, columns: usize) -> String {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|one| one.get_name() == name);
        let about = found.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
        let short = about.split([':', ';']).next().unwrap_or_default();
        short.to_owned()
    };
    let mut text = String::new();
    for (group, names) in GROUPS {
        text.push_str(&format!("{group}:\n"));
        for name in *names {
            let first = format!("  {name:<13} ");
            let lines = plain::wrapped(&about(name), columns, &first, &" ".repeat(first.len()));
            lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_answered_with_the_nearest_one() {
        for (typed, meant) in [
            ("smu", "'sum'"),
            ("serach", "'search'"),
            ("tsak list", "'task'"),
            ("--home x digest shwo", "'show'"),
            ("import chat", "'chat-export'"),
        ] {
            let words = || std::iter::once("summarizer").chain(typed.split(' '));
            let error = command().try_get_matches_from(words()).unwrap_err();
            let told = with_nearest_command(error, words().map(str::to_owned)).to_string();
            assert!(told.contains(meant), "{typed}: {told}");
        }
        let error = command().try_get_matches_from(["summarizer", "xyzzy"]).unwrap_err();
        let words = ["summarizer", "xyzzy"].map(str::to_owned).into_iter();
        assert!(!with_nearest_command(error, words).to_string().contains("similar"));
    }

    /// All commands, by the names that lead to them.
    fn paths(command: &Command, path: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|one| one.get_name() != "help") {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            found.push(path.clone());
            paths(below, &path, found);
        }
    }

    #[test]
    fn every_command_is_in_a_group_and_has_an_example_that_parses() {
        let command = command();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        // What completion scripts ask is hidden from people.
        for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            assert!(grouped.contains(&below.get_name()), "{} is in no group", below.get_name());
        }
        for name in &grouped {
            assert!(command.get_subcommands().any(|one| one.get_name() == *name), "{name}");
        }
        for columns in [COLUMNS, 40] {
            let groups = super::groups(&command, columns);
            assert!(groups.lines().all(|line| line.len() <= columns), "{groups}");
        }
        let mut all = Vec::new();
        paths(&command, "", &mut all);
        for path in all {
            let found = path.split(' ').try_fold(&command, |at, name| at.find_subcommand(name));
            let found = found.unwrap();
            if found.is_hide_set() {
                continue;
            }
            let help = found.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_else(|| panic!("{path} has no example"));
            for line in help.lines().filter(|line| line.starts_with("  ")) {
                let line = line.trim().rsplit(" | ").next().unwrap();
                let parsed = super::command().try_get_matches_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {:?}", parsed.err());
            }
        }
    }
}
