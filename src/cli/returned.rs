//! What a request with a known key would get: the summary that is there.
//!
//! And whether a source has a content again that it had before: the summary of that content exists, and a newer
//! one of another content stands in its place. Asked as always, such a request would end as a duplicate of the
//! old summary, and readers would still show the other one.
//!
//! See docs/adr/0091-keys-of-our-own-requests.md.

use serde_json::{Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::published::{Published, VersionChoice, named, open_bus, unread};
use crate::home::Home;
use crate::os::{Disk, Open};
use crate::upstream::lines::read_range;

/// Bytes at the end of the acks that are read, so that asking costs the same however long a home lives.
const ACK_BYTES: u64 = 32 << 20;
/// Newer versions that are followed.
const VERSIONS_MAX: usize = 1_000;

/// Whether the summary that a request with this key would get is of an older content than the newest.
pub(super) fn came_back(context: &Context, home: &Home, key: &str) -> Result<bool, Failure> {
    let disk = context.machine.disk.as_ref();
    let Some(ack) = answer_of(disk, home, key).map_err(|error| unread_acks(&error))? else {
        return Ok(false);
    };
    let made = ack["summary"]["summary_id"].as_str().unwrap_or_default();
    let Ok(bus) = open_bus(context) else { return Ok(false) };
    let find = |id: &str| -> Result<Option<Published>, Failure> {
        let found = named(&bus, id, VersionChoice::AllVersions).map_err(|error| unread(&error))?;
        Ok(found.into_iter().find(|one| one.id() == id))
    };
    let Some(old) = find(made)? else { return Ok(false) };
    let text = |one: &Published| one.item.value["selection"]["source_text_hash"].clone();
    let (first, mut newest) = (text(&old), old);
    for _ in 0..VERSIONS_MAX {
        let Some(by) = newest.replaced_by().map(str::to_owned) else { break };
        let Some(newer) = find(&by)? else { break };
        newest = newer;
    }
    Ok(text(&newest) != first)
}

/// The ack that a request gets without any work, because a published summary answers its key.
pub(super) fn earlier_answer(
    context: &Context,
    home: &Home,
    request_id: &str,
    key: &str,
) -> Result<Option<Value>, Failure> {
    let disk = context.machine.disk.as_ref();
    let Some(ack) = answer_of(disk, home, key).map_err(|error| unread_acks(&error))? else {
        return Ok(None);
    };
    let made = ack["summary"]["summary_id"].as_str().unwrap_or_default();
    let Ok(bus) = open_bus(context) else { return Ok(None) };
    let found = named(&bus, made, VersionChoice::AllVersions).map_err(|error| unread(&error))?;
    let of = ack.get("duplicate_of").filter(|of| of.is_string()).unwrap_or(&ack["request_id"]);
    let answer = json!({
        "request_id": request_id, "at": context.machine.clock.now().to_string(), "status": "duplicate",
        "duplicate_of": of, "summary": ack["summary"],
    });
    Ok(found.iter().any(|one| one.id() == made).then_some(answer))
}

fn unread_acks(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, "cannot read the acks").because(error)
}

/// The last ack with a summary of a key, as far as the newest acks tell.
fn answer_of(disk: &dyn Disk, home: &Home, key: &str) -> std::io::Result<Option<Value>> {
    let path = home.acks();
    let Some(stat) = disk.stat(&path)? else { return Ok(None) };
    let newest = stat.len.min(ACK_BYTES);
    let file = disk.open(&path, Open::Read)?;
    let bytes = match read_range(&*file, stat.len - newest, newest as usize) {
        // The acks were archived just now.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let finder = memchr::memmem::FinderRev::new(key);
    let mut rest = bytes.as_slice();
    while let Some(at) = finder.rfind(rest) {
        let start = memchr::memrchr(b'\n', &rest[..at]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |length| at + length);
        if let Ok(ack) = serde_json::from_slice::<Value>(&rest[start..end])
            && ack["idempotency_key"] == key
            && ack["summary"]["summary_id"].is_string()
        {
            return Ok(Some(ack));
        }
        rest = &rest[..start];
    }
    Ok(None)
}
