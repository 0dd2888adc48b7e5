//! A queue line as the engine takes it.

use crate::state::decide::Arrival;
use crate::state::event::BadLine;

/// One line that is not blank.
#[derive(Debug)]
pub enum Line {
    Request(Arrival),
    /// A line for the quarantine.
    Bad(Box<BadLine>),
}
