//! Embeds folders of data into the binary as sorted tables of path and bytes.
//! So a new schema, flow pack or language needs no Rust.

#![allow(clippy::disallowed_methods, reason = "a build script may write to OUT_DIR")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    embed(&root, "embedded.rs", &[("SCHEMAS", "schemas"), ("REGISTRY", "registry")]);
    embed(&root, "languages.rs", &[("LANGUAGES", "src/model/builtin/languages")]);
}

fn embed(root: &Path, target: &str, tables: &[(&str, &str)]) {
    let mut out = String::new();
    for (name, folder) in tables {
        println!("cargo:rerun-if-changed={folder}");
        let base = root.join(folder);
        let mut files = Vec::new();
        collect(&base, &base, &mut files);
        files.sort();
        writeln!(out, "pub(crate) static {name}: &[(&str, &[u8])] = &[")
            .expect("writing to a string");
        for (relative, path) in files {
            println!("cargo:rerun-if-changed={}", path.display());
            writeln!(out, "    ({relative:?}, include_bytes!({:?})),", path.display().to_string())
                .expect("writing to a string");
        }
        writeln!(out, "];").expect("writing to a string");
    }
    let target = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join(target);
    fs::write(target, out).expect("OUT_DIR is writable");
}

fn collect(base: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden {
            continue;
        }
        if path.is_dir() {
            println!("cargo:rerun-if-changed={}", path.display());
            collect(base, &path, files);
        } else {
            let relative = path.strip_prefix(base).expect("walked from base");
            let relative = relative.to_string_lossy().replace('\\', "/");
            files.push((relative, path));
        }
    }
}
