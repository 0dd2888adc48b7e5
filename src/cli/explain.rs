//! `explain`: from each sentence of a summary to the words, files, request and model behind it.

use clap::Args;
use serde_json::Value;

use super::failure::{Exit, Failure};
use super::inspect::{ask_by_name, text};
use super::published::{Published, VersionChoice, named, open_bus};
use super::{Context, ui};
use crate::control::question::Question;

/// Most characters of a quote on one line.
const QUOTE_CHARS_MAX: usize = 200;

/// Show where a summary comes from, sentence by sentence, back to the queue and to upstream
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A summary id, the id of a request that made one, or the name of a source
    #[arg(value_name = "SUMMARY_ID")]
    id: String,
    /// Compute every hash on the way again, and exit with 1 when a link is broken
    #[arg(long)]
    verify: bool,
    /// Render the prompts again and show them
    #[arg(long)]
    show_prompts: bool,
}

impl ExplainArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let question = |id| Question::Explain {
            id,
            verify: self.verify,
            prompts: self.show_prompts,
            texts: false,
        };
        let mut explained = ask_by_name(context, &self.id, &question)?;
        if context.ui.json {
            if let Some(one) = summary_of(context, &explained) {
                explained["replaced_by"] = one.replaced_by().into();
            }
            context.ui.json(&explained);
        } else {
            if let Some(one) = summary_of(context, &explained) {
                context.ui.out(ui::bold(&one.name()));
                one.warnings().iter().for_each(|warning| context.ui.out(format!("  {warning}")));
                if let Some(by) = one.replaced_by() {
                    context.ui.out(format!("  the summary in its place: {by}"));
                }
            }
            lines(&explained).iter().for_each(|line| context.ui.out(line));
        }
        let broken = list(&explained["links"]).any(|link| link["standing"] == "broken");
        Ok(if broken { Exit::Wrong } else { Exit::Done })
    }
}

/// The summary as it is published.
fn summary_of(context: &Context, explained: &Value) -> Option<Published> {
    let id = explained["summary_id"].as_str()?;
    let found = named(&open_bus(context).ok()?, id, VersionChoice::Newest).ok()?;
    let mut one = found.into_iter().next()?;
    one.look_for_file(context);
    Some(one)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A quote on one line, shortened in the middle of nothing but its end.
fn quoted(value: &Value) -> String {
    let words = text(value).split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("“{}…”", &words[..end]),
        None => format!("“{words}”"),
    }
}

fn lines(explained: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}",
        ui::bold(&text(&explained["summary_id"])),
        text(&explained["title"])
    )];
    let generated = explained["model_generated"] == true;
    let how = if generated { "written by a model" } else { "copied from its sources" };
    lines.push(format!("  {how}"));
    section(&mut lines, "sentences");
    for sentence in list(&explained["sentences"]) {
        lines.push(format!("  {}", quoted(&sentence["text"])));
        let basis = match sentence["basis"].as_str() {
            Some("lexical") => ui::yellow("like"),
            Some("none") => ui::yellow("nothing like it in the sources"),
            basis => ui::green(basis.unwrap_or_default()),
        };
        if sentence["spans"].as_array().is_none_or(Vec::is_empty) {
            lines.push(format!("    {basis}"));
        }
        for span in list(&sentence["spans"]) {
            let line = span["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
            let quote = match span["quote"] == sentence["text"] {
                true => String::new(),
                false => format!("  {}", ui::dim(&quoted(&span["quote"]))),
            };
            lines.push(format!(
                "    {basis} {}{line}  {} bytes {}..{}{quote}",
                text(&span["file"]),
                text(&span["id"]),
                span["start"],
                span["end"],
            ));
        }
    }
    upstream(&mut lines, explained);
    request(&mut lines, explained);
    flow(&mut lines, explained);
    history(&mut lines, explained);
    links(&mut lines, explained);
    lines
}

fn section(lines: &mut Vec<String>, name: &str) {
    lines.push(ui::dim(name));
}

fn upstream(lines: &mut Vec<String>, explained: &Value) {
    section(lines, "upstream");
    for source in list(&explained["sources"]) {
        let mut line = format!(
            "  {}:{}  {}  {} at {}",
            text(&source["file"]),
            source["line"],
            text(&source["id"]),
            ui::told(&source["len"], "byte"),
            source["offset"]
        );
        if let Some(problem) = source["problem"].as_str() {
            line.push_str(&format!("  {}", ui::red(problem)));
        }
        lines.push(line);
    }
    if explained["sources_omitted"].as_u64().is_some_and(|count| count > 0) {
        lines.push(format!("  and {} more sources", explained["sources_omitted"]));
    }
    for input in list(&explained["upstream"]) {
        lines.push(format!("  {}  {}", text(&input["data_sha256"]), text(&input["path"])));
        if !input["manifest_path"].is_null() {
            let hash = text(&input["manifest_sha256"]);
            lines.push(format!("  {hash}  {}", text(&input["manifest_path"])));
        }
    }
    let selection = &explained["selection"];
    lines.push(format!("  {}  source_text_hash", text(&selection["source_text_hash"])));
    if let Some(path) = explained["selection_manifest"]["path"].as_str() {
        let hash = text(&explained["selection_manifest"]["sha256"]);
        lines.push(format!("  {hash}  {path}"));
    }
}

fn request(lines: &mut Vec<String>, explained: &Value) {
    let request = &explained["request"];
    section(lines, "request");
    lines.push(format!("  {}", text(&request["request_id"])));
    lines.push(format!(
        "  queue line {} at byte {}, {} bytes, event {}",
        request["line"], request["offset"], request["length"], request["seq"]
    ));
    lines.push(format!("  {}  the line", text(&request["sha256"])));
    lines.push(format!("  key {}", text(&request["idempotency_key"])));
    section(lines, "published");
    let published = &explained["published"];
    let line = published["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
    lines.push(format!("  {}{line}", text(&published["path"])));
    if let Some(problem) = published["problem"].as_str() {
        lines.push(format!("  {}", ui::red(problem)));
    }
}

fn flow(lines: &mut Vec<String>, explained: &Value) {
    let (flow, model) = (&explained["flow"], &explained["model"]);
    section(lines, "flow");
    lines.push(format!("  {}", text(&flow["template_id"])));
    for (name, hash) in [
        ("pack", &flow["pack_hash"]),
        ("prompt", &flow["prompt_hash"]),
        ("rendered prompt", &flow["rendered_prompt_sha256"]),
    ] {
        lines.push(format!("  {}  {name}", text(hash)));
    }
    lines.push(format!("  {} {}", text(&flow["engine"]), text(&flow["engine_version"])));
    if let Some(prompts) = explained.get("prompts") {
        section(lines, "prompts, rendered again");
        if let Some(problem) = prompts["problem"].as_str() {
            lines.push(format!("  {}", ui::red(problem)));
        } else if prompts["as_recorded"] != true {
            lines.push(format!("  {}", ui::red("they are not what was recorded")));
        }
        for call in list(&prompts["calls"]) {
            for message in list(&call["messages"]) {
                lines.push(format!("  {} {}", text(&call["node"]), text(&message["role"])));
                lines.extend(text(&message["text"]).lines().map(|line| format!("    {line}")));
            }
        }
    }
    section(lines, "model");
    lines.push(format!(
        "  {} {} {}",
        text(&model["provider"]),
        text(&model["model_name"]),
        text(&model["model_version"])
    ));
    let usage = &explained["usage"];
    lines.push(format!("  {} tokens in, {} out", usage["input_tokens"], usage["output_tokens"]));
}

fn history(lines: &mut Vec<String>, explained: &Value) {
    section(lines, "attempts");
    for attempt in list(&explained["attempts"]) {
        let message = attempt["message"].as_str().map_or(String::new(), |why| format!("  {why}"));
        lines.push(format!(
            "  {}  {} to {}  {}{message}",
            attempt["attempt"],
            text(&attempt["started_at"]),
            text(&attempt["ended_at"]),
            text(&attempt["outcome"])
        ));
    }
    section(lines, "events");
    for event in list(&explained["events"]) {
        let (seq, name) = (&event["seq"], text(&event["event"]));
        lines.push(format!("  {seq}  {}  {name}  {}", text(&event["at"]), text(&event["hash"])));
    }
}

fn links(lines: &mut Vec<String>, explained: &Value) {
    if explained.get("links").is_none() {
        return;
    }
    section(lines, "links");
    for link in list(&explained["links"]) {
        let standing = text(&link["standing"]);
        let shown = match standing.as_str() {
            "holds" => ui::green(&standing),
            "broken" => ui::red(&standing),
            _ => ui::yellow(&standing),
        };
        lines.push(format!("  {shown}  {}  {}", text(&link["link"]), text(&link["what"])));
    }
}
