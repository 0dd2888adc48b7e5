//! Runs the work of the compaction benchmark on tiny inputs, so that it stays correct.
#![allow(clippy::unwrap_used, reason = "a test may")]

use summarizer::compaction::fold::RunFold;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;

#[path = "../benches/compaction/body.rs"]
mod body;

#[test]
fn the_benchmark_does_the_work_it_measures() {
    let run = body::long_run(600);
    assert_eq!(run.len(), 600);
    assert_eq!(body::parse(&body::lines(&run)), 600);
    assert_eq!(body::fold(&run).fold_state().seq, 600);
    let ready = body::fold_to_last_snapshot(&run);
    assert!(ready.fold_state().step_at_snapshot > 0);
    assert!(body::snapshot(&ready) > 1000);
    assert!(body::tune(3, 60) >= 3);
    let (compacted, taken, largest, written) = body::compact_in_memory(&body::claiming_run(1_000));
    assert_eq!(compacted.fold_state().seq, 1_000);
    assert!(taken >= 5 && largest <= 65_536 && written > largest, "{taken} {largest} {written}");
}

#[test]
fn a_whole_log_becomes_one_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let disk: &dyn Disk = &HostDisk;
    for (name, text) in [("folded", body::folded_log(2000)), ("wordy", body::wordy_log(2000))] {
        assert_eq!(text.lines().count(), 2000, "{name}");
        let log = dir.path().join(name);
        disk.replace(&log, text.as_bytes(), 0o640).unwrap();
        let (taken, bytes) = body::compact(&log, &dir.path().join("out"), body::NEVER);
        assert_eq!(taken, 1, "{name}");
        assert!(bytes > 10_000, "{name}: {bytes}");
        disk.remove_dir_all(&dir.path().join("out")).unwrap();
    }
}

/// The cost of a snapshot depends on the state and on the events since the last one. A history that
/// is ten times as long and leads to the same state costs the same.
#[test]
fn a_longer_history_adds_no_work() {
    let ready: Vec<_> = [1_000, 10_000].map(body::level_run).into();
    let ready: Vec<_> = ready.iter().map(|run| body::fold_to_last_snapshot(run)).collect();
    let [short, long] = ready.as_slice() else { panic!("two histories") };
    let (short, long) = (short.fold_state(), long.fold_state());
    assert!(long.seq > 9 * short.seq && long.newest_step > 9 * short.newest_step);
    assert_eq!(short.state, long.state);
    assert_eq!(short.ledger, long.ledger);
    let sizes = |fold: &RunFold| {
        let window = &fold.window;
        (window.steps.len(), window.counted.len(), window.manifest_steps.len())
    };
    assert_eq!(sizes(short), sizes(long));
}
