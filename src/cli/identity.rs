//! How a session of the service and a build of digests identify themselves.

use super::Context;
use super::failure::{Exit, Failure};
use crate::config::Config;
use crate::contract::hash::push_hex;
use crate::contract::time::Timestamp;
use crate::export::run_record::Environment;
use crate::facts::session::Host;
use crate::home::Home;
use crate::log::{Fresh, FreshKeys};
use crate::projections::digester::DigestSetup;
use crate::projections::projection::Site;
use crate::sequencer::engine::SessionStart;

/// A fresh id for a run that begins now.
pub(super) fn run_id(now: Timestamp) -> Result<String, Failure> {
    if let Ok(fixed) = std::env::var("SUMMARIZER_TEST_RUN_ID") {
        return Ok(fixed);
    }
    let random = random_bytes::<16>().map_err(|error| no_random_bytes(&error))?;
    let stamp: String = now.to_string().chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let stamp = stamp.split('.').next().unwrap_or_default();
    let mut suffix = String::new();
    push_hex(&mut suffix, &random[..4]);
    Ok(format!("run_{stamp}Z_{suffix}"))
}

/// Where the tickets of a session begin: no other session gives the same ones, also on another host.
pub(super) fn first_ticket() -> Result<u64, Failure> {
    let random = random_bytes::<6>().map_err(|error| no_random_bytes(&error))?;
    Ok(random.iter().fold(0, |first, byte| first << 8 | u64::from(*byte)))
}

pub(super) fn no_random_bytes(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot get random bytes").because(error)
}

/// How this run names itself.
pub(crate) fn session_start(
    context: &Context,
    config: &Config,
    command: &str,
) -> Result<SessionStart, Failure> {
    let run_id = run_id(context.machine.clock.now())?;
    let host = Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        hostname: Some(hostname()),
        timezone: Some(config.timezone.name().to_owned()),
        pid: std::process::id(),
    };
    Ok(SessionStart {
        run_id,
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config: config.fingerprint(),
        host,
    })
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What a new log is made with.
pub(crate) fn fresh() -> std::io::Result<Fresh> {
    Ok(Fresh { store_id: random_bytes()?, keys: FreshKeys::Of(random_bytes()?) })
}

/// Random bytes from the system.
pub(crate) fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Where the projections of a home write.
pub(crate) fn site_of(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &crate::log::Reader,
) -> Site {
    let disk = std::sync::Arc::clone(&context.machine.disk);
    let (home, log, exports) = (home.clone(), log.clone(), config.exports);
    Site { disk, home, log, own: true, exports, index: None }
}

/// The inputs of digest builds of a home.
pub(crate) fn digest_setup(
    context: &Context,
    home: &Home,
    config: &Config,
    log: &crate::log::Reader,
) -> DigestSetup {
    DigestSetup {
        machine: context.machine.clone(),
        home: home.root.clone(),
        buses: home.buses.clone(),
        log: log.clone(),
        kept: home.digest_index(),
        config: config.clone(),
        environment: Environment {
            hostname: Some(hostname()),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            config_fingerprint: config.fingerprint().hex(),
            timezone: config.timezone.name().to_owned(),
        },
    }
}
