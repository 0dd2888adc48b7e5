//! wip
#![allow(missing_docs)]
pub mod extract;
pub mod phrases;
pub mod rank;
pub mod text;
