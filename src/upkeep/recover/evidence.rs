//! What queue, acks, quarantine and buses tell about the records that are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::bus::SummaryBus;
use crate::contract::ids::Seq;
use crate::contract::time::Day;
use crate::contract::vocabulary::{AckStatus, Bus, QuarantineReason, Stream};
use crate::export::quarantine;
use crate::export::run_record::{RUN_RECORDS_DIR, RUN_ROWS_DIR};
use crate::facts::attempt::{InputFacts, Recovered, SelectionInput, UpstreamInput};
use crate::facts::recovery::{RecoveryReport, RunRecordKept};
use crate::facts::retention::is_archive_of_acks;
use crate::os::{Disk, Open};
use crate::state::event::SummaryPointer;
use crate::upstream::lines::Lines;

use super::acks::{Ack, LineAcks};
use super::error::RecoverError;
use super::losses::lose;

/// The files that tell about the lost records.
pub struct Places<'a> {
    pub queue: &'a Path,
    pub acks: &'a Path,
    /// The folder with acks that retention moved away.
    pub archive: &'a Path,
    pub quarantine: &'a Path,
    pub buses: &'a Path,
}

/// What it means that lines of acks do not read.
const UNREADABLE_ACKS: &str = "acks that are damaged: a request that only they ended is open again, and may get a second answer";

pub(super) struct Output {
    pub pointer: SummaryPointer,
    pub line: Vec<u8>,
}

/// What the files tell about the lost records.
pub(super) struct Evidence {
    /// By offset in the queue. A line without an ack was parked or never read.
    pub lines: BTreeMap<u64, LineAcks>,
    pub outputs: BTreeMap<String, Output>,
    /// Summaries that a person took back, as manifests say.
    pub forgotten: BTreeSet<String>,
    /// The rows of runs whose records are on the bus, by run id.
    pub runs: BTreeMap<String, RunRecordKept>,
    /// Inputs of each partition, as its manifest lists them. The first item of the partition takes them.
    inputs: BTreeMap<(Stream, String), Value>,
    /// Where unfinished lines were cut off.
    pub cuts: BTreeSet<u64>,
    /// Where quarantined lines begin that a person took back: blanks stand in their place.
    pub(crate) blanks: BTreeSet<u64>,
    /// One byte past the offset of the last line that any evidence names; 0 without evidence.
    pub consumed: u64,
}

impl Evidence {
    pub(super) fn read(
        disk: &Arc<dyn Disk>,
        places: &Places<'_>,
        kept: Seq,
        report: &mut RecoveryReport,
    ) -> Result<Evidence, RecoverError> {
        let mut evidence = Evidence {
            lines: BTreeMap::new(),
            outputs: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            runs: BTreeMap::new(),
            inputs: BTreeMap::new(),
            cuts: BTreeSet::new(),
            blanks: BTreeSet::new(),
            consumed: 0,
        };
        for file in files_of_acks(disk, places)? {
            let (name, mut number) = (file.file_name().unwrap_or_default().to_string_lossy(), 0);
            each_line(disk, &file, &mut |line| {
                number += 1;
                match Ack::read(line) {
                    Some(ack) if ack.ack_seq <= kept.0 => {}
                    Some(ack) => {
                        report.acks_read += 1;
                        evidence.note(ack);
                    }
                    None => {
                        report.acks_unreadable += 1;
                        lose(report, "acks", UNREADABLE_ACKS, &format!("{name}: ack {number}"));
                    }
                }
            })?;
        }
        each_line(disk, places.quarantine, &mut |line| evidence.note_bad_line(line))?;
        evidence.read_bus(places.buses, report);
        evidence.read_runs(disk, places.buses, report)?;
        Ok(evidence)
    }

    /// Reads the rows of runs. Those without a record on the bus prove nothing and are counted as lost.
    fn read_runs(
        &mut self,
        disk: &Arc<dyn Disk>,
        buses: &Path,
        report: &mut RecoveryReport,
    ) -> Result<(), RecoverError> {
        let folder = buses.join(RUN_ROWS_DIR);
        let failed = |source| RecoverError::Evidence { path: folder.display().to_string(), source };
        let names = match disk.list(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            listed => listed.map_err(failed)?,
        };
        for name in names {
            let day = name.strip_suffix(".jsonl").and_then(|day| day.parse::<Day>().ok());
            let Some(day) = day else { continue };
            let mut rows = Vec::new();
            each_line(disk, &folder.join(&name), &mut |line| {
                let row = String::from_utf8_lossy(line).into_owned();
                let value = serde_json::from_str::<Value>(&row).unwrap_or_default();
                let run_id = value["run_id"].as_str().unwrap_or_default().to_owned();
                rows.push(RunRecordKept { run_id, day, row });
            })?;
            for row in rows {
                let record = format!("{RUN_RECORDS_DIR}/{}.run_record.json", row.run_id);
                if !row.run_id.is_empty()
                    && disk.stat(&buses.join(record)).map_err(failed)?.is_some()
                {
                    self.runs.insert(row.run_id.clone(), row);
                    continue;
                }
                let means = "rows of run records whose record is gone";
                lose(report, "run_records", means, &format!("{day}: {}", row.run_id));
            }
        }
        Ok(())
    }

    fn note(&mut self, ack: Ack) {
        let Some(offset) = ack.offset else { return };
        self.consumed = self.consumed.max(offset + 1);
        let accepted = ack.status() == Some(AckStatus::Accepted);
        match self.lines.get_mut(&offset) {
            Some(known) => {
                known.accepted |= accepted;
                known.ack = ack;
            }
            None => drop(self.lines.insert(offset, LineAcks { ack, accepted, used: false })),
        }
    }

    fn note_bad_line(&mut self, line: &[u8]) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else { return };
        let (Some(offset), Some(length)) = (record["offset"].as_u64(), record["length"].as_u64())
        else {
            return;
        };
        self.consumed = self.consumed.max(offset + 1);
        if quarantine::is_taken_back(&record) {
            self.blanks.insert(offset);
        }
        if record["reason"] == QuarantineReason::PartialLine.as_str() {
            self.cuts.insert(offset + length);
        }
    }

    /// Reads the partitions that match their manifests. Any other is not trusted at all.
    fn read_bus(&mut self, buses: &Path, report: &mut RecoveryReport) {
        let Ok(bus) = SummaryBus::open(buses) else { return };
        for stream in Stream::ALL {
            for day in bus.days(*stream).unwrap_or_default() {
                let partition = match bus.partition(*stream, day) {
                    Ok(partition) => partition,
                    Err(error) => {
                        let what = format!("{stream} {day}: {error}");
                        let means = "a published day that does not match its manifest; its \
                                     summaries are made again";
                        lose(report, "damaged_partitions", means, &what);
                        continue;
                    }
                };
                let gone = partition.manifest["forgotten"].as_array().into_iter().flatten();
                self.forgotten.extend(gone.filter_map(Value::as_str).map(str::to_owned));
                let inputs = partition.manifest["inputs"].clone();
                self.inputs.insert((*stream, day.to_string()), inputs);
                for line in partition.data().split(|byte| *byte == b'\n') {
                    let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
                    let Some(summary_id) = value["summary_id"].as_str() else { continue };
                    let pointer =
                        SummaryPointer { summary_id: summary_id.to_owned(), stream: *stream, day };
                    let output = Output { pointer, line: line.to_vec() };
                    self.outputs.insert(summary_id.to_owned(), output);
                }
            }
        }
    }

    /// Stream, day and, for the first item of a day, the inputs its manifest names.
    pub(super) fn input(
        &mut self,
        pointer: &SummaryPointer,
        recovered: Option<Recovered>,
    ) -> Box<InputFacts> {
        let day = pointer.day.to_string();
        let listed = self.inputs.remove(&(pointer.stream, day)).unwrap_or_default();
        let listed = listed.as_array().cloned().unwrap_or_default();
        let (selections, inputs): (Vec<Value>, Vec<Value>) =
            listed.into_iter().partition(|input| input["bus"] == "selection_manifests");
        Box::new(InputFacts {
            stream: Some(pointer.stream),
            day: Some(pointer.day),
            inputs: inputs.iter().filter_map(input_fact).collect(),
            selection: selections.first().and_then(selection_fact),
            recovered,
            ..InputFacts::default()
        })
    }
}

/// A selection manifest, read from the inputs of a day's manifest.
fn selection_fact(selection: &Value) -> Option<SelectionInput> {
    let text = |name: &str| selection[name].as_str();
    Some(SelectionInput {
        path: text("path")?.to_owned(),
        sha256: text("data_hash")?.parse().ok()?,
        selection_hash: text("selection_hash").unwrap_or_default().to_owned(),
    })
}

/// An input as a manifest lists it, in the words of the events.
fn input_fact(input: &Value) -> Option<UpstreamInput> {
    let known = |name: &str| input[name].as_str().filter(|text| !text.is_empty());
    Some(UpstreamInput {
        path: known("path")?.to_owned(),
        bus: Bus::parse(known("bus")?)?,
        partition: known("partition").unwrap_or_default().to_owned(),
        data_sha256: known("data_hash").and_then(|hash| hash.parse().ok()),
        data_bytes: None,
        manifest_path: known("manifest_path").map(str::to_owned),
        manifest_sha256: known("manifest_hash").and_then(|hash| hash.parse().ok()),
        schema_version: known("schema_version_emitted").map(str::to_owned),
    })
}

/// Calls `look` for each line of a file, if the file exists.
/// The files with acks, the oldest first.
fn files_of_acks(disk: &Arc<dyn Disk>, places: &Places<'_>) -> Result<Vec<PathBuf>, RecoverError> {
    let failed =
        |source| RecoverError::Evidence { path: places.archive.display().to_string(), source };
    let mut names = match disk.list(places.archive) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        listed => listed.map_err(failed)?,
    };
    // Their names are in the order of the log.
    names.retain(|name| is_archive_of_acks(name));
    let mut files: Vec<PathBuf> = names.iter().map(|name| places.archive.join(name)).collect();
    files.push(places.acks.to_owned());
    Ok(files)
}

fn each_line(
    disk: &Arc<dyn Disk>,
    path: &Path,
    look: &mut dyn FnMut(&[u8]),
) -> Result<(), RecoverError> {
    let failed = |source| RecoverError::Evidence { path: path.display().to_string(), source };
    let Some(stat) = disk.stat(path).map_err(failed)? else { return Ok(()) };
    let mut lines = Lines::new(disk.open(path, Open::Read).map_err(failed)?, stat.len);
    while let Some((_, line)) = lines.next_line().map_err(failed)? {
        if !line.is_empty() {
            look(line);
        }
    }
    Ok(())
}
