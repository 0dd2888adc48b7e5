//! Sweeps two thresholds of the log: events between checkpoints and events in one commit. Only a
//! real log can measure them, so a trait measures; this module holds the grid, the rows and the
//! choice.

use serde::Serialize;

/// Checkpoint intervals tried unless told otherwise, in events.
pub(crate) const CHECKPOINT_INTERVALS: [u64; 4] = [1_000, 3_000, 10_000, 30_000];
/// Commit batches tried unless told otherwise, in events.
pub(crate) const COMMIT_BATCHES: [u64; 3] = [64, 512, 4096];
/// Longest time a checkpoint should hold the writer, in milliseconds.
pub(crate) const CHECKPOINT_MS_WANTED: f64 = 250.0;
/// Share of the best rate that is good enough to look at what opening costs.
const GOOD_RATE: f64 = 0.9;

/// One setting of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct LogSetting {
    /// Events between two checkpoints.
    pub checkpoint_every_events: u64,
    /// Most events in one commit.
    pub commit_batch: u64,
}

/// What one setting of the log costs, measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct LogRow {
    pub setting: LogSetting,
    /// Events committed per second, durable.
    pub events_per_second: f64,
    /// Bytes written to the disk for each event.
    pub bytes_per_event: f64,
    /// Longest time a checkpoint held the writer, in milliseconds.
    pub checkpoint_ms_max: f64,
    /// Events replayed when the log is opened after a crash, mean over the crash points tried.
    pub tail_events_on_open: f64,
    /// Time to open it there, in milliseconds.
    pub open_ms: f64,
}

/// Measures a real log.
pub(crate) trait MeasureLog {
    type Error;

    /// Runs the same workload under one setting, from an empty log.
    fn measure(&mut self, setting: LogSetting) -> Result<LogRow, Self::Error>;
}

pub(crate) fn grid(intervals: &[u64], batches: &[u64]) -> Vec<LogSetting> {
    intervals
        .iter()
        .flat_map(|&checkpoint_every_events| {
            batches
                .iter()
                .map(move |&commit_batch| LogSetting { checkpoint_every_events, commit_batch })
        })
        .collect()
}

/// Measures every setting in order; `progress` is called after each.
pub(crate) fn sweep<M: MeasureLog>(
    log: &mut M,
    settings: &[LogSetting],
    progress: &mut dyn FnMut(),
) -> Result<Vec<LogRow>, M::Error> {
    settings
        .iter()
        .map(|setting| {
            let row = log.measure(*setting);
            progress();
            row
        })
        .collect()
}

/// The setting to use and why; `None` without rows. It takes the settings with
/// checkpoints that are short enough. Of these it takes those with at least nine tenths of their best
/// rate, and of these the one that opens fastest after a crash. Measured times decide, so another
/// machine may choose another setting.
pub(crate) fn choose(rows: &[LogRow]) -> Option<(usize, String)> {
    let shortest = rows.iter().map(|row| row.checkpoint_ms_max).fold(f64::INFINITY, f64::min);
    let any_short = shortest <= CHECKPOINT_MS_WANTED;
    let limit_ms = CHECKPOINT_MS_WANTED.max(shortest);
    let fits = |row: &LogRow| row.checkpoint_ms_max <= limit_ms;
    let fitting = rows.iter().filter(|row| fits(row));
    let best = fitting.map(|row| row.events_per_second).fold(0.0, f64::max);
    let (chosen, row) = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| fits(row) && row.events_per_second >= GOOD_RATE * best)
        .min_by(|(_, a), (_, b)| a.open_ms.total_cmp(&b.open_ms))?;
    let limit = match any_short {
        true => format!("checkpoints hold the writer for at most {CHECKPOINT_MS_WANTED:.0} ms"),
        false => "the longest checkpoint is shortest, though longer than wanted".to_owned(),
    };
    let reason = format!(
        "opens fastest after a crash ({:.0} ms, {:.0} events to replay) among the settings whose \
         {limit} and which commit at least nine tenths of the best rate ({:.0} of {best:.0} \
         events a second, {:.0} bytes written an event)",
        row.open_ms, row.tail_events_on_open, row.events_per_second, row.bytes_per_event
    );
    Some((chosen, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(every: u64, batch: u64, rate: f64, checkpoint_ms: f64, open_ms: f64) -> LogRow {
        LogRow {
            setting: LogSetting { checkpoint_every_events: every, commit_batch: batch },
            events_per_second: rate,
            bytes_per_event: 300.0,
            checkpoint_ms_max: checkpoint_ms,
            tail_events_on_open: every as f64 / 2.0,
            open_ms,
        }
    }

    #[test]
    fn the_choice_is_fast_enough_short_enough_and_opens_first() {
        let mut rows = vec![
            row(1_000, 64, 20_000.0, 5.0, 2.0),
            row(10_000, 4096, 95_000.0, 80.0, 20.0),
            row(30_000, 4096, 100_000.0, 200.0, 60.0),
            row(100_000, 4096, 120_000.0, 600.0, 10.0),
        ];
        let (chosen, reason) = choose(&rows).unwrap();
        assert_eq!(chosen, 1, "{reason}");
        assert!(reason.contains("95000 of 100000"), "{reason}");
        rows.iter_mut().for_each(|row| row.checkpoint_ms_max += 1000.0);
        let (chosen, reason) = choose(&rows).unwrap();
        assert_eq!(chosen, 0);
        assert!(reason.contains("longer than wanted"), "{reason}");
        assert_eq!(choose(&[]), None);
    }

    struct Model;

    impl MeasureLog for Model {
        type Error = String;

        fn measure(&mut self, setting: LogSetting) -> Result<LogRow, String> {
            if setting.commit_batch == 0 {
                return Err("a commit holds something".into());
            }
            Ok(LogRow {
                setting,
                events_per_second: setting.commit_batch as f64,
                bytes_per_event: 200.0,
                checkpoint_ms_max: 1.0,
                tail_events_on_open: setting.checkpoint_every_events as f64 / 2.0,
                open_ms: 1.0,
            })
        }
    }

    #[test]
    fn every_setting_gives_one_row_in_order_or_the_first_error() {
        let settings = grid(&[10, 20], &[1, 2]);
        let mut calls = 0;
        let rows = sweep(&mut Model, &settings, &mut || calls += 1).unwrap();
        assert_eq!(rows.iter().map(|row| row.setting).collect::<Vec<_>>(), settings);
        assert_eq!(calls, 4);
        assert!(sweep(&mut Model, &grid(&[10], &[0]), &mut || {}).is_err());
    }
}
