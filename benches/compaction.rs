//! Compaction with criterion: parsing, folding, a snapshot after a long history, a whole `compact` of
//! a file, a sweep. `compact` reads its log from the page cache and syncs the two files of its
//! snapshot and their folder, as the command does. The others work in memory and sync nothing.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

#[path = "compaction/body.rs"]
mod body;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use summarizer::os::Disk;
use summarizer::os::real::HostDisk;
use tempfile::TempDir;

fn compaction(criterion: &mut Criterion) {
    let run = body::long_run(100_000);
    let lines = body::lines(&run);
    let mut group = criterion.benchmark_group("compaction");
    group.sample_size(10);
    group.throughput(Throughput::Elements(run.len() as u64));
    group.bench_function("parse/events=100000", |bencher| bencher.iter(|| body::parse(&lines)));
    let text = lines.join("\n");
    group.bench_function("parse-on-every-core/events=100000", |bencher| {
        bencher.iter(|| summarizer::compaction::lines::parse(text.as_bytes(), 1).len());
    });
    group.bench_function("fold/events=100000", |bencher| {
        bencher.iter_batched(|| (), |()| body::fold(&run), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(1));
    let level = body::level_run(100_000);
    for events in [1_000, 10_000, 100_000] {
        // With a state that stays as it is, and with one that grows towards its bound.
        for (name, run) in [("snapshot/history", &level), ("snapshot/growing-state", &run)] {
            let ready = body::fold_to_last_snapshot(&run[..events]);
            group.bench_with_input(BenchmarkId::new(name, events), &ready, |bencher, ready| {
                bencher.iter(|| body::snapshot(ready));
            });
        }
    }
    group.throughput(Throughput::Elements(100_000));
    // A state that does not fit: 50,000 claims at the end.
    for events in [2_000, 10_000, 100_000] {
        let run = body::claiming_run(events);
        let (mut ready, ..) = body::compact_in_memory(&run);
        // The events of six more steps, as a snapshot finds them.
        let more = body::claiming_run(events + 121);
        more[events..].iter().for_each(|event| ready.fold(event).expect("a generated run folds"));
        group.bench_with_input(
            BenchmarkId::new("snapshot/spilled-state", events),
            &ready,
            |bencher, ready| bencher.iter(|| body::snapshot(ready)),
        );
    }
    let claims = body::claiming_run(100_000);
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("fold-and-spill/claims=50000/events=100000", |bencher| {
        bencher.iter(|| body::compact_in_memory(&claims).1);
    });
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in
        [("folded", body::folded_log(100_000)), ("mostly-verbose", body::wordy_log(100_000))]
    {
        let log = dir.path().join(name);
        let disk: &dyn Disk = &HostDisk;
        disk.replace(&log, text.as_bytes(), 0o640).expect("write the log");
        group.bench_function(format!("compact/{name}/events=100000"), |bencher| {
            let fresh = || tempfile::tempdir_in(dir.path()).expect("a folder for snapshots");
            let compact = |out: TempDir| {
                body::compact(&log, out.path(), body::NEVER);
                out
            };
            bencher.iter_batched(fresh, compact, BatchSize::PerIteration);
        });
    }
    group.bench_function("tune/runs=20/events=200", |bencher| {
        bencher.iter(|| body::tune(20, 200));
    });
    group.finish();
}

criterion_group!(benches, compaction);
criterion_main!(benches);
