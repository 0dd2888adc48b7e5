//! When to publish.
//!
//! Contract. A day file is written as a whole, so a publication may write far more than it shows. In an hour
//! the publisher writes at most so many bytes for each byte that it shows, or [`FREE_BYTES`] where that is
//! more. Nothing waits longer than the longest delay. Whoever asks for a publication waits only for the
//! interval and for the share of time.
//!
//! See docs/adr/0052-publishing-rate.md.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The smallest share that a setting may ask for; with less, no day would ever be published.
const SHARE_MIN: f64 = 0.001;
/// Bytes that may be written in an hour, however few are shown.
const FREE_BYTES: u64 = 64 << 20;
/// How far back writing is counted.
const COUNTED: Duration = Duration::from_secs(3600);
/// Longest time between two looks at the log.
const LOOK: Duration = Duration::from_millis(250);

/// How often to publish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    /// Least time between two publications.
    pub interval: Duration,
    /// Largest share of time they may take.
    pub share: f64,
    /// Longest time that a summary waits.
    pub longest: Duration,
    /// Bytes that may be written for each one that is shown.
    pub written_for_each: f64,
}

impl Pace {
    /// How long to wait after a publication that took this long.
    pub(super) fn pause_after(self, took: Duration) -> Duration {
        let share = self.share.clamp(SHARE_MIN, 1.0);
        let rest = took.mul_f64((1.0 - share) / share);
        rest.min(self.longest).max(self.interval)
    }

    /// Time between two looks at what waits.
    pub(super) fn look(self) -> Duration {
        (self.interval / 4).clamp(Duration::from_millis(1), LOOK)
    }
}

/// What a publication writes, and how much of it was not there before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Volume {
    pub written: u64,
    pub shown: u64,
}

/// What waits to be published since when, and what was written in the last hour.
pub(super) struct Pacer {
    pace: Pace,
    /// Volumes of the last hour, oldest first.
    hour: VecDeque<(Instant, Volume)>,
    /// No publication before this.
    rests_until: Option<Instant>,
    /// The first look that found something.
    waits_since: Option<Instant>,
    /// The end of the last publication: nothing waits for longer than since then.
    published_at: Option<Instant>,
    is_asked_for: bool,
}

impl Pacer {
    pub(super) fn new(pace: Pace) -> Pacer {
        Pacer {
            pace,
            hour: VecDeque::new(),
            rests_until: None,
            waits_since: None,
            published_at: None,
            is_asked_for: false,
        }
    }

    /// Somebody waits for what is not published yet.
    pub(super) fn ask(&mut self) {
        self.is_asked_for = true;
    }

    /// Whether a publication may take place now, as far as time is concerned.
    pub(super) fn may_work(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| now >= until)
    }

    /// Whether to publish what waits now; `waiting` is `None` where nothing does.
    pub(super) fn is_due(&mut self, now: Instant, waiting: Option<Volume>) -> bool {
        let Some(volume) = waiting else {
            // What follows from other events costs little. Nothing is left to wait for.
            (self.waits_since, self.is_asked_for) = (None, false);
            return true;
        };
        let since = *self.waits_since.get_or_insert(now);
        // What comes together is published together.
        let is_together = now.saturating_duration_since(since) >= self.pace.interval;
        let is_late = |at| now.saturating_duration_since(at) >= self.pace.longest;
        self.is_asked_for
            || is_together && (self.published_at.is_none_or(is_late) || self.is_worth(now, volume))
    }

    /// A publication began and ended, and wrote this.
    pub(super) fn published(&mut self, began: Instant, now: Instant, volume: Volume) {
        self.rests_until = Some(now + self.pace.pause_after(now.saturating_duration_since(began)));
        (self.waits_since, self.published_at, self.is_asked_for) = (None, Some(now), false);
        if volume != Volume::default() {
            self.hour.push_back((now, volume));
        }
    }

    fn is_worth(&mut self, now: Instant, volume: Volume) -> bool {
        while self.hour.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > COUNTED)
        {
            self.hour.pop_front();
        }
        let all = self.hour.iter().map(|(_, volume)| *volume).chain([volume]);
        let (written, shown) =
            all.fold((0, 0), |(written, shown), one| (written + one.written, shown + one.shown));
        written as f64 <= (shown as f64 * self.pace.written_for_each).max(FREE_BYTES as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace() -> Pace {
        Pace {
            interval: SECOND,
            share: 0.1,
            longest: Duration::from_secs(600),
            written_for_each: 8.0,
        }
    }

    #[test]
    fn publishing_takes_no_more_than_its_share() {
        let pace = Pace { interval: Duration::from_millis(100), ..pace() };
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
        assert_eq!(none.pause_after(Duration::from_secs(9)), Duration::from_secs(600));
    }

    /// Items arrive steadily on one day for some time. Returns the written and the shown bytes of the last
    /// hour, the number of publications, and the longest time that an item waited.
    fn trickle(pace: Pace, each_second: u64, hours: u64) -> (u64, u64, usize, u64) {
        let begin = Instant::now();
        let (mut pacer, mut day, mut waiting) = (Pacer::new(pace), 0_u64, 0_u64);
        let (mut publications, mut since, mut longest) = (Vec::new(), None, 0);
        for second in 0..hours * 3600 {
            let now = begin + SECOND * u32::try_from(second).unwrap();
            waiting += each_second;
            since.get_or_insert(second);
            let volume = Volume { written: day + waiting, shown: waiting };
            if pacer.may_work(now) && pacer.is_due(now, Some(volume)) {
                pacer.published(now, now, volume);
                publications.push((second, volume));
                longest = longest.max(second - since.take().unwrap());
                (day, waiting) = (day + waiting, 0);
            }
        }
        let last = publications.iter().filter(|(at, _)| *at >= (hours - 1) * 3600);
        let (written, shown) = last
            .fold((0, 0), |(written, shown), (_, one)| (written + one.written, shown + one.shown));
        (written, shown, publications.len(), longest)
    }

    #[test]
    fn a_steady_trickle_does_not_write_its_day_again_for_each_item() {
        // 24 items of 3 KB in a second.
        let (written, shown, count, longest) = trickle(pace(), 24 * 3_000, 1);
        assert!(written as f64 <= 8.0 * shown as f64, "{written} for {shown}");
        assert!(count > 20 && longest < 600, "{count} publications, {longest} s");
        // Later the day is so long that the longest delay decides.
        let (_, _, _, longest) = trickle(pace(), 24 * 3_000, 3);
        assert!((599..=601).contains(&longest), "{longest} s");
        // A day with few items is cheap: every change shows soon.
        let (written, _, _, longest) = trickle(pace(), 10, 1);
        assert!(written <= FREE_BYTES && longest <= 2, "{written} bytes, {longest} s");
    }

    #[test]
    fn nothing_waits_longer_than_the_longest_delay() {
        let large = Volume { written: 4 << 30, shown: 3_000 };
        let (begin, mut pacer) = (Instant::now(), Pacer::new(pace()));
        pacer.published(begin, begin, Volume::default());
        assert!(!pacer.is_due(begin + SECOND, Some(large)));
        assert!(!pacer.is_due(begin + SECOND * 599, Some(large)));
        assert!(pacer.is_due(begin + SECOND * 600, Some(large)));
        // The rest after a long publication is a part of the delay.
        let (end, mut pacer) = (begin + SECOND * 300, Pacer::new(pace()));
        pacer.published(begin, end, large);
        assert!(!pacer.may_work(end + SECOND * 599) && pacer.may_work(end + SECOND * 600));
        assert!(!pacer.is_due(end + SECOND * 600, Some(large)), "what comes together");
        assert!(pacer.is_due(end + SECOND * 601, Some(large)));
    }

    #[test]
    fn who_asks_waits_only_for_the_share_of_time() {
        let large = Volume { written: 4 << 30, shown: 3_000 };
        let (begin, mut pacer) = (Instant::now(), Pacer::new(pace()));
        pacer.published(begin, begin + SECOND, large);
        pacer.ask();
        assert!(!pacer.may_work(begin + SECOND * 9) && pacer.may_work(begin + SECOND * 10));
        assert!(pacer.is_due(begin + SECOND * 10, Some(large)));
        pacer.published(begin + SECOND * 10, begin + SECOND * 10, large);
        assert!(!pacer.is_due(begin + SECOND * 30, Some(large)), "it was asked for once");
    }

    #[test]
    fn what_comes_together_is_published_together() {
        let small = Volume { written: 3_000, shown: 3_000 };
        let (begin, mut pacer) = (Instant::now(), Pacer::new(pace()));
        assert!(!pacer.is_due(begin, Some(small)));
        assert!(!pacer.is_due(begin + SECOND / 2, Some(small)));
        assert!(pacer.is_due(begin + SECOND, Some(small)));
    }
}
