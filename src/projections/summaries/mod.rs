//! The Summary Bus of a home, kept true to the log.
//!
//! Contract. Every file is a function of the log: what ended on a day of a stream, in order of the
//! ids, from which inputs, and which event changed it last. A publication shows all changed days at
//! once. Every line is checked while its file is written, and every staged file is read back and
//! compared before it is shown. After a start, a day is published again when its manifest is missing
//! or names another last event. The [`spill_cache`] beside the log keeps what is known of the log,
//! so a start reads only newer events and memory holds only what is new. Without that file
//! everything comes from the log.
//!
//! It decides nothing about requests, and the code that does never asks it.

mod bus;
mod compare;
mod day;
mod day_index;
mod day_writer;
mod error;
mod exporter;
mod fold;
mod items;
mod pace;
mod publication;
mod run_records;
mod spill_cache;
mod thread;

pub use bus::Summaries;
pub(crate) use error::SummariesError;
pub(crate) use exporter::{RUN_RECORDS_EXPORTER, SUMMARIES_EXPORTER};
pub(crate) use pace::Pace;
pub(crate) use thread::PublicationFailure;
pub use thread::Publishing;
pub(crate) use thread::SummariesThread;
