//! Names for the completion of a shell: flows, states, ids of requests and tasks, names of summaries, windows
//! of digests.
//!
//! Contract: it says nothing but names, fails silently, and looks only at the newest ones, because a
//! person waits for it at each key. It reads files only: it neither asks nor holds the home.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::Context;
use super::digest_show::OPEN_TASKS;
use super::failure::{Exit, Failure};
use super::names as flow_names;
use super::published::{VersionChoice, each_newest, open_bus};
use super::settings::{load_config, load_registry};
use crate::bus::digests::DigestBus;
use crate::contract::vocabulary::Bus;
use crate::home::Home;
use crate::model::BUILTIN;
use crate::seam::position::open_queue;
use crate::state::Status;

/// Names of one kind that are offered.
const NAMES_MAX: usize = 200;
/// Bytes at the end of the queue in which ids of requests are looked for.
const QUEUE_BYTES: u64 = 256 << 10;

/// Print names for the completion of a shell
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    /// The kind of names
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Flows,
    Buses,
    States,
    Selectors,
    Projects,
    Requests,
    Summaries,
    /// Ids of the newest summaries
    SummaryIds,
    /// The sections [provider.NAME], and the embedded summarizer
    Providers,
    /// Labels of the windows of published digests
    Windows,
    /// Selectors, and the windows of published digests
    Digests,
    /// Open tasks
    Tasks,
}

impl NamesArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        for name in names(context, self.kind).unwrap_or_default() {
            context.ui.out(name);
        }
        Ok(Exit::Done)
    }
}

/// The names; none where they cannot be read.
fn names(context: &Context, kind: Kind) -> Option<Vec<String>> {
    let mut found: Vec<String> = match kind {
        Kind::Flows => {
            let registry = load_registry(context).ok()?;
            let flows = registry.records().iter().map(|record| record.flow_id.clone());
            let mut flows: Vec<String> = flows.collect::<BTreeSet<String>>().into_iter().collect();
            flows.extend(flow_names::short_names(&registry));
            flows
        }
        Kind::Buses => Bus::ALL.iter().map(|bus| bus.as_str().to_owned()).collect(),
        Kind::States => Status::ALL.iter().map(|state| state.as_str().to_owned()).collect(),
        Kind::Selectors => {
            let selectors = super::registry::selectors(context).ok()?;
            selectors.all().iter().map(|selector| selector.selector_id.clone()).collect()
        }
        Kind::Windows => windows(context)?,
        Kind::Digests => {
            let selectors = names(context, Kind::Selectors).into_iter().flatten();
            selectors.chain(windows(context).into_iter().flatten()).collect()
        }
        Kind::Tasks => tasks(context)?,
        Kind::Requests => requests(context)?,
        Kind::Providers => {
            let config = load_config(context).ok()?;
            let builtin = std::iter::once(BUILTIN.to_owned());
            config
                .providers
                .keys()
                .cloned()
                .chain(builtin)
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        }
        Kind::Summaries | Kind::SummaryIds | Kind::Projects => {
            let bus = open_bus(context).ok()?;
            let (mut known, mut found) = (BTreeSet::new(), Vec::new());
            let rules = super::registry::project_rules(context);
            each_newest(&bus, VersionChoice::Newest, &mut |one| {
                let name = match kind {
                    Kind::Projects => one.project(&rules),
                    Kind::SummaryIds => Some(one.id().to_owned()),
                    _ => Some(one.name()),
                };
                found.extend(name.filter(|name| known.insert(name.clone())));
                match found.len() < NAMES_MAX {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })
            .ok()?;
            found
        }
    };
    found.retain(|name| !name.chars().any(char::is_control));
    found.truncate(NAMES_MAX);
    Some(found)
}

/// The labels of the windows of published digests, the newest first.
fn windows(context: &Context) -> Option<Vec<String>> {
    let bus = DigestBus::open(&context.home.join(&load_config(context).ok()?.bus_home)).ok()?;
    let entries = bus.indexes().ok()?.entries();
    let labels: BTreeSet<String> = entries.into_iter().map(|bag| bag.window_label).collect();
    Some(labels.into_iter().rev().collect())
}

/// Ids of open tasks, from the newest list of them.
fn tasks(context: &Context) -> Option<Vec<String>> {
    let bus = DigestBus::open(&context.home.join(&load_config(context).ok()?.bus_home)).ok()?;
    let entries = bus.indexes().ok()?.entries();
    let lists = entries.into_iter().filter(|bag| bag.selector_id == OPEN_TASKS);
    let newest = lists.max_by(|a, b| a.window_label.cmp(&b.window_label))?;
    let memos = bus.bag(&newest).and_then(|bag| bag.memos()).ok()?;
    let is_id = |word: &&str| word.starts_with("task_");
    let words = memos.iter().flat_map(|memo| {
        memo.markdown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_id)
    });
    Some(words.map(str::to_owned).collect::<BTreeSet<String>>().into_iter().collect())
}

/// Ids of the newest requests, from the end of the queue.
fn requests(context: &Context) -> Option<Vec<String>> {
    let home = Home::new(&context.home, &load_config(context).ok()?);
    let file = open_queue(context.machine.disk.as_ref(), &home.queue).ok()?;
    let length = file.stat().ok()?.len;
    let from = length.saturating_sub(QUEUE_BYTES);
    let mut bytes = vec![0; usize::try_from(length - from).ok()?];
    let count = file.read_at(&mut bytes, from).ok()?;
    bytes.truncate(count);
    let lines = bytes.split(|byte| *byte == b'\n').rev();
    let records = lines.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    Some(records.filter_map(|record| Some(record["request_id"].as_str()?.to_owned())).collect())
}

/// Commands of two words whose arguments are names, and the kind of the names.
const PAIRS: &[(&str, &str, &str)] = &[
    ("digest", "show", "digests"),
    ("flow", "run", "flows"),
    ("quarantine", "show", "none"),
    ("registry", "check", "flows"),
    ("registry", "hash", "flows"),
    ("registry", "show", "flows"),
    ("task", "done", "tasks"),
    ("task", "reopen", "tasks"),
];

/// Commands of one word whose arguments are names. A pair counts for more. A word that begins like the id of a summary
/// gets ids of summaries.
const ARGUMENTS: &[(&str, &str)] = &[
    ("show", "requests"),
    ("retry", "requests"),
    ("cancel", "requests"),
    ("explain", "summaries"),
    ("trace", "summaries"),
    ("read", "summaries"),
    ("open", "summaries"),
];

/// Options whose values are names, and the kind of the names.
const OPTIONS: &[(&str, &str)] = &[
    ("--flow", "flows"),
    ("--model", "providers"),
    ("--provider", "providers"),
    ("--bus", "buses"),
    ("--state", "states"),
    ("--selector", "selectors"),
    ("--project", "projects"),
    ("--window", "windows"),
];

/// What is added to the script of a shell, so that it offers names. The home that is typed on the
/// line counts.
pub(super) fn addition(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
        _ => String::new(),
    }
}

fn cases(indent: &str, pairs: &[(&str, &str)]) -> String {
    let cases: Vec<String> =
        pairs.iter().map(|(word, kind)| format!("{indent}{word}) kind={kind} ;;")).collect();
    cases.join("\n")
}

/// The cases of a word behind the word before it.
fn words() -> String {
    let pairs = PAIRS.iter().map(|(first, second, kind)| (format!("\"{first} {second}\""), kind));
    let single = ARGUMENTS.iter().map(|(word, kind)| (format!("*\" {word}\""), kind));
    let cases =
        pairs.chain(single).map(|(words, kind)| format!("            {words}) kind={kind} ;;"));
    cases.collect::<Vec<_>>().join("\n")
}

fn bash() -> String {
    format!(
        r#"
_summarizer_names() {{
    _summarizer "$@"
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" kind= word i name
    local home=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        case "${{COMP_WORDS[i-1]}} $word" in
            *" --home") home=(--home "${{COMP_WORDS[i+1]}}") ;;
{arguments}
        esac
    done
    case "$prev" in
{options}
        -*) return ;;
    esac
    case "$cur" in -*) return ;; esac
    [[ "$kind" = @(requests|summaries) && "$cur" = sum_* ]] && kind=summary-ids
    [ -n "$kind" ] || return
    COMPREPLY=()
    local inside=()
    while IFS= read -r name; do
        [[ "$name" == "$cur"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
        [[ "$name" == */"$cur"* ]] && inside+=("$(printf '%q' "$name")")
    done < <(summarizer "${{home[@]}}" names "$kind" 2>/dev/null)
    # The name of a file without its folders, where it is the only one.
    [ "${{#COMPREPLY[@]}}" = 0 ] && [ "${{#inside[@]}}" = 1 ] && COMPREPLY=("${{inside[@]}}")
}}
complete -F _summarizer_names -o bashdefault -o default summarizer
"#,
        arguments = words(),
        options = cases("        ", OPTIONS),
    )
}

fn zsh() -> String {
    format!(
        r#"
_summarizer_names() {{
    local kind= word i
    local -a home names
    for ((i = 2; i < CURRENT; i++)); do
        word="${{words[i]}}"
        case "${{words[i-1]}} $word" in
            *" --home") home=(--home "${{words[i+1]}}") ;;
{arguments}
        esac
    done
    case "${{words[CURRENT-1]}}" in
{options}
        -*) kind= ;;
    esac
    if [[ -n "$kind" && "${{words[CURRENT]}}" != -* ]]; then
        [[ "$kind" = (requests|summaries) && "${{words[CURRENT]}}" = sum_* ]] && kind=summary-ids
        names=("${{(@f)$(summarizer $home names $kind 2>/dev/null)}}")
        compadd -a names && return
        # The name of a file without its folders.
        compadd -M 'l:|=*/' -a names && return
    fi
    _summarizer "$@"
}}
(( $+functions[compdef] )) && compdef _summarizer_names summarizer
"#,
        arguments = words(),
        options = cases("        ", OPTIONS),
    )
}

fn fish() -> String {
    let mut script = String::from(
        "
function __summarizer_names
    set -l words (commandline -opc)
    set -l at (contains -i -- --home $words)
    and set -l home --home $words[(math $at + 1)]
    set -l kind $argv[1]
    contains -- $kind requests summaries; and string match -q 'sum_*' -- (commandline -ct)
    and set kind summary-ids
    command summarizer $home names $kind 2>/dev/null
end
",
    );
    for (first, second, kind) in PAIRS {
        script.push_str(&format!(
            "complete -c summarizer -n '__fish_seen_subcommand_from {first}; and \
             __fish_seen_subcommand_from {second}' -f -a '(__summarizer_names {kind})'\n"
        ));
    }
    for (command, kind) in ARGUMENTS {
        let others = PAIRS.iter().filter(|(_, second, _)| second == command);
        let others: String = others
            .map(|(first, ..)| format!("; and not __fish_seen_subcommand_from {first}"))
            .collect();
        script.push_str(&format!(
            "complete -c summarizer -n '__fish_seen_subcommand_from {command}{others}' -f \
             -a '(__summarizer_names {kind})'\n"
        ));
    }
    for (option, kind) in OPTIONS {
        let option = option.trim_start_matches('-');
        script.push_str(&format!(
            "complete -c summarizer -l {option} -x -a '(__summarizer_names {kind})'\n"
        ));
    }
    script
}
