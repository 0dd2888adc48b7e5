//! The manifest of a research run, `manifest.v1`: limits and layout. It belongs to another program
//! and is only read.

use serde_json::{Number, Value};

use super::finding::{Code, Findings};
use super::run_dir::RelPath;
use crate::contract::privacy::says_local_only;
use crate::contract::time::{Timestamp, parse_instant};

pub(crate) const FILE: &str = "manifest.json";

/// A size limit in KB (1024 bytes), kept as the number that was written, which may be a fraction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kilobytes(Number);

impl Kilobytes {
    /// A limit; `None` unless it is positive.
    pub(crate) fn new(number: &Number) -> Option<Kilobytes> {
        number.as_f64().filter(|kb| *kb > 0.0).map(|_| Kilobytes(number.clone()))
    }

    pub(crate) fn holds(&self, bytes: u64) -> bool {
        bytes <= self.bytes()
    }

    /// The largest whole number of bytes within the limit.
    pub(crate) fn bytes(&self) -> u64 {
        // A float to integer cast saturates, so an absurdly large limit means no limit.
        (self.kb() * 1024.0).floor() as u64
    }

    pub(crate) fn kb(&self) -> f64 {
        self.0.as_f64().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> &Number {
        &self.0
    }
}

/// The members of a manifest that we use.
#[derive(Debug, Clone)]
pub struct RunManifest {
    pub run_id: String,
    pub revision: u64,
    /// Default time of a pack.
    pub updated_at: Timestamp,
    /// Largest single summary.
    pub(crate) max_summary: Kilobytes,
    /// Largest sum of all summaries.
    pub(crate) max_total: Kilobytes,
    /// Most perspectives of wave 1 and 2.
    pub(crate) max_agents: [f64; 2],
    /// Whether no provider elsewhere may see the texts of the run.
    pub(crate) local_only: bool,
    /// The root that the manifest names.
    pub root: String,
    pub paths: Paths,
}

/// The layout of a run directory.
#[derive(Debug, Clone)]
pub struct Paths {
    /// Outputs of wave 1 and 2.
    pub(crate) wave_dirs: [RelPath; 2],
    pub summaries_dir: RelPath,
    pub logs_dir: RelPath,
    /// `gates.json`.
    pub gates: RelPath,
    /// `perspectives.json`.
    pub perspectives: RelPath,
    /// `citations.jsonl`.
    pub citations: RelPath,
    /// `summary-pack.json`.
    pub pack: RelPath,
}

/// Checks a manifest and reports everything wrong with it. `None` when it is unusable.
pub fn check(value: &Value, findings: &mut Findings) -> Option<RunManifest> {
    let mut found = Findings::default();
    found.schema("manifest.v1", value, FILE);
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let updated_at = parse_instant(text("/updated_at")).ok();
    if updated_at.is_none() && found.passes() {
        found.error(Code::InvalidTimestamp, FILE, "$.updated_at", "not an instant");
    }
    let max_summary = limit(value, "max_summary_kb", &mut found);
    let max_total = limit(value, "max_total_summary_kb", &mut found);
    let mut path = |key: &str| {
        let path = RelPath::parse(text(&format!("/artifacts/paths/{key}")));
        if path.is_none() {
            let message = "must be a plain path inside the run directory";
            found.error(Code::PathTraversal, FILE, format!("$.artifacts.paths.{key}"), message);
        }
        path
    };
    let paths = (|| {
        let [wave1, wave2] = [path("wave1_dir"), path("wave2_dir")];
        let [summaries, logs] = [path("summaries_dir"), path("logs_dir")];
        let [gates, perspectives] = [path("gates_file"), path("perspectives_file")];
        let [citations, pack] = [path("citations_file"), path("summary_pack_file")];
        Some(Paths {
            wave_dirs: [wave1?, wave2?],
            summaries_dir: summaries?,
            logs_dir: logs?,
            gates: gates?,
            perspectives: perspectives?,
            citations: citations?,
            pack: pack?,
        })
    })();
    let agents = |key: &str| value["limits"][key].as_f64().unwrap_or_default();
    let manifest = (|| {
        Some(RunManifest {
            run_id: text("/run_id").to_owned(),
            revision: value["revision"].as_u64()?,
            updated_at: updated_at?.at,
            max_summary: max_summary?,
            max_total: max_total?,
            max_agents: [agents("max_wave1_agents"), agents("max_wave2_agents")],
            local_only: value.as_object().is_some_and(says_local_only),
            root: text("/artifacts/root").to_owned(),
            paths: paths?,
        })
    })();
    let passes = found.passes();
    findings.extend(found);
    manifest.filter(|_| passes)
}

fn limit(value: &Value, key: &str, findings: &mut Findings) -> Option<Kilobytes> {
    // The schema check has already reported a missing or non-numeric limit.
    let Value::Number(number) = value.get("limits")?.get(key)? else { return None };
    let limit = Kilobytes::new(number);
    if limit.is_none() {
        findings.error(
            Code::InvalidState,
            FILE,
            format!("$.limits.{key}"),
            "a limit must be greater than 0",
        );
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_are_bytes_and_fractions_are_legal() {
        let limit = |value: Value| match value {
            Value::Number(number) => Kilobytes::new(&number),
            _ => None,
        };
        let five = limit(json!(5)).unwrap();
        assert!(five.holds(5119) && five.holds(5120) && !five.holds(5121));
        assert_eq!(limit(json!(0.5)).unwrap().bytes(), 512);
        assert_eq!(limit(json!(0.0001)).unwrap().bytes(), 0);
        assert_eq!(limit(json!(1e300)).unwrap().bytes(), u64::MAX);
        assert_eq!(limit(json!(0)), None);
        assert_eq!(limit(json!(-1)), None);
    }
}
