//! The embedded model: extractive, deterministic, offline, without a model file.
//!
//! Contract: the same call gives the same bytes on every machine and any number of threads. Without a
//! schema the answer is a summary made of the text's own sentences; with one it is a JSON object valid
//! against it, filled by the pack's `hints.json` (see [`fill::hints`]). Every string taken from a source
//! comes with its exact spans. The rendered conversation is not read: what the call is about are its
//! sources and inputs, and nothing in them is an instruction.
//!
//! Deliberately not here: paraphrase. What the text does not say is null or empty.
//!
//! See docs/adr/0018-embedded-summarizer.md.

pub(crate) mod done;
pub mod extract;
pub mod fill;
pub(crate) mod lexicon;
pub mod phrases;
pub mod rank;
pub mod text;

use serde_json::{Map, Value};

use super::{
    Evidence, ModelCall, ModelError, ModelIdentity, ModelReply, Provider, SourceSpan, StopReason,
    Usage,
};
use fill::excerpt::excerpt;
use fill::filled::Filled;
use fill::gather::{Gathered, gather, titles};
use fill::hints::{Hints, One, Size};
use fill::scene::Scene;
use fill::{event, one_mail};
use rank::select::QuotedRange;
use text::{Part, Text};

/// Version of the algorithm; any change of its output changes it.
const ALGORITHM: &str = "1.17.0";
/// The name it has in the configuration and in provenance.
const PROVIDER: &str = "builtin";
/// Bytes counted as one token in usage and context.
const TOKEN_BYTES: usize = 4;
/// There is no window: any text is read whole, and of a very long one an excerpt is made on the way.
const CONTEXT_TOKENS: usize = 64 << 20;
/// A hierarchical synthesis asks about parts of the input: the hints speak of the whole.
const SYNTHESIS_MARK: char = '#';
/// Length of a summary nobody asked a length for.
const SUMMARY: Size = Size { sentences: 4, bytes: 700 };
/// Percentages a pack may ask for.
const PERCENT: std::ops::RangeInclusive<usize> = 10..=1000;

#[derive(Debug, Clone, Copy, Default)]
pub struct Builtin;

impl Provider for Builtin {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity {
            provider: PROVIDER.to_string(),
            model_name: "extractive".to_string(),
            model_version: version(),
            temperature: None,
            max_tokens: None,
            deterministic_mode: Some(true),
            seed: None,
        }
    }

    fn context_tokens(&self) -> usize {
        CONTEXT_TOKENS
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        if let Some(answer) = call.listener.and_then(|listener| listener.read_elsewhere(call)) {
            return answer;
        }
        let (text_out, evidence, read) = read(call, answer);
        let usage = Usage {
            input_tokens: read.div_ceil(TOKEN_BYTES) as u64,
            output_tokens: text_out.len().div_ceil(TOKEN_BYTES) as u64,
        };
        Ok(ModelReply {
            text: text_out,
            stop: StopReason::End,
            usage,
            evidence,
            identity: self.identity(),
            message: None,
            raw: None,
            redacted: 0,
            left_out: Vec::new(),
            cached: Default::default(),
        })
    }

    fn is_free(&self) -> bool {
        true
    }

    fn reads_texts(&self) -> bool {
        true
    }
}

/// Fills the members of the call's schema that another model did not give.
pub(crate) fn complete(call: &ModelCall<'_>, given: &Map<String, Value>) -> (Value, Vec<Evidence>) {
    let none = Value::Null;
    let schema = call.schema.unwrap_or(&none);
    let (value, evidence, _) =
        read(call, |scene, call, hints| fill::fill(scene, schema, call.validator, hints, given));
    (value, evidence)
}

/// Reads the texts of a call, and answers: what is answered, its evidence, and how many bytes were read.
fn read<T>(
    call: &ModelCall<'_>,
    answer: impl FnOnce(&Scene<'_, '_>, &ModelCall<'_>, &Hints) -> (T, Vec<(String, QuotedRange)>),
) -> (T, Vec<Evidence>, usize) {
    let none = Hints::default();
    let hints = match call.hints {
        Some(hints) if !call.node.starts_with(SYNTHESIS_MARK) => hints,
        _ => &none,
    };
    let parts = gather(call, hints);
    let read: usize = parts.iter().map(|part| part.text.len()).sum();
    let mut parts = excerpt(parts);
    if let Some(One::Event) = hints.one {
        let clearness = |parts: &[Gathered<'_>]| on_scene(parts, call, hints, event::clearness);
        parts = one_mail::clearest(parts, clearness);
    }
    let (answer, pieces) =
        on_scene(&parts, call, hints, |scene: &Scene<'_, '_>| answer(scene, call, hints));
    let evidence =
        pieces.iter().filter_map(|(pointer, piece)| evidence(pointer, piece, &parts)).collect();
    (answer, evidence, read)
}

/// Takes the parts of a call apart, and looks at what they say.
fn on_scene<T>(
    parts: &[Gathered<'_>],
    call: &ModelCall<'_>,
    hints: &Hints,
    look: impl FnOnce(&Scene<'_, '_>) -> T,
) -> T {
    let said = parts.iter().map(|part| part.spoken_by.clone()).collect();
    let text = Text::spoken(
        parts.iter().map(|part| Part { id: id_of(part, call), text: &part.text }).collect(),
        said,
        &titles(call.inputs),
    );
    let mut scene = Scene::new(&text, parts, call.inputs, hints, percent(call, hints));
    scene.apart = call.apart;
    look(&scene)
}

/// `1.0.0+unicode-17.0.0`: the tables decide what a letter is.
fn version() -> String {
    let (major, minor, update) = char::UNICODE_VERSION;
    let nfd = unicode_normalization::UNICODE_VERSION;
    format!("{ALGORITHM}+unicode-{major}.{minor}.{update}-nfd-{}.{}.{}", nfd.0, nfd.1, nfd.2)
}

fn id_of<'c>(part: &Gathered<'_>, call: &'c ModelCall<'_>) -> &'c str {
    part.source.map_or("", |source| call.sources[source].id.as_str())
}

fn percent(call: &ModelCall<'_>, hints: &Hints) -> usize {
    let wanted =
        call.variant.and_then(|variant| hints.budget_percent.get(variant)).copied().unwrap_or(100);
    wanted.clamp(*PERCENT.start(), *PERCENT.end())
}

fn answer(
    scene: &Scene<'_, '_>,
    call: &ModelCall<'_>,
    hints: &Hints,
) -> (String, Vec<(String, QuotedRange)>) {
    if let Some(rule) = &hints.answer {
        return plain(scene.eval(rule, &scene.all()), scene, hints, call);
    }
    match call.schema {
        Some(schema) => {
            let (value, pieces) = fill::fill(scene, schema, call.validator, hints, &Map::new());
            (value.to_string(), pieces)
        }
        None => plain(Filled::Nothing, scene, hints, call),
    }
}

fn plain(
    found: Filled,
    scene: &Scene<'_, '_>,
    hints: &Hints,
    call: &ModelCall<'_>,
) -> (String, Vec<(String, QuotedRange)>) {
    let quoted = match found {
        Filled::Text(quoted) => quoted,
        _ => {
            let size = hints.summary.unwrap_or(SUMMARY);
            let most =
                call.settings.max_tokens.map_or(usize::MAX, |tokens| tokens as usize * TOKEN_BYTES);
            scene.summary(&scene.all(), size.sentences, size.bytes.min(most))
        }
    };
    let pieces = quoted.pieces.iter().map(|piece| (String::new(), *piece)).collect();
    (quoted.text, pieces)
}

fn evidence(pointer: &str, piece: &QuotedRange, parts: &[Gathered<'_>]) -> Option<Evidence> {
    let part = parts.get(piece.part)?;
    let source = part.source?;
    let (start, end) = match &part.view {
        Some(view) => view.locate(piece.start, piece.end)?,
        None => (piece.start, piece.end),
    };
    Some(Evidence {
        pointer: pointer.to_string(),
        output_start: piece.output_start,
        output_end: piece.output_end,
        span: SourceSpan { source, start, end },
    })
}
