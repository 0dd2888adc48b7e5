//! The servers people use, imitated: each refuses what the real one refuses, in its words. A row of
//! `SERVERS` is a server; a test is a behaviour that every row shows. To add a server, add a row.
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "the test writes the certificate of its server")]

#[path = "support/server.rs"]
mod server;
#[path = "support/tls_server.rs"]
mod tls_server;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use server::{Act, STREAM_HEAD, Seen, Server, as_stream, event, part};
use summarizer::config::{ProviderConfig, ProviderKind};
use summarizer::contract::vocabulary::FailureCause;
use summarizer::model::{
    Anthropic, CallEnd, CallSettings, ErrorClass, Listener, Message, ModelCall, ModelError,
    ModelReply, OpenAi, Provider, ResponseFormat, Role, Secret, StopReason,
};
use tls_server::TlsServer;

const KEY: &str = "sk-very-secret-0123";
/// The words of the prompt that each server finds too long, and that Ollama cuts.
const LONG_WORDS: usize = 6_000;

type Response = (u16, Vec<(&'static str, &'static str)>, Value);

/// One server.
struct Row {
    name: &'static str,
    kind: ProviderKind,
    /// What stands behind the host in `base_url`.
    base: &'static str,
    model: &'static str,
    /// The path of a question.
    asks: &'static str,
    /// The header that carries the key.
    key: &'static str,
    /// What the server refuses about a request, if anything.
    refuses: fn(&Value) -> Option<Response>,
    /// Questions that are refused before the first answer.
    refusals: usize,
    /// Answers to requests for facts, by path.
    facts: fn(&str) -> Option<Value>,
    /// What the server does with a prompt that is too long.
    too_long: fn() -> Response,
    /// The context that is known afterwards.
    context: usize,
    /// What it says when the limit of a minute is used up, and the pause that it asks for.
    limited: fn() -> Response,
    pause: Option<u64>,
    /// What it says when the account or the day has nothing left, where it has accounts.
    spent: Option<fn() -> Response>,
    /// What it says when a guard declines the prompt, where it has one.
    declined: Option<fn() -> Response>,
    /// What it says when it does not have the model.
    absent: fn() -> Response,
    /// An answer without text.
    empty: fn() -> Value,
}

/// An answer without text, of a model that thought until its limit.
fn thought_only(member: &str) -> Value {
    json!({"model": "m", "usage": {"prompt_tokens": 9, "completion_tokens": 2}, "choices": [
        {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": "", member: "Hm, hm."}}]})
}

fn openai_spent() -> Response {
    let words = "You exceeded your current quota, please check your plan and billing details.";
    let error = json!({"message": words, "type": "insufficient_quota", "param": null, "code": "insufficient_quota"});
    no(429, json!({"error": error}))
}

fn openai_absent() -> Response {
    let words = "The model `o-next` does not exist or you do not have access to it.";
    openai_error(404, words, "model", "model_not_found")
}

fn no(status: u16, body: Value) -> Response {
    (status, vec![], body)
}

fn openai_error(status: u16, message: &str, param: &str, code: &str) -> Response {
    let error =
        json!({"message": message, "type": "invalid_request_error", "param": param, "code": code});
    no(status, json!({"error": error}))
}

fn has(body: &Value, name: &str) -> bool {
    body.get(name).is_some()
}

/// OpenAI's reasoning models, and the same on Azure.
fn reasoning(body: &Value) -> Option<Response> {
    let unsupported = |name: &str| {
        let words = format!("Unsupported parameter: '{name}' is not supported with this model.");
        openai_error(400, &words, name, "unsupported_parameter")
    };
    if has(body, "max_tokens") {
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return Some(openai_error(400, words, "max_tokens", "unsupported_parameter"));
    }
    if body["temperature"].as_f64().is_some_and(|value| value != 1.0) {
        let words = "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.";
        return Some(openai_error(400, words, "temperature", "unsupported_value"));
    }
    ["top_p", "stop"].into_iter().find(|name| has(body, name)).map(unsupported)
}

fn nothing(_: &Value) -> Option<Response> {
    None
}

fn no_facts(_: &str) -> Option<Value> {
    None
}

fn openai_limited() -> Response {
    let words = "Rate limit reached for gpt-5 in organization org-1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.";
    let (status, _, body) = openai_error(429, words, "", "rate_limit_exceeded");
    let headers =
        vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20s")];
    (status, headers, body)
}

const SERVERS: &[Row] = &[
    Row {
        name: "OpenAI, a reasoning model",
        kind: ProviderKind::OpenAi,
        base: "/v1",
        model: "o-next",
        asks: "/v1/chat/completions",
        key: "authorization: Bearer",
        refuses: reasoning,
        refusals: 4,
        facts: no_facts,
        too_long: || {
            openai_error(
                400,
                "This model's maximum context length is 4096 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
                "messages",
                "context_length_exceeded",
            )
        },
        context: 4096,
        limited: openai_limited,
        pause: Some(20_000),
        spent: Some(openai_spent),
        declined: Some(|| {
            let words = "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt.";
            openai_error(400, words, "", "invalid_prompt")
        }),
        absent: openai_absent,
        empty: || thought_only("refusal_note"),
    },
    Row {
        name: "Azure OpenAI",
        kind: ProviderKind::OpenAi,
        base: "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
        model: "mine",
        asks: "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
        key: "api-key:",
        refuses: reasoning,
        refusals: 4,
        facts: no_facts,
        too_long: || {
            openai_error(
                400,
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
                "messages",
                "context_length_exceeded",
            )
        },
        context: 8192,
        limited: || {
            let words = "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit. Please retry after 26 seconds.";
            (
                429,
                vec![("retry-after-ms", "1250"), ("retry-after", "26")],
                json!({"error": {"code": "429", "message": words}}),
            )
        },
        pause: Some(1_250),
        spent: Some(openai_spent),
        declined: Some(|| {
            let words = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.";
            no(
                400,
                json!({"error": {"message": words, "type": null, "param": "prompt", "code": "content_filter", "status": 400,
                    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"violence": {"filtered": true, "severity": "medium"}}}}}),
            )
        }),
        absent: || {
            let words = "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again.";
            no(404, json!({"error": {"code": "DeploymentNotFound", "message": words}}))
        },
        empty: || thought_only("annotations"),
    },
    Row {
        name: "OpenRouter",
        kind: ProviderKind::OpenAi,
        base: "/api/v1",
        model: "maker/model-1",
        asks: "/api/v1/chat/completions",
        key: "authorization: Bearer",
        // The words of the server behind the router, wrapped twice.
        refuses: |body| {
            let raw = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "`temperature` and `top_p` cannot both be specified for this model. Please use only one."}}).to_string();
            (has(body, "temperature") && has(body, "top_p")).then(|| {
                no(400, json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Maker"}}}))
            })
        },
        refusals: 1,
        facts: |path| {
            (path == "/api/v1/models").then(|| json!({"data": [{"id": "maker/model-1", "context_length": 32_000, "top_provider": {"context_length": 16_000}}]}))
        },
        too_long: || {
            no(
                400,
                json!({"error": {"message": "This endpoint's maximum context length is 16000 tokens. However, you requested about 20000 tokens.", "code": 400}}),
            )
        },
        context: 16_000,
        limited: || {
            (
                429,
                vec![
                    ("date", "Wed, 11 Feb 2026 23:02:11 GMT"),
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1770850940000"),
                ],
                json!({"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429}}),
            )
        },
        pause: Some(9_000),
        spent: Some(|| {
            no(
                402,
                json!({"error": {"message": "This request requires more credits, or fewer max_tokens. You requested up to 9000 tokens, but can only afford 12.", "code": 402, "metadata": {"limit_source": "openrouter_credits"}}}),
            )
        }),
        declined: Some(|| {
            no(
                403,
                json!({"error": {"message": "maker/model-1 requires moderation on Maker. Your input was flagged for \"violence\".", "code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "…"}}}),
            )
        }),
        absent: || {
            no(
                404,
                json!({"error": {"message": "No endpoints found for maker/model-1.", "code": 404}}),
            )
        },
        empty: || thought_only("reasoning"),
    },
    Row {
        name: "Gemini's compatible endpoint",
        kind: ProviderKind::OpenAi,
        base: "/v1beta/openai",
        model: "own-model",
        asks: "/v1beta/openai/chat/completions",
        key: "authorization: Bearer",
        refuses: |body| {
            let status = |words: String| {
                no(
                    400,
                    json!([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]),
                )
            };
            if has(body, "seed") {
                return Some(status(
                    "Invalid JSON payload received. Unknown name \"seed\": Cannot find field."
                        .into(),
                ));
            }
            (body["response_format"]["type"] == "json_schema").then(|| {
                status("Invalid JSON payload received. Unknown name \"const\" at 'generation_config.response_schema.properties[0].value': Cannot find field.".into())
            })
        },
        refusals: 1,
        facts: |path| {
            (path == "/v1beta/openai/models").then(|| json!({"object": "list", "data": [{"id": "models/own-model", "owned_by": "google"}]}))
        },
        too_long: || {
            no(
                400,
                json!([{"error": {"code": 400, "message": "The input token count (9001) exceeds the maximum number of tokens allowed (8192).", "status": "INVALID_ARGUMENT"}}]),
            )
        },
        context: 8_192,
        limited: || {
            no(
                429,
                json!([{"error": {"code": 429, "message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}]),
            )
        },
        pause: Some(34_500),
        // The server names a pause of a minute, although the quota is that of a day.
        spent: Some(|| {
            no(
                429,
                json!([{"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details. Please retry in 38.863719904s.", "status": "RESOURCE_EXHAUSTED", "details": [
                    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "generate_content_free_tier_requests", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}]}}]),
            )
        }),
        declined: None,
        absent: || {
            no(
                404,
                json!([{"error": {"code": 404, "message": "models/own-model is not found for API version v1main, or is not supported for generateContent.", "status": "NOT_FOUND"}}]),
            )
        },
        // A model that thinks may leave out the content.
        empty: || {
            json!({"model": "m", "usage": {"prompt_tokens": 9, "completion_tokens": 2},
                "choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant"}}]})
        },
    },
    Row {
        name: "vLLM",
        kind: ProviderKind::OpenAi,
        base: "/v1",
        model: "own/model",
        asks: "/v1/chat/completions",
        key: "authorization: Bearer",
        // The limit of the answer alone is larger than the context.
        refuses: |body| {
            let asked = body["max_tokens"].as_u64().filter(|tokens| *tokens > 4_096 - 20)?;
            let words = format!(
                "'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is 4096 tokens and your request has 20 input tokens ({asked} > 4096 - 20)."
            );
            Some(no(
                400,
                json!({"object": "error", "message": words, "type": "BadRequestError", "param": null, "code": 400}),
            ))
        },
        refusals: 1,
        facts: |path| {
            (path == "/v1/models").then(|| json!({"object": "list", "data": [{"id": "own/model", "owned_by": "vllm", "max_model_len": 4096}]}))
        },
        too_long: || {
            no(
                400,
                json!({"error": {"message": "This model's maximum context length is 4096 tokens. However, you requested 9001 tokens (8001 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "param": null, "code": 400}}),
            )
        },
        context: 4_096,
        limited: || no(503, json!({"message": "Too many requests"})),
        pause: None,
        spent: None,
        declined: None,
        absent: || {
            no(
                404,
                json!({"error": {"message": "The model `own/model` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}}),
            )
        },
        empty: || thought_only("reasoning_content"),
    },
    Row {
        name: "LM Studio",
        kind: ProviderKind::OpenAi,
        base: "/v1",
        model: "own-model",
        asks: "/v1/chat/completions",
        key: "authorization: Bearer",
        refuses: |body| {
            (body["response_format"]["type"] == "json_object").then(|| {
                no(400, json!({"error": "'response_format.type' must be 'json_schema' or 'text'"}))
            })
        },
        refusals: 0,
        facts: |path| match path {
            "/v1/models" => {
                Some(json!({"data": [{"id": "own-model", "owned_by": "organization_owner"}]}))
            }
            "/api/v0/models" => Some(
                json!({"data": [{"id": "own-model", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 4096}]}),
            ),
            _ => None,
        },
        // It sends this error as a success.
        too_long: || {
            no(
                200,
                json!({"error": "Trying to keep the first 9001 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}),
            )
        },
        context: 4_096,
        limited: || no(503, json!({"error": "busy"})),
        pause: None,
        spent: None,
        declined: None,
        absent: || {
            let words = "No models loaded. Please load a model in the developer page or use the 'lms load' command.";
            openai_error(404, words, "model", "model_not_found")
        },
        empty: || thought_only("reasoning_content"),
    },
    Row {
        name: "llama.cpp",
        kind: ProviderKind::OpenAi,
        base: "/v1",
        model: "any",
        asks: "/v1/chat/completions",
        key: "authorization: Bearer",
        refuses: |body| {
            let system =
                body["messages"].as_array()?.iter().any(|message| message["role"] == "system");
            system.then(|| no(500, json!({"error": {"code": 500, "message": "System role not supported", "type": "server_error"}})))
        },
        refusals: 1,
        facts: |path| match path {
            "/v1/models" => Some(
                json!({"object": "list", "data": [{"id": "model.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}]}),
            ),
            "/props" => {
                Some(json!({"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}))
            }
            _ => None,
        },
        too_long: || {
            no(
                400,
                json!({"error": {"code": 400, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 4096}}),
            )
        },
        context: 4_096,
        limited: || {
            no(
                503,
                json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
            )
        },
        pause: None,
        spent: None,
        declined: None,
        absent: || {
            no(
                404,
                json!({"error": {"code": 404, "message": "model not found", "type": "not_found_error"}}),
            )
        },
        empty: || thought_only("reasoning_content"),
    },
    Row {
        name: "Ollama",
        kind: ProviderKind::OpenAi,
        base: "/v1",
        model: "small",
        asks: "/v1/chat/completions",
        key: "authorization: Bearer",
        refuses: nothing,
        refusals: 0,
        facts: |path| match path {
            "/v1/models" => Some(
                json!({"object": "list", "data": [{"id": "small:latest", "object": "model", "owned_by": "library"}]}),
            ),
            "/api/ps" => Some(json!({"models": []})),
            "/api/show" => Some(
                json!({"parameters": "stop \"<end>\"\nnum_ctx                        4096", "model_info": {"general.architecture": "llama", "llama.context_length": 131_072}}),
            ),
            _ => None,
        },
        // It cuts the prompt without an error: only its count of tokens shows it.
        too_long: || no(200, completion("A part.", 4_096)),
        context: 4_096,
        limited: || {
            no(
                503,
                json!({"error": {"message": "server busy, please try again.  maximum pending requests exceeded", "type": "api_error", "param": null, "code": null}}),
            )
        },
        pause: None,
        spent: None,
        declined: None,
        absent: || {
            let words = "model \"small\" not found, try pulling it first";
            no(
                404,
                json!({"error": {"message": words, "type": "api_error", "param": null, "code": null}}),
            )
        },
        empty: || thought_only("reasoning"),
    },
    Row {
        name: "Anthropic",
        kind: ProviderKind::Anthropic,
        base: "/v1",
        model: "claude-next",
        asks: "/v1/messages",
        key: "x-api-key:",
        refuses: |body| {
            let refuse = |words: &str| {
                Some(no(
                    400,
                    json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}),
                ))
            };
            if has(body, "temperature") && has(body, "top_p") {
                return refuse(
                    "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                );
            }
            if has(body, "temperature") {
                return refuse("`temperature` is deprecated for this model.");
            }
            let tokens = body["max_tokens"].as_u64().filter(|tokens| *tokens > 4_096)?;
            refuse(&format!(
                "max_tokens: {tokens} > 4096, which is the maximum allowed number of output tokens for claude-next"
            ))
        },
        refusals: 2,
        facts: no_facts,
        too_long: || {
            no(
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 100000 maximum"}}),
            )
        },
        context: 100_000,
        limited: || {
            (
                429,
                vec![("retry-after", "7")],
                json!({"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your organization's rate limit"}}),
            )
        },
        pause: Some(7_000),
        spent: Some(|| {
            no(
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}),
            )
        }),
        declined: Some(|| {
            no(
                200,
                json!({"model": "m", "stop_reason": "refusal", "usage": {"input_tokens": 9, "output_tokens": 2}, "content": []}),
            )
        }),
        absent: || {
            no(
                404,
                json!({"type": "error", "error": {"type": "not_found_error", "message": "model: claude-next"}}),
            )
        },
        empty: || {
            json!({"model": "m", "stop_reason": "max_tokens", "usage": {"input_tokens": 9, "output_tokens": 2},
                "content": [{"type": "thinking", "thinking": "Hm, hm.", "signature": "x"}]})
        },
    },
];

fn completion(text: &str, tokens: u64) -> Value {
    json!({
        "model": "m", "usage": {"prompt_tokens": tokens, "completion_tokens": 2},
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
    })
}

/// What the server of a row answers to a question that it accepts.
fn accepted(row: &Row, body: &Value) -> Value {
    let schema = body["response_format"]["type"] == "json_schema" || has(body, "tools");
    match (row.kind, schema) {
        (ProviderKind::Anthropic, true) => {
            json!({"model": "m", "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 2},
            "content": [{"type": "tool_use", "name": "answer", "input": {"a": 1}}]})
        }
        (ProviderKind::Anthropic, false) => {
            json!({"model": "m", "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 2},
            "content": [{"type": "text", "text": "{\"a\":1}"}]})
        }
        (_, _) => completion("{\"a\":1}", 300),
    }
}

/// The server of a row. `instead` goes before what the row refuses.
fn start(row: &'static Row, instead: fn(&'static Row, &Value) -> Option<Response>) -> Server {
    let serve = move |seen: &Seen| {
        let path = seen.path.split('?').next().unwrap();
        let (status, headers, body) = match (row.facts)(path) {
            Some(facts) => no(200, facts),
            None if seen.path != row.asks => no(404, json!({"error": {"message": "not found"}})),
            None => instead(row, &seen.body)
                .or_else(|| (row.refuses)(&seen.body))
                .unwrap_or_else(|| no(200, accepted(row, &seen.body))),
        };
        let mut headers: Vec<(String, String)> =
            headers.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        if status == 200 && seen.body["stream"] == true && body.get("error").is_none() {
            headers.push(("content-type".to_owned(), "text/event-stream".to_owned()));
            return (status, headers, as_stream(&body));
        }
        (status, headers, body.to_string())
    };
    Server::start(vec![Act::Serve(Arc::new(serve))])
}

fn provider(row: &Row, server: &Server) -> Box<dyn Provider> {
    let config = ProviderConfig {
        kind: row.kind,
        base_url: Some(format!("{}{}", server.base, row.base)),
        model: Some(row.model.into()),
        ..ProviderConfig::default()
    };
    let key = Some(Secret::new(KEY));
    match row.kind {
        ProviderKind::Anthropic => Box::new(Anthropic::new("p", &config, key)),
        _ => Box::new(OpenAi::new("p", &config, key)),
    }
}

fn ask(
    provider: &dyn Provider,
    text: &str,
    settings: CallSettings,
    schema: Option<&Value>,
) -> Result<ModelReply, ModelError> {
    let messages = [Message::new(Role::System, "Be brief."), Message::new(Role::User, text)];
    provider.call(&ModelCall {
        flow_id: "f.v1",
        variant: None,
        node: "n",
        messages: &messages,
        inputs: &Map::new(),
        sources: &[],
        schema,
        validator: None,
        hints: None,
        settings,
        timeout: Duration::from_secs(60),
        bill: None,
        listener: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    })
}

/// Every parameter that some server refuses, as PromptFlow sends them.
fn everything() -> CallSettings {
    let mut settings = CallSettings {
        temperature: Some(0.2),
        max_tokens: Some(9_000),
        seed: Some(3),
        stop: vec!["END".into()],
        ..CallSettings::default()
    };
    settings.extra.insert("top_p".into(), json!(1.0));
    settings
}

fn questions(row: &Row, server: &Server) -> usize {
    server.seen().iter().filter(|seen| seen.path == row.asks).count()
}

#[test]
fn every_server_answers_after_any_refusal() {
    for row in SERVERS {
        let server = start(row, |_, _| None);
        let provider = provider(row, &server);
        let reply = ask(&*provider, "Hello", everything(), None);
        let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        assert_eq!(reply.text, "{\"a\":1}", "{}", row.name);
        assert_eq!(questions(row, &server), row.refusals + 1, "{}: {:#?}", row.name, server.seen());
        ask(&*provider, "Hello again", everything(), None).unwrap();
        let asked = questions(row, &server);
        assert_eq!(asked, row.refusals + 2, "{}: a refusal is remembered", row.name);
        for seen in server.seen() {
            let head = seen.head.to_ascii_lowercase();
            assert!(head.contains(&row.key.to_ascii_lowercase()), "{}: {head}", row.name);
        }
        // What was left out is not claimed to have had an effect.
        let last = server.seen().pop().unwrap().body;
        assert_eq!(reply.identity.temperature.is_some(), has(&last, "temperature"), "{}", row.name);
    }
}

/// Notes what it hears, and ends the call after so many parts.
struct Heard {
    parts: Mutex<Vec<String>>,
    most: usize,
}

impl Listener for Heard {
    fn heard(&self, text: &str) -> bool {
        let mut parts = self.parts.lock().unwrap();
        parts.push(text.to_owned());
        parts.len() < self.most
    }
}

fn listen(
    provider: &dyn Provider,
    most: usize,
    ms: u64,
) -> (Heard, Result<ModelReply, ModelError>) {
    let heard = Heard { parts: Mutex::default(), most };
    let result = call_with(provider, &heard, ms);
    (heard, result)
}

fn call_with(
    provider: &dyn Provider,
    listener: &dyn Listener,
    ms: u64,
) -> Result<ModelReply, ModelError> {
    let messages = [Message::new(Role::User, "Hello")];
    provider.call(&ModelCall {
        flow_id: "f.v1",
        variant: None,
        node: "n",
        messages: &messages,
        inputs: &Map::new(),
        sources: &[],
        schema: None,
        validator: None,
        hints: None,
        settings: CallSettings::default(),
        timeout: Duration::from_millis(ms),
        bill: None,
        listener: Some(listener),
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    })
}

#[test]
fn every_answer_is_heard_while_it_arrives() {
    for row in SERVERS {
        let server = start(row, |_, _| None);
        let provider = provider(row, &server);
        let (heard, reply) = listen(&*provider, usize::MAX, 60_000);
        let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        assert_eq!(heard.parts.lock().unwrap().concat(), reply.text, "{}", row.name);
        assert!(reply.usage.output_tokens > 0, "{}: the last event has the counts", row.name);
        let asked = server.seen().into_iter().rfind(|seen| seen.path == row.asks).unwrap().body;
        let counts = row.kind != ProviderKind::Anthropic;
        assert_eq!(asked["stream_options"]["include_usage"] == true, counts, "{asked}");
        listen(&*provider, usize::MAX, 60_000).1.unwrap();
        assert_eq!(server.connections(), 1, "{}: the connection is used again", row.name);
    }
}

#[test]
fn a_server_that_refuses_streams_is_asked_again_once() {
    type Refuses = fn(&'static Row, &Value) -> Option<Response>;
    let words: [(Refuses, usize); 3] = [
        (
            |_, body| {
                let words = "Unsupported value: 'stream' does not support true with this model.";
                let refusal = openai_error(400, words, "stream", "unsupported_value");
                (body["stream"] == true).then_some(refusal)
            },
            1,
        ),
        (
            |_, body| {
                let words = json!({"error": "streaming is not supported by this model"});
                (body["stream"] == true).then(|| no(400, words))
            },
            1,
        ),
        (
            |_, body| {
                let words = "Unrecognized request argument supplied: stream_options";
                has(body, "stream_options").then(|| no(400, json!({"error": {"message": words}})))
            },
            1,
        ),
    ];
    let row = SERVERS.iter().find(|row| row.name == "vLLM").unwrap();
    for (refuses, refusals) in words {
        let server = start(row, refuses);
        let provider = provider(row, &server);
        for _ in 0..2 {
            let reply = ask(&*provider, "Hello", CallSettings::default(), None).unwrap();
            assert_eq!(reply.text, "{\"a\":1}");
        }
        assert_eq!(questions(row, &server), refusals + 2, "{:#?}", server.seen());
    }
}

fn streaming(parts: Vec<String>, ms: u64) -> (Server, OpenAi) {
    let parts = [vec![STREAM_HEAD.to_owned()], parts].concat();
    with_act(Act::Parts(parts, ms))
}

fn with_act(act: Act) -> (Server, OpenAi) {
    let server = Server::start(vec![act]);
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("{}/v1", server.base)),
        model: Some("m".into()),
        ..ProviderConfig::default()
    };
    let provider = OpenAi::new("p", &config, None);
    (server, provider)
}

#[test]
fn a_stream_that_is_cut_gives_no_answer() {
    let (_server, provider) = streaming(vec![part("Half of an"), part(" answer")], 0);
    let (heard, result) = listen(&provider, usize::MAX, 60_000);
    assert_eq!(heard.parts.lock().unwrap().concat(), "Half of an answer");
    let error = result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
    assert_eq!(error.cause(), FailureCause::ConnectionLost);
    assert!(error.to_string().contains("before its answer was complete"), "{error}");
}

#[test]
fn an_answer_that_is_cut_inside_an_event_or_a_character_ended_early() {
    let event = part("caf\u{e9}");
    let at = event.find('\u{e9}').unwrap();
    let whole = format!("{STREAM_HEAD}{}", part("A "));
    let mut cut = vec![
        format!("{whole}{event}").as_bytes()[..whole.len() + at + 1].to_vec(),
        format!("{whole}{}", &event[..at]).into_bytes(),
        format!("{whole}data: {{").into_bytes(),
    ];
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    let body = completion("caf\u{e9}", 1).to_string();
    let at = body.find('\u{e9}').unwrap();
    cut.push(format!("{head}{body}").as_bytes()[..head.len() + at + 1].to_vec());
    for bytes in cut {
        let (_server, provider) = with_act(Act::Raw(bytes));
        let error = listen(&provider, usize::MAX, 60_000).1.unwrap_err();
        assert_eq!(error.cause(), FailureCause::ConnectionLost, "{error}");
        assert!(error.to_string().contains("before its answer was complete"), "{error}");
    }
}

#[test]
fn an_error_in_the_middle_of_a_stream_is_told() {
    let failed = json!({"error": {"message": "CUDA out of memory", "code": 500}});
    let (_server, provider) = streaming(vec![part("Half"), event(&failed)], 0);
    let error = listen(&provider, usize::MAX, 60_000).1.unwrap_err();
    assert_eq!((error.class(), error.cause()), (ErrorClass::Transient, FailureCause::ServerError));
    assert!(error.to_string().contains("CUDA out of memory"), "{error}");
}

#[test]
fn a_stream_may_take_longer_than_the_limit_while_text_arrives() {
    let mut parts = vec![part("word "); 12];
    parts.push("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned());
    let (_server, provider) = streaming(parts, 250);
    let reply = listen(&provider, usize::MAX, 2_000).1.unwrap();
    assert_eq!(reply.text, "word ".repeat(12));
}

#[test]
fn signs_of_life_without_text_are_no_answer() {
    let head = format!("{STREAM_HEAD}{}", part("One word"));
    let (_server, provider) = with_act(Act::Over(head.into(), b": processing\n\n".to_vec(), 20));
    let error = listen(&provider, usize::MAX, 400).1.unwrap_err();
    assert!(matches!(error, ModelError::Timeout { .. }), "{error}");
}

#[test]
fn reading_stops_when_the_listener_ends_the_answer() {
    let (_server, provider) = with_act(Act::Over(STREAM_HEAD.into(), part("word ").into(), 1));
    let (heard, result) = listen(&provider, 3, 60_000);
    assert_eq!(heard.parts.lock().unwrap().len(), 3);
    assert_eq!(result.unwrap_err().class(), ErrorClass::Permanent);
}

#[test]
fn a_call_that_is_ended_closes_its_connection_at_the_server() {
    /// Waits for a part that never comes.
    struct Waits(Arc<CallEnd>);
    impl Listener for Waits {
        fn heard(&self, _: &str) -> bool {
            true
        }
        fn end(&self) -> Option<&Arc<CallEnd>> {
            Some(&self.0)
        }
    }
    let end = Arc::<CallEnd>::default();
    let waits = Waits(Arc::clone(&end));
    let (closed, is_closed) = std::sync::mpsc::channel();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Read as _;
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 4096];
            let mut read = Vec::new();
            loop {
                match stream.read(&mut bytes) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read.extend_from_slice(&bytes[..count]),
                }
                // The question is here, and is never answered: now the call may be ended.
                if read.windows(5).any(|part| part == b"Hello") {
                    let _ = closed.send(false);
                }
            }
            let _ = closed.send(true);
        }
    });
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(base),
        model: Some("m".into()),
        context_tokens: Some(4_096),
        ..ProviderConfig::default()
    };
    let provider = OpenAi::new("p", &config, None);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call_with(&provider, &waits, 3_600_000));
        assert!(!is_closed.recv().unwrap(), "the server has the question");
        end.end();
        let error = calling.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("not wanted any more"), "{error}");
        assert!(is_closed.recv().unwrap(), "the server sees the end");
    });
    let error = call_with(&provider, &waits, 60_000).unwrap_err();
    assert!(error.to_string().contains("not wanted any more"), "no call begins after the end");
    assert!(is_closed.try_recv().is_err(), "and none reaches the server");
}

#[test]
fn anthropic_keeps_a_long_beginning_that_comes_again() {
    let row = SERVERS.iter().find(|row| row.kind == ProviderKind::Anthropic).unwrap();
    let server = start(row, |_, _| None);
    let provider = provider(row, &server);
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "description": "long ".repeat(1_000)});
    for text in ["One", "Two"] {
        ask(&*provider, text, CallSettings::default(), Some(&schema)).unwrap();
    }
    let asked: Vec<Value> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(asked[0]["system"], "Be brief.", "one question keeps nothing");
    let kept =
        json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(asked[1]["system"], kept);
    for text in ["Three", "Four"] {
        ask(&*provider, text, CallSettings::default(), None).unwrap();
    }
    let last = server.seen().pop().unwrap().body;
    assert_eq!(last["system"], "Be brief.", "a short beginning is not worth keeping");

    let server = start(row, |_, body| {
        body.to_string().contains("cache_control").then(|| {
            let words = "system.0.cache_control: Extra inputs are not permitted";
            no(400, json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}))
        })
    });
    let provider = self::provider(row, &server);
    for text in ["One", "Two", "Three"] {
        ask(&*provider, text, CallSettings::default(), Some(&schema)).unwrap();
    }
    assert_eq!(questions(row, &server), 4, "one refusal, which is remembered");
}

#[test]
fn anthropic_thinks_within_its_own_budget() {
    let row = SERVERS.iter().find(|row| row.kind == ProviderKind::Anthropic).unwrap();
    let server = start(row, |_, body| {
        let budget = body["thinking"]["budget_tokens"].as_u64()?;
        let limit = body["max_tokens"].as_u64()?;
        let words = match (limit > budget, body["temperature"].as_f64()) {
            (false, _) => "`max_tokens` must be greater than `thinking.budget_tokens`.",
            (true, Some(value)) if value != 1.0 => {
                "`temperature` may only be set to 1 when thinking is enabled."
            }
            _ => return None,
        };
        Some(no(
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}}),
        ))
    });
    let mut settings =
        CallSettings { temperature: Some(0.2), max_tokens: Some(1_000), ..CallSettings::default() };
    settings.extra.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2_000}));
    settings.extra.insert("reasoning_effort".into(), json!("minimal"));
    let reply = ask(&*provider(row, &server), "Hello", settings, None).unwrap();
    assert_eq!(reply.text, "{\"a\":1}");
    let last = server.seen().pop().unwrap().body;
    assert_eq!(last["max_tokens"], 3_000, "the budget and the answer");
    assert_eq!(last["output_config"], json!({"effort": "low"}));
    assert!(!has(&last, "temperature"));
}

#[test]
fn a_claude_without_effort_is_asked_without_it_and_this_is_told() {
    let row = SERVERS.iter().find(|row| row.kind == ProviderKind::Anthropic).unwrap();
    let server = start(row, |_, body| {
        let words = "This model does not support the effort parameter.";
        let error =
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
        has(body, "output_config").then(|| no(400, error))
    });
    let mut settings = CallSettings::default();
    settings.extra.insert("reasoning_effort".into(), json!("low"));
    let reply = ask(&*provider(row, &server), "Hello", settings, None).unwrap();
    assert_eq!(reply.left_out, ["reasoning_effort"]);
}

#[test]
fn a_claude_that_refuses_a_budget_for_thoughts_thinks_as_long_as_it_wants() {
    let row = SERVERS.iter().find(|row| row.kind == ProviderKind::Anthropic).unwrap();
    let server = start(row, |_, body| {
        let words = "\"thinking.type.enabled\" is not supported for this model. Use \
            \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.";
        let error =
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
        (body["thinking"]["type"] == "enabled").then(|| no(400, error))
    });
    let mut settings = CallSettings::default();
    settings.extra.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2_000}));
    let provider = provider(row, &server);
    let reply = ask(&*provider, "Hello", settings.clone(), None).unwrap();
    assert_eq!(reply.left_out, ["thinking.budget_tokens"]);
    let last = server.seen().pop().unwrap().body;
    assert_eq!(last["thinking"], json!({"type": "adaptive"}));
    ask(&*provider, "Hello again", settings, None).unwrap();
    assert_eq!(questions(row, &server), 3, "one refusal, which is remembered");
}

#[test]
fn every_server_gives_json_in_some_form() {
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}});
    for row in SERVERS {
        for response_format in [ResponseFormat::JsonObject, ResponseFormat::JsonSchema] {
            let server = start(row, |_, _| None);
            let settings = CallSettings { response_format, ..CallSettings::default() };
            let reply = ask(&*provider(row, &server), "Hello", settings, Some(&schema));
            let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", row.name));
            assert_eq!(reply.text, "{\"a\":1}", "{}", row.name);
        }
    }
}

#[test]
fn every_server_teaches_its_context() {
    let text = "some words ".repeat(LONG_WORDS / 2);
    for row in SERVERS {
        let server = start(row, |row, _| Some((row.too_long)()));
        let provider = provider(row, &server);
        match ask(&*provider, &text, CallSettings::default(), None) {
            Ok(reply) => assert!(reply.usage.input_tokens < LONG_WORDS as u64, "{}", row.name),
            Err(error) => assert_eq!(error.class(), ErrorClass::OverLimit, "{}: {error}", row.name),
        }
        assert_eq!(provider.context_tokens(), row.context, "{}", row.name);
        assert!(provider.context_is_known(), "{}", row.name);
    }
}

#[test]
fn servers_that_tell_their_context_are_asked_for_it() {
    for row in SERVERS.iter().filter(|row| (row.facts)("/v1/models").is_some()) {
        let server = start(row, |_, _| None);
        let provider = provider(row, &server);
        assert_eq!(provider.context_tokens(), row.context, "{}", row.name);
        assert!(provider.context_is_known(), "{}", row.name);
        assert_eq!(questions(row, &server), 0, "{}: no text is sent for it", row.name);
    }
}

#[test]
fn ollama_is_known_by_its_version_where_its_model_has_another_owner() {
    let of_an_author = |seen: &Seen| {
        let name = "hf.co/author/small";
        let body = match seen.path.as_str() {
            "/v1/models" => json!({"data": [{"id": name, "owned_by": "author"}]}),
            "/api/version" => json!({"version": "0.12.0"}),
            "/api/ps" => json!({"models": [{"name": name, "context_length": 2_048}]}),
            _ => return (404, Vec::new(), "{}".to_owned()),
        };
        (200, Vec::new(), body.to_string())
    };
    let server = Server::start(vec![Act::Serve(Arc::new(of_an_author))]);
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("{}/v1", server.base)),
        model: Some("hf.co/author/small".into()),
        ..ProviderConfig::default()
    };
    assert_eq!(OpenAi::new("p", &config, None).context_tokens(), 2_048);
}

#[test]
fn one_deployment_of_azure_has_no_batches() {
    let of = |base: &str| {
        let config = ProviderConfig {
            kind: ProviderKind::OpenAi,
            base_url: Some(base.to_owned()),
            model: Some("m".into()),
            ..ProviderConfig::default()
        };
        OpenAi::new("p", &config, None).batches().is_some()
    };
    assert!(of("https://r.openai.azure.com/openai?api-version=2024-10-21"));
    assert!(!of("https://r.openai.azure.com/openai/deployments/m?api-version=2024-10-21"));
}

#[test]
fn every_pause_that_a_server_asks_for_is_kept() {
    for row in SERVERS {
        let server = start(row, |row, _| Some((row.limited)()));
        let error =
            ask(&*provider(row, &server), "Hello", CallSettings::default(), None).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Transient, "{}: {error}", row.name);
        assert_eq!(
            error.retry_after(),
            row.pause.map(Duration::from_millis),
            "{}: {error}",
            row.name
        );
    }
}

#[test]
fn a_used_up_account_or_daily_quota_is_reported_as_such() {
    for row in SERVERS.iter().filter(|row| row.spent.is_some()) {
        let server = start(row, |row, _| row.spent.map(|spent| spent()));
        let error =
            ask(&*provider(row, &server), "Hello", CallSettings::default(), None).unwrap_err();
        assert_eq!(error.cause(), FailureCause::QuotaUsedUp, "{}: {error}", row.name);
        match error.class() {
            // A day passes; an account is filled by its owner.
            ErrorClass::Transient => {
                assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)), "{}", row.name);
            }
            class => {
                assert_eq!(class, ErrorClass::Permanent, "{}: {error}", row.name);
                assert!(error.to_string().contains("credit"), "{}: {error}", row.name);
            }
        }
        assert_eq!(questions(row, &server), 1, "{}: it is not asked in another way", row.name);
    }
}

#[test]
fn a_prompt_that_a_guard_declines_is_asked_of_nobody_else() {
    for row in SERVERS.iter().filter(|row| row.declined.is_some()) {
        let server = start(row, |row, _| row.declined.map(|declined| declined()));
        let error =
            ask(&*provider(row, &server), "Hello", CallSettings::default(), None).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Refused, "{}: {error}", row.name);
        assert_eq!(questions(row, &server), 1, "{}", row.name);
    }
}

#[test]
fn a_model_that_a_server_does_not_have_is_named() {
    for row in SERVERS {
        let server = start(row, |row, _| Some((row.absent)()));
        let error =
            ask(&*provider(row, &server), "Hello", CallSettings::default(), None).unwrap_err();
        assert_eq!(
            (error.class(), error.cause()),
            (ErrorClass::Permanent, FailureCause::NotFound),
            "{}: {error}",
            row.name
        );
        let said = error.to_string();
        assert!(said.contains("provider.p.model") && said.contains(row.model), "{said}");
        assert_eq!(questions(row, &server), 1, "{}: {said}", row.name);
    }
}

#[test]
fn an_answer_without_text_is_no_answer_at_any_server() {
    for row in SERVERS {
        let server = start(row, |row, _| Some(no(200, (row.empty)())));
        let reply = ask(&*provider(row, &server), "Hello", CallSettings::default(), None);
        let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        assert_eq!((reply.text.as_str(), reply.stop), ("", StopReason::Length), "{}", row.name);
        assert_eq!(reply.usage.output_tokens, 2, "{}: what it cost is known", row.name);
    }
}

#[test]
fn a_busy_router_asks_for_a_wait_with_the_status_of_an_empty_account() {
    let row = SERVERS.iter().find(|row| row.name == "OpenRouter").unwrap();
    let server = start(row, |_, _| {
        let words = "Too many requests in flight for your balance.";
        let error = json!({"error": {"message": words, "code": 402, "metadata": {"limit_source": "openrouter_in_flight_budget"}}});
        Some((402, vec![("retry-after", "3")], error))
    });
    let error = ask(&*provider(row, &server), "Hello", CallSettings::default(), None).unwrap_err();
    assert_eq!((error.class(), error.cause()), (ErrorClass::Transient, FailureCause::RateLimit));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
}

/// A router does not say which parameter no server of the model takes.
fn no_endpoints() -> Response {
    let words = "No endpoints found that can handle the requested parameters. To learn more about \
                 provider routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection";
    no(404, json!({"error": {"message": words, "code": 404}}))
}

#[test]
fn a_router_without_a_server_for_json_is_asked_in_words() {
    let row = SERVERS.iter().find(|row| row.name == "OpenRouter").unwrap();
    let json =
        || CallSettings { response_format: ResponseFormat::JsonObject, ..CallSettings::default() };
    let server = start(row, |_, body| has(body, "response_format").then(no_endpoints));
    let provider_here = provider(row, &server);
    ask(&*provider_here, "Hello", json(), None).unwrap();
    ask(&*provider_here, "Hello", json(), None).unwrap();
    assert_eq!(questions(row, &server), 3, "the second question knows it");

    let server = start(row, |_, _| Some(no_endpoints()));
    let error = ask(&*provider(row, &server), "Hello", json(), None).unwrap_err();
    let said = error.to_string();
    assert_eq!(error.cause(), FailureCause::BadRequest, "{said}");
    assert!(said.contains("leave out parameters") && !said.contains("base_url"), "{said}");
}

#[test]
fn doctor_looks_for_no_deployment_among_the_models_of_azure() {
    let server = Server::start(vec![Act::Serve(Arc::new(|_: &Seen| {
        let models = json!({"object": "list", "data": [{"id": "gpt-4o"}, {"id": "gpt-5"}]});
        (200, vec![], models.to_string())
    }))]);
    let home = tempfile::tempdir().unwrap();
    let doctor = |base: &str| {
        let config = format!(
            "[provider]\ndefault = \"own\"\n[provider.own]\nkind = \"openai\"\n\
             base_url = \"{}{base}\"\nmodel = \"mine\"\n",
            server.base
        );
        std::fs::write(home.path().join("summarizer.toml"), config).unwrap();
        let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_summarizer"));
        program.env_clear().current_dir(home.path()).args(["--home", ".", "doctor"]);
        let ran = program.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    let said = doctor("/v1");
    assert!(said.contains("lists no model mine"), "{said}");
    let said = doctor("/openai/deployments/mine?api-version=2024-10-21");
    assert!(said.contains(" answers") && !said.contains("lists no model"), "{said}");
}

#[test]
fn a_host_of_azure_needs_no_path() {
    for (base, asks) in [
        (
            "/openai/deployments/mine?api-version=1",
            "/openai/deployments/mine/chat/completions?api-version=1",
        ),
        (
            "/openai/deployments/mine/chat/completions?api-version=1",
            "/openai/deployments/mine/chat/completions?api-version=1",
        ),
    ] {
        let server = Server::start(vec![server::chat("Hi.")]);
        let config = ProviderConfig {
            kind: ProviderKind::OpenAi,
            base_url: Some(format!("{}{base}", server.base)),
            model: Some("mine".into()),
            ..ProviderConfig::default()
        };
        let provider = OpenAi::new("azure", &config, Some(Secret::new(KEY)));
        ask(&provider, "Hello", CallSettings::default(), None).unwrap();
        assert_eq!(server.seen()[0].path, asks);
    }
}

#[test]
fn connections_are_used_again_over_tls_and_further_ones_continue_the_session() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let prompty = file("a.prompty", "---\nmodel: m\n---\nuser:\nHello {{who}}\n".to_owned());
    let lines = (0..40).map(|n| format!("{{\"who\": \"{n}\"}}\n")).collect();
    let lines = file("lines.jsonl", lines);
    let one = file("one.jsonl", "{\"who\": \"1\"}\n".to_owned());
    let run = |server: &TlsServer, in_flight: usize, trust: &str, lines: &str| {
        file(
            "summarizer.toml",
            format!(
                "[workers]\nmax_in_flight_per_provider = {in_flight}\n[provider]\ndefault = \"own\"\n\
                 [provider.own]\nkind = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\n\
                 context_tokens = 4096\n{trust}",
                server.base
            ),
        );
        let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_summarizer"));
        program.env_clear().current_dir(home.path()).args(["--home", ".", "flow", "run"]);
        program.args([prompty.as_str(), "--lines", "--input", lines]).output().unwrap()
    };
    let trust = format!("ca_file = {:?}\n", tls_server::authority());
    let body = completion("Hi.", 9);

    let server = TlsServer::start(body.clone(), false);
    let ran = run(&server, 4, &trust, &lines);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(server.questions(), 40);
    let [whole, resumed] = server.handshakes();
    assert!(whole + resumed <= 4, "{whole} whole, {resumed} resumed: one for each call in flight");

    // A server that closes each connection after its answer.
    let server = TlsServer::start(body.clone(), true);
    assert!(run(&server, 1, &trust, &lines).status.success());
    assert_eq!((server.questions(), server.handshakes()), (40, [1, 39]));

    // A certificate that no known authority signed is not accepted, and the error says what to do.
    let server = TlsServer::start(body, false);
    let ran = run(&server, 1, "", &one);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!ran.status.success());
    assert!(said.contains("certificate") && said.contains("provider.own.ca_file"), "{said}");
    assert_eq!(server.questions(), 0, "no question was sent");
    let ran = run(&server, 1, "ca_file = \"one.jsonl\"\n", &one);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("ca_file") && said.contains("no certificate"), "{said}");
}
