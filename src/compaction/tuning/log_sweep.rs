//! The other half of the sweep: how often the log takes a checkpoint, and how many events it
//! commits at once. Only a real log can measure that, so it is measured behind a trait; this module
//! knows the grid and the rows.

use serde::Serialize;

/// Checkpoint intervals tried unless told otherwise, in events.
pub const CHECKPOINT_INTERVALS: [u64; 5] = [10_000, 30_000, 100_000, 300_000, 1_000_000];
/// Commit batches tried unless told otherwise, in events.
pub const COMMIT_BATCHES: [u64; 4] = [64, 512, 4096, 16_384];

/// One setting of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LogSetting {
    /// Events between two checkpoints.
    pub checkpoint_every_events: u64,
    /// Most events in one commit.
    pub commit_batch: u64,
}

/// What one setting of the log costs, measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogRow {
    /// The setting.
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

/// Something that has a log to measure.
pub trait MeasureLog {
    /// What can go wrong.
    type Error;

    /// Runs the same workload under one setting, from an empty log.
    fn measure(&mut self, setting: LogSetting) -> Result<LogRow, Self::Error>;
}

/// Every combination, intervals outermost.
pub fn grid(intervals: &[u64], batches: &[u64]) -> Vec<LogSetting> {
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
pub fn sweep<M: MeasureLog>(
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

#[cfg(test)]
mod tests {
    use super::*;

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
