//! Publishing beside a running service.
//!
//! Contract: [`pace`](super::pace) says when. The end of a session asks for one publication of everything
//! and gets its result.

use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::bus::Summaries;
use super::error::SummariesError;
use super::pace::{Pace, Pacer};
use crate::facts::session::Promoted;
use crate::projections::projection::{Outcome, Projection};

/// A publication that did not happen.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicationFailure {
    pub message: String,
    /// Whether what was to be shown is wrong, rather than the disk.
    pub violation: bool,
}

impl PublicationFailure {
    fn of(error: &SummariesError) -> PublicationFailure {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        PublicationFailure { message, violation: error.is_violation() }
    }
}

/// What a flush came to.
type Flushed = Result<Vec<Promoted>, (PublicationFailure, Vec<Promoted>)>;

/// Asks the publisher beside the service.
#[derive(Clone)]
pub struct Publishing {
    flushes: Sender<Sender<Flushed>>,
    wishes: Sender<()>,
    troubles: Receiver<PublicationFailure>,
}

impl Publishing {
    /// Shows everything that is committed, and says what was shown since the last call.
    pub(crate) fn flush(&self) -> Flushed {
        let (reply, answer) = bounded(1);
        let ended = || {
            let message = "the publisher ended early".to_owned();
            (PublicationFailure { message, violation: false }, Vec::new())
        };
        self.flushes.send(reply).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }

    /// Says that somebody waits for what is not published yet.
    pub(crate) fn ask(&self) {
        // A wish that waits already counts for both.
        let _ = self.wishes.try_send(());
    }

    /// What went wrong since the last call, each thing once.
    pub fn trouble(&self) -> Option<PublicationFailure> {
        self.troubles.try_recv().ok()
    }
}

pub(crate) struct SummariesThread {
    client: Publishing,
    thread: JoinHandle<Published>,
    stop: Sender<()>,
}

impl SummariesThread {
    /// Starts publishing.
    ///
    /// `beside` are other projections that it brings up to the log after each publication.
    pub(crate) fn start(
        summaries: Summaries,
        beside: Vec<Box<dyn Projection>>,
        pace: Pace,
    ) -> std::io::Result<SummariesThread> {
        let (stop, stopped) = bounded::<()>(0);
        let (flushes, asked) = unbounded();
        let (wishes, wished) = bounded(1);
        let (trouble, troubles) = unbounded();
        let thread = std::thread::Builder::new().name("summaries".to_owned());
        let pacer = Pacer::new(pace);
        let work =
            Work { summaries, beside, pace, pacer, asked, wished, stopped, trouble, last: None };
        let thread = thread.spawn(move || work.run())?;
        Ok(SummariesThread { client: Publishing { flushes, wishes, troubles }, thread, stop })
    }

    /// A way to ask it.
    pub(crate) fn client(&self) -> Publishing {
        self.client.clone()
    }

    /// Ends the thread and publishes everything that is left.
    pub(crate) fn finish(self) -> Result<(), SummariesError> {
        drop(self.stop);
        let (mut summaries, mut beside) = self.thread.join().map_err(|_| SummariesError::Ended)?;
        summaries.publish(None)?;
        summaries.close()?;
        write(&mut beside).map_err(SummariesError::Beside)
    }
}

/// What the thread gives back when it ends.
type Published = (Summaries, Vec<Box<dyn Projection>>);

fn write(projections: &mut [Box<dyn Projection>]) -> Outcome<()> {
    projections.iter_mut().try_for_each(|projection| {
        projection.advance(None)?;
        projection.checkpoint().map(drop)
    })
}

struct Work {
    summaries: Summaries,
    beside: Vec<Box<dyn Projection>>,
    pace: Pace,
    pacer: Pacer,
    asked: Receiver<Sender<Flushed>>,
    wished: Receiver<()>,
    stopped: Receiver<()>,
    trouble: Sender<PublicationFailure>,
    last: Option<PublicationFailure>,
}

impl Work {
    fn run(mut self) -> Published {
        self.publish();
        loop {
            crossbeam_channel::select! {
                recv(self.stopped) -> _ => return (self.summaries, self.beside),
                recv(self.wished) -> _ => self.pacer.ask(),
                recv(self.asked) -> reply => {
                    if let Ok(reply) = reply {
                        let outcome = self.publish();
                        let promoted = self.summaries.take_promoted();
                        let answer = outcome.map_or(Ok(()), Err);
                        let answer = match answer {
                            Ok(()) => Ok(promoted),
                            Err(trouble) => Err((trouble, promoted)),
                        };
                        // The asker may be gone; all that it asked for is on disk.
                        let _ = reply.send(answer);
                    }
                }
                default(self.pace.look()) => {}
            }
            if self.is_due() {
                self.publish();
            }
        }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        // An error is told by the publication that it prevents.
        self.pacer.may_work(now)
            && self.summaries.waiting().map_or(true, |waiting| self.pacer.is_due(now, waiting))
    }

    /// Publishes; a new kind of trouble is reported once.
    fn publish(&mut self) -> Option<PublicationFailure> {
        let began = Instant::now();
        let published = self.summaries.publish(None).and_then(|published| {
            write(&mut self.beside).map_err(SummariesError::Beside)?;
            Ok(published)
        });
        let volume = self.summaries.take_volume();
        self.pacer.published(began, Instant::now(), volume);
        match published {
            Ok(_) => {
                self.last = None;
                None
            }
            Err(error) => {
                let trouble = PublicationFailure::of(&error);
                tracing::warn!(error = trouble.message, "the summaries are not published yet");
                if self.last.as_ref() != Some(&trouble) {
                    let _ = self.trouble.send(trouble.clone());
                    self.last = Some(trouble.clone());
                }
                Some(trouble)
            }
        }
    }
}
