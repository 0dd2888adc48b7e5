//! The file of a selection manifest.

use super::Context;
use super::failure::{Exit, Failure};
use crate::contract::json::to_file;

pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, format!("`{name}` cannot name a selection"))
        .hint("use letters, digits, `-`, `_` and `.`"))
}

pub(super) fn write(
    context: &Context,
    path: &std::path::Path,
    manifest: &serde_json::Value,
) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| {
        Failure::of_target(format!("cannot write {}", path.display()), error)
    };
    let text = to_file(manifest).map_err(|error| failed(&error.into()))?;
    let disk = context.machine.disk.as_ref();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        disk.create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    disk.replace(path, text.as_bytes(), 0o640).map_err(|error| failed(&error))
}
