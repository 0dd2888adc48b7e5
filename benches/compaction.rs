//! Compaction by criterion: parse, fold, snapshot after long histories, a sweep. Everything is in
//! memory; nothing is synced.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

#[path = "compaction/body.rs"]
mod body;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn compaction(criterion: &mut Criterion) {
    let run = body::long_run(100_000);
    let lines = body::lines(&run);
    let mut group = criterion.benchmark_group("compaction");
    group.sample_size(10);
    group.throughput(Throughput::Elements(run.len() as u64));
    group.bench_function("parse/events=100000", |bencher| bencher.iter(|| body::parse(&lines)));
    group.bench_function("fold/events=100000", |bencher| {
        bencher.iter_batched(|| (), |()| body::fold(&run), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(1));
    for events in [1_000, 10_000, 100_000] {
        let ready = body::fold_to_last_snapshot(&run[..events]);
        group.bench_with_input(
            BenchmarkId::new("snapshot/history", events),
            &ready,
            |bencher, ready| {
                bencher.iter(|| body::snapshot(ready));
            },
        );
    }
    group.bench_function("tune/runs=20/events=200/settings=60", |bencher| {
        bencher.iter(|| body::tune(20, 200));
    });
    group.finish();
}

criterion_group!(benches, compaction);
criterion_main!(benches);
