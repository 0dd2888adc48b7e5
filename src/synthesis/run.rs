//! A loaded research run: manifest, perspectives of both waves, and the places of their outputs.

use serde_json::Value;

use super::agents::AgentTypes;
use super::finding::{Code, Findings};
use super::manifest::{self, RunManifest};
use super::perspectives::{self, Perspective, PerspectiveRules};
use super::run_dir::{JSON_BYTES_MAX, RelPath, RunDir, RunDirError};

/// Name of the second wave's perspectives in its directory.
const WAVE2_PERSPECTIVES: &str = "wave2-perspectives.json";

/// A perspective with its place in the run.
#[derive(Debug, Clone)]
pub struct Assigned {
    pub perspective: Perspective,
    /// 1 or 2.
    pub wave: u8,
    pub output: RelPath,
}

#[derive(Debug, Clone)]
pub struct ResearchRun {
    pub manifest: RunManifest,
    /// The perspectives of both waves, by id in byte order; empty when they cannot be read.
    pub perspectives: Vec<Assigned>,
    /// True when every required perspectives file exists and is valid.
    pub complete: bool,
}

/// Parses a JSON file of the run. A parse error becomes a finding.
pub(crate) fn read_json(
    dir: &RunDir<'_>,
    path: &RelPath,
    findings: &mut Findings,
) -> Result<Option<Value>, RunDirError> {
    let Some(bytes) = dir.read(path, JSON_BYTES_MAX)? else { return Ok(None) };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            findings.error(Code::InvalidJson, path.as_str(), "", error.to_string());
            Ok(None)
        }
    }
}

/// Loads a run and reports everything wrong with it. `None` without a usable manifest.
pub fn load(
    dir: &RunDir<'_>,
    agent_types: &AgentTypes,
    findings: &mut Findings,
) -> Result<Option<ResearchRun>, RunDirError> {
    let Some(manifest) = load_manifest(dir, findings)? else { return Ok(None) };
    let mut complete = true;
    let mut perspectives: Vec<Assigned> = Vec::new();
    for wave in [1_u8, 2] {
        let wave_dir = &manifest.paths.wave_dirs[usize::from(wave) - 1];
        let path = match wave {
            1 => manifest.paths.perspectives.clone(),
            _ => wave_dir.join(WAVE2_PERSPECTIVES),
        };
        let before = findings.errors();
        let Some(value) = read_json(dir, &path, findings)? else {
            let unreadable = findings.errors() > before;
            if wave == 1 && !unreadable {
                findings.error(Code::NotFound, path.as_str(), "", "the perspectives are missing");
            }
            complete &= wave == 2 && !unreadable;
            continue;
        };
        let rules = PerspectiveRules { agent_types, run_id: Some(&manifest.run_id) };
        let Some(checked) = perspectives::check(&value, path.as_str(), rules, findings) else {
            complete = false;
            continue;
        };
        cap(&manifest, wave, checked.perspectives.len(), path.as_str(), findings);
        for perspective in checked.perspectives {
            let taken = perspectives
                .iter()
                .any(|other| other.perspective.id.eq_ignore_ascii_case(&perspective.id));
            if taken && wave == 2 {
                let message = format!("{} is a perspective of wave 1 too", perspective.id);
                findings.error(Code::DuplicatePerspectiveId, path.as_str(), "", message);
                complete = false;
                continue;
            }
            let declared = perspective.source_artifact.as_deref().and_then(RelPath::parse);
            let output =
                declared.unwrap_or_else(|| wave_dir.join(&format!("{}.md", perspective.id)));
            perspectives.push(Assigned { perspective, wave, output });
        }
    }
    perspectives.sort_by(|a, b| a.perspective.id.cmp(&b.perspective.id));
    Ok(Some(ResearchRun { manifest, perspectives, complete }))
}

pub(crate) fn load_manifest(
    dir: &RunDir<'_>,
    findings: &mut Findings,
) -> Result<Option<RunManifest>, RunDirError> {
    let Some(path) = RelPath::parse(manifest::FILE) else { return Ok(None) };
    let before = findings.errors();
    let Some(value) = read_json(dir, &path, findings)? else {
        if findings.errors() == before {
            findings.error(Code::NotFound, manifest::FILE, "", "the run has no manifest");
        }
        return Ok(None);
    };
    let manifest = manifest::check(&value, findings);
    if let Some(manifest) = &manifest {
        let real = dir.disk().real_path(std::path::Path::new(&manifest.root));
        if real.ok().as_deref() != Some(dir.root()) {
            let message = format!(
                "the manifest names the root {}, but the run was opened elsewhere",
                manifest.root
            );
            findings.warn(Code::RootMismatch, manifest::FILE, "$.artifacts.root", message);
        }
    }
    Ok(manifest)
}

fn cap(manifest: &RunManifest, wave: u8, count: usize, file: &str, findings: &mut Findings) {
    let most = manifest.max_agents[usize::from(wave) - 1];
    if count as f64 > most {
        let message = format!("{count} perspectives, the manifest allows {most} in wave {wave}");
        findings.warn(Code::PerspectiveCapExceeded, file, "$.perspectives", message);
    }
}
