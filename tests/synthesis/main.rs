//! Perspectives, wave outputs, summary packs and Gate D, from the files of a run to the files of a
//! run and through the command line.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod build;
mod cli;
mod crash;
mod gate;
mod home;
mod original;
mod perspectives;
mod records;
#[path = "../support/running.rs"]
mod running;
mod selection;
mod waves;
