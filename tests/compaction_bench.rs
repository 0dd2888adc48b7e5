//! The bodies of the compaction benchmark at a tiny size, so that they cannot rot.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../benches/compaction/body.rs"]
mod body;

#[test]
fn the_benchmark_measures_what_it_says() {
    let run = body::long_run(600);
    assert_eq!(run.len(), 600);
    assert_eq!(body::parse(&body::lines(&run)), 600);
    assert_eq!(body::fold(&run).fold_state().seq, 600);
    let ready = body::fold_to_last_snapshot(&run);
    assert!(ready.previous().is_some());
    assert!(body::snapshot(&ready) > 1000);
    assert!(body::tune(3, 60) >= 3);
}
