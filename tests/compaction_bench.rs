//! The bodies of the compaction benchmark at a tiny size, so that they cannot rot.
#![allow(clippy::unwrap_used, reason = "a test may")]

use summarizer::compaction::fold::RunFold;
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;

#[path = "../benches/compaction/body.rs"]
mod body;

#[test]
fn the_benchmark_measures_what_it_says() {
    let run = body::long_run(600);
    assert_eq!(run.len(), 600);
    assert_eq!(body::parse(&body::lines(&run)), 600);
    assert_eq!(body::fold(&run).fold_state().seq, 600);
    let ready = body::fold_to_last_snapshot(&run);
    assert!(ready.fold_state().step_at_snapshot > 0);
    assert!(body::snapshot(&ready) > 1000);
    assert!(body::tune(3, 60) >= 3);
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

/// What a snapshot costs follows from the state and from what happened since the one before. A
/// history that is a ten times as long and left the same state leaves the same to do.
#[test]
fn a_longer_history_leaves_no_more_to_do() {
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
