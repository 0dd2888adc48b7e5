//! Throughput of the embedded summarizer on one core: texts of 2, 20 and 200 KB of English and Spanish
//! prose with a few thousand different words. It writes and syncs no files.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::Map;
use summarizer::model::builtin::Builtin;
use summarizer::model::builtin::fill::hints::{Hints, Size};
use summarizer::model::{CallSettings, ModelCall, Provider, SourceText};

const SIZES: [usize; 3] = [2 << 10, 20 << 10, 200 << 10];

/// Sentences from a fixed linear congruential sequence: varied words, Zipf-like, paragraphs of five.
fn prose(bytes: usize) -> String {
    const ROOTS: [&str; 24] = [
        "report",
        "meeting",
        "budget",
        "server",
        "project",
        "client",
        "data",
        "model",
        "proyecto",
        "informe",
        "reunión",
        "cliente",
        "contrato",
        "curso",
        "análisis",
        "sistema",
        "the",
        "of",
        "and",
        "to",
        "de",
        "la",
        "que",
        "en",
    ];
    let mut state = 42_u64;
    let mut next = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::with_capacity(bytes + 200);
    let mut sentence = 0;
    while text.len() < bytes {
        let length = 8 + next(14);
        for at in 0..length {
            let root = ROOTS[next(24) as usize];
            let suffix = next(300);
            let word = if suffix < 120 {
                root.to_string()
            } else {
                format!(
                    "{root}{}",
                    ["al", "ing", "es", "or", "ado"][(suffix % 5) as usize]
                        .repeat(1 + (suffix / 150) as usize)
                )
            };
            text.push_str(if at > 0 { " " } else { "A " });
            text.push_str(&word);
        }
        sentence += 1;
        text.push_str(if sentence % 5 == 0 { ".\n\n" } else { ". " });
    }
    text
}

fn summarize(sources: &[SourceText]) -> usize {
    let summary = Some(Size { sentences: 5, bytes: 4000 });
    let hints = Hints { summary, ..Hints::default() };
    let call = ModelCall {
        flow_id: "bench",
        variant: None,
        node: "node",
        messages: &[],
        inputs: &Map::new(),
        sources,
        schema: None,
        validator: None,
        hints: Some(&hints),
        settings: CallSettings::default(),
        timeout: Duration::from_secs(60),
        bill: None,
        listener: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    };
    Builtin.call(&call).map_or(0, |reply| reply.text.len())
}

fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("builtin summary, five sentences");
    for size in SIZES {
        let sources = [SourceText { id: "a".into(), text: prose(size) }];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::from_parameter(size), &sources, |bencher, sources| {
            bencher.iter(|| black_box(summarize(black_box(sources))));
        });
    }
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
