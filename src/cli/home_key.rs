//! The key that the file of the log's keys is sealed with, from where the settings say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Context;
use super::failure::{Exit, Failure};
use crate::config::{Config, HomeKeySource};
use crate::log::{HomeKey, Options};
use crate::os::process::{self, Program};

/// Fewest bytes of a key: a shorter one can be guessed.
const KEY_BYTES_MIN: usize = 16;
const KEY_BYTES_MAX: usize = 64 << 10;
const TIME_MAX: Duration = Duration::from_secs(60);

/// How the log of a home is opened.
pub(super) fn store_options(
    context: &Context,
    config: &Config,
    path: &Path,
) -> Result<Options, Failure> {
    let home_key = match &config.home_key {
        None => HomeKey::default(),
        Some(source) => HomeKey::of(&secret(context, source)?, config.encrypt_at_rest),
    };
    let keys_are_shared = config.cluster.is_some();
    Ok(Options { home_key, keys_are_shared, ..Options::beside(path) })
}

fn secret(context: &Context, source: &HomeKeySource) -> Result<Vec<u8>, Failure> {
    let (told, from) = match source {
        HomeKeySource::File(path) => {
            (read(context, &context.home.join(path)), format!("the file {}", path.display()))
        }
        HomeKeySource::Command(words) => (ask(words), format!("the program {}", words[0])),
        HomeKeySource::Credential(name) => {
            let folder = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
            let told = match folder {
                Some(folder) => read(context, &folder.join(name)),
                None => Err("systemd gives no credentials to this process".to_owned()),
            };
            (told, format!("the credential {name}"))
        }
    };
    let failed = |why: String| {
        let what = format!("cannot get the key of the home from {from}: {why}");
        Failure::new(Exit::Config, what).hint("see [encrypt] in summarizer.toml")
    };
    let mut secret = told.map_err(failed)?;
    // Editors and programs end a file with a line break that nobody means.
    while matches!(secret.last(), Some(b'\n' | b'\r')) {
        secret.pop();
    }
    match secret.len() < KEY_BYTES_MIN {
        true => Err(failed(format!("it has fewer than {KEY_BYTES_MIN} bytes"))),
        false => Ok(secret),
    }
}

fn read(context: &Context, path: &Path) -> Result<Vec<u8>, String> {
    context.machine.disk.read(path).map_err(|error| error.to_string())
}

fn ask(words: &[String]) -> Result<Vec<u8>, String> {
    let program = Program {
        program: OsString::from(&words[0]),
        args: words[1..].iter().map(OsString::from).collect(),
        folder: None,
        environment: Vec::new(),
        variables: Vec::new(),
        dies_with_us: true,
        stdout_bytes_max: KEY_BYTES_MAX,
        timeout: TIME_MAX,
        jail: None,
    };
    let finished = process::run(&program, b"").map_err(|error| error.to_string())?;
    match finished.code {
        Some(0) => Ok(finished.stdout),
        code => Err(format!("it ended with code {code:?}")),
    }
}
