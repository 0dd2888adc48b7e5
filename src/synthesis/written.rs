//! A summary written by a model: what it is asked, and nothing else. Whatever it answers is read by
//! the same rules as any wave output, so a claim without a citation the source itself has never
//! gets into a pack.

use std::time::Duration;

use serde_json::Map;

use super::build::SummarizeInput;
use crate::model::{CallSettings, Message, ModelCall, Provider, Role, StopReason};

/// The name under which a provider, its model and its prices are configured for this.
pub const FLOW: &str = "research.pack.summarize.findings.v1";

const SYSTEM: &str = include_str!("written.txt");
/// Bytes of an answer beyond what it may fill: headings, marks, claims that are dropped.
const SLACK_BYTES: u64 = 2048;
/// Bytes of text in one token, at least.
const TOKEN_BYTES: u64 = 3;

/// Asks for a summary of one source.
pub fn summarize(
    provider: &dyn Provider,
    input: SummarizeInput<'_>,
    timeout: Duration,
) -> Result<String, String> {
    if input.citation_cids.is_empty() {
        return Err("the source has no citation a claim could rest on".to_owned());
    }
    let messages = [Message::new(Role::System, SYSTEM), Message::new(Role::User, question(input))];
    let inputs = Map::new();
    let max_tokens = (input.max_bytes + SLACK_BYTES) / TOKEN_BYTES;
    let settings = CallSettings {
        temperature: Some(0.0),
        max_tokens: Some(u32::try_from(max_tokens).unwrap_or(u32::MAX)),
        ..CallSettings::default()
    };
    let call = ModelCall {
        flow_id: FLOW,
        variant: None,
        node: "summarize",
        messages: &messages,
        inputs: &inputs,
        sources: &[],
        schema: None,
        validator: None,
        hints: None,
        settings,
        timeout,
        bill: None,
        model: None,
    };
    let reply = provider.call(&call).map_err(|error| error.to_string())?;
    match reply.stop {
        StopReason::Filtered => Err("the provider withheld the answer".to_owned()),
        // What a cut answer says is still held to every rule.
        StopReason::End | StopReason::Length => Ok(reply.text),
    }
}

fn question(input: SummarizeInput<'_>) -> String {
    let cids: String = input.citation_cids.iter().map(|cid| format!("- [@{cid}]\n")).collect();
    format!(
        "Perspective: {}\nAt most {} bytes.\nCitations that may be used:\n{cids}\n\
         BEGIN SOURCE\n{}\nEND SOURCE\n",
        input.title, input.max_bytes, input.markdown
    )
}
