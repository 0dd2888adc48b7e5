//! A local program that gets the prompt on stdin and answers on stdout.
//!
//! The conversation is written the way prompt templates are: `# system:` and `# user:` lines before each
//! message, or the bare text when there is only one message of the user. A line inside a message that
//! looks like one of them gets a backslash in front. The program runs in its own
//! process group with a time limit, bounded output, and an environment of `PATH`, `HOME`, the locale,
//! and the variable named by `api_key_env`.

use std::ffi::OsString;

use super::http::Secret;
use super::{ModelCall, ModelError, ModelIdentity, ModelReply, Provider, Role, StopReason, Usage};
use crate::config::ProviderConfig;
use crate::os::process::{self, ProcessError, Program};

const OUTPUT_BYTES_MAX: usize = 4 << 20;
const CONTEXT_TOKENS: usize = 32_000;

/// A program that answers.
#[derive(Debug)]
pub struct CommandProvider {
    name: String,
    argv: Vec<String>,
    config: ProviderConfig,
    key: Option<Secret>,
}

impl CommandProvider {
    /// A provider under its configured name. The command must not be empty. `key` is what it finds
    /// in its environment, so that it can be struck from what it says.
    pub fn new(
        name: &str,
        argv: Vec<String>,
        config: &ProviderConfig,
        key: Option<Secret>,
    ) -> CommandProvider {
        CommandProvider { name: name.to_owned(), argv, config: config.clone(), key }
    }
}

impl Provider for CommandProvider {
    fn identity(&self) -> ModelIdentity {
        let program = self.argv.first().map(String::as_str).unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        ModelIdentity {
            provider: self.name.clone(),
            model_name: self.config.model.clone().unwrap_or_else(|| program.to_owned()),
            ..ModelIdentity::default()
        }
    }

    fn context_tokens(&self) -> usize {
        self.config.context_tokens.map_or(CONTEXT_TOKENS, |tokens| tokens as usize)
    }

    fn context_is_known(&self) -> bool {
        self.config.context_tokens.is_some()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let provider = self.name.clone();
        let program = Program {
            program: self.argv.first().cloned().unwrap_or_default().into(),
            args: self.argv.iter().skip(1).map(OsString::from).collect(),
            folder: None,
            environment: self.config.api_key_env.iter().map(OsString::from).collect(),
            stdout_bytes_max: OUTPUT_BYTES_MAX,
            timeout: call.timeout,
        };
        let finished =
            process::run(&program, prompt(call).as_bytes()).map_err(|error| match error {
                ProcessError::Timeout { limit, .. } => {
                    ModelError::Timeout { provider: provider.clone(), limit }
                }
                ProcessError::Start { ref source, .. } => ModelError::Permanent {
                    provider: provider.clone(),
                    reason: format!("{error}: {source}"),
                },
                ProcessError::TooMuch { .. } => {
                    ModelError::Permanent { provider: provider.clone(), reason: error.to_string() }
                }
            })?;
        if finished.code != Some(0) {
            // What the program says on stderr may hold anything, so only how it ended is told.
            let reason = match finished.code {
                Some(code) => format!("the program ended with code {code}"),
                None => "the program was ended by a signal".to_owned(),
            };
            return Err(ModelError::Transient { provider, reason, retry_after: None });
        }
        let text = String::from_utf8(finished.stdout).map_err(|_| ModelError::Permanent {
            provider,
            reason: "the answer is not UTF-8".to_owned(),
        })?;
        let text = self.key.as_ref().map_or(text.clone(), |key| key.hide_in(&text));
        let estimate = |bytes: usize| (bytes as u64).div_ceil(4);
        Ok(ModelReply {
            usage: Usage {
                input_tokens: call.prompt_tokens(),
                output_tokens: estimate(text.len()),
            },
            text,
            stop: StopReason::End,
            evidence: Vec::new(),
            identity: self.identity(),
            message: None,
            raw: None,
            redacted: 0,
        })
    }
}

fn prompt(call: &ModelCall<'_>) -> String {
    match call.messages {
        [only] if only.role == Role::User => only.text.clone(),
        messages => {
            let parts: Vec<String> = messages
                .iter()
                .map(|message| format!("# {}:\n{}\n", message.role.name(), harmless(&message.text)))
                .collect();
            parts.join("\n")
        }
    }
}

/// The text of a message, unable to begin another one.
fn harmless(text: &str) -> String {
    let begins = |line: &str| {
        let word = line.trim().strip_suffix(':').unwrap_or_default();
        let word = word.trim_start_matches('#').trim();
        ["system", "user", "assistant", "function", "tool"]
            .iter()
            .any(|role| word.eq_ignore_ascii_case(role))
    };
    let lines = text.split('\n').map(|line| match begins(line) {
        true => format!("\\{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
