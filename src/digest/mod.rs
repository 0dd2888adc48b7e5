//! The Digest Bus: bags of summaries, compiled by declared selectors.
//!
//! Contract. A bag is a function of the log and the selectors. [`selector`] reads the selectors.
//! [`library`] holds the summaries. [`choose`] decides which summaries make which bag, with
//! [`tags`], [`pairs`] and [`window`](crate::facts::window). [`bag`] computes the id and renders the files, with [`memo`]
//! and [`markdown`]. All of them are pure, except that they read the log.
//!
//! [`build`] stages and validates new bags and commits them to the log; from then on the log
//! decides. [`catalog`] folds those facts. [`index`] renders the indexes. [`publish`] keeps the
//! files equal to the log. [`run`] makes the run record of a build. [`cache`] keeps library and
//! catalog for the next process. [`queries`] answers questions, and [`compare`] compares the files
//! with the log.
//!
//! This room does not know how summaries are made and never calls a model.
//!
//! See docs/adr/0048-what-digests-leave-out.md.

mod answers;
pub mod bag;
mod became_private;
pub mod build;
pub mod cache;
pub mod catalog;
pub mod choose;
pub mod collect;
pub mod compare;
pub mod index;
pub mod library;
pub mod markdown;
pub mod memo;
mod open_tasks;
pub mod pairs;
mod parallel;
pub mod project;
pub mod publish;
pub mod queries;
mod run;
pub(crate) mod said;
pub mod selector;
mod stamps;
mod standing;
pub mod tags;
pub(crate) mod tasks;
