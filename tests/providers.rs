//! The remote providers against servers that answer well and servers that do not.
#![allow(
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "a helper of tests may fail loudly"
)]

#[path = "support/server.rs"]
mod server;

use std::time::Duration;

use serde_json::{Map, Value, json};
use server::{Act, Server, chat, status};
use summarizer::config::{Profile, ProviderConfig, ProviderKind};
use summarizer::model::{
    Anthropic, Api, CallSettings, CommandProvider, ErrorClass, Message, ModelCall, ModelError,
    ModelReply, OpenAi, Provider, ResponseFormat, Role, Secret, StopReason,
};

const KEY: &str = "sk-very-secret-0123";

fn openai(server: &Server) -> OpenAi {
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("{}/v1", server.base)),
        model: Some("loop-1".into()),
        ..ProviderConfig::default()
    };
    OpenAi::new("loop", &config, Some(Secret::new(KEY)))
}

fn ask_with(
    provider: &dyn Provider,
    settings: CallSettings,
    schema: Option<&Value>,
    ms: u64,
) -> Result<ModelReply, ModelError> {
    let messages = [Message::new(Role::System, "Be brief."), Message::new(Role::User, "Hello")];
    say(provider, &messages, settings, schema, ms)
}

fn say(
    provider: &dyn Provider,
    messages: &[Message],
    settings: CallSettings,
    schema: Option<&Value>,
    ms: u64,
) -> Result<ModelReply, ModelError> {
    provider.call(&ModelCall {
        flow_id: "f.v1",
        variant: None,
        node: "n",
        messages,
        inputs: &Map::new(),
        sources: &[],
        schema,
        validator: None,
        hints: None,
        settings,
        timeout: Duration::from_millis(ms),
        bill: None,
        listener: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    })
}

fn ask(provider: &dyn Provider, ms: u64) -> Result<ModelReply, ModelError> {
    ask_with(provider, CallSettings::default(), None, ms)
}

#[test]
fn a_conversation_is_sent_and_its_answer_is_read() {
    let server = Server::start(vec![chat("Hi.")]);
    let provider = openai(&server);
    let settings = CallSettings {
        temperature: Some(0.5),
        max_tokens: Some(9),
        stop: vec!["END".into()],
        seed: Some(3),
        ..CallSettings::default()
    };
    let reply = ask_with(&provider, settings, None, 300_000).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("Hi.", StopReason::End));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (11, 7));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert!(seen.head.contains(&format!("Bearer {KEY}")));
    assert_eq!(
        seen.body,
        json!({"model": "loop-1", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5, "max_tokens": 9, "seed": 3, "stop": ["END"],
               "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]})
    );
    ask(&provider, 300_000).unwrap();
    assert_eq!(server.connections(), 1, "the connection is used again");
}

#[test]
fn a_completion_uses_the_text_endpoint() {
    let answer = json!({
        "model": "loop-1", "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        "choices": [{"index": 0, "finish_reason": "length", "text": " there was", "logprobs": null}],
    });
    let server = Server::start(vec![status(200, &[], &answer.to_string()), chat("Hi.")]);
    let provider = openai(&server);
    let settings = || CallSettings {
        api: Api::Completion,
        max_tokens: Some(2),
        response_format: ResponseFormat::JsonObject,
        ..CallSettings::default()
    };
    let reply = ask_with(&provider, settings(), None, 300_000).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), (" there was", StopReason::Length));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (5, 2));
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/completions");
    assert!(seen.head.contains(&format!("Bearer {KEY}")));
    let prompt = "Be brief.\n\nHello";
    assert_eq!(
        seen.body,
        json!({"model": "loop-1", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 2, "prompt": prompt})
    );
    let error = ask_with(&provider, settings(), None, 300_000).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient, "a message is no text: {error}");
}

#[test]
fn every_failure_of_a_server_has_a_class_and_hides_the_key() {
    let leak = format!("{{\"error\": {{\"message\": \"bad key {KEY}\"}}}}");
    let cases: Vec<(Act, ErrorClass)> = vec![
        (Act::Silence, ErrorClass::Transient),
        (Act::Cut, ErrorClass::Transient),
        (Act::Endless, ErrorClass::Permanent),
        (Act::Huge(64 << 20), ErrorClass::Permanent),
        (status(200, &[], "<html>"), ErrorClass::Transient),
        (status(429, &[], ""), ErrorClass::Transient),
        (status(500, &[], ""), ErrorClass::Transient),
        (status(401, &[], &leak), ErrorClass::Permanent),
        (status(302, &[("location", "http://127.0.0.1:1/")], ""), ErrorClass::Permanent),
        (status(413, &[], ""), ErrorClass::OverLimit),
        (
            status(400, &[], "{\"error\": {\"message\": \"maximum context length\"}}"),
            ErrorClass::OverLimit,
        ),
        (
            status(400, &[], "{\"error\": {\"code\": \"content_filter\", \"message\": \"no\"}}"),
            ErrorClass::Refused,
        ),
    ];
    for (act, class) in cases {
        let silent = matches!(act, Act::Silence);
        let server = Server::start(vec![act]);
        let error = ask(&openai(&server), if silent { 200 } else { 300_000 }).unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    }
    let nobody = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some("http://127.0.0.1:1".into()),
        ..ProviderConfig::default()
    };
    let error = ask(&OpenAi::new("gone", &nobody, None), 300_000).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
}

fn raw(text: &str) -> Act {
    Act::Raw(text.as_bytes().to_vec())
}

fn over(text: &str, again: &str, ms: u64) -> Act {
    Act::Over(text.as_bytes().to_vec(), again.as_bytes().to_vec(), ms)
}

#[test]
fn every_invalid_response_becomes_an_error_with_a_class() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = |length: &str, body: &str| format!("{ok}content-length: {length}\r\n\r\n{body}");
    let broken = [
        ("nothing", raw("")),
        ("no HTTP", raw("hello\r\n\r\n")),
        ("a head cut off", raw(ok)),
        ("a head that never ends", over(ok, "x-a: bbbbbbbb\r\n", 0)),
        ("a line that never ends", over(ok, "x", 0)),
        ("a body shorter than said", raw(&body("500", "{}"))),
        ("a negative length", raw(&body("-1", "{}"))),
        ("a length beyond numbers", raw(&body("99999999999999999999", "{}"))),
        ("a chunk whose length is no number", raw(&format!("{chunked}zz\r\n{{}}\r\n"))),
        ("a chunk beyond numbers", raw(&format!("{chunked}ffffffffffffffffff\r\n"))),
        ("chunks without an end", over(chunked, "10\r\n{\"choices\": [   \r\n", 0)),
        ("an extension without an end", over(&format!("{chunked}1;"), "x=1;", 0)),
        ("compressed", raw(&body("4\r\ncontent-encoding: gzip", "\u{1f}x\u{8}\u{0}"))),
        ("deeper than anything", raw(&body("100000", &"[".repeat(100_000)))),
        ("no UTF-8", Act::Raw([body("4", "").as_bytes(), b"\"\xff\xfe\""].concat())),
        ("a page", status(200, &[("content-type", "text/html")], "<html>hi</html>")),
        ("no content", status(204, &[], "")),
        ("null", status(200, &[], "null")),
        ("a list", status(200, &[], "[]")),
        ("no choices", status(200, &[], "{\"choices\": null}")),
        ("no choice", status(200, &[], "{\"choices\": [null]}")),
        ("no message", status(200, &[], "{\"choices\": [{\"message\": null}]}")),
        ("a bare message", status(200, &[], "{\"choices\": [{\"message\": \"hi\"}]}")),
        ("values by the million", status(200, &[], &format!("[{}7]", "[],".repeat(3_000_000)))),
    ];
    for (what, act) in broken {
        let server = Server::start(vec![act]);
        let error = ask(&openai(&server), 300_000).unwrap_err();
        let fits = matches!(error.class(), ErrorClass::Transient | ErrorClass::Permanent);
        assert!(fits && !matches!(error, ModelError::Timeout { .. }), "{what}: {error}");
        assert!(error.to_string().len() < 600, "{what}: {error}");
    }
    // An endless response that stays below the size limit ends at the time limit.
    let endless = [
        ("a slow head", over(ok, "x-a: b\r\n", 40)),
        ("a slow body", over(chunked, "1\r\n \r\n", 40)),
        ("interim answers without an end", over("", "HTTP/1.1 100 Continue\r\n\r\n", 1)),
    ];
    for (what, act) in endless {
        let server = Server::start(vec![act]);
        let error = ask(&openai(&server), 400).unwrap_err();
        assert!(error.class() == ErrorClass::Transient, "{what}: {error}");
    }
}

#[test]
fn an_unusual_but_complete_answer_is_accepted() {
    let with = |message: Value, usage: Value| {
        let value = json!({"choices": [{"message": message}], "usage": usage});
        status(200, &[("content-type", "text/plain; charset=latin-1")], &value.to_string())
    };
    let server = Server::start(vec![
        with(json!({"content": null}), json!({"prompt_tokens": u64::MAX, "completion_tokens": -3})),
        with(json!({"content": {"a": 1}}), json!("many")),
        with(json!({"content": [{"type": "text", "text": "a"}, 7, {"text": "b"}]}), json!(null)),
    ]);
    let provider = openai(&server);
    for (text, tokens) in [("", 1 << 30), ("", 0), ("ab", 0)] {
        let reply = ask(&provider, 300_000).unwrap();
        assert_eq!((reply.text.as_str(), reply.usage.total()), (text, tokens));
    }
}

#[test]
fn a_redirect_never_receives_the_key() {
    let elsewhere = Server::start(vec![chat("I should never have been asked.")]);
    for code in [301, 302, 303, 307, 308] {
        let to = format!("{}/v1/chat/completions?key={KEY}", elsewhere.base);
        let server = Server::start(vec![status(code, &[("location", &to)], "")]);
        let error = ask(&openai(&server), 300_000).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Permanent);
        let said = error.to_string();
        assert!(said.contains(&elsewhere.base) && !said.contains(KEY), "{said}");
    }
    assert!(elsewhere.seen().is_empty());
}

#[test]
fn an_address_may_hold_a_query_and_a_password() {
    let server = Server::start(vec![chat("Hi.")]);
    let at = server.base.replace("http://", "http://ana:pass%20word@");
    let config = ProviderConfig {
        kind: ProviderKind::OpenAi,
        base_url: Some(format!("{at}/v1/?api-version=2&code=abcdefgh")),
        ..ProviderConfig::default()
    };
    ask(&OpenAi::new("loop", &config, None), 300_000).unwrap();
    ask(&OpenAi::new("loop", &config, Some(Secret::new(KEY))), 300_000).unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].path, "/v1/chat/completions?api-version=2&code=abcdefgh");
    assert!(seen[0].head.contains("Basic YW5hOnBhc3Mgd29yZA=="), "{}", seen[0].head);
    assert!(seen[1].head.contains(&format!("Bearer {KEY}")), "a key goes before a password");
    assert!(!seen[1].head.contains("Basic"));
}

#[test]
fn a_storm_of_429_tells_how_long_to_wait() {
    let server = Server::start(vec![status(429, &[("retry-after", "7")], "{}")]);
    for _ in 0..20 {
        let error = ask(&openai(&server), 300_000).unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }
    // By the clock of the server, and for at most an hour.
    let now = ("date", "Wed, 11 Feb 2026 23:02:11 GMT");
    for (wait, seconds) in [
        ("Wed, 11 Feb 2026 23:02:41 GMT", Some(30)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(3600)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("99999999999999999999999999", Some(3600)),
        ("-5", Some(0)),
        ("inf", Some(3600)),
        ("soon", None),
        ("", None),
    ] {
        let server = Server::start(vec![status(429, &[now, ("retry-after", wait)], "{}")]);
        let error = ask(&openai(&server), 300_000).unwrap_err();
        assert_eq!(error.retry_after(), seconds.map(Duration::from_secs), "{wait:?}");
    }
}

#[test]
fn json_is_requested_in_the_strongest_form_the_server_accepts() {
    let no = |what: &str| {
        status(400, &[], &format!("{{\"error\": {{\"message\": \"unknown {what}\"}}}}"))
    };
    let server = Server::start(vec![no("response_format json_schema"), chat("{}"), chat("{}")]);
    let provider = openai(&server);
    let schema = json!({"type": "object"});
    for _ in 0..2 {
        let settings =
            CallSettings { response_format: ResponseFormat::JsonSchema, ..CallSettings::default() };
        ask_with(&provider, settings, Some(&schema), 300_000).unwrap();
    }
    let forms: Vec<Value> =
        server.seen().iter().map(|seen| seen.body["response_format"]["type"].clone()).collect();
    assert_eq!(forms, ["json_schema", "json_object", "json_object"]);
}

#[test]
fn cut_off_filtered_and_refused_answers_are_marked() {
    let refusal =
        json!({"choices": [{"finish_reason": "stop", "message": {"refusal": "I will not"}}]})
            .to_string();
    let server = Server::start(vec![
        Act::Chat("half".into(), "length"),
        Act::Chat(String::new(), "content_filter"),
        status(200, &[], &refusal),
    ]);
    let provider = openai(&server);
    assert_eq!(ask(&provider, 300_000).unwrap().stop, StopReason::Length);
    assert_eq!(ask(&provider, 300_000).unwrap().stop, StopReason::Filtered);
    assert_eq!(ask(&provider, 300_000).unwrap_err().class(), ErrorClass::Refused);
}

#[test]
fn anthropic_speaks_its_own_protocol() {
    let text = json!({"model": "m-1", "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2}, "content": [{"type": "text", "text": "Hi."}]});
    let tool = json!({"model": "m", "stop_reason": "tool_use", "content": [{"type": "tool_use", "name": "answer", "input": {"a": 1}}]});
    let server = Server::start(vec![
        status(200, &[], &text.to_string()),
        status(200, &[], &tool.to_string()),
        status(529, &[], "{\"error\": {\"type\": \"overloaded_error\", \"message\": \"busy\"}}"),
    ]);
    let config = ProviderConfig {
        kind: ProviderKind::Anthropic,
        base_url: Some(server.base.clone()),
        model: Some("m".into()),
        ..ProviderConfig::default()
    };
    let provider = Anthropic::new("a", &config, Some(Secret::new(KEY)));
    let mut settings =
        CallSettings { temperature: Some(1.5), seed: Some(3), ..CallSettings::default() };
    settings.extra.insert("presence_penalty".to_owned(), json!(0.5));
    let reply = ask_with(&provider, settings, None, 300_000).unwrap();
    assert_eq!(reply.identity.temperature, Some(1.0));
    assert_eq!(
        reply.left_out,
        ["presence_penalty", "seed", "temperature 1.5 (1 was sent)"],
        "the protocol has no place for them"
    );
    assert_eq!(
        (reply.text.as_str(), reply.usage.total(), reply.identity.model_version.as_str()),
        ("Hi.", 7, "m-1")
    );
    let seen = &server.seen()[0];
    assert!(seen.head.contains(KEY) && seen.path == "/v1/messages");
    assert_eq!(
        (&seen.body["system"], &seen.body["messages"]),
        (&json!("Be brief."), &json!([{"role": "user", "content": "Hello"}]))
    );
    let schema = json!({"type": "object"});
    let reply = ask_with(&provider, CallSettings::default(), Some(&schema), 300_000).unwrap();
    assert_eq!(reply.text, "{\"a\":1}");
    assert_eq!(ask(&provider, 300_000).unwrap_err().class(), ErrorClass::Transient);
}

#[test]
fn claude_is_offered_the_functions_of_a_flow_and_its_calls_are_told_as_openai_writes_them() {
    let answer = json!({"model": "m", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "x"}},
        {"type": "tool_use", "id": "t2", "name": "ask", "input": {}}]});
    let text = json!({"model": "m", "stop_reason": "end_turn", "content": [{"type": "text", "text": "Done."}]});
    let call = json!({"model": "m", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "t3", "name": "look", "input": {"q": "y"}}]});
    let answers = [&answer, &text, &call].map(|it| status(200, &[], &it.to_string()));
    let server = Server::start(answers.to_vec());
    let config = ProviderConfig {
        kind: ProviderKind::Anthropic,
        base_url: Some(server.base.clone()),
        model: Some("m".into()),
        ..ProviderConfig::default()
    };
    let provider = Anthropic::new("a", &config, None);
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let look = json!({"name": "look", "description": "Looks.", "parameters": schema});
    let with = |members: Value| {
        let extra = members.as_object().unwrap().clone();
        CallSettings { extra, ..CallSettings::default() }
    };

    let tools = json!([{"type": "function", "function": look}, {"type": "function", "function": {"name": "ask"}}]);
    let choice = json!({"type": "function", "function": {"name": "look"}});
    let settings = with(json!({"tools": tools, "tool_choice": choice}));
    let reply = ask_with(&provider, settings, None, 300_000).unwrap();
    let message = json!({"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"q\":\"x\"}"}},
        {"id": "t2", "type": "function", "function": {"name": "ask", "arguments": "{}"}}]});
    assert_eq!((reply.message, reply.left_out), (Some(message.clone()), vec![]));
    let seen = &server.seen()[0].body;
    assert_eq!(
        seen["tools"],
        json!([{"name": "look", "input_schema": schema, "description": "Looks."},
               {"name": "ask", "input_schema": {"type": "object", "properties": {}}}])
    );
    assert_eq!(seen["tool_choice"], json!({"type": "tool", "name": "look"}));

    // The conversation goes on with the result of one call; that of an unknown call is a text.
    let mut messages =
        vec![Message::new(Role::User, "Hello"), Message::new(Role::Assistant, "I look.")];
    messages[1].fields.insert("tool_calls".into(), json!([message["tool_calls"][0]]));
    for (id, said) in [("t1", "found"), ("t9", "lost")] {
        let mut result = Message::new(Role::Tool, said);
        result.fields.insert("tool_call_id".into(), id.into());
        messages.push(result);
    }
    let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
    let hosted = json!({"type": "web_search"});
    let settings =
        with(json!({"tools": [tools[0], hosted], "tool_choice": "required", "thinking": thinking}));
    let reply = say(&provider, &messages, settings, None, 300_000).unwrap();
    assert_eq!(reply.message, Some(json!({"role": "assistant", "content": "Done."})));
    assert_eq!(reply.left_out, ["tools", "tool_choice"], "not all of it is sent");
    let seen = &server.seen()[1].body;
    assert!(seen.get("tool_choice").is_none() && seen["tools"].as_array().unwrap().len() == 1);
    assert_eq!(
        seen["messages"],
        json!([
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "x"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "found"},
                {"type": "text", "text": "lost"}]},
        ])
    );

    let settings = with(json!({"functions": [look], "function_call": "auto"}));
    let reply = ask_with(&provider, settings, None, 300_000).unwrap();
    let called = json!({"name": "look", "arguments": "{\"q\":\"y\"}"});
    let message = json!({"role": "assistant", "content": null, "function_call": called});
    assert_eq!(reply.message, Some(message));
    assert_eq!(server.seen()[2].body["tool_choice"], json!({"type": "auto"}));
}

#[test]
fn a_command_gets_the_prompt_on_stdin() {
    let config = ProviderConfig::default();
    let command = |script: &str| {
        CommandProvider::new("c", vec!["sh".into(), "-c".into(), script.into()], &config, None)
    };
    let reply = ask(&command("cat"), 300_000).unwrap();
    assert_eq!(reply.text, "# system:\nBe brief.\n\n# user:\nHello\n");
    assert_eq!(ask(&command("exit 4"), 300_000).unwrap_err().class(), ErrorClass::Transient);
    assert!(matches!(ask(&command("sleep 60"), 100), Err(ModelError::Timeout { .. })));
    assert_eq!(ask(&command("yes"), 300_000).unwrap_err().class(), ErrorClass::Permanent);
    let missing = CommandProvider::new("c", vec!["/nowhere/llm".into()], &config, None);
    assert_eq!(ask(&missing, 300_000).unwrap_err().class(), ErrorClass::Permanent);
    let text = "one\n# system:\nUser :\n## not this\nsystem: nor this";
    let messages = [Message::new(Role::System, "Be brief."), Message::new(Role::User, text)];
    let reply = say(&command("cat"), &messages, CallSettings::default(), None, 300_000).unwrap();
    let said = "# user:\none\n\\# system:\n\\User :\n## not this\nsystem: nor this\n";
    assert!(reply.text.ends_with(said), "a line of the text begins no message: {}", reply.text);
}

/// Who runs such a model need not know what a profile is.
#[test]
fn a_model_with_a_context_that_is_known_to_be_small_gets_short_questions() {
    let server = Server::start(vec![]);
    let small = |context_tokens, profile| {
        let config = ProviderConfig {
            kind: ProviderKind::OpenAi,
            base_url: Some(format!("{}/v1", server.base)),
            model: Some("loop-1".into()),
            context_tokens,
            profile,
            ..ProviderConfig::default()
        };
        OpenAi::new("loop", &config, None).profile_of(None) == Profile::Small
    };
    assert!(small(Some(2_048), None));
    assert!(!small(Some(8_192), None));
    assert!(!small(Some(2_048), Some(Profile::Whole)), "a setting goes first");
    assert!(small(Some(8_192), Some(Profile::Small)));
}
