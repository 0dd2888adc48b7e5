//! How many tokens a model holds: asked of its server, known of hosted models, or noticed when a
//! server reads less than it was sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::call::Message;
use super::http::{Endpoint, Headers};
use super::reply::Usage;

/// How long a server may take to tell about its models.
const ASK_WITHIN: Duration = Duration::from_secs(3);
/// How long an answer that may change is used, and how long a silent server is left alone.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// What Ollama gives a model that is not loaded yet, where neither the model nor the server says more.
const OLLAMA_TOKENS: usize = 4_096;
/// A prompt with fewer words is too short to judge a server by.
const JUDGED_WORDS_MIN: u64 = 1_000;
/// No server holds less, so a smaller count was not counted.
const COUNT_MIN: u64 = 256;
/// Servers have limits such as 2,048 and 4,096 tokens.
const LIMITS_ARE_MULTIPLES_OF: u64 = 1_024;

/// How the context of a model is made larger at its server.
pub(crate) const MORE_CONTEXT: &str = "give the model a larger context (Ollama: \
    OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size, vLLM: --max-model-len, LM Studio: the context \
    length of the loaded model)";

/// Contexts of hosted models, by how their names begin. Their servers list no numbers. A longer
/// beginning goes before a shorter one.
const HOSTED: [(&str, usize); 14] = [
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("chatgpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-3.5-turbo", 16_385),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("gemini-", 1_000_000),
    ("models/gemini-", 1_000_000),
    ("claude-", 200_000),
    ("deepseek-", 64_000),
];

/// Contexts that servers told, by model.
#[derive(Debug, Default)]
pub(super) struct Contexts(Mutex<BTreeMap<String, KnownContext>>);

#[derive(Debug, Clone, Copy)]
struct KnownContext {
    tokens: Option<usize>,
    /// Whether the answer stays true while the server runs.
    is_final: bool,
    at: Instant,
}

impl Contexts {
    /// The context of a model, asked of the server once; again only where the answer may change.
    pub(super) fn of(&self, endpoint: &Endpoint, headers: &Headers, model: &str) -> Option<usize> {
        // Held while asking: the other calls need the same answer.
        let mut known = self.0.lock();
        if let Some(told) = known.get(model)
            && (told.is_final || told.at.elapsed() < ASK_AGAIN)
        {
            return told.tokens;
        }
        let (tokens, is_final) = ask(endpoint, headers, model);
        known.insert(model.to_owned(), KnownContext { tokens, is_final, at: Instant::now() });
        tokens
    }
}

/// What is known of a model by its name alone.
pub(super) fn of_hosted(model: &str) -> Option<usize> {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    let of = |name: &str| HOSTED.iter().find(|(begins, _)| name.starts_with(begins));
    of(model).or_else(|| of(name)).map(|(_, tokens)| *tokens)
}

/// Asks a server for the context of a model, in the way of that kind of server. Sends no text.
fn ask(endpoint: &Endpoint, headers: &Headers, model: &str) -> (Option<usize>, bool) {
    let list = match endpoint.get("/models", headers, ASK_WITHIN) {
        Ok(Ok(list)) => list,
        Ok(Err(_)) => return (None, true),
        Err(_) => return (None, false),
    };
    let Some(entry) = entry(&list, model) else { return (None, true) };
    if let Some(tokens) = in_entry(entry) {
        return (Some(tokens), true);
    }
    let root = endpoint.at_root();
    let get = |path: &str| root.get(path, headers, ASK_WITHIN).ok()?.ok();
    match entry["owned_by"].as_str() {
        Some("llamacpp") => {
            let props = get("/props");
            (props.and_then(|props| number(&props["default_generation_settings"]["n_ctx"])), true)
        }
        Some("library") => ollama(&root, headers, model),
        // LM Studio's own list tells more than the compatible one. The context of a model changes
        // when it is loaded again.
        Some("organization_owner" | "lmstudio") => {
            let own = get("/api/v0/models");
            let entry = own.as_ref().and_then(|list| self::entry(list, model));
            (entry.and_then(|entry| number(&entry["loaded_context_length"])), false)
        }
        // Ollama names the author of a model as its owner, so only a question tells that it is Ollama.
        _ if of_hosted(model).is_none()
            && get("/api/version").is_some_and(|it| it["version"].is_string()) =>
        {
            ollama(&root, headers, model)
        }
        _ => (None, true),
    }
}

fn ollama(root: &Endpoint, headers: &Headers, model: &str) -> (Option<usize>, bool) {
    let loaded = root.get("/api/ps", headers, ASK_WITHIN).ok().and_then(Result::ok);
    let loaded = loaded.as_ref().and_then(|list| list["models"].as_array()).into_iter().flatten();
    let is_it = |entry: &&Value| {
        [&entry["name"], &entry["model"]].iter().any(|name| is_model(name.as_str(), model))
    };
    if let Some(tokens) =
        loaded.into_iter().find(is_it).and_then(|it| number(&it["context_length"]))
    {
        return (Some(tokens), false);
    }
    let shown = root.post("/api/show", &json!({"model": model}), headers, ASK_WITHIN, None);
    let Some(shown) = shown.ok().and_then(Result::ok) else { return (None, false) };
    // `parameters` is a text with one parameter a line.
    let lines = shown["parameters"].as_str().unwrap_or_default().lines();
    let set = lines.filter_map(|line| line.trim().strip_prefix("num_ctx")).next();
    if let Some(tokens) = set.and_then(|value| value.trim().parse().ok()) {
        return (Some(tokens), false);
    }
    let members = shown["model_info"].as_object().into_iter().flatten();
    let whole = members.filter(|(name, _)| name.ends_with(".context_length"));
    let whole = whole.filter_map(|(_, value)| number(value)).next();
    (Some(whole.map_or(OLLAMA_TOKENS, |tokens| tokens.min(OLLAMA_TOKENS))), false)
}

/// The entry of a model; the only entry where no model is named.
fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = list["data"].as_array()?;
    let named = entries.iter().find(|entry| is_model(entry["id"].as_str(), model));
    named.or_else(|| entries.first().filter(|_| entries.len() == 1))
}

fn is_model(id: Option<&str>, model: &str) -> bool {
    id.is_some_and(|id| names_model(id, model))
}

/// Whether an id in the list of a server stands for a model as somebody names it: Ollama lists a tag with
/// it, Gemini a folder before it, and Anthropic the day of the version that an alias means.
pub(crate) fn names_model(id: &str, model: &str) -> bool {
    let bare = |name: &'_ str| name.strip_prefix("models/").unwrap_or(name).to_owned();
    let (id, model) = (bare(id), bare(model));
    let alias = model.strip_suffix("-latest").unwrap_or(&model);
    let version = id.strip_prefix(alias).and_then(|rest| rest.strip_prefix('-'));
    id == model
        || id.strip_suffix(":latest") == Some(&model)
        || version.is_some_and(|day| day.len() == 8 && day.bytes().all(|b| b.is_ascii_digit()))
}

/// The context in an entry of a list: vLLM, llama.cpp, LM Studio, OpenRouter, Groq, Mistral.
fn in_entry(entry: &Value) -> Option<usize> {
    let provider = number(&entry["top_provider"]["context_length"]);
    let names = [
        "max_model_len",
        "loaded_context_length",
        "context_length",
        "context_window",
        "max_context_length",
    ];
    let own = names.iter().find_map(|name| number(&entry[*name]));
    let slot = number(&entry["meta"]["n_ctx"]);
    [slot, provider, own].into_iter().flatten().min()
}

fn number(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|tokens| usize::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}

/// Whether the server read less than it was sent: it counted fewer tokens than the prompt has words.
/// A word has at least one token, so the server has cut the prompt without a message. A count that is a
/// round number of a limit proves it earlier: words have more than one token on average.
pub(crate) fn was_cut(messages: &[Message], usage: Usage) -> bool {
    let least = messages.iter().map(|message| words(&message.text)).sum::<u64>();
    let counted = usage.input_tokens;
    let is_short = match counted % LIMITS_ARE_MULTIPLES_OF {
        0 => counted * 20 < least * 23,
        _ => counted * 10 < least * 9,
    };
    least >= JUDGED_WORDS_MIN && counted >= COUNT_MIN && is_short
}

/// The words of a text; of scripts without spaces a quarter of the characters.
fn words(text: &str) -> u64 {
    const WITHOUT_SPACES: char = '\u{2e80}';
    let spaced =
        text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
    let dense =
        if text.is_ascii() { 0 } else { text.chars().filter(|c| *c >= WITHOUT_SPACES).count() };
    (spaced + dense / 4) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::call::Role;

    #[test]
    fn a_cut_prompt_is_noticed_by_its_count() {
        let cut = |text: &str, input_tokens| {
            was_cut(&[Message::new(Role::User, text)], Usage { input_tokens, output_tokens: 1 })
        };
        let long = "some words ".repeat(3_000);
        assert!(cut(&long, 4_096));
        assert!(!cut(&long, 6_002), "a word may be one token");
        assert!(cut(&long, 6_144) && !cut(&long, 7_168), "a round number is a limit");
        assert!(!cut(&long, 0), "the server does not count");
        assert!(!cut(&long, 11), "no server holds so little");
        assert!(!cut("few words", 300));
        assert!(!cut(&"=".repeat(100_000), 2_000), "long words may be few tokens");
        assert!(cut(&"摘要".repeat(5_000), 2_000));
    }

    #[test]
    fn a_hosted_model_is_known_by_its_name() {
        assert_eq!(of_hosted("gpt-4o-mini"), Some(128_000));
        assert_eq!(of_hosted("o1-mini"), Some(128_000));
        assert_eq!(of_hosted("anthropic/claude-sonnet-4.5"), Some(200_000));
        assert_eq!(of_hosted("models/gemini-2.5-flash"), Some(1_000_000));
        assert_eq!(of_hosted("llama3.2"), None);
    }

    #[test]
    fn a_listed_model_is_known_under_the_names_that_people_use() {
        for (id, model) in [
            ("small:latest", "small"),
            ("models/gemini-2.5-flash", "gemini-2.5-flash"),
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-3-5-haiku-20241022", "claude-3-5-haiku-latest"),
        ] {
            assert!(names_model(id, model), "{id} {model}");
        }
        for (id, model) in
            [("gpt-4o-mini", "gpt-4o"), ("claude-sonnet-4-20250514", "claude-sonnet")]
        {
            assert!(!names_model(id, model), "{id} {model}");
        }
    }

    #[test]
    fn each_kind_of_list_tells_the_context() {
        for (entry, tokens) in [
            (json!({"id": "m", "max_model_len": 4096}), Some(4096)),
            (
                json!({"id": "m", "context_length": 9, "top_provider": {"context_length": 8}}),
                Some(8),
            ),
            (json!({"id": "m", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}), Some(2048)),
            (json!({"id": "m", "context_window": 131_072}), Some(131_072)),
            (json!({"id": "m", "owned_by": "openai"}), None),
        ] {
            assert_eq!(in_entry(&entry), tokens, "{entry}");
        }
        let list = json!({"data": [{"id": "a:latest"}, {"id": "b"}]});
        assert_eq!(entry(&list, "a").unwrap()["id"], "a:latest");
        assert_eq!(entry(&list, "c"), None);
        assert_eq!(entry(&json!({"data": [{"id": "x"}]}), "").unwrap()["id"], "x");
    }
}
