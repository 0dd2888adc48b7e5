//! A file read as `add` puts it on the buses and as `sum` takes it, for the tests of growth: they measure every reader.

use std::path::Path;

use super::collect::{NamedFile, known_kind};
use super::intake::{Intake, Settings};
use super::read::Readers;
use super::units::each_unit;
use super::{ImportError, Report, Target};

/// A pause of half an hour begins another session.
const GAP_MS: i64 = 30 * 60 * 1000;

/// The kind of a file as `add` names it, and its texts. `pdf` is the program that reads PDF. Nothing where no reader
/// takes the file.
pub fn read_both_ways(
    target: Target<'_>,
    path: &Path,
    pdf: &[&str],
) -> Result<Option<(&'static str, Vec<String>)>, ImportError> {
    let Some(kind) = known_kind(target.disk, path) else { return Ok(None) };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = NamedFile { path: path.to_owned(), in_folder: None, name, kind };
    let readers = Readers { pdf: pdf.iter().map(|&word| word.to_owned()).collect() };
    let settings = Settings { readers: readers.clone(), gap_ms: GAP_MS, ..Settings::default() };
    let (mut intake, mut report) = (Intake::new(target, settings), Report::default());
    intake.take(&file, &mut report)?;
    intake.finish(&mut report)?;
    let mut texts = Vec::new();
    each_unit(target.disk, &readers, &file, target.clock(), &mut |unit| {
        texts.extend(unit.into_iter().flat_map(|unit| unit.texts).map(|text| text.text));
    })?;
    Ok(Some((kind.name(), texts)))
}
