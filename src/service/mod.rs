//! The service loop: it joins all rooms into one process.

pub mod daemon;
