//! `service`: writes, prints or removes a unit for the user's systemd.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::Context;
use super::failure::{Exit, Failure};
use super::held_home::{is_home, no_home};
use super::settings::load_config;
use crate::config::{Config, Origin};
use crate::home::Home;

/// Run the service under systemd
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write a unit with few rights that serves the home; the unit is not started
    Install {
        /// Use the user's own service manager (required: there is no system-wide unit)
        #[arg(long, required = true)]
        user: bool,
        /// Only print the unit
        #[arg(long)]
        print: bool,
        /// Run `drain --folders --digests` at these times instead of a service: hourly, daily, or any
        /// OnCalendar expression of systemd
        #[arg(long, value_name = "WHEN")]
        timer: Option<String>,
        /// Name of the unit
        #[arg(long, default_value = "summarizer")]
        name: String,
    },
    /// Remove the unit of this home; a running service keeps running until it is stopped
    Uninstall {
        /// Use the user's own service manager
        #[arg(long, required = true)]
        user: bool,
        /// Name of the unit
        #[arg(long, default_value = "summarizer")]
        name: String,
    },
}

impl ServiceArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (print, name, timer) = match &self.action {
            Action::Install { print, name, timer, .. } => (print, name, timer.as_deref()),
            Action::Uninstall { name, .. } => return uninstall(context, name),
        };
        if name.is_empty() || !name.chars().all(in_names) {
            let what = format!("{name:?} cannot be the name of a unit");
            return Err(Failure::new(Exit::Usage, what).hint("letters, digits, - _ and ."));
        }
        // A unit for a mistyped home would make that home at its first start.
        if !is_home(context)? {
            let failure = no_home(context, "make one there with `summarizer init`");
            if !print {
                return Err(failure);
            }
            // Who only reads the unit may make the home later.
            let what = failure.in_short();
            let hint = failure.advice().map(|hint| format!("; {hint}")).unwrap_or_default();
            context.ui.complain(format!("warning: {what}{hint}"));
        }
        let config = load_config(context)?;
        let home =
            std::path::absolute(&context.home).map_err(|error| failed("name the home", &error))?;
        let binary =
            std::env::current_exe().map_err(|error| failed("name this program", &error))?;
        let mut text = unit(&binary, &home, context.config_file.as_deref(), &config);
        let schedule = timer.map(|when| schedule(&home, when)).transpose()?;
        if schedule.is_some() {
            text = oneshot(&text);
        }
        if *print && context.ui.json {
            context.ui.json(&json!({"name": name, "service": text, "timer": schedule}));
            return Ok(Exit::Done);
        }
        if *print {
            context.ui.raw(text.as_bytes());
            if let Some(schedule) = &schedule {
                context.ui.raw(format!("\n{schedule}").as_bytes());
            }
            return Ok(Exit::Done);
        }
        install(context, name, &home, &text, schedule.as_deref())
    }
}

/// Whether a character may stand in the name of a unit.
fn in_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, format!("cannot {what}")).because(error)
}

/// Writes a unit, and a timer where there is a schedule.
fn install(
    context: &Context,
    name: &str,
    home: &Path,
    text: &str,
    schedule: Option<&str>,
) -> Result<Exit, Failure> {
    let folder = unit_folder()?;
    let path = folder.join(format!("{name}.service"));
    let disk = context.machine.disk.as_ref();
    if let Some(other) = disk.read_if_present(&path).map_err(|e| failed("read the unit", &e))?
        && !serves(&String::from_utf8_lossy(&other), home)
    {
        let what = format!("{} serves another home", path.display());
        let own = home.file_name().map_or_else(String::new, |own| own.to_string_lossy().into());
        let own: String = own.chars().filter(|c| in_names(*c)).collect();
        let hint = format!("give this unit its own name: --name {name}-{own}");
        return Err(Failure::new(Exit::Usage, what).hint(hint));
    }
    disk.create_dir_all(&folder).map_err(|error| failed("make the unit's folder", &error))?;
    disk.replace(&path, text.as_bytes(), 0o644)
        .map_err(|error| failed("write the unit", &error))?;
    let timer_path = folder.join(format!("{name}.timer"));
    let started = match schedule {
        Some(schedule) => {
            disk.replace(&timer_path, schedule.as_bytes(), 0o644)
                .map_err(|error| failed("write the timer", &error))?;
            format!("{name}.timer")
        }
        None => {
            disk.remove_file(&timer_path).map_err(|error| failed("remove the timer", &error))?;
            name.to_owned()
        }
    };
    let next = [
        "systemctl --user daemon-reload".to_owned(),
        format!("systemctl --user enable --now {started}"),
        "loginctl enable-linger    # also when you are not logged in".to_owned(),
    ];
    if context.ui.json {
        context.ui.json(&json!({"unit": path, "next": next}));
    } else {
        context.ui.out(path.display().to_string());
        context.ui.talk("now:");
        next.iter().for_each(|command| context.ui.talk(format!("  {command}")));
    }
    Ok(Exit::Done)
}

/// Whether a unit serves a home.
pub fn serves(unit: &str, home: &Path) -> bool {
    let word = format!("--home {} ", quoted(&home.display().to_string()));
    unit.lines().any(|line| line.starts_with("ExecStart=") && line.contains(&word))
}

fn uninstall(context: &Context, name: &str) -> Result<Exit, Failure> {
    let home =
        std::path::absolute(&context.home).map_err(|error| failed("name the home", &error))?;
    let path = unit_folder()?.join(format!("{name}.service"));
    let disk = context.machine.disk.as_ref();
    let unit = disk.read_if_present(&path).map_err(|error| failed("read the unit", &error))?;
    let Some(unit) = unit else {
        let what = format!("there is no unit {}", path.display());
        return Err(Failure::new(Exit::Input, what).hint("--name names another one"));
    };
    if !serves(&String::from_utf8_lossy(&unit), &home) {
        let what = format!("{} serves another home", path.display());
        return Err(Failure::new(Exit::Usage, what).hint("name that home with --home"));
    }
    let timer = path.with_extension("timer");
    let has_timer = matches!(disk.stat(&timer), Ok(Some(_)));
    disk.remove_file(&path).map_err(|error| failed("take the unit away", &error))?;
    disk.remove_file(&timer).map_err(|error| failed("take the timer away", &error))?;
    let started = if has_timer { format!("{name}.timer") } else { name.to_owned() };
    let next = [
        format!("systemctl --user disable --now {started}"),
        "systemctl --user daemon-reload".to_owned(),
    ];
    if context.ui.json {
        context.ui.json(&json!({"removed": path, "next": next}));
    } else {
        context.ui.out(path.display().to_string());
        context.ui.talk("gone; now:");
        next.iter().for_each(|command| context.ui.talk(format!("  {command}")));
    }
    Ok(Exit::Done)
}

/// The unit of a service as one that works off what is there and ends.
fn oneshot(unit: &str) -> String {
    const OF_A_SERVICE: [&str; 8] = [
        "NotifyAccess=",
        "ExecReload=",
        "Restart=",
        "RestartSec=",
        "RestartPreventExitStatus=",
        "WatchdogSec=",
        // systemd ends a unit that takes longer to start, and a oneshot unit starts until it has ended.
        "TimeoutStartSec=",
        "# Usage, a bad",
    ];
    let (body, _) = unit.split_once("\n[Install]").unwrap_or((unit, ""));
    let mut out = String::new();
    for line in body.lines() {
        match line.strip_suffix(" serve").filter(|line| line.starts_with("ExecStart=")) {
            Some(call) => out.push_str(&format!("{call} drain --folders --digests\n")),
            None if line == "Type=notify" => {
                out.push_str("Type=oneshot\nTimeoutStartSec=infinity\n");
            }
            None if OF_A_SERVICE.iter().any(|start| line.starts_with(start)) => {}
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

/// The timer that starts such a unit.
fn schedule(home: &Path, when: &str) -> Result<String, Failure> {
    if !is_calendar(when) {
        return Err(Failure::new(Exit::Usage, format!("{when:?} is not a time for a timer"))
            .hint("hourly, daily, or an OnCalendar expression such as Mon..Fri 08:00"));
    }
    Ok(format!(
        "# Written by `summarizer service install --user --timer`; a later install replaces it.\n\
         [Unit]\n\
         Description=summarizer, working off {home}\n\
         \n\
         [Timer]\n\
         OnCalendar={when}\n\
         Persistent=true\n\
         \n\
         [Install]\n\
         WantedBy=timers.target\n",
        home = home.display().to_string().replace('%', "%%"),
    ))
}

/// Whether systemd reads a text as `OnCalendar`: a word such as `daily`, or weekdays, a date and a time of
/// which some may be left out, and at the end a time zone.
fn is_calendar(when: &str) -> bool {
    const WORDS: [&str; 9] = [
        "minutely",
        "hourly",
        "daily",
        "weekly",
        "monthly",
        "quarterly",
        "semiannually",
        "yearly",
        "annually",
    ];
    // A line break would begin another line of the unit.
    if when.contains(|c: char| c.is_control()) {
        return false;
    }
    let mut parts: Vec<&str> = when.split(' ').filter(|part| !part.is_empty()).collect();
    let is_zone = |part: &&&str| part.parse::<chrono_tz::Tz>().is_ok();
    if parts.len() > 1 && parts.last().as_ref().is_some_and(is_zone) {
        parts.pop();
    }
    if let [word] = parts.as_slice()
        && WORDS.contains(&word.to_ascii_lowercase().as_str())
    {
        return true;
    }
    let mut rest = parts.as_slice();
    for reads in [are_weekdays as fn(&str) -> bool, is_date, is_time_of_day] {
        if let [first, after @ ..] = rest
            && reads(first)
        {
            rest = after;
        }
    }
    !parts.is_empty() && rest.is_empty()
}

fn are_weekdays(text: &str) -> bool {
    const DAYS: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let is_day = |word: &str| {
        let word = word.to_ascii_lowercase();
        DAYS.iter().any(|day| *day == word || day[..3] == word)
    };
    text.trim_end_matches(',').split(',').all(|part| part.split("..").all(is_day))
}

fn is_date(text: &str) -> bool {
    // `~` counts the days of a month from its end.
    let parts: Vec<&str> = text.split(['-', '~']).collect();
    match parts.as_slice() {
        [month, day] => is_number_list(month, 1..=12) && is_number_list(day, 1..=31),
        [year, month, day] => {
            is_number_list(year, 0..=9999)
                && is_number_list(month, 1..=12)
                && is_number_list(day, 1..=31)
        }
        _ => false,
    }
}

fn is_time_of_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [hour, rest @ ..] if matches!(rest.len(), 1 | 2) => {
            is_number_list(hour, 0..=23) && rest.iter().all(|part| is_number_list(part, 0..=59))
        }
        _ => false,
    }
}

/// `*`, `5`, `1..5`, `*/15` and lists of them.
fn is_number_list(text: &str, range: RangeInclusive<u32>) -> bool {
    let is_number = |part: &str| {
        let (whole, fraction) = part.split_once('.').unwrap_or((part, "0"));
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        digits(fraction) && digits(whole) && whole.parse().is_ok_and(|n| range.contains(&n))
    };
    text.split(',').all(|part| {
        let (base, step) = part.split_once('/').unwrap_or((part, "1"));
        let is_step = step.parse::<u32>().is_ok_and(|step| step > 0);
        let is_base = match base.split_once("..") {
            Some((from, to)) => is_number(from) && is_number(to),
            None => base == "*" || is_number(base),
        };
        is_step && is_base
    })
}

/// Where the user's units lie.
pub(crate) fn unit_folder() -> Result<PathBuf, Failure> {
    let given = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let usual = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    given.filter(|path| path.is_absolute()).or_else(usual).map_or_else(
        || Err(Failure::new(Exit::Input, "neither XDG_CONFIG_HOME nor HOME is set")),
        |config| Ok(config.join("systemd/user")),
    )
}

/// A path or word as systemd reads it back.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '%' => out.push_str("%%"),
            '$' => out.push_str("$$"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The text of the unit. It may write the home and the folders that the settings place outside it.
fn unit(binary: &Path, home: &Path, config_file: Option<&Path>, config: &Config) -> String {
    let word = |path: &Path| quoted(&path.display().to_string());
    let mut call = format!("{} --home {}", word(binary), word(home));
    if let Some(file) = config_file {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let _ = write!(call, " --config {}", word(&file));
    }
    let places = Home::new(home, config);
    let mut writable = vec![home.to_owned()];
    let around = [places.queue.parent().map(Path::to_owned), Some(places.buses)];
    writable.extend(around.into_iter().flatten().filter(|path| !path.starts_with(home)));
    let is_temporary =
        writable.iter().any(|path| path.starts_with("/tmp") || path.starts_with("/var/tmp"));
    let writable: Vec<String> = writable.iter().map(|path| word(path)).collect();
    let stop = config.shutdown_grace_ms.max(0) / 1000 + 30;
    // A service has no variables of this shell: without them it would work with other settings.
    let settings: String = config
        .settings()
        .iter()
        .filter_map(|setting| match &setting.origin {
            Origin::Environment(name) => {
                let value = match &setting.value {
                    toml::Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                let said = quoted(&format!("{name}={value}"));
                // Only a command has variables within it.
                Some(format!("Environment={}\n", said.replace("$$", "$")))
            }
            _ => None,
        })
        .collect();
    format!(
        "# Written by `summarizer service install --user`; a later install replaces it.\n\
         [Unit]\n\
         Description=summarizer, serving {home}\n\
         StartLimitIntervalSec=10min\n\
         StartLimitBurst=10\n\
         \n\
         [Service]\n\
         Type=notify\n\
         NotifyAccess=main\n\
         ExecStart={call} serve\n\
         ExecReload={call} reload\n\
         # Keys of model providers, NAME=value a line; never in the settings.\n\
         EnvironmentFile=-{environment}\n\
         {settings}\
         # Usage, a bad configuration and a missing input are not cured by starting again.\n\
         Restart=on-failure\n\
         RestartSec=5\n\
         RestartPreventExitStatus=2 3 5\n\
         WatchdogSec=60\n\
         TimeoutStartSec=5min\n\
         TimeoutStopSec={stop}\n\
         UMask={umask}\n\
         LimitCORE=0\n\
         MemoryMax=50%\n\
         TasksMax=4096\n\
         # It writes here and nowhere else.\n\
         ProtectSystem=strict\n\
         ProtectHome=read-only\n\
         ReadWritePaths={writable}\n\
         PrivateTmp={private_tmp}\n\
         PrivateDevices=yes\n\
         PrivateUsers=yes\n\
         DevicePolicy=closed\n\
         ProtectProc=invisible\n\
         ProcSubset=pid\n\
         ProtectClock=yes\n\
         ProtectControlGroups=yes\n\
         ProtectHostname=yes\n\
         ProtectKernelLogs=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         CapabilityBoundingSet=\n\
         AmbientCapabilities=\n\
         KeyringMode=private\n\
         RemoveIPC=yes\n\
         NoNewPrivileges=yes\n\
         LockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n\
         RestrictNamespaces=yes\n\
         RestrictRealtime=yes\n\
         RestrictSUIDSGID=yes\n\
         SystemCallArchitectures=native\n\
         SystemCallFilter=@system-service\n\
         # The jail of Python nodes.\n\
         SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp\n\
         SystemCallFilter=~@clock @cpu-emulation @debug @module @mount @obsolete @raw-io @reboot @swap\n\
         SystemCallErrorNumber=EPERM\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        home = home.display().to_string().replace('%', "%%"),
        // systemd reads this path to the end of the line, without quotes.
        environment = home.join("summarizer.env").display().to_string().replace('%', "%%"),
        writable = writable.join(" "),
        // A folder of its own would hide a home that lies below /tmp.
        private_tmp = if is_temporary { "no" } else { "yes" },
        umask = if config.files_group.is_some() { "0027" } else { "0077" },
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_unit_has_the_settings_of_the_shell_that_wrote_it() {
        let set = [("BUS_HOME", "/srv/50% buses"), ("SUMMARIZER_WORKERS_COUNT", "3")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = Config::load(None, &set, 1).unwrap();
        let unit = unit(Path::new("/usr/bin/summarizer"), Path::new("/srv/home"), None, &config);
        for line in ["\"BUS_HOME=/srv/50%% buses\"", "\"SUMMARIZER_WORKERS_COUNT=3\""] {
            assert!(unit.contains(&format!("\nEnvironment={line}\n")), "{unit}");
        }
    }

    #[test]
    fn a_unit_names_what_it_may_write_and_survives_odd_names() {
        let text = "queue.path = \"/srv/in/queue.jsonl\"\n";
        let config = Config::load(Some(text), &BTreeMap::new(), 1).unwrap();
        let home = Path::new("/home/me/50% \"odd\" $home");
        let unit = unit(Path::new("/usr/bin/summarizer"), home, None, &config);
        let odd = "\"/home/me/50%% \\\"odd\\\" $$home\"";
        assert!(unit.contains(&format!("ReadWritePaths={odd} \"/srv/in\"\n")), "{unit}");
        let start = format!("ExecStart=\"/usr/bin/summarizer\" --home {odd} serve\n");
        assert!(unit.contains(&start), "{unit}");
        assert!(
            unit.contains("EnvironmentFile=-/home/me/50%% \"odd\" $home/summarizer.env\n"),
            "{unit}"
        );
        assert!(unit.contains("PrivateTmp=yes\n") && unit.contains("UMask=0077\n"), "{unit}");
        let once = oneshot(&unit);
        for line in ["Type=oneshot", "TimeoutStartSec=infinity", "NoNewPrivileges=yes"] {
            assert!(once.lines().any(|found| found == line), "{line} is missing\n{once}");
        }
        assert!(
            once.contains(&format!("--home {odd} drain --folders --digests\n"))
                && serves(&once, home)
        );
        for gone in ["notify", "Restart", "Watchdog", "[Install]"] {
            assert!(!once.contains(gone), "{gone}\n{once}");
        }
        assert!(schedule(home, "hourly").unwrap().contains("OnCalendar=hourly\n"));
        assert!(schedule(home, "x\nExecStart=y").is_err());
    }

    #[test]
    fn a_timer_takes_the_times_that_systemd_reads() {
        for when in [
            "hourly",
            "Weekly",
            "Mon..Fri 08:00",
            "*-*-* 02:30:00",
            "Sat,Sun *-*-1..7 18:00:00",
            "12:05",
            "*:0/15",
            "*-02~03",
            "2026-12-24 20:00 Europe/Berlin",
            "daily UTC",
            "monday",
            "05-01",
        ] {
            assert!(is_calendar(when), "{when}");
        }
        for when in [
            "",
            " ",
            "often",
            "every day",
            "25:00",
            "08:61",
            "Mon..Fryday",
            "13-01",
            "8",
            "daily now",
            "08:00\nExecStart=y",
            "*:0/0",
            "noon",
        ] {
            assert!(!is_calendar(when), "{when:?}");
        }
    }

    #[test]
    fn a_service_stops_in_time_and_tells_the_manager_that_it_lives() {
        let config = Config::load(None, &BTreeMap::new(), 1).unwrap();
        let unit = unit(Path::new("/usr/bin/summarizer"), Path::new("/srv/home"), None, &config);
        for line in ["Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes", "TimeoutStopSec=60"] {
            assert!(unit.lines().any(|found| found == line), "{line} is missing");
        }
    }
}
