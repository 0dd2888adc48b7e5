//! Questions to the process that holds a home, and their answers.

pub mod answers;
pub mod question;
pub mod socket;
