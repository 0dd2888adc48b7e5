//! Ctrl-C in commands that take long: after the first one, what is under way ends and nothing new
//! begins; the second ends the process immediately.

use std::io::{self, IsTerminal as _};

use super::Context;
use super::failure::{Exit, Failure};
use crate::model::calls_under_way;
use crate::service::StopSignal;

/// Exit code after an interrupt: the code that shells report for an interrupted process.
const INTERRUPTED: i32 = Exit::Interrupted as i32;

/// Listens for an interrupt. It prints first what still ends: the number of calls to models, or `told` where there
/// are none. `then` runs after it.
pub(super) fn listen(
    context: &Context,
    told: &'static str,
    then: impl Fn() + Send + 'static,
) -> Result<StopSignal, Failure> {
    let (stop, ui) = (context.stop.clone(), context.ui);
    let handler = ctrlc::set_handler(move || {
        if stop.raise() > 0 {
            std::process::exit(INTERRUPTED);
        }
        // On a terminal the mark of the key and a bar of progress may stand on this line.
        let line = if io::stderr().is_terminal() { "\n" } else { "" };
        let ends = match calls_under_way() {
            0 => told.to_owned(),
            1 => "1 call under way ends first".to_owned(),
            many => format!("{many} calls under way end first"),
        };
        ui.talk(format!("{line}stopping: {ends}; interrupt again to end now"));
        then();
    });
    match handler {
        // An earlier part of the command listens already, to the same signal.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(context.stop.clone()),
        Err(error) => Err(Failure::new(Exit::Bug, "cannot listen for signals").because(&error)),
    }
}

/// The end of an interrupted command: what is done, and what to do next.
pub(super) fn stopped(done: impl Into<String>, next: impl Into<String>) -> Failure {
    Failure::new(Exit::Interrupted, done).hint(next)
}
