//! Perspectives, wave outputs, summary packs and Gate D, from the files of a run to the files of a
//! run and through the command line.

mod build;
mod cli;
mod gate;
mod home;
mod original;
mod perspectives;
mod records;
mod selection;
mod waves;
