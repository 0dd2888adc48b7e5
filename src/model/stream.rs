//! Answers that arrive as streams of server-sent events.
//!
//! Contract: [`Events`] cuts bytes into events, wherever the chunks of the network end. [`Assembled`]
//! folds the events of a chat or text completion, or of Anthropic's messages, into the response that
//! the same server would have sent in one piece, so that one reader understands both. A stream that
//! ends before the server says that the answer is complete gives no response at all.
//!
//! See docs/adr/0104-streamed-answers.md.

use std::mem;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::server_error::ServerError;

/// The members of a request that ask for a stream, and for token counts at its end.
pub(super) const STREAM: &str = "stream";
pub(super) const STREAM_OPTIONS: &str = "stream_options";
/// The type of a stream, as `content-type` names it.
pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// What ends the stream of a completion.
const DONE: &str = "[DONE]";

/// Whether the last event of a stream arrived whole.
pub(super) fn is_whole(data: &str) -> bool {
    data.trim() == DONE || serde_json::from_str::<IgnoredAny>(data).is_ok()
}

/// Splits a stream into the data of its events.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    /// The data lines of the event that is being read.
    data: Option<String>,
    after_return: bool,
}

impl Events {
    /// Takes the next bytes, and gives each event that they complete to `take`, until it fails.
    pub(super) fn feed<E>(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        for byte in bytes {
            let is_second = mem::replace(&mut self.after_return, *byte == b'\r') && *byte == b'\n';
            match byte {
                _ if is_second => {}
                b'\r' | b'\n' => self.end_line(take)?,
                byte => self.line.push(*byte),
            }
        }
        Ok(())
    }

    /// The stream ended. Some servers send no empty line after their last event.
    pub(super) fn finish<E>(
        &mut self,
        take: &mut impl FnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.line.is_empty() {
            self.end_line(take)?;
        }
        self.end_line(take)
    }

    fn end_line<E>(&mut self, take: &mut impl FnMut(String) -> Result<(), E>) -> Result<(), E> {
        let line = mem::take(&mut self.line);
        let line = String::from_utf8_lossy(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line));
        if line.is_empty() {
            return self.data.take().map_or(Ok(()), take);
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        // llama.cpp names the field of an error `error`.
        if matches!(name, "data" | "error") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            // Some versions write the error alone, and others the object that holds it.
            let is_alone = name == "error" && !value.contains("\"error\"");
            let value = &if is_alone { format!("{{\"error\":{value}}}") } else { value.to_owned() };
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            }
        }
        Ok(())
    }
}

/// A response in the making.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    response: Map<String, Value>,
    /// The text of a completion, or the first message.
    text: String,
    /// What a model thought before its answer, where the server tells it.
    thoughts: String,
    /// The blocks of Anthropic's protocol; the input of a tool arrives as pieces of JSON.
    blocks: Vec<(Value, String)>,
    is_message: bool,
    has_choice: bool,
    finish: Option<Value>,
    refusal: Option<String>,
    is_complete: bool,
}

/// What one event brought.
#[derive(Debug, PartialEq)]
pub(super) enum StreamEvent {
    /// A part of the answer, which may be thoughts without text.
    Text(String),
    /// Something that is no progress: a sign of life, or numbers.
    Other,
}

impl Assembled {
    /// Takes the data of one event. An error that the server tells ends the stream.
    pub(super) fn take(&mut self, data: &str) -> Result<StreamEvent, ServerError> {
        if data.trim() == DONE {
            self.is_complete |= self.has_choice;
            return Ok(StreamEvent::Other);
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            return match data.trim().is_empty() {
                true => Ok(StreamEvent::Other),
                false => Err(ServerError {
                    words: "the stream holds an event that is not JSON".to_owned(),
                    status: Some(502),
                    ..ServerError::default()
                }),
            };
        };
        if event.get("error").is_some_and(|error| !error.is_null()) {
            return Err(ServerError::in_stream(&event));
        }
        match event.get("type").and_then(Value::as_str) {
            Some(kind) if event.get("choices").is_none() => Ok(self.take_message(kind, &event)),
            _ => Ok(self.take_choice(event)),
        }
    }

    /// An event of a chat or text completion.
    fn take_choice(&mut self, event: Value) -> StreamEvent {
        let Value::Object(event) = event else { return StreamEvent::Other };
        let mut said = None;
        for (name, value) in event {
            match name.as_str() {
                "choices" => {
                    let first = |choice: &&Value| choice["index"].as_u64().unwrap_or(0) == 0;
                    let choice = value.as_array().and_then(|all| all.iter().find(first));
                    said = choice.map(|choice| self.take_delta(choice));
                }
                "object" => {}
                // Later numbers replace earlier ones: some servers count in every event.
                "usage" if value.is_null() => {}
                "usage" => {
                    self.response.insert(name, value);
                }
                _ => {
                    self.response.entry(name).or_insert(value);
                }
            }
        }
        said.map_or(StreamEvent::Other, StreamEvent::Text)
    }

    fn take_delta(&mut self, choice: &Value) -> String {
        self.has_choice = true;
        let (delta, mut said) = (&choice["delta"], String::new());
        self.is_message |= delta.is_object();
        let content = delta.get("content").unwrap_or(&choice["text"]);
        match content {
            Value::String(text) => said.push_str(text),
            Value::Array(parts) => {
                said.extend(parts.iter().filter_map(|part| part.get("text")?.as_str()));
            }
            _ => {}
        }
        self.text.push_str(&said);
        for name in ["reasoning_content", "reasoning"] {
            self.thoughts.push_str(delta[name].as_str().unwrap_or_default());
        }
        if let Some(words) = delta["refusal"].as_str() {
            self.refusal.get_or_insert_default().push_str(words);
        }
        if !choice["finish_reason"].is_null() {
            self.finish = Some(choice["finish_reason"].clone());
            self.is_complete = true;
        }
        said
    }

    /// An event of Anthropic's messages.
    fn take_message(&mut self, kind: &str, event: &Value) -> StreamEvent {
        let block = |all: &mut Vec<(Value, String)>| {
            let index = usize::try_from(event["index"].as_u64()?).ok()?;
            if index == all.len() {
                all.push((Value::Null, String::new()));
            }
            (index < all.len()).then_some(index)
        };
        match kind {
            "message_start" => {
                if let Value::Object(message) = &event["message"] {
                    self.response = message.clone();
                }
            }
            "content_block_start" => {
                if let Some(index) = block(&mut self.blocks) {
                    let (known, pieces) = &mut self.blocks[index];
                    *known = event["content_block"].clone();
                    pieces.push_str(known["text"].as_str().unwrap_or_default());
                }
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                let piece =
                    ["text", "partial_json"].into_iter().find_map(|name| delta[name].as_str());
                if let (Some(index), Some(piece)) = (block(&mut self.blocks), piece) {
                    self.blocks[index].1.push_str(piece);
                    return StreamEvent::Text(piece.to_owned());
                }
                return StreamEvent::Text(String::new());
            }
            "message_delta" => {
                for (name, value) in event["delta"].as_object().into_iter().flatten() {
                    self.response.insert(name.clone(), value.clone());
                }
                // The counts of the prompt came with the start.
                let usage = self.response.entry("usage").or_insert_with(|| json!({}));
                let counts = event["usage"].as_object().into_iter().flatten();
                let counts = counts.filter(|(_, value)| !value.is_null());
                if let Some(usage) = usage.as_object_mut() {
                    usage.extend(counts.map(|(name, value)| (name.clone(), value.clone())));
                }
            }
            "message_stop" => self.is_complete = true,
            _ => {}
        }
        StreamEvent::Other
    }

    /// Whether the server said that the answer is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The response as one piece.
    pub(super) fn response(mut self) -> Value {
        if !self.blocks.is_empty() || self.response.contains_key("content") {
            let blocks = mem::take(&mut self.blocks).into_iter().map(|(mut block, pieces)| {
                match block["type"].as_str() {
                    Some("text") => block["text"] = pieces.into(),
                    Some("tool_use") if !pieces.is_empty() => {
                        block["input"] = serde_json::from_str(&pieces).unwrap_or(pieces.into());
                    }
                    _ => {}
                }
                block
            });
            self.response.insert("content".to_owned(), blocks.collect());
            return Value::Object(self.response);
        }
        let mut choice = Map::new();
        choice.insert("index".to_owned(), 0.into());
        choice.insert("finish_reason".to_owned(), self.finish.unwrap_or_default());
        if self.is_message {
            let mut message = json!({"role": "assistant", "content": self.text});
            if let Some(words) = self.refusal {
                message["refusal"] = words.into();
            }
            if !self.thoughts.is_empty() {
                message["reasoning_content"] = self.thoughts.into();
            }
            choice.insert("message".to_owned(), message);
        } else {
            choice.insert("text".to_owned(), self.text.into());
        }
        let choices = if self.has_choice { json!([choice]) } else { json!([]) };
        self.response.insert("choices".to_owned(), choices);
        Value::Object(self.response)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn events_of(chunks: &[&[u8]]) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        let mut take = |data| {
            found.push(data);
            Ok::<(), Infallible>(())
        };
        for chunk in chunks {
            let Ok(()) = events.feed(chunk, &mut take);
        }
        let Ok(()) = events.finish(&mut take);
        found
    }

    fn assembled(events: &[Value]) -> (Assembled, String) {
        let (mut whole, mut said) = (Assembled::default(), String::new());
        for event in events {
            if let StreamEvent::Text(text) = whole.take(&event.to_string()).unwrap() {
                said.push_str(&text);
            }
        }
        (whole, said)
    }

    #[test]
    fn events_are_read_in_every_form_that_the_standard_allows() {
        for (stream, expected) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("\u{feff}data:a\r\n\r\ndata: b\r\r", vec!["a", "b"]),
            (": a comment\nevent: x\nid: 1\ndata: one\ndata: two\n\n", vec!["one\ntwo"]),
            ("data\n\n: ping\n\ndata:  a\n\n", vec!["", " a"]),
            ("error: {\"code\":500}\n\n", vec!["{\"error\":{\"code\":500}}"]),
            ("error: {\"error\":{}}\n\n", vec!["{\"error\":{}}"]),
            ("data: no empty line", vec!["no empty line"]),
            ("event: x\n\n", vec![]),
        ] {
            assert_eq!(events_of(&[stream.as_bytes()]), expected, "{stream:?}");
        }
    }

    proptest! {
        #[test]
        fn the_ends_of_chunks_do_not_matter(
            stream in "(data: ?[a-zé€\u{1f600} ]{0,6}(\n|\r|\r\n)|:x\n|\n|\r\n|[dat:é\r\n]{0,4}){0,12}",
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let bytes = stream.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events_of(&chunks), events_of(&[bytes]));
        }

        #[test]
        fn no_bytes_and_no_events_break_the_reader(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            names in proptest::collection::vec("choices|delta|type|index|content|error|usage", 0..6),
        ) {
            for event in events_of(&[&bytes]) {
                let _ = Assembled::default().take(&event);
            }
            let nested = names.iter().fold(json!([1, "x"]), |inner, name| json!({name.as_str(): inner}));
            let mut whole = Assembled::default();
            let _ = whole.take(&nested.to_string());
            let _ = whole.response();
        }
    }

    #[test]
    fn a_chat_is_put_together() {
        let chunk = |delta: Value, finish: Value| {
            json!({"id": "c-1", "object": "chat.completion.chunk", "model": "m-1", "usage": null,
                   "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        };
        let mut events = vec![
            json!({"choices": [], "prompt_filter_results": []}),
            chunk(
                json!({"role": "assistant", "content": "", "reasoning_content": "Hm."}),
                Value::Null,
            ),
            chunk(json!({"content": "About "}), Value::Null),
            json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
            chunk(json!({"content": "400 km."}), Value::Null),
        ];
        assert!(!assembled(&events).0.is_complete(), "the server has not said that it is complete");
        events.push(chunk(json!({}), json!("length")));
        events.push(json!({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}));
        let (whole, said) = assembled(&events);
        assert_eq!(said, "About 400 km.");
        assert!(whole.is_complete());
        let response = whole.response();
        assert_eq!(response["model"], "m-1");
        assert_eq!(response["usage"]["completion_tokens"], 7);
        assert_eq!(
            response["choices"],
            json!([{"index": 0, "finish_reason": "length", "message":
                    {"role": "assistant", "content": "About 400 km.", "reasoning_content": "Hm."}}])
        );
        let text = json!({"model": "m", "choices": [{"index": 0, "text": "a text", "finish_reason": "stop"}]});
        assert_eq!(assembled(&[text]).0.response()["choices"][0]["text"], "a text");
    }

    #[test]
    fn a_message_is_put_together() {
        let block = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let mut events = vec![
            json!({"type": "message_start", "message": {"id": "m", "model": "m-1", "content": [], "stop_reason": null,
                   "usage": {"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 1}}}),
            json!({"type": "ping"}),
            block(0, json!({"type": "thinking", "thinking": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "Hm."})),
            block(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "It is"})),
            delta(1, json!({"type": "text_delta", "text": " far."})),
            block(2, json!({"type": "tool_use", "name": "answer", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"a\":"})),
            delta(2, json!({"type": "input_json_delta", "partial_json": " 1}"})),
            json!({"type": "content_block_stop", "index": 2}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        ];
        assert!(!assembled(&events).0.is_complete());
        events.push(json!({"type": "message_stop"}));
        let (whole, said) = assembled(&events);
        assert_eq!(said, "It is far.{\"a\": 1}");
        assert!(whole.is_complete());
        let response = whole.response();
        assert_eq!(response["content"][1]["text"], "It is far.");
        assert_eq!(response["content"][2]["input"], json!({"a": 1}));
        assert_eq!(response["stop_reason"], "tool_use");
        let usage = json!({"input_tokens": 11, "cache_read_input_tokens": 3, "output_tokens": 9});
        assert_eq!(response["usage"], usage);
    }

    #[test]
    fn an_error_inside_a_stream_keeps_its_words_and_its_status() {
        for (event, status, words) in [
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
                529,
                "Overloaded",
            ),
            (
                json!({"error": {"code": 429, "message": "slow down"}, "choices": []}),
                429,
                "slow down",
            ),
            (json!({"error": {"type": "rate_limit_error", "message": "later"}}), 429, "later"),
            (json!({"error": {"message": "the GPU is gone"}}), 500, "the GPU is gone"),
            (json!({"error": "the model runner has ended"}), 500, "the model runner has ended"),
        ] {
            let error = Assembled::default().take(&event.to_string()).unwrap_err();
            assert_eq!((error.status, error.words.as_str()), (Some(status), words), "{event}");
        }
    }
}
