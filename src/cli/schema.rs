//! `schema`: the JSON Schemas of every record, for people and tools.

use clap::Args;

use super::failure::{Exit, Failure};
use super::{Context, names};
use crate::contract::schema;

/// Print a JSON Schema, or list them
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Name of the record, such as `summary_request.v1`
    name: Option<String>,
}

impl SchemaArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let Some(name) = &self.name else {
            let names: Vec<&str> = schema::names().collect();
            if context.ui.json {
                context.ui.json(&names);
            } else {
                names.iter().for_each(|name| context.ui.out(name));
            }
            return Ok(Exit::Done);
        };
        let wanted = name.strip_suffix(".schema.json").unwrap_or(name);
        let text = schema::text(wanted).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no schema named {wanted}")).hint(
                match names::nearest_of(wanted, schema::names().collect::<Vec<_>>().into_iter()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => "`summarizer schema` lists them".to_owned(),
                },
            )
        })?;
        context.ui.raw(text.as_bytes());
        Ok(Exit::Done)
    }
}
