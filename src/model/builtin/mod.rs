//! wip
#![allow(missing_docs)]
pub mod phrases;
pub mod rank;
pub mod text;
