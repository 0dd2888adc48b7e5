//! Flows.

mod dag;
mod plan;
mod pyvalue;
mod render;
mod roles;
mod yaml;
