//! `summarizer worker`: the process in which a service runs flows. A service starts it; it is no command for a
//! person.

use clap::Args;

use super::failure::Exit;
use super::ui;
use crate::os::parent::die_with;
use crate::os::signals;
use crate::work::isolation::inside;

/// Runs flows for the service that started it
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The process that reads the answers
    parent: u32,
    /// The most bytes of address space
    memory: u64,
}

impl WorkerArgs {
    pub(super) fn run(&self) -> Exit {
        if !die_with(self.parent) {
            ui::say("a service starts `summarizer worker` itself");
            return Exit::Usage;
        }
        // A signal to all processes of a service is for the service: it ends its processes itself.
        signals::leave_to_parent();
        let (from, to) = (std::io::stdin().lock(), std::io::stdout().lock());
        match inside::serve(from, to, self.memory) {
            Ok(()) => Exit::Done,
            Err(error) => {
                ui::say(&format!("a worker process ends: {error}"));
                Exit::Bug
            }
        }
    }
}
