//! The Digest Bus: summaries compiled into bags by declared selectors.
//!
//! Contract. A bag is a function of the log and of the selectors. [`selector`] says what is wanted,
//! [`library`] holds what there is, [`choose`] decides which summaries make which bag ([`tags`],
//! [`pairs`] and [`window`] are its words), [`bag`] names it and makes its files, with [`memo`] and
//! [`markdown`] for people. All of that is pure but for reading the log.
//!
//! [`build`] stages, validates and notes what is new; from then on the log is the truth.
//! [`catalog`] folds the notes, [`index`] renders what readers may know, [`publish`] keeps the files
//! true to both, and [`run`] is the account of each build. [`kept`] is what the next process need
//! not read again. [`look`] only looks, and [`compare`] tells whether the files are the log's.
//!
//! It deliberately does not know how summaries are made, and no model ever writes here.

pub mod bag;
pub mod build;
pub mod catalog;
pub mod choose;
pub mod compare;
pub mod difference;
pub mod index;
pub mod kept;
pub mod library;
pub mod look;
pub mod markdown;
pub mod memo;
pub mod pairs;
mod parallel;
pub mod publish;
pub mod run;
pub mod selector;
pub mod tags;
pub mod window;
