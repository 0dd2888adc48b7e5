//! Values of rows, with words for what no host of this program wrote.

use tokio_postgres::{Error, Row};

use crate::cluster::shared_log::{Claim, End, SharedError};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;

/// A count or a position. None comes near the bound.
pub(super) fn signed(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub(super) fn odd(error: &Error) -> SharedError {
    SharedError::Refused(format!("a row is not as this program writes it: {error}"))
}

pub(super) fn number(row: &Row, at: usize) -> Result<u64, SharedError> {
    let number: i64 = row.try_get(at).map_err(|error| odd(&error))?;
    number.try_into().map_err(|_| SharedError::Refused("a row has a number below zero".to_owned()))
}

pub(super) fn text(row: &Row, at: usize) -> Result<String, SharedError> {
    row.try_get(at).map_err(|error| odd(&error))
}

pub(super) fn blob(row: &Row, at: usize) -> Result<Vec<u8>, SharedError> {
    row.try_get(at).map_err(|error| odd(&error))
}

/// The number of a commit, its last record and the hash, in three columns.
pub(super) fn end(row: &Row, at: usize) -> Result<End, SharedError> {
    let hash: &[u8] = row.try_get(at + 2).map_err(|error| odd(&error))?;
    let hash = hash.try_into().map(Digest);
    let hash = hash.map_err(|_| SharedError::Refused("a hash has no 32 bytes".to_owned()))?;
    Ok(End { n: number(row, at)?, seq: Seq(number(row, at + 1)?), hash })
}

/// An epoch, then an end.
pub(super) fn claimed(rows: &[Row]) -> Result<Option<Claim>, SharedError> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Claim { epoch: number(row, 0)?, end: end(row, 1)? }))
}
