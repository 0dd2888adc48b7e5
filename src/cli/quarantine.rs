//! `quarantine`: show invalid queue lines, and append corrected ones.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::causes::append_failed;
use super::failure::{Exit, Failure};
use super::home_access::HomeAccess;
use super::settings::load_config;
use super::{Context, ui};
use crate::control::question::Question;
use crate::control::release::{ReleaseError, release as release_line};
use crate::home::Home;

/// Inspect bad queue lines and release corrected ones
#[derive(Debug, Args)]
pub(crate) struct QuarantineArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List quarantined lines, oldest first
    List,
    /// Show one quarantined line with all its errors
    Show {
        /// The event number of the line, as `list` shows it
        seq: u64,
    },
    /// Append a corrected request for a quarantined line
    Release {
        /// The event number of the line
        seq: u64,
        /// The corrected request; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

impl QuarantineArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::List => list(context),
            Action::Show { seq } => show(context, *seq),
            Action::Release { seq, file } => release(context, *seq, file),
        }
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let mut after = 0;
    let mut rows = Vec::new();
    loop {
        let page = session.ask(context, &Question::Quarantine { after, limit: None })?;
        for line in page["lines"].as_array().into_iter().flatten() {
            if context.ui.json {
                context.ui.json(line);
            } else {
                rows.push(row(line));
            }
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    session.close()?;
    if !context.ui.json {
        context.ui.table(&["SEQ", "LINE", "REASON", "REQUEST", "WHAT"], &rows);
    }
    Ok(Exit::Done)
}

fn row(line: &Value) -> Vec<String> {
    let first = &line["errors"][0];
    let what = format!(
        "{} {}",
        first["pointer"].as_str().unwrap_or_default(),
        first["message"].as_str().unwrap_or_default()
    );
    vec![
        line["seq"].to_string(),
        line["line"].to_string(),
        line["reason"].as_str().unwrap_or_default().to_owned(),
        line["request_id"].as_str().unwrap_or("-").to_owned(),
        what.trim().chars().take(80).collect(),
    ]
}

fn show(context: &Context, seq: u64) -> Result<Exit, Failure> {
    let mut session = HomeAccess::open(context)?;
    let line = session.ask(context, &Question::QuarantineShow { seq });
    session.close()?;
    let line = line?;
    if context.ui.json {
        context.ui.json(&line);
        return Ok(Exit::Done);
    }
    let reason = line["reason"].as_str().unwrap_or_default();
    context.ui.out(format!(
        "line {} at byte {}: {}",
        line["line"],
        line["offset"],
        ui::red(reason)
    ));
    for error in line["errors"].as_array().into_iter().flatten() {
        let pointer = error["pointer"].as_str().filter(|p| !p.is_empty()).unwrap_or("(record)");
        context.ui.out(format!("  {pointer}: {}", error["message"].as_str().unwrap_or_default()));
    }
    if line["forgotten"] == true {
        let day = line["forgotten_on"].as_str().unwrap_or("a day that is not known");
        context.ui.out(format!("the line itself was forgotten on {day}, by request"));
        return Ok(Exit::Done);
    }
    for name in ["raw", "raw_base64", "raw_prefix"] {
        if let Some(raw) = line[name].as_str() {
            context.ui.out(format!("{}\n{raw}", ui::dim(name)));
        }
    }
    Ok(Exit::Done)
}

fn release(context: &Context, seq: u64, file: &Path) -> Result<Exit, Failure> {
    let text = if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| {
            Failure::new(Exit::Input, "cannot read standard input").because(&error)
        })?;
        text
    } else {
        let bytes = context.machine.disk.read(file).map_err(|error| {
            Failure::new(Exit::Input, format!("cannot read {}", file.display())).because(&error)
        })?;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let home = Home::new(&context.home, &load_config(context)?);
    let mut session = HomeAccess::open(context)?;
    let (disk, queue) = (context.machine.disk.as_ref(), &home.queue);
    let mut ask = |question| session.ask(context, &question);
    let request_id =
        release_line(disk, queue, seq, &text, &mut ask).map_err(|error| match error {
            ReleaseError::Invalid(errors) => {
                let errors: Vec<Value> = errors.iter().map(|error| json!(error)).collect();
                let what = format!("still not a valid request: {}", json!(errors));
                Failure::new(Exit::Input, what)
            }
            ReleaseError::Asked(failure) => failure,
            ReleaseError::Append(error) => append_failed(&error),
        })?;
    session.close()?;
    if context.ui.json {
        context.ui.json(&json!({"released": seq, "request_id": request_id}));
    } else {
        context.ui.talk(format!("appended {request_id} for quarantined line {seq}"));
    }
    Ok(Exit::Done)
}
