//! `summarizer`: summaries that can be checked.
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
//! Only [`append`] and [`bus`] are public. `docs/architecture.md` shows the rooms and which room may
//! use which; `tests/tidy.rs` checks it.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the rooms are documented for those who work on this crate"
)]
// With every room open to the tests, a public item that none of them can reach is too wide.
#![cfg_attr(all(feature = "internals", not(test)), warn(unreachable_pub))]

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
        pub mod cluster;
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
        #[cfg(feature = "cluster")]
        mod cluster;
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
