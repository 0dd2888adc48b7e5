//! Files that follow from committed events, and the threads that keep them.
//!
//! A [`Projection`](projection::Projection) is a function of the log with files as its value. It
//! has a position (the last event it has folded) and five operations:
//!
//! - `fold` takes a committed batch; `advance` lets it read what the log holds more.
//! - `checkpoint` writes what was folded, makes it durable and says how far that is.
//! - `compare` holds its files against the log, byte for byte, and writes nothing.
//! - `repair` writes every file again that differs.
//!
//! [`exporters::ALL`] is the one list of them. `replay --verify`, `doctor --deep`, `verify` and
//! `recover` compare everything in the list; `export` and `backup` write it elsewhere;
//! `export --repair` repairs it. A new exporter is one file and one line in that list; [`metrics`] is
//! the shortest example. [`versions`] is one with a file for each day.
//!
//! What a projection remembers between two processes lies in a [`Cache`](crate::log::Cache): rows
//! with a seal each, under a [`LogStamp`](crate::log::LogStamp) that names the last event they
//! cover and the version of the fold. A stamp that does not hold, a damaged row or a failed read
//! means that the projection reads the log from its beginning. So a cache costs time when it is
//! lost and never makes a wrong byte. The index of upstream ids uses the same file; it follows from
//! upstream files instead of the log. [`caches`] reports damage of all these files.
//!
//! Two drivers keep projections of a running service up to date. The [`projector`] appends acks,
//! quarantine records and snapshot files after each commit. The thread of [`summaries`] publishes
//! at its own pace, and with it every exporter that is marked as paced.
//!
//! Why one list: `docs/adr/0080-one-list-of-projections.md`.

mod archived_acks;
pub mod caches;
pub(crate) mod counts;
mod day_files;
pub(crate) mod digest_tree;
pub(crate) mod digester;
pub mod exporter;
pub mod exporters;
pub mod feeds;
pub(crate) mod line_files;
pub mod metrics;
pub(crate) mod own_run;
pub mod projection;
pub mod projector;
pub mod runs;
pub mod snapshot_files;
mod stamped_cache;
pub mod summaries;
mod version_index;
pub mod versions;
