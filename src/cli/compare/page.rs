//! The page of a comparison: one HTML file without scripts, which reads nothing from elsewhere.
//!
//! Contract: the bytes are a function of the comparison alone. Texts of models and sources are shown as
//! text: markup is escaped, and so are characters that steer a reader.

use serde_json::Value;

use super::judge::NotInText;
use super::{ComparedInput, Contender, FlowComparison, InputRun};
use crate::cli::ui::count;
use crate::contract::shown;

/// Agreement below this is marked.
const DIFFERS_BELOW: f64 = 0.5;
/// Agreement from here on is shown as the same.
const SAME_FROM: f64 = 0.999;

const STYLE: &str = include_str!("page.css");

pub(in crate::cli) fn page(comparison: &FlowComparison) -> String {
    let title = format!("{}: comparison", comparison.flow_id);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{}</title>\n<style>\n{STYLE}\
         </style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p class=\"sub\">{}</p>\n",
        text(&title),
        text(&comparison.flow_id),
        text(&introduction(comparison)),
    );
    html.push_str(&overview(comparison));
    html.push_str(&agreements(comparison));
    for (index, input) in comparison.inputs.iter().enumerate() {
        html.push_str(&one_input(comparison, index, input));
    }
    if !comparison.skipped.is_empty() {
        html.push_str("<section><h2>Files that were not read</h2><ul>\n");
        for one in &comparison.skipped {
            html.push_str(&format!("<li>{}</li>\n", text(one)));
        }
        html.push_str("</ul></section>\n");
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn introduction(comparison: &FlowComparison) -> String {
    let counts = format!(
        "{} answered {}.",
        count(comparison.contenders.len(), "candidate"),
        count(comparison.inputs.len(), "input"),
    );
    format!(
        "{counts} Agreement compares outputs with each other, not with the truth. A value counts as not in \
         the text when the text lacks its words, numbers, names or addresses: look at each before you \
         decide."
    )
}

fn overview(comparison: &FlowComparison) -> String {
    let mut html = String::from(
        "<section><h2>Candidates</h2><table class=\"wide\"><thead><tr><th>Candidate</th><th>Model</th>\
         <th>Answered</th><th>Failed</th><th>Not in the text</th><th>Ids removed</th>\
         <th>Quotes removed</th><th>Repaired</th><th>Time</th><th>Tokens in</th><th>Tokens out</th><th>Cost</th></tr></thead><tbody>\n",
    );
    for one in &comparison.contenders {
        let sums = &one.sums;
        let failed = if sums.failed > 0 { " class=\"bad\"" } else { "" };
        let absent = if sums.not_in_text > 0 { " class=\"unsure\"" } else { "" };
        html.push_str(&format!(
            "<tr><th scope=\"row\" data-label=\"Candidate\">{}</th>{}{}<td data-label=\"Failed\"{failed}>\
             {}</td><td data-label=\"Not in the text\"{absent}>{}</td>{}{}{}{}{}{}{}</tr>\n",
            text(&one.name),
            cell("Model", &one.model),
            cell("Answered", &sums.answered.to_string()),
            sums.failed,
            text(&sums.absent_words()),
            cell("Ids removed", &sums.removed_ids.to_string()),
            cell("Quotes removed", &sums.removed_quotes.to_string()),
            cell("Repaired", &sums.repaired.to_string()),
            cell("Time", &sums.time_words()),
            cell("Tokens in", &sums.input_tokens.to_string()),
            cell("Tokens out", &sums.output_tokens.to_string()),
            cell("Cost", &sums.cost_words()),
        ));
    }
    html.push_str("</tbody></table></section>\n");
    html
}

fn cell(label: &str, shown: &str) -> String {
    format!("<td data-label=\"{label}\">{}</td>", text(shown))
}

fn agreements(comparison: &FlowComparison) -> String {
    let mut html = String::from("<section><h2>Agreement</h2>\n");
    if comparison.members.is_empty() {
        html.push_str("<p>No input was answered by two candidates.</p></section>\n");
        return html;
    }
    if comparison.contenders.len() > 2 {
        html.push_str("<table><thead><tr><th>Pair</th><th>Agreement</th></tr></thead><tbody>\n");
        for pair in &comparison.pairs {
            let name = |index: usize| text(&comparison.contenders[index].name);
            html.push_str(&format!(
                "<tr><th scope=\"row\">{} and {}</th>{}</tr>\n",
                name(pair.first),
                name(pair.second),
                bar(pair.agreement)
            ));
        }
        html.push_str("</tbody></table>\n");
    }
    html.push_str("<table><thead><tr><th>Member</th><th>Agreement</th></tr></thead><tbody>\n");
    for member in &comparison.members {
        let name = text(&member.name);
        html.push_str(&format!(
            "<tr><th scope=\"row\">{name}</th>{}</tr>\n",
            bar(member.agreement)
        ));
    }
    html.push_str("</tbody></table></section>\n");
    html
}

fn bar(agreement: f64) -> String {
    let percent = (agreement * 100.0).round();
    format!(
        "<td><span class=\"bar\"><i style=\"width:{percent}%\"></i></span> <span class=\"share\">\
         {percent} %</span></td>"
    )
}

fn one_input(comparison: &FlowComparison, index: usize, input: &ComparedInput) -> String {
    let mark = if input.private { " <span class=\"badge\">private</span>" } else { "" };
    let cut = if input.cut { "\n…" } else { "" };
    let mut html = format!(
        "<section id=\"input-{}\"><h2>{}{mark}</h2><details><summary>The text</summary><pre dir=\"auto\">\
         {}{cut}</pre></details>\n<table class=\"outputs\"><thead><tr><th>Member</th>",
        index + 1,
        text(&input.name),
        text(&input.text),
    );
    for one in &comparison.contenders {
        html.push_str(&format!("<th>{}</th>", text(&one.name)));
    }
    html.push_str("</tr></thead><tbody>\n");
    html.push_str(&measures(comparison, input));
    for member in &input.members {
        let class = match member.agreement {
            Some(agreement) if agreement < DIFFERS_BELOW => " class=\"differs\"",
            Some(agreement) if agreement >= SAME_FROM => " class=\"same\"",
            _ => "",
        };
        let share = member
            .agreement
            .map(|share| format!("<span class=\"share\">{} %</span>", (share * 100.0).round()));
        html.push_str(&format!(
            "<tr{class}><th scope=\"row\">{} {}</th>",
            text(&member.name),
            share.unwrap_or_default()
        ));
        for (run, contender) in input.runs.iter().zip(&comparison.contenders) {
            html.push_str(&output_cell(run, contender, &member.name));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></section>\n");
    html
}

/// Time, tokens and cost of each run, or why it failed.
fn measures(comparison: &FlowComparison, input: &ComparedInput) -> String {
    let mut html = String::from("<tr class=\"measures\"><th scope=\"row\">run</th>");
    for (run, contender) in input.runs.iter().zip(&comparison.contenders) {
        let label = attribute(&contender.name);
        html.push_str(&format!("<td data-label=\"{label}\">{}", text(&run.measures())));
        if let Some(failure) = &run.failure {
            let (reason, words) = (text(&failure.reason_code), text(&failure.words));
            html.push_str(&format!("<p class=\"bad\">failed: {words} ({reason})</p>"));
        }
        html.push_str("</td>");
    }
    html.push_str("</tr>\n");
    html
}

fn output_cell(run: &InputRun, contender: &Contender, member: &str) -> String {
    let label = attribute(&contender.name);
    let Some(output) = &run.output else {
        return format!("<td data-label=\"{label}\" class=\"none\">no answer</td>");
    };
    let (value, pointer) = match output.as_object() {
        Some(members) => {
            let name = member.replace('~', "~0").replace('/', "~1");
            (members.get(member), format!("/{name}"))
        }
        None => (Some(output), String::new()),
    };
    let mut html = format!("<td data-label=\"{label}\" dir=\"auto\">");
    show(value.unwrap_or(&Value::Null), &pointer, &run.not_in_text, &mut html);
    html.push_str("</td>");
    html
}

fn show(value: &Value, pointer: &str, absent: &[NotInText], html: &mut String) {
    match value {
        Value::Null => html.push_str("<span class=\"none\">nothing</span>"),
        Value::Bool(yes) => html.push_str(if *yes { "yes" } else { "no" }),
        Value::Number(number) => html.push_str(&number.to_string()),
        Value::String(words) => match absent.iter().find(|one| one.pointer == pointer) {
            Some(one) => html.push_str(&format!(
                "<mark>{}</mark><small>not in the text: {}</small>",
                text(words),
                text(&one.missing.join(", "))
            )),
            None => html.push_str(&format!("<span class=\"value\">{}</span>", text(words))),
        },
        Value::Array(elements) if elements.is_empty() => show(&Value::Null, pointer, absent, html),
        Value::Array(elements) => {
            html.push_str("<ul>");
            for (index, element) in elements.iter().enumerate() {
                html.push_str("<li>");
                show(element, &format!("{pointer}/{index}"), absent, html);
                html.push_str("</li>");
            }
            html.push_str("</ul>");
        }
        Value::Object(members) if members.is_empty() => show(&Value::Null, pointer, absent, html),
        Value::Object(members) => {
            html.push_str("<dl>");
            for (name, member) in members {
                html.push_str(&format!("<dt>{}</dt><dd>", text(name)));
                let name = name.replace('~', "~0").replace('/', "~1");
                show(member, &format!("{pointer}/{name}"), absent, html);
                html.push_str("</dd>");
            }
            html.push_str("</dl>");
        }
    }
}

/// A text between tags.
fn text(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in shown::escaped(words).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// A text inside an attribute: on one line.
fn attribute(words: &str) -> String {
    text(&words.split_whitespace().collect::<Vec<_>>().join(" "))
}
