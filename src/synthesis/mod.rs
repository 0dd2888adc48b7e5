//! Bounded input for synthesis: research perspectives, wave outputs, summary packs, Gate D.
//!
//! A *run directory* holds what a research run produced: `perspectives.json` (who looked at what),
//! one markdown file per perspective in `wave-1/` and `wave-2/`, and the pool of checked citations.
//! From these a *summary pack* is built: one short markdown summary per perspective, claims with
//! citation ids, and an index (`summary-pack.json`), all within byte limits that the manifest of
//! the run sets. Synthesis then reads the pack and nothing else.
//!
//! Contract:
//! - same inputs, same bytes: no clock, no locale, byte order for ids, canonical JSON for digests;
//! - a claim is kept only with a citation it carries itself and the pool has checked; no citation
//!   is ever invented or moved;
//! - limits are bytes (1 KB = 1024), measured on the files as written;
//! - every path stays inside the run directory after links are followed;
//! - all findings are reported, not the first.
//!
//! What is not here: fetching URLs, running agents, writing the manifest of somebody else's run.
//!
//! Reading order: [`perspectives`] and [`wave`] (inputs), [`inline`], [`extract`] and
//! [`budget`] (a claim's way into a summary), [`build`] and [`gate`] (the two operations).

pub mod agents;
pub mod audit;
pub mod budget;
pub mod build;
pub mod citations;
pub(crate) mod claims;
pub mod compat;
pub mod draft;
mod drafts;
pub mod extract;
pub mod finding;
pub mod gate;
pub mod gate_report;
pub mod gates;
pub mod inline;
pub mod manifest;
mod no_claims;
pub mod pack;
pub mod perspectives;
pub mod raw_url;
pub mod receipt;
pub mod run;
pub mod run_dir;
pub mod selection;
mod spilled;
mod staged;
pub mod summary_items;
pub mod url;
pub mod wave;
pub mod written;

use crate::markup::markdown;
