//! The key of a request that a tool of this program makes.
//!
//! Contract: the key stands for the work, for the content that the input has now, and for the model that
//! would answer. So changed content or another model is new work, and the same request again gives the
//! answer that exists. Two keys may differ for the same content. That costs no call, because both lead
//! to the same summary.
//!
//! The Python client makes keys of the same form, and takes the model from the configuration file.
//!
//! See docs/adr/0091-keys-of-our-own-requests.md.

use std::path::{Component, Path};

use serde_json::json;

use crate::config::Config;
use crate::contract::hash::{Digest, Hasher, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::privacy::Confinement;
use crate::contract::request::{Input, Request};
use crate::contract::vocabulary::Bus;
use crate::model::Providers;
use crate::model::builtin::Builtin;
use crate::os::{Disk, Machine};
use crate::upstream::family::Family;
use crate::upstream::other::OTHER_DIR;

/// How such a key begins.
const PREFIX: &str = "content:";

/// The key of a request as its input and the configuration are now.
pub(crate) fn content_key(
    machine: &Machine,
    buses: &Path,
    config: &Config,
    request: &Request,
) -> String {
    let content = content_of(machine.disk.as_ref(), buses, &request.input);
    let work = &request.work;
    let model = model_of(machine, config, &work.flow_id, work.variant.as_deref());
    key_of(config, content, model.as_deref(), request)
}

/// The key of a request about what was imported. The ids of imported documents, events and sessions
/// stand for their content, so they are all of it that the key needs.
pub(crate) fn imported_key(config: &Config, model: Option<&str>, request: &Request) -> String {
    key_of(config, None, model, request)
}

fn key_of(
    config: &Config,
    content: Option<Digest>,
    model: Option<&str>,
    request: &Request,
) -> String {
    let mut key = json!({
        "content": content.map(|hash| hash.hex()),
        "model": model,
        "work": request.work_digest().hex(),
    });
    // Other rules about data may make it other work, which only the service can tell.
    if let Some(rules) = config.privacy.told() {
        key["privacy"] = rules;
    }
    format!("{PREFIX}{}", jcs_hash(&key).hex())
}

/// Provider and model that would answer; none where the configuration names no usable one.
pub(crate) fn model_of(
    machine: &Machine,
    config: &Config,
    flow_id: &str,
    variant: Option<&str>,
) -> Option<String> {
    let providers = Providers::new(config, std::sync::Arc::new(Builtin), machine).ok()?;
    let provider = providers.for_flow(flow_id, variant, None, &Confinement::default()).ok()?;
    let identity = provider.identity();
    Some(format!("{}/{}", identity.provider, identity.model_name))
}

/// What the input holds now: the bytes of the files that it names, or the manifests of its bus. None
/// where something is missing, which the service will say.
fn content_of(disk: &dyn Disk, buses: &Path, input: &Input) -> Option<Digest> {
    match input {
        Input::Ids { bus: Bus::Other, ids } => {
            let mut hasher = Hasher::new();
            for id in ids {
                let bytes = file_of(disk, buses, id)?;
                hasher.update(id).update("\n").update(sha256(bytes).hex()).update("\n");
            }
            Some(hasher.finish())
        }
        Input::Ids { bus, .. } | Input::Query { bus, .. } => {
            let family = Family::of(*bus)?;
            // The texts of a session are those of its events.
            let also = (*bus == Bus::SessionBus).then_some(Family::Events);
            manifests(disk, buses, &[Some(family), also])
        }
        // The hash of the selection is part of the work, and says nothing of texts.
        Input::SelectionManifest { .. } => {
            let all = [Family::Events, Family::Sessions, Family::Chunks];
            manifests(disk, buses, &all.map(Some))
        }
    }
}

/// A file of the bus `other`, also by the id of one of its items.
fn file_of(disk: &dyn Disk, buses: &Path, id: &str) -> Option<Vec<u8>> {
    let id = id.strip_prefix("other:").unwrap_or(id);
    let within = |id: &str| {
        let plain = Path::new(id).components().all(|part| matches!(part, Component::Normal(_)));
        plain.then(|| buses.join(OTHER_DIR).join(id))
    };
    let item = id.rsplit_once('#').map(|(file, _)| file);
    [Some(id), item].into_iter().flatten().find_map(|id| disk.read(&within(id)?).ok())
}

/// All manifests of some families, by name and bytes. A family without any counts as none.
fn manifests(disk: &dyn Disk, buses: &Path, families: &[Option<Family>]) -> Option<Digest> {
    let mut hasher = Hasher::new();
    for family in families.iter().flatten() {
        let folder = buses.join(family.manifest_dir());
        let mut names = disk.list(&folder).unwrap_or_default();
        names.retain(|name| name.ends_with(".json"));
        names.sort_unstable();
        for name in names {
            let bytes = disk.read(&folder.join(&name)).ok()?;
            hasher.update(&name).update("\n").update(sha256(bytes).hex()).update("\n");
        }
    }
    Some(hasher.finish())
}
