//! Appending to the log: batch by record size.
//!
//! Durability: every commit is one transaction of the store, synced (two fdatasync calls, quick
//! repair) before `append` returns; `one_sync` is the same with one fdatasync and a slow recovery.

#[allow(dead_code, reason = "shared with the measurement at size")]
mod work;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append");
    group.sample_size(10);
    for (batch, total) in [(1, 64), (16, 1024), (256, 8192), (4096, 16384)] {
        for bytes in [200, 800] {
            for (mode, quick_repair) in [("two_syncs", true), ("one_sync", false)] {
                let dir = tempfile::tempdir().expect("a temporary directory");
                let mut store =
                    work::open(&dir.path().join("store.redb"), quick_repair).expect("a new store");
                let records = work::records(1, total, bytes);
                group.throughput(Throughput::Elements(total));
                let id = BenchmarkId::new(mode, format!("batch_{batch}/{bytes}_bytes"));
                group.bench_with_input(id, &records, |bencher, records| {
                    bencher.iter(|| work::append(&mut store, records, batch as usize));
                });
            }
        }
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut store = work::open(&dir.path().join("store.redb"), true).expect("a new store");
    let total = 100_000;
    work::append(&mut store, &work::records(1, total, 800), 4096);
    let mut group = c.benchmark_group("read");
    group.sample_size(10).throughput(Throughput::Elements(total));
    group.bench_function("scan/800_bytes", |bencher| bencher.iter(|| work::scan(&store)));
    group.bench_function("verify/800_bytes", |bencher| {
        let reader = store.reader();
        let from = summarizer::contract::ids::Seq(1);
        bencher.iter(|| black_box(reader.verify(from, None, &mut |_| {}).expect("a whole store")));
    });
    group.finish();
}

criterion_group!(benches, append, read);
criterion_main!(benches);
