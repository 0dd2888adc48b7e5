//! The service under a service manager: the messages it sends, hang-up signals, JSON logs, and a unit
//! that systemd accepts.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at a surprise")]

mod support;

use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::process::{ProcessHome, Ran};
use support::requests::{ACTIVE, lines, request};
use support::running::signal;

struct Manager(UnixDatagram);

impl Manager {
    fn of(home: &ProcessHome) -> Manager {
        let socket = UnixDatagram::bind(home.path("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        Manager(socket)
    }

    /// Waits for a message that contains `what` and returns it.
    fn hears(&self, what: &str) -> String {
        loop {
            let mut buffer = [0; 1024];
            let count = self.0.recv(&mut buffer).unwrap_or_else(|e| panic!("{what}: {e}"));
            let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if text.lines().any(|line| line == what) {
                return text;
            }
        }
    }
}

#[test]
fn a_service_manager_is_told_ready_alive_reloading_and_stopping() {
    let home = ProcessHome::new();
    std::fs::write(home.path("summarizer.toml"), "log_format = \"json\"\n").unwrap();
    let manager = Manager::of(&home);
    let mut service = home.command(&["serve"]);
    service
        .env("NOTIFY_SOCKET", home.path("notify"))
        .env("WATCHDOG_USEC", "300000")
        .stderr(Stdio::piped());
    let service = service.spawn().unwrap();
    let ready = manager.hears("READY=1");
    assert!(ready.contains("STATUS=0 taken in"), "{ready}");
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    // A bad configuration is refused, and the old one stays in force.
    let good = "log_format = \"json\"\n[retry]\nmax_attempts = 3\n";
    std::fs::write(home.path("summarizer.toml"), "[retry]\nmax_attempts = \"many\"\n").unwrap();
    signal(&service, Signal::HUP);
    manager.hears("RELOADING=1");
    let refused = manager.hears("READY=1");
    assert!(refused.contains("the old settings stay in force"), "{refused}");
    std::fs::write(home.path("summarizer.toml"), good).unwrap();
    signal(&service, Signal::HUP);
    manager.hears("RELOADING=1");
    let taken = manager.hears("READY=1");
    assert!(taken.contains("settings were read again"), "{taken}");
    home.note("a.txt", "It goes on. It always does.");
    home.append(&lines(&[request("a", ACTIVE, json!({}))]));
    while home.acks().iter().all(|ack| ack["status"] != "completed") {
        manager.hears("WATCHDOG=1");
    }
    signal(&service, Signal::TERM);
    manager.hears("STOPPING=1");
    let ran = Ran::of(service.wait_with_output().unwrap());
    assert_eq!(ran.exit, Some(0), "{}", ran.err);
    // Every log line is JSON with a level, except the messages at start and end.
    let logged: Vec<Value> =
        ran.err.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(
        logged.iter().any(|line| line["level"] == "ERROR"
            && line["why"].as_str().unwrap_or_default().contains("max_attempts")),
        "{}",
        ran.err
    );
    let events = home.expect(0, &["log", "dump"]).json_lines();
    let reloads = events.iter().filter(|event| event["event"] == "ConfigReloaded").count();
    assert_eq!(reloads, 1);
}

#[test]
fn a_unit_is_printed_written_and_accepted_by_systemd() {
    let home = ProcessHome::new();
    let shown = home.expect(0, &["service", "install", "--user", "--print"]).out;
    assert!(shown.contains("Type=notify") && shown.contains("serve\n"), "{shown}");
    home.expect(2, &["service", "install"]).says(&["--user"]);
    home.expect(2, &["service", "install", "--user", "--name", "a b"])
        .says(&["cannot be the name of a unit"]);
    let mut install = home.command(&["service", "install", "--user", "--name", "mine"]);
    let installed = Ran::of(install.env("XDG_CONFIG_HOME", home.path("config")).output().unwrap());
    assert_eq!(installed.exit, Some(0), "{}", installed.err);
    installed.says(&["mine.service", "systemctl --user enable --now mine"]);
    let path = home.path("config/systemd/user/mine.service");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shown);
    let analyze = |unit: &std::path::Path| {
        let mut analyze = Command::new("systemd-analyze");
        analyze.env("XDG_RUNTIME_DIR", home.path("run")).args(["verify", "--user"]);
        analyze.arg(unit).output().map(Ran::of)
    };
    // A minimal unit shows whether systemd-analyze works on this machine.
    let plain = home.path("plain.service");
    std::fs::write(&plain, "[Service]\nExecStart=/bin/sh -c :\n").unwrap();
    if analyze(&plain).is_ok_and(|told| told.exit == Some(0)) {
        let told = analyze(&path).unwrap();
        assert_eq!(told.exit, Some(0), "{}{}", told.out, told.err);
        // Only a home below /tmp, as here, needs the common folder for temporary files.
        let usual = home.path("usual.service");
        std::fs::write(&usual, shown.replace("PrivateTmp=no", "PrivateTmp=yes")).unwrap();
        let mut score = Command::new("systemd-analyze");
        score.args(["security", "--offline=true", "--threshold=20", "--no-pager"]).arg(&usual);
        let told = Ran::of(score.output().unwrap());
        assert_eq!(told.exit, Some(0), "an exposure of 2.0 or more\n{}{}", told.out, told.err);
    } else {
        let told = "LEFT OUT: systemd-analyze does not work here: the unit is not checked by it";
        let _ = writeln!(std::io::stderr().lock(), "!! {told}");
    }
}

#[test]
fn each_home_has_its_own_unit_and_removes_only_that_one() {
    let (home, other) = (ProcessHome::new(), ProcessHome::new());
    let config = home.path("config");
    let run = |of: &ProcessHome, exit: i32, args: &[&str]| {
        let ran = Ran::of(of.command(args).env("XDG_CONFIG_HOME", &config).output().unwrap());
        assert_eq!(ran.exit, Some(exit), "{args:?}\n{}\n{}", ran.out, ran.err);
        ran
    };
    let (install, uninstall) =
        (["service", "install", "--user"], ["service", "uninstall", "--user"]);
    run(&home, 0, &install);
    // Writing it again is fine. From another home it would replace the unit of the first.
    run(&home, 0, &install);
    let unit = config.join("systemd/user/summarizer.service");
    let written = std::fs::read(&unit).unwrap();
    run(&other, 2, &install).says(&["serves another home", "--name summarizer-"]);
    run(&other, 2, &uninstall).says(&["serves another home"]);
    assert_eq!(std::fs::read(&unit).unwrap(), written);
    run(&other, 0, &["service", "install", "--user", "--name", "second"]);
    run(&home, 0, &uninstall).says(&["systemctl --user disable --now summarizer"]);
    assert!(!unit.exists() && config.join("systemd/user/second.service").exists());
    run(&home, 5, &uninstall).says(&["there is no unit"]);
}
