//! Reports to the service manager, and SIGHUP, which makes the service read its settings again.
//!
//! Both use the control socket like every other question, so a report means that the sequencer
//! answers. A service that does not answer is not reported alive, and the manager ends it.

use std::time::Duration;

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_config;
use crate::control::question::{Answer, Question};
use crate::control::socket::ControlClient;
use crate::home::Home;
use crate::os::notify::Notifier;
use crate::os::signals::HangUps;

/// How often the progress of a start is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time that each progress report adds to the limit of a start.
const MORE_TIME: Duration = Duration::from_secs(60);
/// How often a manager without a watchdog gets a report.
const STATUS_EVERY: Duration = Duration::from_secs(30);

/// Starts both. Called before the process has any other thread.
pub fn start(context: &Context) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::new(Exit::Bug, "cannot watch over the service").because(error)
    };
    let config = load_config(context)?;
    let socket = Home::new(&context.home, &config).socket();
    if let Some(hangups) = HangUps::hold().map_err(|error| failed(&error))? {
        let socket = socket.clone();
        std::thread::Builder::new()
            .name("hangups".to_owned())
            .spawn(move || {
                while hangups.wait().is_ok() {
                    reload(&socket);
                }
            })
            .map_err(|error| failed(&error))?;
    }
    if let Some(manager) = Notifier::from_environment() {
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || report(&manager, &socket))
            .map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn ask(socket: &std::path::Path, question: &Question) -> Option<Answer> {
    ControlClient::connect(socket).and_then(|mut client| client.ask(question)).ok()
}

fn reload(socket: &std::path::Path) {
    let manager = Notifier::from_environment();
    if let Some(manager) = &manager {
        manager.reloading();
    }
    let told = match ask(socket, &Question::Reload { accept_mutations: false }) {
        Some(Answer::Ok(_)) => {
            tracing::warn!("settings and registry were read again");
            "serving; settings were read again".to_owned()
        }
        Some(Answer::Refused(why)) => {
            tracing::error!(%why, "the new settings are not used");
            format!("serving; the new settings are not used: {why}")
        }
        other => {
            tracing::error!(?other, "the service did not answer the signal to reload (SIGHUP)");
            return;
        }
    };
    if let Some(manager) = &manager {
        manager.ready(&told);
    }
}

fn report(manager: &Notifier, socket: &std::path::Path) {
    loop {
        match ask(socket, &Question::Status) {
            Some(Answer::Ok(status)) => {
                manager.ready(&line(&status));
                break;
            }
            Some(Answer::Starting(how_far)) => manager.starting(&how_far, MORE_TIME),
            _ => {}
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let every = manager.watchdog().map_or(STATUS_EVERY, |watchdog| watchdog / 3);
    loop {
        std::thread::sleep(every);
        match ask(socket, &Question::Status) {
            Some(Answer::Ok(status)) => manager.alive(&line(&status)),
            // It leaves the home alone for a while.
            Some(Answer::Starting(how_far)) => manager.alive(&how_far),
            _ => {}
        }
    }
}

fn line(status: &serde_json::Value) -> String {
    let requests = &status["requests"];
    format!(
        "{} taken in, {} open, {} running, {} behind",
        requests["taken"],
        requests["open"],
        requests["running"],
        super::ui::told(&status["queue"]["lag_bytes"], "byte")
    )
}
