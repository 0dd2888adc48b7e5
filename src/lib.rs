//! `summarizer`: a summarizer service for one host.
//!
//! Other repositories append requests to a queue file; the service answers with summaries whose
//! every byte can be traced, verified and reproduced from a durable log.
//!
//! # The cycle
//!
//! ```text
//!  queue line ─▶ seam (read, validate) ─▶ state (decide, apply) ─▶ log (ONE commit) ─▶ act
//!                                              ▲                                     │
//!                       report of a worker ────┴──── flow, model, upstream ◀─────────┤
//!                                                                                    ▼
//!                                               export: acks, quarantine, bus files, run records
//! ```
//!
//! A fact exists when its event is committed. Everything that is written elsewhere is a projection
//! of committed events: deleting it and projecting again gives the same bytes. Effects run after
//! the commit and report back as new inputs, so repeating one after a crash is harmless.
//!
//! # The rooms
//!
//! From the bottom up; a room may use what stands below it. A test reads the `use` lines and fails
//! on a violation.
//!
//! - [`contract`]: the words of the contracts: records, schemas, ids, hashes, time. Pure.
//! - [`limits`]: limits that several rooms share. [`config`]: the settings as a value.
//! - [`facts`]: the content of events as plain data.
//! - [`markup`]: HTML, Markdown and mail read as text. Pure.
//! - [`os`]: clock and disk behind two traits; the host, and a machine that can lose power.
//! - [`state`]: the pure core. No clock, file, environment, random source or registry.
//! - [`log`]: the durable log in one redb file; its module doc is the format specification.
//! - [`seam`]: the queue. [`export`]: projections. [`registry`], [`upstream`], [`flow`], [`model`]:
//!   from a flow reference and ids to text and an answer.
//! - [`home`]: the places of a home, and its lock.
//! - [`sequencer`]: inputs become durable batches. [`work`]: attempts. [`projections`]: what follows
//!   from committed events. [`upkeep`]: retention, recovery, copies. [`explain`]: where a summary
//!   comes from. [`control`]: questions and answers. [`service`]: the loop that joins them. Each
//!   of these may use the ones before it.
//! - [`replay`]: the state again from the log alone.
//!   [`digest`]: bags of summaries. [`compaction`] and [`synthesis`]: run snapshots and bounded packs.
//! - [`mod@import`], [`verify`], [`bus`]: data in, whole trees checked, a reader for others.
//! - [`web`]: metrics, and the page: it shows the home and takes orders with a token.
//! - [`cli`]: the only place that prints.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the rooms are documented for those who work on this crate"
)]

pub mod bus;

/// Appends requests to a queue file, as `summarizer submit` does.
pub mod append {
    pub use crate::seam::append::{AppendError, submit};
}

/// The command line, for the binary of this package.
#[doc(hidden)]
pub fn run() -> std::process::ExitCode {
    cli::run()
}

// Private in what ships, so that the compiler sees dead code. This crate's own tests and benches
// turn `internals` on and reach every room.
cfg_if::cfg_if! {
    if #[cfg(feature = "internals")] {
        #[doc(hidden)]
        pub mod cli;
        #[doc(hidden)]
        pub mod compaction;
        #[doc(hidden)]
        pub mod config;
        #[doc(hidden)]
        pub mod contract;
        #[doc(hidden)]
        pub mod control;
        #[doc(hidden)]
        pub mod digest;
        #[doc(hidden)]
        pub mod explain;
        #[doc(hidden)]
        pub mod export;
        #[doc(hidden)]
        pub mod facts;
        #[doc(hidden)]
        pub mod flow;
        #[doc(hidden)]
        pub mod home;
        #[doc(hidden)]
        pub mod import;
        #[doc(hidden)]
        pub mod limits;
        #[doc(hidden)]
        pub mod log;
        #[doc(hidden)]
        pub mod markup;
        #[doc(hidden)]
        pub mod model;
        #[doc(hidden)]
        pub mod os;
        #[doc(hidden)]
        pub mod projections;
        #[doc(hidden)]
        pub mod registry;
        #[doc(hidden)]
        pub mod replay;
        #[doc(hidden)]
        pub mod seam;
        #[doc(hidden)]
        pub mod sequencer;
        #[doc(hidden)]
        pub mod service;
        #[doc(hidden)]
        pub mod state;
        #[doc(hidden)]
        pub mod synthesis;
        #[doc(hidden)]
        pub mod telemetry;
        #[doc(hidden)]
        pub mod upkeep;
        #[doc(hidden)]
        pub mod upstream;
        #[doc(hidden)]
        pub mod verify;
        #[doc(hidden)]
        pub mod web;
        #[doc(hidden)]
        pub mod work;
    } else {
        mod cli;
        mod compaction;
        mod config;
        mod contract;
        mod control;
        mod digest;
        mod explain;
        mod export;
        mod facts;
        mod flow;
        mod home;
        mod import;
        mod limits;
        mod log;
        mod markup;
        mod model;
        mod os;
        mod projections;
        mod registry;
        mod replay;
        mod seam;
        mod sequencer;
        mod service;
        mod state;
        mod synthesis;
        mod telemetry;
        mod upkeep;
        mod upstream;
        mod verify;
        mod web;
        mod work;
    }
}

#[cfg(test)]
mod proptests {
    //! How properties are tried: with the same cases on every machine and every day, so that a
    //! failure is of a change; with others each time where much time is given.

    use proptest::test_runner::{Config, RngSeed};

    pub(crate) fn config() -> Config {
        let deep = std::env::var_os("CI_DEEP").is_some();
        let rng_seed = if deep { RngSeed::Random } else { RngSeed::Fixed(7) };
        Config { rng_seed, failure_persistence: None, ..Config::default() }
    }
}
