//! A summary written by a model: the prompt. The answer is parsed by the same rules as a wave
//! output, so a claim without a citation of its source never reaches a pack.
//!
//! See docs/adr/0060-model-drafts-under-the-same-rules.md.

use std::time::Duration;

use serde_json::Map;

use super::build::SummarizeInput;
use crate::model::{CallSettings, Message, ModelCall, Provider, Role, StopReason};

/// Flow id under which provider, model and prices are configured.
pub const FLOW: &str = "research.pack.summarize.findings.v1";

const SYSTEM: &str = include_str!("written.txt");
/// Extra bytes for an answer: headings, marks, and claims that are dropped.
const SLACK_BYTES: u64 = 2048;
/// Fewest bytes of text in one token.
const TOKEN_BYTES: u64 = 3;

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
        listener: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    };
    let reply = provider.call(&call).map_err(|error| error.to_string())?;
    match reply.stop {
        StopReason::Filtered => Err("the provider withheld the answer".to_owned()),
        // The rules apply to a cut answer too.
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
