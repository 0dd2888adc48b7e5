//! The Digest Bus: summaries compiled into bags by declared selectors.
//!
//! Contract. A bag is a function of the log and of the selectors: [`selector`] says what is wanted,
//! [`library`] holds what there is, [`choose`] decides which summaries make which bag ([`tags`],
//! [`pairs`] and [`window`] are its words), [`bag`] names it and writes its files, with [`memo`] for
//! people. All of that is pure but for reading the log.
//!
//! It deliberately does not know how summaries are made, and no model ever writes here.

pub mod bag;
pub mod catalog;
pub mod choose;
pub mod index;
pub mod library;
pub mod markdown;
pub mod memo;
pub mod pairs;
pub mod selector;
pub mod tags;
pub mod window;
