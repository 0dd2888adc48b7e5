//! The settings of a cluster as what reaches its log.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{AddressSource, ClusterConfig, is_plain_name};
use crate::os::Disk;

use super::postgres::{Access, Address, AddressError, Durability, FORMAT};

/// How long a call of the database may wait for its answer.
const BOUND: Duration = Duration::from_secs(10);

/// Why the settings of a cluster lead nowhere.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("the environment variable {0}, which cluster.url_env names, is not set")]
    NoVariable(String),
    #[error("cluster.url_file {path}: {why}")]
    AddressFile { path: String, why: String },
    #[error("cluster.ca_file {path}: {why}")]
    Authorities { path: String, why: String },
    #[error("the address of the database, from {from}: {source}")]
    Address { from: String, source: AddressError },
    #[error(
        "the name of this machine, `{0}`, cannot name a host of the cluster: set cluster.host to at most 63 letters, \
         digits, `-`, `_` and `.`"
    )]
    Host(String),
}

/// What reaches the log of these settings. The address is read anew each time, so that a new password
/// counts after a restart.
pub(crate) fn access(config: &ClusterConfig, disk: &dyn Disk) -> Result<Access, AccessError> {
    let (address, from) = match &config.address {
        AddressSource::Variable(name) => {
            let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
            let value = value.ok_or_else(|| AccessError::NoVariable(name.clone()))?;
            (value, format!("the variable {name}"))
        }
        AddressSource::File(path) => (text(disk, path)?, format!("the file {path}")),
    };
    let authorities = config.ca_file.as_ref().map(|path| {
        disk.read(path.as_ref()).map_err(|error| AccessError::Authorities {
            path: path.clone(),
            why: error.to_string(),
        })
    });
    let authorities = authorities.transpose()?;
    let address = Address::parse(&address, authorities.as_deref());
    let address = address.map_err(|source| AccessError::Address { from, source })?;
    let durability = if config.wants_quorum { Durability::Quorum } else { Durability::Single };
    let host = config.host_name();
    if !is_plain_name(&host) {
        return Err(AccessError::Host(host));
    }
    let roles: Vec<&str> = config.roles.iter().map(|role| role.name()).collect();
    let (log, roles) = (config.name.clone(), roles.join(","));
    Ok(Access {
        address,
        log,
        host,
        start: None,
        rules: String::new(),
        forgotten: Arc::default(),
        roles,
        reads: FORMAT,
        durability,
        bound: BOUND,
    })
}

fn text(disk: &dyn Disk, path: &str) -> Result<String, AccessError> {
    let bad = |why: String| AccessError::AddressFile { path: path.to_owned(), why };
    let bytes = disk.read(path.as_ref()).map_err(|error| bad(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::os::sim::SimDisk;

    fn of(settings: &str, disk: &dyn Disk) -> Result<Access, String> {
        let file = format!("[cluster]\n{settings}");
        let config = Config::load(Some(&file), &BTreeMap::new(), 1).unwrap();
        access(&config.cluster.unwrap(), disk).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_comes_from_a_file_or_a_variable_and_is_never_shown() {
        let disk = SimDisk::new();
        let disk: &dyn Disk = &disk;
        let file = "url_file = \"/secret\"\nhost = \"a\"";
        assert!(of(file, disk).err().unwrap().contains("cluster.url_file /secret"));
        disk.replace(Path::new("/secret"), b"postgresql://me:hunter2@one,two:6000/db\n", 0o600)
            .unwrap();
        let found = of(file, disk).unwrap();
        assert_eq!(
            (found.address.shown(), found.host.as_str()),
            ("one:5432, two:6000".into(), "a")
        );
        disk.replace(Path::new("/secret"), b"postgresql://me:hunter2@one:x/db", 0o600).unwrap();
        let error = of(file, disk).err().unwrap();
        assert!(error.contains("the file /secret") && !error.contains("hunter2"), "{error}");
        let error = of("url_env = \"SUMMARIZER_TEST_UNSET\"", disk).err().unwrap();
        assert!(error.contains("SUMMARIZER_TEST_UNSET"), "{error}");
    }
}
