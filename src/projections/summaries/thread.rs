//! Publishing beside a running service.
//!
//! Contract: between two publications there is always the configured interval, and so much time
//! that publishing never takes more than its configured share. The end of a session asks for
//! one publication of everything and gets its result.
//!
//! See docs/adr/0052-publishing-rate.md.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::bus::Summaries;
use super::error::SummariesError;
use crate::facts::session::Promoted;
use crate::projections::projection::{Outcome, Projection};

/// The smallest share that a setting may ask for; with less, no day would ever be published.
const SHARE_MIN: f64 = 0.001;
/// Longest pause, however long the last publication took.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// How often to publish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Least time between two publications.
    pub interval: Duration,
    /// Largest share of time they may take.
    pub share: f64,
}

impl Pace {
    /// How long to wait after a publication that took this long.
    pub(crate) fn pause_after(self, took: Duration) -> Duration {
        let share = self.share.clamp(SHARE_MIN, 1.0);
        let rest = took.mul_f64((1.0 - share) / share);
        rest.min(PAUSE_MAX).max(self.interval)
    }
}

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
        let (trouble, troubles) = unbounded();
        let thread = std::thread::Builder::new().name("summaries".to_owned());
        let work = Work { summaries, beside, pace, asked, stopped, trouble, last: None };
        let thread = thread.spawn(move || work.run())?;
        Ok(SummariesThread { client: Publishing { flushes, troubles }, thread, stop })
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
    asked: Receiver<Sender<Flushed>>,
    stopped: Receiver<()>,
    trouble: Sender<PublicationFailure>,
    last: Option<PublicationFailure>,
}

impl Work {
    fn run(mut self) -> Published {
        loop {
            let began = Instant::now();
            self.publish();
            let pause = self.pace.pause_after(began.elapsed());
            crossbeam_channel::select! {
                recv(self.stopped) -> _ => return (self.summaries, self.beside),
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
                default(pause) => {}
            }
        }
    }

    /// Publishes; a new kind of trouble is reported once.
    fn publish(&mut self) -> Option<PublicationFailure> {
        let published = self.summaries.publish(None).and_then(|published| {
            write(&mut self.beside).map_err(SummariesError::Beside)?;
            Ok(published)
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_takes_no_more_than_its_share() {
        let pace = Pace { interval: Duration::from_millis(100), share: 0.1 };
        assert_eq!(pace.pause_after(Duration::ZERO), Duration::from_millis(100));
        assert_eq!(pace.pause_after(Duration::from_millis(1)), Duration::from_millis(100));
        for seconds in [1, 5, 20] {
            let took = Duration::from_secs(seconds);
            let share = took.as_secs_f64() / (took + pace.pause_after(took)).as_secs_f64();
            assert!((share - 0.1).abs() < 1e-9, "{share}");
        }
        let all = Pace { share: 1.0, ..pace };
        assert_eq!(all.pause_after(Duration::from_secs(9)), Duration::from_millis(100));
        let none = Pace { share: 0.0, ..pace };
        assert_eq!(none.pause_after(Duration::from_secs(9)), PAUSE_MAX);
    }
}
