//! `registry`: lists flows, checks them, and adds new ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::{Exit, Failure};
use super::home_access::flows_used;
use super::settings::load_config;
use super::ui::{green, red, yellow};
use super::{Context, names};
use crate::contract::hash::Digest;
use crate::digest::project::ProjectRules;
use crate::digest::selector::{SELECTORS, Selector, Selectors, SelectorsError};
use crate::flow::lint::{self, Severity};
use crate::flow::{LoadedPack, folder, scaffold};
use crate::registry::FlowDirectory;
use crate::registry::binding::{Binding, UnknownPath};
use crate::registry::{
    DATASET, FlowPackRecord, HOME_FOLDER, IoInput, Mutation, PackFiles, Registry, RegistryError,
    label,
};

/// List, check and add flow packs
#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the flows and their variants
    List,
    /// Show the record of a flow
    Show {
        /// The flow
        flow_id: String,
        /// Its variant
        #[arg(long)]
        variant: Option<String>,
    },
    /// Verify and lint packs and selectors; exit with 1 when one has an error
    Check {
        /// Only this flow or selector
        flow_id: Option<String>,
    },
    /// Print the hash of a pack folder or of a registered flow
    Hash {
        /// A folder, or a flow
        target: String,
        /// Its variant
        #[arg(long)]
        variant: Option<String>,
    },
    /// Copy a pack folder into a registry, and write its record
    Add {
        /// A folder with a flow, a flow.dag.yaml or a .prompty file; the whole folder is copied
        #[arg(value_name = "FOLDER")]
        path: PathBuf,
        /// Id of the flow [default: the name of the folder or of the .prompty file]
        #[arg(long)]
        flow_id: Option<String>,
        /// Its variant
        #[arg(long)]
        variant: Option<String>,
        /// Replace a registered pack even if requests have used it
        #[arg(long)]
        accept_mutation: bool,
        /// The place an input comes from, such as `subject=source.title`; may be repeated
        #[arg(long = "bind", value_name = "INPUT=PATH")]
        bind: Vec<String>,
        /// The folder with the dataset [default: the registry of the home]
        #[arg(long, value_name = "DIR")]
        dataset: Option<PathBuf>,
    },
    /// Write the hashes of edited packs into their records
    Seal {
        /// Only this flow
        flow_id: Option<String>,
        /// The folder with the dataset [default: the registry of the home]
        #[arg(long, value_name = "DIR")]
        dataset: Option<PathBuf>,
    },
}

impl RegistryArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if let Action::Check { flow_id } = &self.action {
            return check(context, flow_id.as_deref());
        }
        let registry = load(context)?;
        match &self.action {
            Action::Check { .. } => Ok(Exit::Done),
            Action::List => list(context, &registry),
            Action::Show { flow_id, variant } => {
                show(context, &registry, flow_id, variant.as_deref())
            }
            Action::Hash { target, variant } => {
                hash(context, &registry, target, variant.as_deref())
            }
            Action::Seal { flow_id, dataset } => {
                seal(context, flow_id.as_deref(), dataset.as_deref())
            }
            Action::Add { path, flow_id, variant, accept_mutation, bind, dataset } => {
                let flow_id = flow_id.as_deref();
                let wanted =
                    Wanted { flow_id, variant: variant.as_deref(), binds: bindings(bind)? };
                let root = dataset_folder(context, dataset.as_deref());
                let registry = editable(context, &root)?;
                add(context, (root.as_path(), &registry), path, &wanted, *accept_mutation)
            }
        }
    }
}

/// The registry in force: the home's own, else the embedded one.
pub fn load(context: &Context) -> Result<Registry, Failure> {
    Registry::of_home(&*context.machine.disk, &context.home).map_err(|error| unusable(&error))
}

fn unusable(error: &RegistryError) -> Failure {
    Failure::new(Exit::Config, "cannot use the flow registry").because(error)
}

/// The record of a flow by its id or a short name, or a failure that lists the variants.
pub fn find<'a>(
    registry: &'a Registry,
    flow_id: &str,
    variant: Option<&str>,
) -> Result<&'a FlowPackRecord, Failure> {
    let flow_id = &names::registered(registry, flow_id)?;
    registry.find(flow_id, variant).ok_or_else(|| {
        let variants: Vec<&str> = registry
            .records()
            .iter()
            .filter(|record| record.flow_id == *flow_id)
            .map(|record| record.variant.as_deref().unwrap_or("(default)"))
            .collect();
        let what = format!("there is no flow {}", label(flow_id, variant));
        let failure = Failure::new(Exit::Usage, what);
        match variants.is_empty() {
            true => failure.hint("`summarizer registry list` lists them"),
            false => failure.hint(format!("its variants are {}", variants.join(", "))),
        }
    })
}

fn list(context: &Context, registry: &Registry) -> Result<Exit, Failure> {
    if context.ui.json {
        registry.records().iter().for_each(|record| context.ui.json(record));
        return Ok(Exit::Done);
    }
    let row = |record: &FlowPackRecord| {
        let domain = record.metadata.get("domain").and_then(|value| value.as_str());
        vec![
            record.flow_id.clone(),
            record.variant.clone().unwrap_or_else(|| "-".to_owned()),
            record.status.name().to_owned(),
            domain.unwrap_or("-").to_owned(),
            record.integrity.pack_hash.chars().take(12).collect(),
        ]
    };
    let rows: Vec<Vec<String>> = registry.records().iter().map(row).collect();
    context.ui.table(&["flow", "variant", "status", "domain", "pack"], &rows);
    Ok(Exit::Done)
}

fn show(
    context: &Context,
    registry: &Registry,
    flow_id: &str,
    variant: Option<&str>,
) -> Result<Exit, Failure> {
    let record = find(registry, flow_id, variant)?;
    if context.ui.json {
        context.ui.json(record);
        return Ok(Exit::Done);
    }
    let text = crate::contract::json::to_file(record)
        .map_err(|error| Failure::new(Exit::Bug, "cannot print the record").because(&error))?;
    context.ui.raw(crate::contract::shown::escaped(&text).as_bytes());
    Ok(Exit::Done)
}

fn check(context: &Context, only: Option<&str>) -> Result<Exit, Failure> {
    let (disk, home) = (&*context.machine.disk, &context.home);
    let (registry, broken) =
        Registry::of_home_with_faults(disk, home).map_err(|error| unusable(&error))?;
    let (selectors, unread) =
        Selectors::of_home_with_faults(disk, home).map_err(|error| unread_selectors(&error))?;
    let registry = &registry;
    let mut errors = broken.len() + unread.len();
    broken.iter().for_each(|error| say_fault(context, DATASET, error));
    unread.iter().for_each(|error| say_fault(context, SELECTORS, error));
    let is_selector = |id: &str| selectors.all().iter().any(|one| one.selector_id == id);
    let only = match only.filter(|id| !is_selector(id)) {
        Some(word) => match names::registered(registry, word) {
            Ok(name) => Some(name),
            // The line that names it may be one of those.
            Err(_) if errors > 0 => return Ok(Exit::Wrong),
            Err(failure) => return Err(failure),
        },
        None => only.map(str::to_owned),
    };
    let only = only.as_deref();
    let wanted: Vec<&FlowPackRecord> = registry
        .records()
        .iter()
        .filter(|record| only.is_none_or(|id| record.flow_id == id))
        .collect();
    let selectors: Vec<&Selector> = selectors
        .all()
        .iter()
        .filter(|selector| only.is_none_or(|id| selector.selector_id == id))
        .collect();
    let mutated = FlowDirectory::mutations(registry, &flows_used(context)?);
    let bar = context.ui.progress("checking", wanted.len() as u64);
    for record in wanted {
        bar.inc(1);
        let name = label(&record.flow_id, record.variant.as_deref());
        let mut main = None;
        let mut findings = match registry.files(&*context.machine.disk, record) {
            Ok(files) => {
                let pack = LoadedPack::load(record, &files).ok();
                main = pack.and_then(|pack| pack.main_input().map(str::to_owned));
                lint::lint(record, &files)
            }
            Err(error) => vec![lint::Finding {
                severity: Severity::Error,
                place: "pack_dir".to_owned(),
                message: error.to_string(),
            }],
        };
        let of_record =
            |one: &&Mutation| one.flow_id == record.flow_id && one.variant == record.variant;
        findings.extend(mutated.iter().filter(of_record).map(|one| lint::Finding {
            severity: Severity::Error,
            place: "flow_id".to_owned(),
            message: one.what(),
        }));
        errors += findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        if context.ui.json {
            let inputs = &record.io_contract.inputs;
            context.ui.json(&json!({
                "flow_id": record.flow_id, "variant": record.variant, "findings": findings,
                "inputs": inputs,
            }));
            continue;
        }
        say(context, &name, &findings);
        inputs_table(context, record, main.as_deref());
    }
    bar.finish_and_clear();
    let known = registry.meta_names(disk);
    for selector in selectors {
        // Reading the dataset refused every unusable selector, so the rest are warnings.
        let mut findings = selector.lint();
        let unknown = selector.unknown_meta(&known);
        errors += unknown.len();
        findings.extend(unknown);
        match context.ui.json {
            true => {
                context.ui.json(&json!({"selector_id": selector.selector_id, "findings": findings}))
            }
            false => say(context, &format!("selector {}", selector.selector_id), &findings),
        }
    }
    Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
}

/// A line of a dataset that cannot be used.
fn say_fault(context: &Context, dataset: &str, error: &(dyn std::error::Error + 'static)) {
    match context.ui.json {
        true => context.ui.json(&json!({"dataset": dataset, "error": error.to_string()})),
        false => context.ui.out(format!("{} {dataset}: {error}", red("error"))),
    }
}

/// Where each input of a flow comes from. `main` is the input that gets the texts.
fn inputs_table(context: &Context, record: &FlowPackRecord, main: Option<&str>) {
    let row = |input: &IoInput| {
        let from = input.from.as_ref().map(Binding::to_string);
        let unbound = match input.main || main == Some(input.name.as_str()) {
            true => "text".to_owned(),
            false => format!("request.params.{}", input.name),
        };
        let needed = if input.required { "yes" } else { "no" };
        vec![input.name.clone(), input.kind.clone(), needed.into(), from.unwrap_or(unbound)]
    };
    let rows: Vec<Vec<String>> = record.io_contract.inputs.iter().map(row).collect();
    context.ui.table(&["input", "type", "required", "comes from"], &rows);
}

/// Prints the findings about one record.
fn say(context: &Context, name: &str, findings: &[lint::Finding]) {
    if findings.is_empty() {
        context.ui.out(format!("{} {name}", green("ok")));
    }
    for finding in findings {
        let word = match finding.severity {
            Severity::Error => red("error"),
            Severity::Warning => yellow("warning"),
        };
        context.ui.out(format!("{word} {name}: {}: {}", finding.place, finding.message));
    }
}

/// The selectors in force: the home's own, else the embedded ones.
pub fn selectors(context: &Context) -> Result<Selectors, Failure> {
    Selectors::of_home(&*context.machine.disk, &context.home)
        .map_err(|error| unread_selectors(&error))
}

/// The same for a build, which also refuses names that no summary has.
pub(super) fn selectors_for_build(context: &Context) -> Result<Selectors, Failure> {
    Selectors::for_build(&*context.machine.disk, &context.home)
        .map_err(|error| unread_selectors(&error))
}

fn unread_selectors(error: &SelectorsError) -> Failure {
    Failure::new(Exit::Config, "cannot use the selectors").because(error).hint(
        "`summarizer registry check` lists all their errors, and \
                   `summarizer schema selector.v1` prints the schema of a line",
    )
}

/// How summaries get their project, for a command that shows texts. Texts can be shown although the file
/// of selectors is wrong, so the default rules stand in for it.
pub(super) fn project_rules(context: &Context) -> ProjectRules {
    selectors(context).map(|selectors| selectors.rules()).unwrap_or_default()
}

/// How a home names the project and the day of a summary.
pub(super) struct HomeNames {
    pub rules: ProjectRules,
    pub zone: Tz,
}

impl HomeNames {
    pub(super) fn of(context: &Context) -> HomeNames {
        let zone = load_config(context).map_or(Tz::UTC, |config| config.timezone);
        HomeNames { rules: project_rules(context), zone }
    }
}

fn hash(
    context: &Context,
    registry: &Registry,
    target: &str,
    variant: Option<&str>,
) -> Result<Exit, Failure> {
    let disk = &*context.machine.disk;
    let is_folder = matches!(disk.stat(Path::new(target)), Ok(Some(stat)) if stat.is_dir);
    let files = if is_folder {
        PackFiles::read(disk, Path::new(target))
    } else {
        registry.files(disk, find(registry, target, variant)?)
    };
    let files = files.map_err(|error| {
        Failure::new(Exit::Input, format!("cannot read the pack {target}")).because(&error)
    })?;
    if context.ui.json {
        let each: serde_json::Map<String, serde_json::Value> =
            files.hashes().map(|(path, hash)| (path.to_owned(), hash.hex().into())).collect();
        context.ui.json(&json!({"pack_hash": files.pack_hash().hex(), "files": each}));
    } else {
        context.ui.out(files.pack_hash().hex());
    }
    Ok(Exit::Done)
}

fn add(
    context: &Context,
    (root, registry): (&Path, &Registry),
    path: &Path,
    wanted: &Wanted<'_>,
    accept_mutation: bool,
) -> Result<Exit, Failure> {
    let Wanted { flow_id, variant, binds } = wanted;
    let disk = &*context.machine.disk;
    let refused = |what: String| Failure::new(Exit::Input, what);
    let is_no_pack = |error: &(dyn std::error::Error + 'static)| {
        refused(format!("{} is not a pack", path.display())).because(error)
    };
    let flow = folder::read(disk, path).map_err(|error| is_no_pack(&error))?;
    let (flow_id, variant) = (flow_id.unwrap_or(&flow.name), *variant);
    let pack_dir = format!("packs/{}", label(flow_id, variant));
    let mut record =
        scaffold::record_on_disk(flow_id, variant, &pack_dir, &flow).map_err(|error| {
            refused(format!("{} cannot be registered", path.display())).because(&error)
        })?;
    let files = &flow.files;
    for (name, binding) in binds {
        let inputs = &mut record.io_contract.inputs;
        let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
        let Some(input) = inputs.iter_mut().find(|input| input.name == *name) else {
            return Err(refused(format!("{flow_id} has no input {name}"))
                .hint(format!("its inputs are {}", names.join(", "))));
        };
        input.from = Some(binding.clone());
        // The texts of the sources go where they were asked for.
        match matches!(binding, Binding::Text | Binding::Sources) {
            true => inputs.iter_mut().for_each(|input| input.main = input.name == *name),
            false => input.main = false,
        }
    }
    record.seal(files, context.machine.clock.now().to_string());
    let findings = lint::lint(&record, files);
    if let Some(finding) = findings.iter().find(|finding| finding.severity == Severity::Error) {
        return Err(refused(format!(
            "{flow_id} has an error: {}: {}",
            finding.place, finding.message
        ))
        .hint("correct the errors first; `summarizer registry check` also shows warnings of registered packs"));
    }
    let registered = registry.find(flow_id, variant).and_then(FlowPackRecord::pack_hash);
    let used = flows_used(context)?.pack_of(flow_id, variant);
    let differs = |pack: Option<Digest>| pack.is_some() && pack != record.pack_hash();
    if (differs(registered) || differs(used)) && !accept_mutation {
        let how = if differs(used) { "was used" } else { "is registered" };
        let name = label(flow_id, variant);
        return Err(refused(format!("flow_id_mutated: {name} {how} with another pack"))
            .hint("give a changed flow a new version suffix, or pass --accept-mutation"));
    }
    write(context, registry, root, &record, files).map_err(|error| {
        Failure::new(Exit::Storage, "cannot write the registry").because(&error)
    })?;
    if context.ui.json {
        context.ui.json(&record);
    } else {
        context.ui.out(format!("{} {}", label(flow_id, variant), record.integrity.pack_hash));
    }
    let of_inputs = findings.iter().filter(|one| one.place.starts_with(lint::INPUTS));
    of_inputs.for_each(|one| {
        context.ui.talk(format!("{} {}: {}", yellow("warning"), one.place, one.message));
    });
    if differs(used) {
        context.ui.talk("`summarizer reload --accept-mutations` binds the flow id to the new pack");
    }
    Ok(Exit::Done)
}

/// What `registry add` registers a folder as.
struct Wanted<'a> {
    flow_id: Option<&'a str>,
    variant: Option<&'a str>,
    binds: Vec<(String, Binding)>,
}

/// Reads `INPUT=PATH` words.
fn bindings(words: &[String]) -> Result<Vec<(String, Binding)>, Failure> {
    let read = |word: &String| {
        let wrong = |why: String| Failure::new(Exit::Usage, format!("--bind {word}: {why}"));
        let (name, path) = word
            .split_once('=')
            .ok_or_else(|| wrong("give an input and a path with `=` between them".to_owned()))?;
        let binding = match path.trim_start().starts_with('{') {
            true => serde_json::from_str(path).map_err(|error| wrong(error.to_string()))?,
            false => path.parse().map_err(|error: UnknownPath| wrong(error.to_string()))?,
        };
        Ok((name.to_owned(), binding))
    };
    let bound: Vec<(String, Binding)> = words.iter().map(read).collect::<Result<_, _>>()?;
    let mut seen = BTreeSet::new();
    match bound.iter().find(|(name, _)| !seen.insert(name)) {
        Some((name, _)) => Err(Failure::new(Exit::Usage, format!("{name} is bound twice"))),
        None => Ok(bound),
    }
}

/// The folder with the registry to edit.
fn dataset_folder(context: &Context, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| context.home.join(HOME_FOLDER), Path::to_owned)
}

/// A registry that is files, so that it can be edited.
fn editable(context: &Context, root: &Path) -> Result<Registry, Failure> {
    let disk = &*context.machine.disk;
    if !matches!(disk.stat(&root.join(DATASET)), Ok(Some(_))) {
        let what = format!("there is no registry in {}", root.display());
        return Err(Failure::new(Exit::Config, what)
            .hint("`summarizer init --with-registry` writes the embedded registry as files that you can edit"));
    }
    Registry::open(disk, root).map_err(|error| {
        Failure::new(Exit::Config, format!("cannot use the registry {}", root.display()))
            .because(&error)
    })
}

/// Writes the hashes of packs as they are now into their records.
fn seal(context: &Context, only: Option<&str>, dataset: Option<&Path>) -> Result<Exit, Failure> {
    let disk = &*context.machine.disk;
    let root = dataset_folder(context, dataset);
    let registry = editable(context, &root)?;
    let only = only.map(|word| names::registered(&registry, word)).transpose()?;
    let only = only.as_deref();
    let now = context.machine.clock.now().to_string();
    let mut text = String::new();
    for record in registry.records() {
        let mut record = record.clone();
        if only.is_none_or(|id| record.flow_id == id) {
            let name = label(&record.flow_id, record.variant.as_deref());
            let files = registry.files(disk, &record).map_err(|error| {
                Failure::new(Exit::Input, format!("the pack of {name} cannot be read"))
                    .because(&error)
            })?;
            if record.verify(&files).is_err() || !record.stale_files(&files).is_empty() {
                record.seal(&files, now.clone());
                context.ui.out(format!("sealed {name} {}", record.integrity.pack_hash));
            }
        }
        let line = serde_json::to_string(&record)
            .map_err(|error| Failure::new(Exit::Bug, "cannot print a record").because(&error))?;
        text.push_str(&line);
        text.push('\n');
    }
    disk.replace(&root.join(DATASET), text.as_bytes(), 0o640).map_err(|error| {
        Failure::new(Exit::Storage, "cannot write the registry").because(&error)
    })?;
    Ok(Exit::Done)
}

/// Writes the files of the pack first and the line that registers it last.
fn write(
    context: &Context,
    registry: &Registry,
    root: &Path,
    record: &FlowPackRecord,
    files: &PackFiles,
) -> std::io::Result<()> {
    let disk = &*context.machine.disk;
    let target = root.join(&record.pack_dir);
    disk.remove_dir_all(&target)?;
    for (path, bytes) in files.iter() {
        let path = target.join(path);
        disk.create_dir_all(path.parent().unwrap_or(&target))?;
        disk.replace(&path, bytes, 0o640)?;
    }
    let same = |other: &&FlowPackRecord| {
        other.flow_id != record.flow_id || other.variant != record.variant
    };
    let mut text = String::new();
    for record in registry.records().iter().filter(same).chain([record]) {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    disk.replace(&root.join(DATASET), text.as_bytes(), 0o640)
}
