//! Checks of a home's surroundings: clock and time zone, upstream that is missing or has stopped,
//! providers that cannot be reached, units that never ran.

use std::collections::BTreeSet;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Context, Findings, Verdict, edit, shell};
use crate::cli::leaving::what_may_leave;
use crate::cli::prose::plain_line;
use crate::cli::service::unit_folder;
use crate::cli::source_files::has_place;
use crate::cli::zone::other_zone;
use crate::cli::{names, ui, watch};
use crate::config::{Config, ProviderConfig, Reach, ServerAddress, shown_address};
use crate::contract::ids::Seq;
use crate::contract::places::DataPlace;
use crate::contract::time::Day;
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::LearnedDialect;
use crate::home::Home;
use crate::import::{Target, files_without_folder};
use crate::log::Reader;
use crate::model::{
    ModelError, PROBE_TOKENS, Probed, StopReason, listed_models, names_model, probed,
};
use crate::os::jail::{self, Support};
use crate::os::rights;
use crate::telemetry::try_collector;
use crate::upstream::Family;

/// A bus whose newest day is older than this is reported.
const STALE_DAYS: i64 = 7;
/// The next step after a failure that no setting mends.
const PROBE_AGAIN: &str = "summarizer doctor --probe";
/// How long a provider may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long it may take to list its models.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A step back of the clock of at least this many milliseconds is reported.
const STEP_MS: i64 = 1_000;
/// Partitions named in one finding.
const NAMED_MAX: usize = 3;

/// The flows that the settings name, and the folders of `[[watch]]`.
pub(super) fn look_at_folders(context: &Context, config: &Config, findings: &mut Findings) {
    if let Err(failure) = names::with_flow_ids(context, config.clone()) {
        findings.wrong("flows", failure.in_short(), "summarizer registry list");
        findings.hint(format!("name one of them in {}", config_file(context).display()));
    }
    let home = Home::new(&context.home, config);
    let mut missing = 0;
    for watch in &config.watches {
        let folder = watch::folder_of(&home, &watch.folder);
        let is_there = matches!(context.machine.disk.stat(&folder), Ok(Some(stat)) if stat.is_dir);
        if !is_there {
            missing += 1;
            let what = format!("the watched folder {} does not exist", folder.display());
            findings.wrong("folders", what, &format!("mkdir -p {}", shell(&folder)));
        }
    }
    let forgotten = watch::left_out(context, config, &home);
    if let Some(first) = forgotten.first() {
        let what =
            format!("forgotten files are left out of watched folders: {}", plain(&forgotten));
        findings.add("folders", Verdict::Notice, what, "");
        findings
            .hint(format!("`summarizer add` takes one in again, such as {}", plain_line(first)));
    }
    if !config.watches.is_empty() && missing == 0 {
        findings.fine("folders", format!("{} watched", ui::count(config.watches.len(), "folder")));
    }
}

/// Days begin in the configured zone. A machine in another zone would surprise its user.
pub(super) fn look_at_zone(context: &Context, config: &Config, findings: &mut Findings) {
    match other_zone(config) {
        Some(here) => {
            let what = format!("days begin in UTC, but the time zone of this machine is {here}");
            let path = config_file(context);
            // It stands above the sections; a file that is not there has no first line to precede.
            let size = context.machine.disk.stat(&path).ok().flatten().map_or(0, |stat| stat.len);
            let file = shell(&path);
            let fix = match size {
                0 => format!("echo 'timezone = \"{here}\"' >> {file}"),
                _ => format!("sed -i '1i timezone = \"{here}\"' {file}"),
            };
            findings.add("time zone", Verdict::Notice, what, &fix);
            findings.hint("or timezone = \"UTC\", if UTC is intended");
        }
        _ => findings.fine("time zone", format!("days begin in {}", config.timezone)),
    }
}

fn config_file(context: &Context) -> PathBuf {
    context.config_file.clone().unwrap_or_else(|| context.home.join("summarizer.toml"))
}

/// Times in the log: nothing from the future, and steps back are told.
pub(super) fn look_at_clock(context: &Context, log: &Reader, deep: bool, findings: &mut Findings) {
    let now = context.machine.clock.now();
    let newest = log.get(log.head().0).ok().flatten().map(|record| record.at);
    if let Some(newest) = newest.filter(|newest| newest.ms_since(now) > STEP_MS) {
        let what = format!("the newest event is of {newest}, later than now ({now})");
        return findings.wrong("clock", what, "timedatectl set-ntp true");
    }
    if !deep {
        return findings.fine("clock", "not behind the log");
    }
    let (mut last, mut steps, mut largest, mut place) = (None, 0_u64, 0, Seq(0));
    let scanned = log.scan(Seq(1), None, &mut |entry| {
        if let Some(last) = last
            && entry.at.ms_since(last) < -STEP_MS
        {
            steps += 1;
            if last.ms_since(entry.at) > largest {
                (largest, place) = (last.ms_since(entry.at), entry.seq);
            }
        }
        last = Some(entry.at);
        ControlFlow::Continue(())
    });
    match scanned {
        Err(error) => findings.failed("clock", &error, "summarizer log verify"),
        Ok(()) if steps == 0 => findings.fine("clock", "never went back"),
        Ok(()) => {
            let seconds = largest / 1000;
            let what = format!(
                "the clock went back {}, {seconds} s at most, at event {place}; no request started early",
                ui::count(steps, "time"),
            );
            findings.add("clock", Verdict::Notice, what, "timedatectl status");
        }
    }
}

/// Upstream by the names of its files: data without a manifest, and buses that have stopped.
pub(super) fn look_at_upstream(context: &Context, home: &Home, findings: &mut Findings) {
    let disk = context.machine.disk.as_ref();
    let names = |dir: &Path| disk.list(dir).unwrap_or_default();
    let today = context.machine.clock.now().day_in(chrono_tz::UTC);
    for family in Family::ALL {
        let bus = family.bus().as_str();
        let data = names(&home.buses.join(family.data_dir()));
        let data: BTreeSet<&str> =
            data.iter().filter_map(|name| family.partition_of_data(name)).collect();
        let manifests = names(&home.buses.join(family.manifest_dir()));
        let manifests: BTreeSet<&str> =
            manifests.iter().filter_map(|name| family.partition_of_manifest(name)).collect();
        if data.is_empty() && manifests.is_empty() {
            continue;
        }
        let bare: Vec<&str> = data.difference(&manifests).copied().collect();
        let empty: Vec<&str> = manifests.difference(&data).copied().collect();
        if let Some(first) = bare.first() {
            let what = format!("{bus}: no manifest for {}, so this data is not read", named(&bare));
            let wanted = family.manifest_path(first);
            let fix = format!("ls -l {}", shell(&home.buses.join(family.data_path(first))));
            findings.wrong("upstream", what, &fix);
            findings.hint(format!(
                "let its producer publish {wanted}, or move the file elsewhere and `summarizer \
                 import` it"
            ));
        }
        if let Some(first) = empty.first() {
            let what = format!("{bus}: a manifest without data for {}", named(&empty));
            let folder = home.buses.join(family.manifest_dir());
            findings.wrong("upstream", what, &format!("ls -l {}", shell(&folder)));
            let wanted = family.data_path(first);
            findings.hint(format!("let its producer publish the data again: {wanted}"));
        }
        let newest = manifests.iter().filter_map(|day| day.parse::<Day>().ok()).max();
        match newest.map(|newest| (newest, (today.0 - newest.0).num_days())) {
            Some((newest, age)) if age > STALE_DAYS => {
                let what = format!("{bus}: the newest day is {newest}, {age} days ago");
                let fix = "systemctl --user list-timers --all; crontab -l";
                findings.add("upstream", Verdict::Notice, what, fix);
                findings.hint("check that its producer still runs; run an import again by hand");
            }
            _ if bare.is_empty() && empty.is_empty() => {
                let partitions = ui::count(data.len(), "partition");
                let ending = if data.len() == 1 { "a manifest" } else { "manifests" };
                findings.fine("upstream", format!("{bus}: {partitions} with {ending}"));
            }
            _ => {}
        }
    }
}

fn named(partitions: &[&str]) -> String {
    let mut text = partitions.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    if partitions.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", partitions.len() - NAMED_MAX));
    }
    text
}

/// The names of files, as a terminal may show them.
fn plain(files: &[String]) -> String {
    let names: Vec<String> = files.iter().map(|name| plain_line(name)).collect();
    named(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether each provider can be reached. Sends no text.
pub(super) fn look_at_providers(context: &Context, config: &Config, findings: &mut Findings) {
    let settings = edit(&config_file(context));
    for (name, section) in &config.providers {
        if let Some(variable) =
            section.api_key_env.as_ref().filter(|v| std::env::var_os(v).is_none())
        {
            let what = format!("{name}: its key {variable} is not set here");
            let fix = format!("read -rs {variable} && export {variable}");
            findings.wrong("provider", what, &fix);
            let file = shell(&context.home.join("summarizer.env"));
            findings.hint(format!("for a unit: a line {variable}=… in {file}"));
        }
        match section.kind.reach() {
            Reach::Server { .. } => look_at_address(context, name, section, &settings, findings),
            Reach::Program => look_at_command(name, section, &settings, findings),
            Reach::Inside => {}
        }
        let address = section.address().and_then(ServerAddress::parse);
        let is_deployment = address.is_some_and(|address| address.is_one_deployment());
        match section.batch {
            Some(true) if is_deployment => {
                let what = format!(
                    "{name}: scheduled questions are sent one by one: the address is that of one deployment \
                     of Azure, and Azure takes batches only at another address"
                );
                findings.wrong("batches", what, &settings);
                findings.hint(format!(
                    "set provider.{name}.base_url to the host alone, and provider.{name}.model to a \
                     deployment for batches"
                ));
            }
            Some(true) => {
                findings.fine("batches", format!("{name}: scheduled questions are sent together"));
            }
            _ => {}
        }
    }
}

/// What may leave this machine, and where to.
pub(super) fn look_at_privacy(
    context: &Context,
    config: &Config,
    home: &Home,
    findings: &mut Findings,
) {
    what_may_leave(config).into_iter().for_each(|line| findings.fine("privacy", line));
    if config.privacy.are_about(DataPlace::Folder) {
        look_for_texts_without_folder(context, config, home, findings);
    }
}

/// Says which texts no rule about a folder sees, because an import kept no folder of them. A file that lies in the home, or
/// beside it, has no other folder.
fn look_for_texts_without_folder(
    context: &Context,
    config: &Config,
    home: &Home,
    findings: &mut Findings,
) {
    let target = Target {
        disk: &*context.machine.disk,
        root: &home.buses,
        zone: config.timezone,
        now: context.machine.clock.now(),
    };
    // What cannot be read is told by the checks of the buses.
    let Ok(mut files) = files_without_folder(target) else { return };
    files.retain(|name, _| !has_place(context, name));
    let texts: u64 = files.values().sum();
    if texts == 0 {
        return;
    }
    let names: Vec<String> = files.into_keys().collect();
    let what = format!(
        "no rule about a folder sees {} imported before folders were kept: {}",
        ui::count(texts, "text"),
        plain(&names)
    );
    findings.add("privacy", Verdict::Notice, what, "");
    findings.hint(
        "`summarizer add FILE` imports a document again, with its folder, and `summarizer forget NAME` takes the one of \
         before back; mails and messages keep their record: name them by another rule, such as `label:` or `author:`",
    );
}

/// Asks each provider for a few words, and tells what its model accepts.
pub(super) fn probe_providers(
    context: &Context,
    config: &Config,
    learned: &[LearnedDialect],
    findings: &mut Findings,
) {
    let settings = edit(&config_file(context));
    let within = Duration::from_millis(config.attempt_timeout_ms.max(1).unsigned_abs());
    let asked = config.providers.iter().filter(|(_, one)| one.kind.reach() != Reach::Inside);
    for (name, section) in asked {
        let begun = Instant::now();
        match probed(name, section, &context.machine, within, learned) {
            Ok(Some(probe)) if probe.reply.text.trim().is_empty() => {
                says_nothing(name, &probe, &settings, findings);
            }
            Ok(Some(probe)) => {
                let (seconds, usage) = (begun.elapsed().as_secs_f64(), probe.reply.usage);
                let mut what = format!(
                    "{name}: {} answered in {seconds:.1} s",
                    probe.reply.identity.model_name
                );
                what.push_str(if probe.streamed { ", as a stream" } else { ", in one piece" });
                what.push_str(match probe.is_json {
                    true => ", and gave the requested JSON",
                    false => ", and did not give the requested JSON",
                });
                match probe.context {
                    Some(tokens) => what.push_str(&format!("; it holds {tokens} tokens")),
                    None => what.push_str("; the number of tokens that it holds is unknown"),
                }
                if usage.total() == 0 {
                    what.push_str("; it counts no tokens");
                }
                let verdict = if probe.is_json { Verdict::Fine } else { Verdict::Notice };
                findings.add("probe", verdict, what, "");
                let mut hints = probe.learned;
                if probe.thinks_long {
                    hints.push(format!(
                        "it used up {} tokens before its first word: give its flows a higher max_tokens",
                        PROBE_TOKENS[0]
                    ));
                }
                if probe.context.is_none() {
                    hints
                        .push(format!("set provider.{name}.context_tokens if you know the number"));
                }
                if !hints.is_empty() {
                    findings.hint(hints.join("; "));
                }
            }
            Ok(None) => {}
            Err(error) => not_answered(name, &error, &settings, findings),
        }
    }
}

/// A probe that failed. What no setting changes ends in another probe.
fn not_answered(name: &str, error: &ModelError, settings: &str, findings: &mut Findings) {
    let (fix, hint) = match error.cause() {
        FailureCause::QuotaUsedUp => (
            PROBE_AGAIN,
            "add credit or raise the limit of the account, then probe again".to_owned(),
        ),
        FailureCause::RateLimit => {
            let pause = error.retry_after().map(|pause| format!("wait {} s, ", pause.as_secs()));
            (PROBE_AGAIN, format!("{}then probe again", pause.unwrap_or_default()))
        }
        FailureCause::ServerError | FailureCause::Timeout | FailureCause::ConnectionLost => {
            (PROBE_AGAIN, "look at the server, then probe again".to_owned())
        }
        _ => return findings.wrong("probe", format!("{name}: {error}"), settings),
    };
    findings.wrong("probe", format!("{name}: {error}"), fix);
    findings.hint(hint);
}

/// A model whose answer has no text answers no question of a flow either.
fn says_nothing(name: &str, probe: &Probed, settings: &str, findings: &mut Findings) {
    let (model, tokens) = (&probe.reply.identity.model_name, probe.reply.usage.output_tokens);
    let is_cut = probe.reply.stop == StopReason::Length;
    let why = match is_cut {
        true => format!("it used up its limit of {} tokens before its first word", PROBE_TOKENS[1]),
        false => format!("its server counts {tokens} tokens of answer"),
    };
    findings.wrong("probe", format!("{name}: {model} answered without text: {why}"), settings);
    findings.hint(match is_cut {
        true => {
            "it thinks too long for short questions: name another model, or give its flows a higher \
             max_tokens or a lower reasoning_effort"
                .to_owned()
        }
        false => format!(
            "ask it by hand whether it answers at all, or name another model in provider.{name}.model"
        ),
    });
}

/// Where traces go. Only a probe sends anything.
pub(super) fn look_at_telemetry(
    context: &Context,
    config: &Config,
    probe: bool,
    findings: &mut Findings,
) {
    let settings = edit(&config_file(context));
    match try_collector(config, probe) {
        Ok(None) => {}
        Ok(Some(found)) => match found.answer {
            None => findings.fine("telemetry", format!("traces go to {}", found.shown)),
            Some(Ok(())) => findings.fine("telemetry", format!("{} takes traces", found.shown)),
            Some(Err(why)) => {
                findings.wrong("telemetry", format!("traces are lost: {why}"), &settings);
                findings.hint("start the collector, or correct telemetry.endpoint and its headers");
            }
        },
        Err(error) => findings.wrong("telemetry", error.to_string(), &settings),
    }
}

fn look_at_address(
    context: &Context,
    name: &str,
    section: &ProviderConfig,
    settings: &str,
    findings: &mut Findings,
) {
    let base = section.address().unwrap_or_default();
    let shown = shown_address(base);
    let correct = format!("correct provider.{name}.base_url");
    let Some(address) = ServerAddress::parse(base) else {
        findings.wrong("provider", format!("{name}: {shown} is not a web address"), settings);
        return findings.hint(format!("{correct}, such as http://127.0.0.1:11434/v1"));
    };
    let (host, port) = (address.host(), address.port());
    let (fix, hint) = match (address.is_loopback(), port) {
        (true, 11434) => ("ollama serve".to_owned(), None),
        (true, _) => {
            (format!("curl -sS -m 5 {shown}"), Some(format!("start the server of {shown}")))
        }
        (false, _) => (
            format!("curl -sS -m 10 {shown}"),
            Some(format!("its output says why it fails; or {correct}")),
        ),
    };
    let answered = match connect(host, port).map(drop) {
        Ok(()) => listed_models(name, section, &context.machine, ANSWER_WITHIN)
            .map_err(|error| (format!("{name}: {error}"), error.cause())),
        Err(error) => {
            let what = format!("{name}: cannot reach {host}:{port}: {error}");
            Err((what, FailureCause::Unreachable))
        }
    };
    match answered {
        Ok(models) => look_at_model(name, section, models, (host, port), settings, findings),
        Err((what, FailureCause::Unauthorized)) => match &section.api_key_env {
            Some(variable) => {
                let fix = format!("read -rs {variable} && export {variable}");
                findings.wrong("provider", what, &fix);
                findings.hint(format!("set a key that the server accepts; or {correct}"));
            }
            None => {
                findings.wrong("provider", what, settings);
                findings.hint(format!("name the key in provider.{name}.api_key_env, or {correct}"));
            }
        },
        // Another server answers there, or it wants something else.
        Err((
            what,
            FailureCause::InvalidAnswer
            | FailureCause::Configuration
            | FailureCause::NotFound
            | FailureCause::BadRequest,
        )) => {
            findings.wrong("provider", what, settings);
            findings.hint(correct);
        }
        Err((what, _)) => {
            findings.wrong("provider", what, &fix);
            if let Some(hint) = hint {
                findings.hint(hint);
            }
        }
    }
}

fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut addresses = (host, port).to_socket_addrs()?;
    let refused = || std::io::Error::other("the host name does not resolve");
    TcpStream::connect_timeout(&addresses.next().ok_or_else(refused)?, CONNECT_WITHIN)
}

/// Whether the configured model is among those the server lists.
fn look_at_model(
    name: &str,
    section: &ProviderConfig,
    models: Option<Vec<String>>,
    (host, port): (&str, u16),
    settings: &str,
    findings: &mut Findings,
) {
    let answers = format!("{name}: {host}:{port} answers");
    let (Some(models), Some(model)) = (models, &section.model) else {
        return findings.fine("provider", answers);
    };
    if models.iter().any(|known| names_model(known, model)) {
        return findings.fine("provider", format!("{answers} and has {model}"));
    }
    let some: Vec<&str> = models.iter().take(NAMED_MAX).map(String::as_str).collect();
    let what = format!(
        "{answers}, but lists no model {model}; it has {} ({} in all)",
        some.join(", "),
        models.len()
    );
    match port {
        11434 => {
            findings.add("provider", Verdict::Notice, what, &format!("ollama pull {model}"));
        }
        _ => findings.add("provider", Verdict::Notice, what, settings),
    }
    findings.hint(format!("correct provider.{name}.model"));
}

fn look_at_command(name: &str, section: &ProviderConfig, settings: &str, findings: &mut Findings) {
    let Some(program) = section.command.as_ref().and_then(|argv| argv.first()) else { return };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = match program.contains('/') {
        true => Path::new(program).exists(),
        false => std::env::split_paths(&paths).any(|dir| dir.join(program).exists()),
    };
    match found {
        true => findings.fine("provider", format!("{name}: {program} is installed")),
        false => {
            findings.wrong("provider", format!("{name}: there is no program {program}"), settings);
            findings.hint(format!("correct provider.{name}.command, or install {program}"));
        }
    }
}

/// Checks that only the owner, or the configured group, can read the home.
pub(super) fn look_at_rights(
    context: &Context,
    config: &Config,
    home: &Home,
    findings: &mut Findings,
) {
    const NAME: &str = "rights";
    let run = home.run();
    let names = context.machine.disk.list(&run).unwrap_or_default();
    for name in names.iter().filter(|name| rights::is_of_keys(name.as_ref())) {
        let path = run.join(name);
        if let Ok(Some(wrong)) = rights::not_only_ours(&path) {
            let what = format!("{} {wrong}: it holds the keys of the log", path.display());
            findings.wrong(NAME, what, &format!("chmod 600 {}", shell(&path)));
        }
    }
    if let Some(group) = &config.files_group {
        return findings.fine(NAME, format!("the owner and the group {group} can read the home"));
    }
    // Where others cannot enter the home, the rights of what is in it do not matter. Where they can, they
    // still read nothing as long as what is in it is closed.
    let disk = context.machine.disk.as_ref();
    let is_open = |path: &Path| rights::open_to_others(path).unwrap_or(false);
    let holds_open = |folder: &Path| {
        let names = disk.list(folder).unwrap_or_default();
        names.iter().any(|name| is_open(&folder.join(name)))
    };
    let around = [Some(home.buses.as_path()), home.queue.parent()];
    let outside = around.into_iter().flatten().filter(|path| !path.starts_with(&home.root));
    let folders = std::iter::once(home.root.as_path()).chain(outside);
    let open: Vec<&Path> = folders.filter(|path| is_open(path)).collect();
    let (what, fix) = match (open.iter().find(|path| holds_open(path)), open.first()) {
        (Some(path), _) => (
            format!("other users can read in {}", path.display()),
            format!("chmod -R go= {}", shell(path)),
        ),
        (None, Some(path)) => (
            format!("other users can see the names in {}, and read no file there", path.display()),
            format!("chmod go= {}", shell(path)),
        ),
        (None, None) => return findings.fine(NAME, "only the owner can read the home"),
    };
    findings.add(NAME, Verdict::Notice, what, &fix);
    findings.hint("files.group lets one group in");
}

/// Reports whether flows run in worker processes or inside the service.
pub(super) fn look_at_isolation(config: &Config, findings: &mut Findings) {
    const NAME: &str = "workers";
    if config.isolates_flows {
        let memory = config.worker_memory_bytes_max >> 20;
        let what = format!("flows run in processes of at most {memory} MiB");
        return findings.fine(NAME, &what);
    }
    let what = "flows run inside the service, so a bad pack can crash it".to_owned();
    findings.add(NAME, Verdict::Notice, what, "remove workers.isolation from the settings");
}

/// What holds Python nodes, where they may run.
pub(super) fn look_at_jail(config: &Config, findings: &mut Findings) {
    const NAME: &str = "python";
    if !config.python_allowed {
        return;
    }
    if !config.python_jail {
        let what = "nodes run without a jail, with all rights of the service".to_owned();
        return findings.add(
            NAME,
            Verdict::Notice,
            what,
            "remove python.jail = false from the settings",
        );
    }
    let missing = match jail::support() {
        Support { files: true, calls: true } => {
            return findings.fine(NAME, "nodes run in a jail of Landlock and seccomp");
        }
        Support { files: false, calls: true } => "Landlock, so nodes can read and write files",
        Support { files: true, calls: false } => "seccomp, so nodes can leave their process group",
        Support { files: false, calls: false } => "Landlock and seccomp, so nodes have no jail",
    };
    findings.add(NAME, Verdict::Notice, format!("this kernel has no {missing}"), "uname -r");
    findings.hint("allow only packs that you trust, or use a newer kernel");
}

/// Units and timers of this user that name this home.
pub(super) fn look_at_units(context: &Context, findings: &mut Findings) {
    let Ok(folder) = unit_folder() else { return };
    let disk = context.machine.disk.as_ref();
    let home = std::path::absolute(&context.home).unwrap_or_else(|_| context.home.clone());
    let named = home.display().to_string();
    for name in disk.list(&folder).unwrap_or_default() {
        let Some(stem) = name.strip_suffix(".service") else { continue };
        let text = disk.read(&folder.join(&name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let ours = text.lines().any(|line| line.starts_with("ExecStart=") && line.contains(&named));
        if !ours {
            continue;
        }
        let timer = format!("{stem}.timer");
        match disk.stat(&folder.join(&timer)) {
            Ok(Some(_)) => look_at_timer(&timer, findings),
            _ if text.contains("Type=oneshot") => {}
            _ => look_at_unit(&name, &text, findings),
        }
    }
}

fn systemctl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("systemctl").arg("--user").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn look_at_unit(name: &str, text: &str, findings: &mut Findings) {
    let program = text.lines().find_map(|line| line.strip_prefix("ExecStart=\""));
    let program = program.and_then(|rest| rest.split('"').next()).map(PathBuf::from);
    if let Some(program) = program.filter(|program| !program.exists()) {
        let what = format!("{name} runs {}, which is gone", program.display());
        let stem = name.strip_suffix(".service").unwrap_or(name);
        let fix = format!("summarizer service install --user --name {stem}");
        return findings.wrong("unit", what, &fix);
    }
    match systemctl(&["is-active", name]).as_deref() {
        Some("active") => findings.fine("unit", format!("{name} is active")),
        Some(state) => {
            let fix = format!("systemctl --user enable --now {name}");
            findings.wrong("unit", format!("{name} is installed but {state}"), &fix);
        }
        None => {
            let what = format!("{name} is installed; there is no systemctl to ask about it");
            findings.add("unit", Verdict::Notice, what, "summarizer status");
        }
    }
}

fn look_at_timer(name: &str, findings: &mut Findings) {
    let asked = ["show", name, "-p", "LastTriggerUSec", "--value"];
    match systemctl(&asked).as_deref() {
        Some("n/a" | "0") => {
            let fix = format!("systemctl --user enable --now {name}");
            findings.wrong("timer", format!("{name} never ran"), &fix);
        }
        Some(last) => findings.fine("timer", format!("{name} last ran {last}")),
        None => {
            let what = format!("{name}: there is no systemctl to ask when it ran");
            findings.add("timer", Verdict::Notice, what, "summarizer status");
        }
    }
}
