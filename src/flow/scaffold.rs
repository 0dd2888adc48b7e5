//! A new pack, and a record for a folder without one.

use super::dag;
use super::dag::FlowFile;
use super::folder::{FlowOnDisk, flow_file};
use super::pack::{LoadError, MAIN_KINDS, flow_of};
use crate::registry::{
    DeclaredOutputs, FlowPackRecord, IoContract, IoInput, IoOutput, PackFiles, RECORD_VERSION,
    Status,
};

/// The files of a small complete pack.
pub fn new_pack() -> [(&'static str, &'static str); 5] {
    [
        ("flow.dag.yaml", include_str!("scaffold/flow.dag.yaml")),
        ("summarize.jinja2", include_str!("scaffold/summarize.jinja2")),
        ("output.schema.json", include_str!("scaffold/output.schema.json")),
        ("projection.json", include_str!("scaffold/projection.json")),
        ("hints.json", include_str!("scaffold/hints.json")),
    ]
}

/// A record for the flow in these files, its contract read from the flow itself. Seal it before use.
pub fn record_for(
    flow_id: &str,
    variant: Option<&str>,
    pack_dir: &str,
    files: &PackFiles,
) -> Result<FlowPackRecord, LoadError> {
    record_of(flow_id, variant, pack_dir, files, flow_file(files)?)
}

/// The same for a flow on disk, whose path may name one of several flow files.
pub(crate) fn record_on_disk(
    flow_id: &str,
    variant: Option<&str>,
    pack_dir: &str,
    flow: &FlowOnDisk,
) -> Result<FlowPackRecord, LoadError> {
    match flow.entry.clone() {
        Some(entry) => record_of(flow_id, variant, pack_dir, &flow.files, entry),
        None => record_for(flow_id, variant, pack_dir, &flow.files),
    }
}

/// The same for the flow file of this name.
fn record_of(
    flow_id: &str,
    variant: Option<&str>,
    pack_dir: &str,
    files: &PackFiles,
    entry: String,
) -> Result<FlowPackRecord, LoadError> {
    let flow = read(&entry, files)?;
    let may_be_main: Vec<&str> = flow
        .inputs
        .iter()
        .filter(|input| !input.is_chat_history && MAIN_KINDS.contains(&input.kind))
        .map(|input| input.name.as_str())
        .collect();
    let inputs = flow.inputs.iter().map(|input| IoInput {
        name: input.name.clone(),
        kind: match input.kind {
            dag::ValueType::Other => "string",
            dag::ValueType::Image => "object",
            kind => kind.name(),
        }
        .to_owned(),
        required: input.default.is_none(),
        // The only one that can get the texts of the sources.
        main: may_be_main == [input.name.as_str()],
        from: None,
    });
    // What an aggregation node gives is a metric, and no output of a line.
    let aggregates = |name: &str| flow.nodes.iter().any(|it| it.name == name && it.aggregation);
    let of_lines = flow.outputs.iter().filter(|it| !it.reference.node().is_some_and(aggregates));
    let outputs = of_lines.map(|output| IoOutput {
        name: output.name.clone(),
        kind: match dag::ValueType::from_name(&output.kind) {
            Some(dag::ValueType::Image) => "object".to_owned(),
            Some(_) => output.kind.clone(),
            None => "object".to_owned(),
        },
    });
    let schema = files.get("output.schema.json")?.map(|_| "output.schema.json".to_owned());
    Ok(FlowPackRecord {
        schema_version: RECORD_VERSION.to_owned(),
        flow_id: flow_id.to_owned(),
        variant: variant.map(str::to_owned),
        status: Status::Active,
        pack_dir: pack_dir.to_owned(),
        entry_dag: entry,
        declared_outputs: DeclaredOutputs { output_schema_id: None, output_schema_path: schema },
        io_contract: IoContract { inputs: inputs.collect(), outputs: outputs.collect() },
        metadata: Default::default(),
        integrity: Default::default(),
        more: Default::default(),
    })
}

fn read(entry: &str, files: &PackFiles) -> Result<FlowFile, LoadError> {
    let text = std::str::from_utf8(files.get(entry)?.unwrap_or_default())
        .map_err(|_| LoadError::Json { path: entry.to_owned(), reason: "not UTF-8".to_owned() })?;
    flow_of(entry, text, files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{LoadedPack, lint};

    #[test]
    fn a_new_pack_is_clean_and_its_record_fits() {
        let map = new_pack().map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let files = PackFiles::from_map(map.into_iter().collect()).unwrap();
        let mut record =
            record_for("my.first.flow.v1", None, "packs/my.first.flow.v1", &files).unwrap();
        record.seal(&files, "2026-01-01T00:00:00.000Z".into());
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(crate::contract::schema::check(RECORD_VERSION, &value), []);
        assert_eq!(lint::lint(&record, &files), []);
        let pack = LoadedPack::load(&record, &files).unwrap();
        assert_eq!(pack.main_input(), Some("text"));
    }
}
