//! What a server says when it refuses: its words, its code, the parameter it means, and how long to
//! wait. Servers of one protocol say it in many shapes: an object, an array, an object inside a
//! text, a list of details, or bare text. This file is the one place that knows the shapes.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;

/// Longest pause a server can ask for.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// How deep an error may be wrapped in other errors.
const WRAPPED_MAX: usize = 3;
/// A bare text that is longer is a page, not a message.
const TEXT_BYTES_MAX: usize = 2_000;
/// No model has a smaller context, so a smaller number means something else.
const CONTEXT_MIN: usize = 128;

/// An error body, whatever its shape was.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ServerError {
    pub words: String,
    /// The code as a word; a number only where there is no word.
    pub code: String,
    /// The parameter that the server names as the cause.
    pub param: String,
    /// The status inside the body. Some servers send an error with status 200.
    pub status: Option<u16>,
    /// The pause that the body asks for.
    pub pause: Option<Duration>,
    /// Whether the id of the used-up quota names a quota per day.
    pub(super) of_day: bool,
    /// The context of the model, where the body has it as a member.
    pub(super) n_ctx: Option<usize>,
}

impl ServerError {
    pub(super) fn read(body: &[u8]) -> ServerError {
        match serde_json::from_slice(body) {
            Ok(value) => ServerError::of(&value, 0),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                let is_message =
                    text.len() <= TEXT_BYTES_MAX && !text.trim_start().starts_with('<');
                let words = if is_message { text.trim().to_owned() } else { String::new() };
                ServerError { words, ..ServerError::default() }
            }
        }
    }

    /// The error in a body whose status says success.
    pub(super) fn in_success(value: &Value) -> Option<ServerError> {
        let error = value.get("error").filter(|error| !error.is_null())?;
        let answers = value.get("choices").or(value.get("content")).and_then(Value::as_array);
        (answers.is_none_or(Vec::is_empty) && *error != Value::String(String::new()))
            .then(|| ServerError::of(value, 0))
    }

    /// The error in an event of a stream. Its status says what no status of the response can say any
    /// more.
    pub(super) fn in_stream(event: &Value) -> ServerError {
        let error = ServerError::of(event, 0);
        let by_code = match error.code.as_str() {
            "overloaded_error" => 529,
            "rate_limit_error" | "rate_limit_exceeded" => 429,
            "timeout_error" => 504,
            "invalid_request_error" | "context_length_exceeded" => 400,
            _ => 500,
        };
        let status = error.status.filter(|status| (400..600).contains(status));
        ServerError { status: Some(status.unwrap_or(by_code)), ..error }
    }

    fn of(value: &Value, depth: usize) -> ServerError {
        let whole = value;
        let value = value.as_array().and_then(|items| items.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let mut found = ServerError {
            code: word(error, &["code", "type", "status"]),
            param: word(error, &["param"]),
            status: error.get("code").and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok()),
            n_ctx: error.get("n_ctx").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()),
            pause: retry_info(error),
            of_day: names_day(error),
            words: String::new(),
        };
        if found.code.is_empty() {
            found.code = found.status.map(|status| status.to_string()).unwrap_or_default();
        }
        // Members that hold the message, the most exact one last: a router repeats the words of the
        // server behind it in `metadata.raw`.
        let raw = error.get("metadata").and_then(|metadata| metadata.get("raw"));
        let inner = error.get("innererror").and_then(|inner| inner.get("message"));
        let several = error.get("errors").and_then(|errors| match errors.get(0)? {
            Value::Object(first) => first.get("message").or(first.get("detail")),
            first => Some(first),
        });
        let places = [
            Some(error),
            Some(whole).filter(|whole| whole.is_array()),
            several,
            inner,
            error.get("detail"),
            error.get("details"),
            error.get("Message"),
            error.get("message"),
            raw,
        ];
        for place in places.into_iter().flatten() {
            found.take(place, depth);
        }
        found
    }

    /// Takes the words, and what stands in an error that is wrapped in them.
    fn take(&mut self, place: &Value, depth: usize) {
        let wrapped = match place {
            Value::String(text) => {
                let start = text.find(['{', '[']);
                let inner = start.and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok());
                match inner.filter(|inner| inner.is_object() || inner.is_array()) {
                    Some(inner) => inner,
                    None => {
                        self.words = text.trim().to_owned();
                        return;
                    }
                }
            }
            // The details of a check of the body: the place of the member, and what is wrong.
            Value::Array(items) if items.iter().any(|item| item.get("loc").is_some()) => {
                let at = items.first().and_then(|item| item["loc"].as_array());
                let name = at.and_then(|at| at.get(1)).and_then(Value::as_str);
                self.param = name.unwrap_or_default().to_owned();
                let said = items.first().and_then(|item| item["msg"].as_str());
                self.words = format!("{}: {}", self.param, said.unwrap_or("not accepted"));
                return;
            }
            Value::Object(members) if members.contains_key("detail") => place.clone(),
            _ => return,
        };
        if depth >= WRAPPED_MAX {
            return;
        }
        let inner = ServerError::of(&wrapped, depth + 1);
        if !inner.words.is_empty() {
            self.words = inner.words;
        } else if let (Value::String(text), "") = (place, self.words.as_str()) {
            // JSON of an unknown shape says more than nothing.
            self.words = text.trim().to_owned();
        }
        if !inner.param.is_empty() {
            self.param = inner.param;
        }
        if !inner.code.is_empty() && inner.code.parse::<u16>().is_err() {
            self.code = inner.code;
        }
        self.pause = self.pause.or(inner.pause);
        self.n_ctx = self.n_ctx.or(inner.n_ctx);
        self.of_day |= inner.of_day;
    }

    fn lower(&self) -> String {
        format!("{} {}", self.words, self.code).to_ascii_lowercase()
    }

    /// Whether it says that the prompt is too long.
    pub(super) fn is_too_long(&self) -> bool {
        let said = self.lower();
        // A list of texts that end an answer may be too long as well.
        !said.contains("array too long") && TOO_LONG.iter().any(|sign| said.contains(sign))
    }

    /// Whether the account has no money left. A pause does not help then.
    pub(super) fn is_out_of_quota(&self) -> bool {
        let said = self.lower();
        OUT_OF_QUOTA.iter().any(|sign| said.contains(sign))
    }

    /// Whether it refuses the key, whatever its status says: Google answers with 400.
    pub(super) fn is_about_key(&self) -> bool {
        let said = self.lower();
        ["api_key_invalid", "api key not valid", "invalid api key"]
            .iter()
            .any(|sign| said.contains(sign))
    }

    /// Whether a quota of the day is used up. It is open again tomorrow.
    pub(super) fn is_of_day(&self) -> bool {
        let said = self.lower();
        self.of_day || OF_DAY.iter().any(|sign| said.contains(sign))
    }

    /// The context of the model, where the server tells it.
    pub(super) fn context(&self) -> Option<usize> {
        let said = self.lower();
        let told = || CONTEXT_IS.iter().find_map(|phrase| number_after(&said, phrase));
        self.n_ctx.or_else(told).filter(|tokens| *tokens >= CONTEXT_MIN)
    }

    /// The longest answer that the model can give, where the server tells it.
    pub(super) fn answer_max(&self) -> Option<u32> {
        let said = self.lower();
        let told = ANSWER_MAX_IS.iter().find_map(|phrase| number_after(&said, phrase));
        // `max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens`
        let is_output = said.contains("maximum allowed number of output tokens");
        let told = told.or_else(|| number_after(&said, " > ").filter(|_| is_output));
        told.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
    }
}

/// Signs in a message that the prompt is too long.
const TOO_LONG: [&str; 14] = [
    "`max_new_tokens` must be <=",
    "context_length",
    "context length",
    "context size",
    "context window",
    "context limit",
    "exceed_context_size",
    "too long",
    "maximum context",
    "maximum number of tokens allowed",
    "reduce the length of the messages",
    "request too large",
    "string_above_max_length",
    "exceeds the limit of tokens",
];
/// Words which say that the account has no money or quota left.
const OUT_OF_QUOTA: [&str; 9] = [
    "insufficient_quota",
    "credit balance is too low",
    "insufficient credits",
    "insufficient balance",
    "billing_hard_limit",
    "billing_not_active",
    "requires more credits",
    "specified api usage limits",
    "spend limit",
];
/// Words which say that the daily limit is reached.
const OF_DAY: [&str; 3] = ["per-day", "per day", "daily limit"];
/// Phrases before the number of tokens that a model holds.
const CONTEXT_IS: [&str; 11] = [
    "`max_new_tokens` must be <= ",
    "maximum context length is ",
    "maximum context length of ",
    "context length of only ",
    "available context size (",
    "maximum number of tokens allowed (",
    "context window of ",
    "context size of ",
    "context length is ",
    "tokens > ",
    // `188240 + 21333 > 200000`
    " > ",
];
/// Phrases before the number of tokens that an answer may have.
const ANSWER_MAX_IS: [&str; 3] = [
    "supports at most ",
    "must be less than or equal to ",
    "maximum allowed number of output tokens is ",
];

/// The number that follows a phrase.
fn number_after(text: &str, phrase: &str) -> Option<usize> {
    let (_, rest) = text.split_once(phrase)?;
    let rest = rest.trim_start_matches(['`', '\'', '"', ' ']);
    let digits: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(|c| *c != ',')
        .collect();
    digits.parse().ok()
}

fn word(error: &Value, names: &[&str]) -> String {
    let said = names.iter().find_map(|name| error.get(*name)?.as_str());
    said.unwrap_or_default().to_owned()
}

/// Whether `QuotaFailure` among the details of a Google error names a quota of the day.
fn names_day(error: &Value) -> bool {
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let violations = details.filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    let mut ids = violations.filter_map(|violation| violation.get("quotaId")?.as_str());
    ids.any(|id| id.contains("PerDay"))
}

/// `RetryInfo` among the details of a Google error.
fn retry_info(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    details.iter().find_map(|detail| span(detail.get("retryDelay")?.as_str()?))
}

/// How long a refusal asks to wait: the first of the hints that it has, the most exact first.
pub(super) fn pause(
    header: impl Fn(&str) -> Option<String>,
    status: u16,
    error: &ServerError,
) -> Option<Duration> {
    // The pause that comes with it is that of a minute.
    if status == 429 && error.of_day {
        return Some(PAUSE_MAX);
    }
    let ms = header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    let ms = ms.and_then(|ms| bounded(ms / 1000.0));
    let date = header("date");
    let after = || header("retry-after").and_then(|text| retry_after(&text, date.as_deref()));
    let limited = matches!(status, 429 | 503 | 529);
    let told = || error.pause.or_else(|| said(&error.words)).filter(|_| limited);
    let reset = || reset(&header, date.as_deref()).filter(|_| status == 429);
    let day = || (status == 429 && error.is_of_day()).then_some(PAUSE_MAX);
    ms.or_else(after).or_else(told).or_else(reset).or_else(day)
}

/// `Retry-After` in seconds, or as a date, which is compared with the server's own clock.
pub(super) fn retry_after(text: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return bounded(seconds);
    }
    let wait = http_date(text)? - http_date(date?)?;
    Some(wait.to_std().unwrap_or_default().min(PAUSE_MAX))
}

/// A date in one of the three forms that HTTP allows: the usual one, that of RFC 850, and that of `asctime`.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    const OLDER: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let text = text.trim();
    let usual = DateTime::parse_from_rfc2822(text).ok().map(|date| date.to_utc());
    let older = |form| NaiveDateTime::parse_from_str(text, form).ok().map(|date| date.and_utc());
    usual.or_else(|| OLDER.into_iter().find_map(older))
}

/// The pause in words: `try again in 1m2.5s`, `retry after 26 seconds`.
fn said(words: &str) -> Option<Duration> {
    let lower = words.to_ascii_lowercase();
    let phrases = ["try again in ", "retry in ", "retry after "];
    let rest = phrases.iter().find_map(|phrase| Some(lower.split_once(phrase)?.1))?;
    let mut parts = rest.split_whitespace();
    let first = parts.next()?;
    match first.trim_end_matches(['.', ',']).parse::<f64>() {
        Ok(number) => match parts.next().unwrap_or_default() {
            unit if unit.starts_with("min") => bounded(number * 60.0),
            unit if unit.starts_with("milli") || unit.starts_with("ms") => bounded(number / 1000.0),
            _ => bounded(number),
        },
        Err(_) => span(first.trim_end_matches(['.', ','])),
    }
}

/// When the limits that are used up start again.
fn reset(header: &impl Fn(&str) -> Option<String>, date: Option<&str>) -> Option<Duration> {
    let names = [
        ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
        ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        ("x-ratelimit-remaining", "x-ratelimit-reset"),
        ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
        ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
        ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ];
    let known: Vec<(bool, Duration)> = names
        .iter()
        .filter_map(|(left, reset)| {
            let used_up = header(left).is_some_and(|left| left.trim() == "0");
            Some((used_up, moment(&header(reset)?, date)?))
        })
        .collect();
    let used_up = known.iter().filter(|(used_up, _)| *used_up).map(|(_, wait)| *wait).max();
    used_up.or_else(|| known.iter().map(|(_, wait)| *wait).max())
}

/// A moment as a span, as seconds, as a time of the clock, or as seconds or milliseconds since 1970.
fn moment(text: &str, date: Option<&str>) -> Option<Duration> {
    const SECONDS_SINCE_1970: f64 = 1e9;
    const MILLISECONDS_SINCE_1970: f64 = 1e12;
    let now = date.and_then(http_date);
    #[allow(clippy::cast_precision_loss, reason = "milliseconds of this century are exact")]
    let now_ms = now.map(|now| now.timestamp_millis() as f64);
    match text.trim().parse::<f64>() {
        Ok(number) if number >= MILLISECONDS_SINCE_1970 => bounded((number - now_ms?) / 1000.0),
        Ok(number) if number >= SECONDS_SINCE_1970 => bounded(number - now_ms? / 1000.0),
        Ok(number) => bounded(number),
        Err(_) => span(text).or_else(|| {
            let at = DateTime::parse_from_rfc3339(text.trim()).ok()?.to_utc();
            Some((at - now?).to_std().unwrap_or_default().min(PAUSE_MAX))
        }),
    }
}

/// A span such as `1h2m3.5s` or `120ms`.
fn span(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        seconds += number
            * match &rest[..unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    bounded(seconds)
}

fn bounded(seconds: f64) -> Option<Duration> {
    let seconds = seconds.clamp(0.0, PAUSE_MAX.as_secs_f64());
    (!seconds.is_nan()).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> ServerError {
        ServerError::read(value.to_string().as_bytes())
    }

    #[test]
    fn every_shape_of_an_error_is_read() {
        let inner = json!({"error": {"message": "no seed", "code": "unsupported_parameter", "param": "seed"}});
        for (body, code, param) in [
            (inner.clone(), "unsupported_parameter", "seed"),
            (json!([inner]), "unsupported_parameter", "seed"),
            (json!({"message": "no seed", "type": "bad"}), "bad", ""),
            (json!({"error": "no seed"}), "", ""),
            (json!({"detail": "no seed"}), "", ""),
            (
                json!({"error": {"code": 400, "status": "INVALID", "message": "no seed"}}),
                "INVALID",
                "",
            ),
            (
                json!({"error": {"message": "Provider returned error", "code": 400,
                    "metadata": {"raw": inner.to_string()}}}),
                "unsupported_parameter",
                "seed",
            ),
            (
                json!({"error": {"message": format!("wrapped: {inner}")}}),
                "unsupported_parameter",
                "seed",
            ),
        ] {
            let error = read(&body);
            assert_eq!((error.words.as_str(), error.code.as_str()), ("no seed", code), "{body}");
            assert_eq!(error.param, param, "{body}");
        }
        let details = json!({"object": "error", "message": {"detail": [
            {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}});
        let items = &details["message"]["detail"];
        for body in [
            &details,
            items,
            &json!({"error": {"message": items.to_string(), "code": 400}}),
            &json!({"error": {"message": format!("1 validation error: {items}")}}),
        ] {
            let error = read(body);
            assert_eq!(error.param, "seed", "{body}");
            assert_eq!(error.words, "seed: Extra inputs are not permitted", "{body}");
        }
        let odd = json!({"error": {"message": "{\"odd\":1}"}});
        assert_eq!(read(&odd).words, "{\"odd\":1}");
        assert_eq!(ServerError::read(b" not now\n").words, "not now");
        assert_eq!(ServerError::read(b"<html>no</html>").words, "");
    }

    #[test]
    fn an_error_that_is_sent_as_a_success_is_found() {
        let late = json!({"error": {"message": "the request exceeds the available context size",
            "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}});
        let error = ServerError::in_success(&late).unwrap();
        assert!(error.is_too_long());
        assert_eq!((error.status, error.context()), (Some(400), Some(256)));
        assert_eq!(ServerError::in_success(&json!({"choices": [{}], "error": null})), None);
        assert_eq!(ServerError::in_success(&json!({"content": [{}]})), None);
    }

    #[test]
    fn the_context_is_read_from_the_words() {
        for (words, context) in [
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).",
                4096,
            ),
            ("prompt is too long: 208310 tokens > 200000 maximum", 200_000),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease",
                200_000,
            ),
            (
                "the model is loaded with context length of only 4096 tokens, which is not enough",
                4096,
            ),
            (
                "request (5003 tokens) exceeds the available context size (4096 tokens), try increasing it",
                4096,
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                1_048_576,
            ),
            ("Requested tokens (2285) exceed context window of 2048", 2048),
        ] {
            let error = ServerError { words: words.into(), ..ServerError::default() };
            assert!(error.is_too_long(), "{words}");
            assert_eq!(error.context(), Some(context), "{words}");
        }
        let words =
            "max_tokens is too large: 9000. This model supports at most 4096 completion tokens";
        let error = ServerError { words: words.into(), ..ServerError::default() };
        assert_eq!((error.answer_max(), error.is_too_long()), (Some(4096), false));
    }

    #[test]
    fn every_hint_to_wait_is_read() {
        let none = ServerError::default();
        let google = read(
            &json!([{"error": {"code": 429, "message": "used up", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}}]),
        );
        let words = |words: &str| ServerError { words: words.into(), ..ServerError::default() };
        /// Headers, the error, its status, and the wait that is read.
        type Case = (Vec<(&'static str, &'static str)>, ServerError, u16, Option<u64>);
        let cases: Vec<Case> = vec![
            (
                vec![("retry-after-ms", "1500"), ("retry-after", "9")],
                none.clone(),
                429,
                Some(1_500),
            ),
            (vec![("retry-after", "2")], google.clone(), 429, Some(2_000)),
            (vec![], google, 429, Some(34_500)),
            (vec![], words("Please try again in 1m2.5s. Visit"), 429, Some(62_500)),
            (vec![], words("Please retry after 26 seconds."), 429, Some(26_000)),
            (vec![], words("Please try again in 120ms."), 429, Some(120)),
            (vec![], words("try again in 5s"), 500, None),
            (vec![], words("try again in a moment"), 429, None),
            (
                vec![
                    ("x-ratelimit-remaining-requests", "12"),
                    ("x-ratelimit-reset-requests", "8m0s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "6s"),
                ],
                none.clone(),
                429,
                Some(6_000),
            ),
            (
                vec![
                    ("date", "Wed, 11 Feb 2026 23:02:11 GMT"),
                    ("x-ratelimit-reset", "1770850940000"),
                ],
                none.clone(),
                429,
                Some(9_000),
            ),
            (
                vec![
                    ("date", "Wed, 11 Feb 2026 23:02:11 GMT"),
                    ("anthropic-ratelimit-tokens-reset", "2026-02-11T23:02:14Z"),
                ],
                none.clone(),
                429,
                Some(3_000),
            ),
            (vec![("x-ratelimit-reset-requests", "8s")], none, 500, None),
        ];
        for (headers, error, status, ms) in cases {
            let header = |name: &str| {
                headers
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            let found = pause(header, status, &error);
            assert_eq!(found, ms.map(Duration::from_millis), "{headers:?} {error:?}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        assert_eq!(retry_after("2", None), Some(Duration::from_secs(2)));
        assert_eq!(retry_after("0.5", None), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("1e9", None), Some(PAUSE_MAX));
        let date = Some("Wed, 11 Feb 2026 23:02:11 GMT");
        let after = |text| retry_after(text, date);
        assert_eq!(after("Wed, 11 Feb 2026 23:02:41 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Wed, 11 Feb 2026 23:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("Wednesday, 11-Feb-26 23:02:41 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Wed Feb 11 23:02:41 2026"), Some(Duration::from_secs(30)));
        let older = Some("Thu Mar  5 23:02:11 2026");
        assert_eq!(
            retry_after("Thursday, 05-Mar-26 23:02:21 GMT", older),
            Some(Duration::from_secs(10))
        );
        for useless in ["soon", "", "NaN"] {
            assert_eq!(after(useless), None);
        }
    }
}
