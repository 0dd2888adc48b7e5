//! A small worker: the first sentences of text files of the `other` bus, and nothing more.
//!
//! It exists so that the queue, the log and the acks can be exercised end to end without flows.
//! It is honest about what it is: the provider it records is `lead`, and every other input is
//! refused with a reason.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

use super::worker::{Begun, Desk, Job, Worker};
use crate::contract::hash::sha256;
use crate::contract::json::jcs;
use crate::contract::request::{Input, Request};
use crate::contract::stable_id::{Part, list_hash, stable_id};
use crate::contract::time::Day;
use crate::contract::vocabulary::{Bus, ReasonCode, Warnings};
use crate::os::Disk;
use crate::state::decide::{Again, Failed, Outcome};
use crate::state::event::SummaryPointer;

/// Sentences taken.
const SENTENCES: usize = 3;
/// Largest file read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The worker.
pub struct LeadWorker {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    zone: chrono_tz::Tz,
}

impl LeadWorker {
    /// Reads below `buses/other`.
    pub fn new(disk: Arc<dyn Disk>, buses: &Path, zone: chrono_tz::Tz) -> LeadWorker {
        LeadWorker { disk, root: buses.join("other"), zone }
    }

    fn read(&self, id: &str) -> Result<String, Outcome> {
        let relative = Path::new(id);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if id.is_empty() || !plain {
            let message = format!("{id:?} leaves the bus");
            return Err(refused(ReasonCode::PathOutsideBusHome, message));
        }
        let path = self.root.join(relative);
        let unknown = || refused(ReasonCode::UnknownSourceId, format!("no file {id:?}"));
        match self.disk.stat(&path) {
            Ok(Some(stat)) if !stat.is_dir && stat.len <= FILE_BYTES_MAX => {}
            Ok(_) => return Err(unknown()),
            Err(error) => return Err(unavailable(format!("look at {id:?}: {error}"))),
        }
        let bytes = self.disk.read(&path);
        let bytes = bytes.map_err(|error| unavailable(format!("read {id:?}: {error}")))?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.nfc().collect::<String>().replace("\r\n", "\n").replace('\r', "\n"))
    }

    fn summarize(&self, request: &Request, job: &Job) -> Result<Vec<Outcome>, Outcome> {
        let Input::Ids { bus: Bus::Other, ids } = &request.input else {
            let message = "only explicit files of the `other` bus are read here";
            return Err(refused(ReasonCode::UnknownSourceId, message.to_owned()));
        };
        let mut ids = ids.clone();
        ids.sort();
        let texts: Vec<String> = ids.iter().map(|id| self.read(id)).collect::<Result<_, _>>()?;
        let joined = texts.join("\n\n");
        if joined.trim().is_empty() {
            let facts = "{}".to_owned();
            return Ok(vec![Outcome::Skipped { reason: ReasonCode::SkippedEmptyContent, facts }]);
        }
        let pairs = ids.iter().zip(&texts).map(|(id, text)| json!({"id": id, "text": text}));
        let text_hash = sha256(jcs(&json!(pairs.collect::<Vec<_>>()))).hex();
        let day = request.work.params.get("day").and_then(|day| day.as_str());
        let day: Day = match day.and_then(|day| day.parse().ok()) {
            Some(day) => day,
            None => request.created_at.day_in(self.zone),
        };
        let stream = request.work.kind.stream(Bus::Other);
        let sources = list_hash(&ids);
        let prompt = sha256("lead").hex();
        let summary_id = stable_id(
            "sum",
            &[
                Part::Text("summary"),
                Part::Labelled("type", stream.as_str()),
                Part::Labelled("kind", request.work.kind.as_str()),
                Part::Labelled("subkind", &request.work.subkind),
                Part::Labelled("sources_hash", &sources),
                Part::Labelled("selection_checksum", &text_hash),
                Part::Labelled("prompt_hash", &prompt),
                Part::Labelled("summarizer", "engine_v1"),
                Part::Labelled("provider", "lead"),
                Part::Labelled("model", "first_sentences"),
            ],
        );
        let sentences: Vec<&str> =
            joined.unicode_sentences().map(str::trim).take(SENTENCES).collect();
        let item = json!({
            "schema_version": "document_summary.v1", "summary_id": summary_id,
            "day": day.to_string(), "source_type": "document", "source_ids": ids,
            "selection": {"selection_type": "document_full", "source_text_hash": text_hash,
                          "normalization": {"name": "lead", "version": "1"}},
            "model": {"provider": "lead", "model_name": "first_sentences", "model_version": "1",
                      "temperature": null, "max_tokens": null},
            "prompt": {"prompt_hash": prompt, "template_id": request.work.flow_id,
                       "prompt_version": "lead"},
            "producer": {"summarizer_version": env!("CARGO_PKG_VERSION"), "run_id": job.run_id},
            "outputs": {"summary_text": sentences.join(" "), "model_generated": false},
        });
        let summary = SummaryPointer { summary_id, stream, day };
        let warnings = Warnings::default();
        let facts = json!({"source_ids": ids, "source_text_hash": text_hash}).to_string();
        Ok(vec![
            Outcome::Resolved { summary: summary.clone(), warnings, facts },
            Outcome::Produced {
                summary,
                item: jcs(&item).into_bytes(),
                warnings,
                facts: "{}".to_owned(),
            },
        ])
    }
}

impl Worker for LeadWorker {
    fn begin(&self, job: &Job, _desk: &Desk<'_>) -> Begun {
        let outcomes = match Request::parse(&job.taken.line) {
            Ok(request) => self.summarize(&request, job).unwrap_or_else(|outcome| vec![outcome]),
            Err(refusal) => vec![Outcome::Failed(Failed {
                again: Again::Never,
                reason: None,
                message: format!("the stored request does not read: {}", refusal.reason),
                facts: "{}".to_owned(),
            })],
        };
        Begun::Done(outcomes)
    }
}

fn refused(reason: ReasonCode, message: String) -> Outcome {
    let (again, facts) = (Again::InvalidInput, "{}".to_owned());
    Outcome::Failed(Failed { again, reason: Some(reason), message, facts })
}

fn unavailable(message: String) -> Outcome {
    let (again, facts) = (Again::Later, "{}".to_owned());
    Outcome::Failed(Failed { again, reason: Some(ReasonCode::Unavailable), message, facts })
}
