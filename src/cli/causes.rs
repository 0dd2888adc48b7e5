//! What a command reports, with which exit code and advice, when a part below it fails.

use std::io::ErrorKind;

use super::Context;
use super::failure::{Exit, Failure, Trouble};
use crate::digest::build::BuildError;
use crate::import::ImportError;
use crate::log::checkpoint::RestoreError;
use crate::log::{KeysError, LogError, ReadError};
use crate::projections::exporter::ExporterError;
use crate::projections::projector::ProjectorError;
use crate::projections::summaries::SummariesError;
use crate::seam::append::AppendError;
use crate::seam::position::QueueError;
use crate::sequencer::engine::EngineError;
use crate::sequencer::mark::MarkError;
use crate::service::ServiceError;
use crate::upkeep::forget::ForgetError;

/// The Summary Bus could not be brought up to date.
pub(crate) fn not_published(error: &SummariesError) -> Failure {
    let exit = if error.is_violation() { Exit::Input } else { Exit::Storage };
    Failure::new(exit, "cannot publish the summaries")
        .because(error)
        .hint("no accepted request is lost; the next start publishes the missing summaries")
}

/// A projection that could not be compared or written.
pub(crate) fn exporter_failed(error: &ExporterError) -> Failure {
    match error.source.downcast_ref::<SummariesError>() {
        Some(error) => not_published(error),
        None => Failure::new(Exit::Storage, error.to_string()).because(error.source.as_ref()),
    }
}

pub(crate) fn digests_failed(error: &BuildError) -> Failure {
    Failure::new(Exit::Storage, "cannot update the digests to the state of the log").because(error)
}

/// Another process holds the home and does not answer.
pub(super) fn busy(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Busy, "another process holds this home and does not answer")
        .because(error)
        .hint("wait for it to end; its process id is in run/summarizer.lock")
}

/// Another process holds the home.
pub(crate) fn held_by_another(context: &Context) -> Failure {
    let path = context.home.join("run/summarizer.lock");
    let pid = context.machine.disk.read(&path).unwrap_or_default();
    let pid = String::from_utf8_lossy(&pid).trim().to_owned();
    Failure::new(Exit::Busy, format!("another process holds this home (pid {pid})"))
        .hint("`summarizer status` shows its state; stop it before you start another one")
}

pub(crate) fn log_failed(error: &LogError) -> Failure {
    let failure = Failure::new(Exit::Storage, "cannot read or write the log").because(error);
    match error {
        LogError::Busy => Failure::new(Exit::Busy, "another process has the log open"),
        LogError::Newer { release, .. } => failure.hint(format!(
            "nothing was changed; install summarizer {release} or newer to open this home"
        )),
        LogError::Keys(KeysError::Sealed { .. } | KeysError::WrongKey { .. }) => {
            Failure::new(Exit::Config, "cannot open the log")
                .because(error)
                .hint("[encrypt] in summarizer.toml says where the key of the home comes from")
        }
        LogError::Keys(_) => failure.hint(
            "restore the file from a backup; without it `summarizer recover` makes a new log from the queue, \
             the acks and the published summaries: answers and histories are lost",
        ),
        #[cfg(feature = "cluster")]
        LogError::Shared(_) => failure.hint(
            "give the command on the host that leads, while its service runs: `summarizer cluster status` names it; \
             requests in the queue of this host are taken in while `summarizer serve` runs here",
        ),
        // The cause has its own advice.
        _ if failure.trouble().is_some() => failure,
        _ => failure.hint("start the command again; every start recovers"),
    }
}

pub(crate) fn mark_failed(error: &MarkError) -> Failure {
    Failure::new(Exit::Storage, "cannot find the position at which reading of the queue continues")
        .because(error)
        .hint(Trouble::Damage.hint())
}

pub(crate) fn engine_failed(error: &EngineError) -> Failure {
    match error {
        EngineError::Read(ReadError::Log(error))
        | EngineError::Commit(error)
        | EngineError::Restore(RestoreError::Log(error)) => log_failed(error),
        EngineError::Writer(error) => {
            Failure::new(Exit::Storage, "cannot write to the log").because(error)
        }
        EngineError::Mark(error) => mark_failed(error),
        EngineError::Read(error) => Failure::new(Exit::Storage, "cannot read an event of the log")
            .because(error)
            .hint(Trouble::Damage.hint()),
        error => {
            Failure::new(Exit::Storage, "cannot replay the log: its events contradict each other")
                .because(error)
                .hint(Trouble::Damage.hint())
        }
    }
}

pub(crate) fn projector_failed(error: &ProjectorError) -> Failure {
    Failure::new(Exit::Storage, "cannot bring run/ack.jsonl and run/quarantine.jsonl up to date")
        .because(error)
        .hint("make both files writable, or delete them: they are written again from the log")
}

pub(crate) fn service_failed(error: &ServiceError) -> Failure {
    match error {
        ServiceError::Engine(error) => engine_failed(error),
        ServiceError::Mark(error) => mark_failed(error),
        ServiceError::Projector(error) => projector_failed(error),
        ServiceError::Queue(error @ QueueError::Changed { .. }) => {
            Failure::new(Exit::Input, "cannot continue reading the queue")
                .because(error)
                .hint("`summarizer queue adopt` shows what changed and continues")
        }
        ServiceError::Queue(error @ QueueError::Io { source, .. }) if is_no_file(source.kind()) => {
            no_queue_file(error)
        }
        ServiceError::Queue(error) => {
            Failure::new(Exit::Storage, "cannot read the queue").because(error)
        }
        error => Failure::new(Exit::Storage, "the service stopped").because(error),
    }
}

/// Whether the system says that a name is no regular file.
fn is_no_file(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidInput | ErrorKind::IsADirectory)
}

/// The queue is a pipe, a device, a folder, or a link that leads out of its folder.
fn no_queue_file(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::new(Exit::Input, "the queue is no file in its folder")
        .because(error)
        .hint("set `queue.path` to a regular file, and not to a link out of its folder")
}

/// A failed append, with what to do about it.
pub(crate) fn append_failed(error: &AppendError) -> Failure {
    match error {
        AppendError::Io { source, .. } if is_no_file(source.kind()) => no_queue_file(error),
        AppendError::Io { .. } => Failure::new(Exit::Storage, "cannot append to the queue")
            .because(error)
            .hint("submitting again is safe: repeated requests become duplicates"),
        error => Failure::new(Exit::Input, "the request was not appended").because(error),
    }
}

pub(crate) fn not_taken_back(error: &ImportError) -> Failure {
    Failure::new(Exit::Storage, "cannot take the texts out of the home")
        .because(error)
        .hint("correct that and run the command again: it carries on where it stopped")
}

pub(crate) fn not_forgotten(error: &ForgetError) -> Failure {
    let failure = match error {
        ForgetError::Log(error) => log_failed(error),
        _ => Failure::new(Exit::Storage, "cannot forget").because(error),
    };
    failure.hint("run the command again: it carries on where it stopped")
}
