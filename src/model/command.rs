//! A local program that gets the prompt on stdin and answers on stdout.
//!
//! The conversation is written like a prompt template: a line `# system:`, `# user:` and so on before
//! each message. A conversation of one message of the user is written as its bare text. A line inside
//! a message that looks like a role line gets a backslash in front. The program runs in its own
//! process group with a time limit, bounded output, and an environment of `PATH`, `HOME`, the locale,
//! and the variable that `api_key_env` names.

use std::ffi::OsString;

use super::call::{ModelCall, Role};
use super::error::ModelError;
use super::provider::Provider;
use super::redact::Redaction;
use super::reply::{ModelIdentity, ModelReply, Usage};
use super::secret::Secret;
use crate::config::{Profile, ProviderConfig};
use crate::contract::shown::named;
use crate::contract::told::ToldFailure;
use crate::contract::vocabulary::FailureCause;
use crate::os::process::{self, ProcessError, Program};

const OUTPUT_BYTES_MAX: usize = 4 << 20;
const CONTEXT_TOKENS: usize = 32_000;
/// Characters of the last words of a program that an error repeats.
const LAST_WORDS: usize = 400;
/// A shorter line of a program is never taken as an echo of the prompt.
const ECHO_BYTES: usize = 16;

/// A program that answers.
#[derive(Debug)]
pub struct CommandProvider {
    name: String,
    argv: Vec<String>,
    config: ProviderConfig,
    key: Option<Secret>,
}

impl CommandProvider {
    /// `argv` must not be empty. `key` is the value of `api_key_env`; it is removed from the answer.
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

    fn profile_of(&self, _: Option<&str>) -> Profile {
        let context = self.config.context_tokens.map(|tokens| tokens as usize);
        Profile::of(self.config.profile, context)
    }

    fn context_is_known(&self) -> bool {
        self.config.context_tokens.is_some()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let provider = self.name.clone();
        let program = Program {
            variables: Vec::new(),
            dies_with_us: false,
            program: self.argv.first().cloned().unwrap_or_default().into(),
            args: self.argv.iter().skip(1).map(OsString::from).collect(),
            folder: None,
            environment: self.config.api_key_env.iter().map(OsString::from).collect(),
            stdout_bytes_max: OUTPUT_BYTES_MAX,
            timeout: call.timeout,
            // The operator chose the program, and it may need anything.
            jail: None,
        };
        let asked = prompt(call);
        let finished = process::run(&program, asked.as_bytes()).map_err(|error| match error {
            ProcessError::Timeout { limit, .. } => {
                ModelError::Timeout { provider: provider.clone(), limit }
            }
            ProcessError::Start { ref source, .. } => ModelError::Permanent {
                provider: provider.clone(),
                reason: format!("{error}: {source}").into(),
                cause: FailureCause::Configuration,
            },
            ProcessError::TooMuch { .. } => ModelError::Permanent {
                provider: provider.clone(),
                reason: error.to_string().into(),
                cause: FailureCause::InvalidAnswer,
            },
        })?;
        if finished.code != Some(0) {
            let ended = match finished.code {
                Some(code) => format!("the program ended with exit code {code}"),
                None => "a signal ended the program".to_owned(),
            };
            let said = finished.stderr.as_str();
            let said = self.key.as_ref().map_or(said.to_owned(), |key| key.hide_in(said));
            let reason = match last_words(&said, &asked) {
                words if words.is_empty() => format!("{ended} and said nothing on stderr").into(),
                words => ToldFailure::from(format!("{ended}; its last words: "))
                    .and(ToldFailure::by_others(words)),
            };
            let cause = FailureCause::Program;
            return Err(ModelError::Transient { provider, reason, retry_after: None, cause });
        }
        let text = String::from_utf8(finished.stdout).map_err(|_| ModelError::Permanent {
            provider,
            reason: "the answer is not UTF-8".into(),
            cause: FailureCause::InvalidAnswer,
        })?;
        let text = self.key.as_ref().map_or(text.clone(), |key| key.hide_in(&text));
        let estimate = |bytes: usize| (bytes as u64).div_ceil(4);
        let usage =
            Usage { input_tokens: call.prompt_tokens(), output_tokens: estimate(text.len()) };
        Ok(ModelReply::plain(text, usage, self.identity()))
    }
}

/// The end of what a program said, on one line: without keys, addresses and numbers of people, with
/// names for characters that steer a terminal, and without lines of the prompt.
fn last_words(said: &str, asked: &str) -> String {
    // What was cut at its beginning may begin within a key.
    let said = match said.len() < process::STDERR_BYTES_MAX {
        true => said,
        false => said.split_once('\n').map_or("", |(_, rest)| rest),
    };
    let is_of_prompt = |line: &str| line.len() >= ECHO_BYTES && asked.contains(line);
    let lines = said.lines().map(str::trim).filter(|line| !is_of_prompt(line));
    let kept = lines.collect::<Vec<_>>().join("\n");
    let redaction = Redaction { emails: true, phones: true, keys: true, accounts: true };
    let redacted = redaction.apply(&kept).0;
    let line = named(&redacted).split_whitespace().collect::<Vec<_>>().join(" ");
    let start = line.char_indices().rev().nth(LAST_WORDS).map(|(at, _)| at);
    match start {
        Some(at) => {
            format!("…{}", line[at..].split_once(' ').map_or(&line[at..], |(_, rest)| rest))
        }
        None => line,
    }
}

fn prompt(call: &ModelCall<'_>) -> String {
    match call.messages {
        [only] if only.role == Role::User => only.text.clone(),
        messages => {
            let parts: Vec<String> = messages
                .iter()
                .map(|message| {
                    format!("# {}:\n{}\n", message.role.name(), escape_role_lines(&message.text))
                })
                .collect();
            parts.join("\n")
        }
    }
}

/// The text with a backslash before each line that a reader would take for a role line.
fn escape_role_lines(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_program_are_one_clean_line() {
        let said = "Loading…\nA long line of the prompt\nkey sk-abcdef0123456789abcdef\r\n\u{1b}[31mmodel \
                    file\u{202e} not found\u{7}, write to ana@example.org\n";
        let words = last_words(said, "Read: A long line of the prompt, and so on");
        assert_eq!(
            words,
            "Loading… key [key] (U+001B)[31mmodel file(U+202E) not found(U+0007), write to [email]"
        );
        assert_eq!(last_words(" \n", ""), "");
        let long = last_words(&"word ".repeat(500), "");
        assert!(long.starts_with("…word ") && long.chars().count() <= LAST_WORDS + 1, "{long}");
        let cut = format!("{}\nthe end", "k".repeat(process::STDERR_BYTES_MAX));
        assert_eq!(last_words(&cut, ""), "the end");
    }
}
