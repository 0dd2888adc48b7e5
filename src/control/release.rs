//! Releasing a quarantined line: a corrected line is appended for it, and an event says so.

use std::path::Path;

use super::question::Question;
use crate::contract::request::Request;
use crate::contract::schema::Violation;
use crate::os::Disk;
use crate::seam::append::{AppendError, append};

/// Why a line was not released.
pub(crate) enum ReleaseError<E> {
    /// The corrected line is not valid either.
    Invalid(Vec<Violation>),
    /// The line is not known, or the event could not be recorded.
    Asked(E),
    Append(AppendError),
}

/// Appends a corrected line for a quarantined one; answers with the id of its request.
pub(crate) fn release<E>(
    disk: &dyn Disk,
    queue: &Path,
    seq: u64,
    text: &str,
    ask: &mut dyn FnMut(Question) -> Result<serde_json::Value, E>,
) -> Result<String, ReleaseError<E>> {
    let text = text.trim();
    let request = Request::parse(text.as_bytes())
        .map_err(|refusal| ReleaseError::Invalid(refusal.errors.to_vec()))?;
    ask(Question::QuarantineShow { seq }).map_err(ReleaseError::Asked)?;
    // Append first: if the fact of the release is lost in a crash, the line is still there.
    append(disk, queue, &[text]).map_err(ReleaseError::Append)?;
    let request_id = request.request_id;
    ask(Question::QuarantineReleased { seq, request_id: request_id.clone() })
        .map_err(ReleaseError::Asked)?;
    Ok(request_id)
}
