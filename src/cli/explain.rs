//! `explain`: from each sentence of a summary to the words, files, request and model behind it. What a person
//! reads comes first; hashes, bytes and events come last, and only with `--proof`.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;

use super::failure::{Exit, Failure};
use super::file_events::messages;
use super::inspect::{ask_by_name, text};
use super::prose::{plain, plain_line};
use super::published::{Published, VersionChoice, named, open_bus, private_mark};
use super::registry::HomeNames;
use super::{Context, ui};
use crate::control::question::Question;
use crate::flow::reading;

/// Most characters of a quote on one line.
const QUOTE_CHARS_MAX: usize = 200;

/// Show where a summary comes from, sentence by sentence, back to the queue and to upstream
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A summary id, the id of the request that made the summary, or the name of a source
    #[arg(value_name = "ID")]
    id: String,
    /// Compute every hash from the summary to the sources again, and exit with 1 when a check fails
    #[arg(long)]
    verify: bool,
    /// Also show every hash, byte and event, for checking by hand
    #[arg(long)]
    proof: bool,
    /// Build the prompts again and show them
    #[arg(long)]
    show_prompts: bool,
}

impl ExplainArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
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
            let one = summary_of(context, &explained);
            let mut lines = readable(context, &explained, one.as_ref());
            if self.proof {
                proof(&mut lines, &explained);
            } else {
                lines.push(ui::dim("`--proof` shows every hash, byte and event"));
            }
            lines.iter().for_each(|line| context.ui.out(line));
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

/// What a person reads: the text, what each sentence rests on, the sources, and who made it when.
fn readable(context: &Context, explained: &Value, one: Option<&Published>) -> Vec<String> {
    let mut lines = Vec::new();
    let name = one.map(Published::name).unwrap_or_else(|| text(&explained["summary_id"]));
    let mark = one.map_or(String::new(), |one| private_mark(one.is_private()));
    lines.push(format!("{}{mark}", ui::bold(&name)));
    let title = plain_line(&text(&explained["title"]));
    if !title.is_empty() && title != name {
        lines.push(format!("  {title}"));
    }
    if let Some(one) = one {
        let names = HomeNames::of(context);
        let project = one.project(&names.rules).map(|project| format!(" · {project}"));
        let project = project.unwrap_or_default();
        let authors = one.authors().map(|authors| format!(" · by {authors}")).unwrap_or_default();
        lines.push(ui::dim(&format!("  {}{authors}{project}", one.day_shown(names.zone))));
        lines.extend(one.warnings().into_iter().map(|warning| format!("  {warning}")));
        lines.extend(one.kept_by().into_iter().map(|reason| format!("  {reason}")));
        lines.extend(one.replaced_by().map(|by| format!("  the summary in its place: {by}")));
    }
    let model = &explained["model"];
    lines.push(match explained["model_generated"] == true {
        true => {
            format!("  written by {} ({})", text(&model["model_name"]), text(&model["provider"]))
        }
        false => "  copied from its sources by the embedded summarizer".to_owned(),
    });
    sentences(&mut lines, explained);
    sources(context, &mut lines, explained, &name);
    made(&mut lines, explained);
    prompts(&mut lines, explained);
    checked(&mut lines, explained);
    lines
}

fn sentences(lines: &mut Vec<String>, explained: &Value) {
    section(lines, "sentences");
    let ids: Vec<String> = list(&explained["sources"]).map(|source| text(&source["id"])).collect();
    for sentence in list(&explained["sentences"]) {
        let spans = sentence["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let said = text(&sentence["text"]);
        if said.starts_with('#') && spans.is_empty() {
            // A heading of the flow, which says nothing of the sources.
            lines.push(format!("  {}", said.trim_start_matches(['#', ' '])));
            continue;
        }
        lines.push(format!("  {}", quoted(&sentence["text"])));
        let basis = match sentence["basis"].as_str() {
            Some("exact") => ui::green("word for word"),
            Some("lexical") => ui::yellow("like"),
            Some("none") | None => ui::yellow("no similar words in the sources"),
            Some(other) => ui::green(other),
        };
        if spans.is_empty() {
            lines.push(format!("    {basis}"));
        }
        for span in spans {
            // With one source there is no other place.
            let at = ids.iter().position(|id| span["id"] == *id).filter(|_| ids.len() > 1);
            let at = at.map_or(String::new(), |at| format!(" in [{}]", at + 1));
            let quote = match span["quote"] == sentence["text"] {
                true => String::new(),
                false => format!(": {}", ui::dim(&quoted(&span["quote"]))),
            };
            lines.push(format!("    {basis}{at}{quote}"));
        }
    }
}

fn section(lines: &mut Vec<String>, name: &str) {
    lines.push(ui::dim(name));
}

fn sources(context: &Context, lines: &mut Vec<String>, explained: &Value, name: &str) {
    section(lines, "sources");
    let count = list(&explained["sources"]).count();
    let ids = || list(&explained["sources"]).filter_map(|source| source["id"].as_str());
    let is_chat = count > 1 && ids().any(|id| id.starts_with("evt_"));
    let messages = if is_chat { messages(context, &ids().collect()) } else { BTreeMap::new() };
    for (at, source) in list(&explained["sources"]).enumerate() {
        let size = ui::told(&source["text_bytes"], "byte");
        let shown = match count {
            1 => format!("  {name}, {size} of text"),
            _ => {
                let id = text(&source["id"]);
                let own = source["who"].as_str().map(plain_line);
                let who = messages.get(&id).cloned().or(own);
                let who = who.map(|who| format!("{who}, ")).unwrap_or_default();
                format!("  [{}] {who}{id}, {size} of text", at + 1)
            }
        };
        let problem = source["problem"].as_str();
        let problem = problem.map_or(String::new(), |why| format!("  {}", ui::red(why)));
        lines.push(format!("{shown}{problem}"));
    }
    if explained["sources_omitted"].as_u64().is_some_and(|count| count > 0) {
        lines.push(format!("  and {} more sources", explained["sources_omitted"]));
    }
    lines.extend(not_read(&explained["selection"]));
}

/// How many sources the flow did not read, and why.
fn not_read(selection: &Value) -> Option<String> {
    let count = |name: &str| selection["counts"][name].as_u64().unwrap_or(0);
    let (skipped, all) = (count("skipped"), count("sources"));
    let reasons = selection["skip_reasons"].as_object().into_iter().flatten();
    let reasons: Vec<String> = reasons
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(reason, count)| match reason.as_str() {
            reading::EMPTY => format!("{count} without text"),
            reading::CUT => format!("{count} left out by the flow because of the size"),
            reading::NOT_ASKED => format!("{count} that no input of the flow asks for"),
            other => format!("{count} {other}"),
        })
        .collect();
    let line =
        format!("{skipped} of {} not read: {}", ui::count(all, "source"), reasons.join(", "));
    (skipped > 0).then(|| format!("  {}", ui::yellow(&line)))
}

/// The program that asked, the flow and model that answered, and the time.
fn made(lines: &mut Vec<String>, explained: &Value) {
    let (request, model) = (&explained["request"], &explained["model"]);
    section(lines, "made");
    let minute = |time: &Value| text(time).chars().take(16).collect::<String>().replace('T', " ");
    for attempt in list(&explained["attempts"]) {
        let message = attempt["message"].as_str().map_or(String::new(), |why| format!(": {why}"));
        let outcome = text(&attempt["outcome"]);
        let at = minute(&attempt["ended_at"]);
        lines.push(format!("  attempt {} {outcome} at {at} UTC{message}", attempt["attempt"]));
    }
    let by = &request["record"]["requested_by"];
    if let (Some(repo), Some(component)) = (by["repo"].as_str(), by["component"].as_str()) {
        lines.push(format!("  asked by {repo} {component}"));
    }
    lines.push(format!("  flow {}", text(&explained["flow"]["template_id"])));
    let usage = &explained["usage"];
    lines.push(format!(
        "  model {} {}, {} tokens in, {} out",
        text(&model["provider"]),
        text(&model["model_name"]),
        usage["input_tokens"],
        usage["output_tokens"]
    ));
    for warning in list(&explained["flow"]["warnings"]) {
        lines.push(format!("  {}", ui::yellow(&format!("warning: {}", text(warning)))));
    }
    lines.push(format!("  summary {}", text(&explained["summary_id"])));
    lines.push(format!("  request {}", text(&request["request_id"])));
    if let Some(problem) = explained["published"]["problem"].as_str() {
        lines.push(format!("  {}", ui::red(problem)));
    }
}

fn prompts(lines: &mut Vec<String>, explained: &Value) {
    let Some(prompts) = explained.get("prompts") else { return };
    section(lines, "prompts, rendered again");
    if let Some(problem) = prompts["problem"].as_str() {
        lines.push(format!("  {}", ui::red(problem)));
    } else if prompts["as_recorded"] != true {
        lines.push(format!("  {}", ui::red("they are not what was recorded")));
    }
    for call in list(&prompts["calls"]) {
        for message in list(&call["messages"]) {
            lines.push(format!("  {} {}", text(&call["node"]), text(&message["role"])));
            let said = plain(message["text"].as_str().unwrap_or_default());
            lines.extend(said.lines().map(|line| format!("    {line}")));
        }
    }
}

/// How many links of the chain hold, and each that does not.
fn checked(lines: &mut Vec<String>, explained: &Value) {
    if explained.get("links").is_none() {
        return;
    }
    section(lines, "checked");
    let holds = list(&explained["links"]).filter(|link| link["standing"] == "holds").count();
    let all = list(&explained["links"]).count();
    lines.push(match holds == all {
        true => format!(
            "  {} from the sentences to the sources: {}",
            ui::count(all, "link"),
            ui::green("all hold")
        ),
        false => format!("  {holds} of {} hold", ui::count(all, "link")),
    });
    for link in list(&explained["links"]).filter(|link| link["standing"] != "holds") {
        lines.push(link_line(link));
    }
}

fn link_line(link: &Value) -> String {
    let standing = text(&link["standing"]);
    let shown = match standing.as_str() {
        "holds" => ui::green(&standing),
        "broken" => ui::red(&standing),
        _ => ui::yellow(&standing),
    };
    format!("  {shown}  {}  {}", text(&link["link"]), text(&link["what"]))
}

/// Every hash, byte and event behind the summary.
fn proof(lines: &mut Vec<String>, explained: &Value) {
    section(lines, "proof: places of the quotes");
    for sentence in list(&explained["sentences"]) {
        for span in list(&sentence["spans"]) {
            let line = span["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
            lines.push(format!(
                "  {}{line}  {} bytes {}..{}",
                text(&span["file"]),
                text(&span["id"]),
                span["start"],
                span["end"],
            ));
        }
    }
    proof_of_upstream(lines, explained);
    proof_of_request(lines, explained);
    proof_of_flow(lines, explained);
    section(lines, "proof: events");
    for event in list(&explained["events"]) {
        let (seq, name) = (&event["seq"], text(&event["event"]));
        lines.push(format!("  {seq}  {}  {name}  {}", text(&event["at"]), text(&event["hash"])));
    }
    if explained.get("links").is_some() {
        section(lines, "proof: links");
        lines.extend(list(&explained["links"]).map(link_line));
    }
}

fn proof_of_upstream(lines: &mut Vec<String>, explained: &Value) {
    section(lines, "proof: upstream");
    for source in list(&explained["sources"]) {
        lines.push(format!(
            "  {}:{}  {}  {} at {}",
            text(&source["file"]),
            source["line"],
            text(&source["id"]),
            ui::told(&source["len"], "byte"),
            source["offset"]
        ));
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

fn proof_of_request(lines: &mut Vec<String>, explained: &Value) {
    let (request, published) = (&explained["request"], &explained["published"]);
    section(lines, "proof: request");
    lines.push(format!(
        "  queue line {} at byte {}, {} bytes, event {}",
        request["line"], request["offset"], request["length"], request["seq"]
    ));
    lines.push(format!("  {}  the line", text(&request["sha256"])));
    lines.push(format!("  key {}", text(&request["idempotency_key"])));
    let line = published["line"].as_u64().map_or(String::new(), |line| format!(":{line}"));
    lines.push(format!("  published as {}{line}", text(&published["path"])));
}

fn proof_of_flow(lines: &mut Vec<String>, explained: &Value) {
    let (flow, model) = (&explained["flow"], &explained["model"]);
    section(lines, "proof: flow");
    for (name, hash) in [
        ("pack", &flow["pack_hash"]),
        ("prompt", &flow["prompt_hash"]),
        ("rendered prompt", &flow["rendered_prompt_sha256"]),
    ] {
        lines.push(format!("  {}  {name}", text(hash)));
    }
    lines.push(format!("  {} {}", text(&flow["engine"]), text(&flow["engine_version"])));
    lines.push(format!("  model version {}", text(&model["model_version"])));
    for attempt in list(&explained["attempts"]) {
        let times = [&attempt["started_at"], &attempt["ended_at"]].map(text).join(" to ");
        lines.push(format!("  attempt {} {times}", attempt["attempt"]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_that_were_not_read_are_counted_with_the_reason() {
        let selection = |skipped: u64, reasons: Value| json!({"counts": {"sources": 3, "used": 3 - skipped, "skipped": skipped}, "skip_reasons": reasons});
        assert_eq!(not_read(&selection(0, json!({}))), None);
        let told =
            not_read(&selection(2, json!({"empty_content": 1, "unused_by_flow": 1}))).unwrap();
        assert!(
            told.contains("2 of 3 sources not read: 1 without text, 1 that no input"),
            "{told}"
        );
    }
}
