//! Parses and validates the lines of a run log.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::event::{
    AgentRole, Body, EventError, LINE_BYTES_MAX, Noted, PAYLOAD_BYTES_MAX, Phase, RunEvent, SCHEMA,
    is_run_id,
};
use super::text::SharedText;
use crate::contract::time::{Timestamp, parse_instant};

/// Known verbose event types.
const VERBOSE: [&str; 7] = [
    "STEP_STARTED",
    "PHASE_CHANGED",
    "INTENT_COMPILED",
    "RETRIEVAL_EXECUTED",
    "RERANK_EXECUTED",
    "TOOL_CALLED",
    "TOOL_RESULT_STORED",
];

/// The members of a line beside its payload.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    schema: Cow<'a, str>,
    #[serde(borrow)]
    run_id: Cow<'a, str>,
    seq: u64,
    #[serde(borrow)]
    ts: Cow<'a, str>,
    #[serde(deserialize_with = "Option::deserialize")]
    step_id: Option<u64>,
    phase: Phase,
    #[serde(borrow, rename = "type")]
    event_type: Cow<'a, str>,
    #[serde(default)]
    agent_role: Option<AgentRole>,
    #[serde(default)]
    event_id: Option<SharedText>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Parses the lines of one run. Most lines have the same run id, which is shared. A line is parsed
/// in one pass if possible. A line that fails is parsed again in two passes, envelope first, so
/// that errors have one wording and one order.
#[derive(Debug, Default)]
pub(super) struct Parser {
    run_id: Option<SharedText>,
}

impl Parser {
    /// Parses and validates one line, without its line end.
    pub(super) fn parse(&mut self, line: &[u8]) -> Result<RunEvent, EventError> {
        if line.len() <= PAYLOAD_BYTES_MAX
            && let Ok(text) = std::str::from_utf8(line)
            && let Ok(event) = self.parse_at_once(text)
        {
            return Ok(event);
        }
        self.parse_in_turn(line)
    }

    /// Parses envelope and payload in one pass, which needs the type before the payload. The line
    /// is not longer than a payload may be, so the payload is not too long.
    fn parse_at_once(&mut self, line: &str) -> Result<RunEvent, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(line);
        let (raw, body) = json.deserialize_map(AtOnce)?;
        json.end()?;
        self.event(raw, body).map_err(serde_json::Error::custom)
    }

    fn parse_in_turn(&mut self, line: &[u8]) -> Result<RunEvent, EventError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(EventError::TooLong);
        }
        if line.trim_ascii_start().first() == Some(&b'[') {
            return Err(EventError::Value("an event is an object, not an array".to_owned()));
        }
        let raw: Envelope<'_> = serde_json::from_slice(line).map_err(EventError::Envelope)?;
        let payload = raw.payload.get();
        let raw = EventMembers {
            schema: raw.schema,
            run_id: raw.run_id,
            seq: raw.seq,
            ts: raw.ts,
            step_id: raw.step_id,
            phase: raw.phase,
            event_type: raw.event_type,
            agent_role: raw.agent_role,
            event_id: raw.event_id,
        };
        raw.check()?;
        check_payload(payload)?;
        raw.instant()?;
        let body = parse_body(&raw.event_type, payload)?;
        self.event(raw, body)
    }

    fn event(&mut self, raw: EventMembers<'_>, body: Body) -> Result<RunEvent, EventError> {
        raw.check()?;
        let ts = raw.instant()?;
        let run_id = match &self.run_id {
            Some(known) if **known == *raw.run_id => known.clone(),
            _ => self.run_id.insert(SharedText::from(&*raw.run_id)).clone(),
        };
        let event = RunEvent {
            run_id,
            seq: raw.seq,
            ts,
            step_id: raw.step_id,
            phase: raw.phase,
            agent_role: raw.agent_role,
            given_id: raw.event_id,
            body,
        };
        if event.step_id.is_none() && !event.may_lack_a_step() {
            return Err(EventError::Value(format!("{} needs a step_id", raw.event_type)));
        }
        Ok(event)
    }
}

impl RunEvent {
    /// Parses and validates one line, without its line end.
    pub fn parse(line: &[u8]) -> Result<RunEvent, EventError> {
        Parser::default().parse(line)
    }
}

/// The members of a line beside its payload.
struct EventMembers<'a> {
    schema: Cow<'a, str>,
    run_id: Cow<'a, str>,
    seq: u64,
    ts: Cow<'a, str>,
    step_id: Option<u64>,
    phase: Phase,
    event_type: Cow<'a, str>,
    agent_role: Option<AgentRole>,
    event_id: Option<SharedText>,
}

impl EventMembers<'_> {
    fn check(&self) -> Result<(), EventError> {
        let fault = if self.schema != SCHEMA {
            Some(format!("schema is {:?}, expected {SCHEMA:?}", self.schema))
        } else if !is_run_id(&self.run_id) {
            Some(format!("run_id {:?} must be 1 to 128 of A-Z a-z 0-9 . _ -", self.run_id))
        } else if self.seq == 0 {
            Some("seq starts at 1".to_owned())
        } else if self.step_id == Some(0) {
            Some("step_id starts at 1".to_owned())
        } else if self.event_type.is_empty() {
            Some("type is empty".to_owned())
        } else if self.event_id.as_ref().is_some_and(|id| id.is_empty()) {
            Some("event_id is empty".to_owned())
        } else {
            None
        };
        fault.map_or(Ok(()), |message| Err(EventError::Value(message)))
    }

    fn instant(&self) -> Result<Timestamp, EventError> {
        let instant = parse_instant(&self.ts).ok().filter(|instant| instant.has_offset);
        let instant = instant
            .ok_or_else(|| EventError::Value(format!("ts {:?} is not a UTC instant", self.ts)))?;
        Ok(instant.at)
    }
}

fn check_payload(payload: &str) -> Result<(), EventError> {
    let fault = if !payload.starts_with('{') {
        "payload is not an object".to_owned()
    } else if payload.len() > PAYLOAD_BYTES_MAX {
        format!("payload has {} bytes, over {PAYLOAD_BYTES_MAX}", payload.len())
    } else {
        return Ok(());
    };
    Err(EventError::Value(fault))
}

fn parse_body(event_type: &str, payload: &str) -> Result<Body, EventError> {
    let mut json = serde_json::Deserializer::from_str(payload);
    let body = BodyOf(event_type).deserialize(&mut json);
    body.and_then(|body| json.end().map(|()| body))
        .map_err(|source| EventError::Payload { event_type: event_type.to_owned(), source })
}

/// The name of a member of a line.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Member {
    Schema,
    RunId,
    Seq,
    Ts,
    StepId,
    Phase,
    Type,
    AgentRole,
    EventId,
    Payload,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a whole line whose type stands before its payload.
struct AtOnce;

impl<'de> Visitor<'de> for AtOnce {
    type Value = (EventMembers<'de>, Body);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a run event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut schema, mut run_id, mut ts, mut event_type) = (None, None, None, None);
        let (mut seq, mut step_id, mut phase) = (None, None, None);
        let (mut agent_role, mut event_id, mut body) = (None, None, None);
        while let Some(member) = map.next_key()? {
            let again = match member {
                Member::Schema => schema.replace(map.next_value::<Borrowed<'_>>()?.0).is_some(),
                Member::RunId => run_id.replace(map.next_value::<Borrowed<'_>>()?.0).is_some(),
                Member::Seq => seq.replace(map.next_value::<u64>()?).is_some(),
                Member::Ts => ts.replace(map.next_value::<Borrowed<'_>>()?.0).is_some(),
                Member::StepId => step_id.replace(map.next_value::<Option<u64>>()?).is_some(),
                Member::Phase => phase.replace(map.next_value::<Phase>()?).is_some(),
                Member::Type => event_type.replace(map.next_value::<Borrowed<'_>>()?.0).is_some(),
                Member::AgentRole => {
                    agent_role.replace(map.next_value::<Option<AgentRole>>()?).is_some()
                }
                Member::EventId => {
                    event_id.replace(map.next_value::<Option<SharedText>>()?).is_some()
                }
                Member::Payload => {
                    let event_type = event_type.as_deref();
                    let event_type = event_type.ok_or_else(|| A::Error::missing_field("type"))?;
                    body.replace(map.next_value_seed(BodyOf(event_type))?).is_some()
                }
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if again {
                return Err(A::Error::custom("a member stands twice"));
            }
        }
        let missing = |name| move || A::Error::missing_field(name);
        let members = EventMembers {
            schema: schema.ok_or_else(missing("schema"))?,
            run_id: run_id.ok_or_else(missing("run_id"))?,
            seq: seq.ok_or_else(missing("seq"))?,
            ts: ts.ok_or_else(missing("ts"))?,
            step_id: step_id.ok_or_else(missing("step_id"))?,
            phase: phase.ok_or_else(missing("phase"))?,
            event_type: event_type.ok_or_else(missing("type"))?,
            agent_role: agent_role.flatten(),
            event_id: event_id.flatten(),
        };
        Ok((members, body.ok_or_else(missing("payload"))?))
    }
}

/// Reads a payload, which must be an object, as what an event type says.
struct BodyOf<'t>(&'t str);

impl<'de> DeserializeSeed<'de> for BodyOf<'_> {
    type Value = Body;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodyOf<'_> {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        macro_rules! body {
            ($variant:ident) => {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Body::$variant)
            };
        }
        let unread = match self.0 {
            "RUN_STARTED" => return body!(RunStarted),
            "RUN_STOPPED" => return body!(RunStopped),
            "PLAN_DONE" => return body!(PlanDone),
            "ACT_DONE" => return body!(ActDone),
            "OBSERVE_DONE" => return body!(ObserveDone),
            "CONTEXT_MANIFEST_WRITTEN" => return body!(Manifest),
            "CHUNKS_SEEN" => return body!(ChunksSeen),
            "CLAIM_ADDED" => return body!(ClaimAdded),
            "EVIDENCE_ATTACHED" => return body!(EvidenceAttached),
            "CLAIM_VERIFIED" => return body!(ClaimVerified),
            "CLAIM_RETRACTED" => return body!(ClaimRetracted),
            "CONFLICT_RECORDED" => return body!(ConflictRecorded),
            "CONFLICT_RESOLVED" => return body!(ConflictResolved),
            "QUESTION_OPENED" => return body!(QuestionOpened),
            "QUESTION_CLOSED" => return body!(QuestionClosed),
            "CONSTRAINT_SET" => return body!(ConstraintSet),
            "CONSTRAINT_VIOLATED" => return body!(ConstraintViolated),
            "FAILURE_RECORDED" => return body!(FailureRecorded),
            "FAILURE_RESOLVED" => return body!(FailureResolved),
            "POLICY_CHANGED" => return body!(PolicyChanged),
            "SNAPSHOT_WRITTEN" => return body!(SnapshotWritten),
            "COMPACTION_FAILED" => return body!(CompactionFailed),
            "OVERRIDE_SET" => Body::Noted(Noted::OverrideSet),
            "LOOP_DETECTED" => Body::Noted(Noted::LoopDetected),
            "BUDGET_WARNING" => Body::Noted(Noted::BudgetWarning),
            "HANDOFF" => Body::Noted(Noted::Handoff),
            other => Body::Verbose { name: other.into(), known: VERBOSE.contains(&other) },
        };
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::Class;
    use super::*;

    fn line(event_type: &str, step: &str, payload: &str) -> String {
        format!(
            r#"{{"schema":"run_event.v1","run_id":"r","seq":1,"ts":"2026-01-14T09:00:00Z","step_id":{step},"phase":"ACT","type":"{event_type}","payload":{payload}}}"#
        )
    }

    #[test]
    fn the_class_comes_from_the_type() {
        let class = |name: &str, payload: &str| {
            RunEvent::parse(line(name, "1", payload).as_bytes()).unwrap().class()
        };
        assert_eq!(
            class("PLAN_DONE", r#"{"plan_id":"p","action_type":"SEARCH"}"#),
            Class::Terminal
        );
        assert_eq!(class("HANDOFF", "{}"), Class::State);
        assert_eq!(class("TOOL_CALLED", r#"{"class":"terminal"}"#), Class::Verbose);
        assert_eq!(class("NEVER_HEARD_OF", "{}"), Class::Verbose);
    }

    #[test]
    fn faults_are_named() {
        let fault = |text: &str| RunEvent::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(fault("{").contains("envelope"));
        assert!(fault(&line("PLAN_DONE", "1", "{}")).contains("plan_id"));
        assert!(fault(&line("OBSERVE_DONE", "null", r#"{"progress":true}"#)).contains("step_id"));
        assert!(fault(&line("TOOL_CALLED", "0", "{}")).contains("step_id starts at 1"));
        assert!(fault(&line("TOOL_CALLED", "1", "[]")).contains("not an object"));
        let big = format!(r#"{{"x":"{}"}}"#, "y".repeat(PAYLOAD_BYTES_MAX));
        assert!(fault(&line("TOOL_CALLED", "1", &big)).contains("over 65536"));
        let good = line("TOOL_CALLED", "1", "{}");
        assert!(fault(&good.replace(r#""step_id":1,"#, "")).contains("step_id"));
        assert!(fault(&good.replace(r#""run_id":"r""#, r#""run_id":"../r""#)).contains("run_id"));
        assert!(fault(&good.replace("run_event.v1", "run_event.v2")).contains("schema"));
        assert!(fault(&good.replace("09:00:00Z", "09:00:00")).contains("ts"));
    }

    #[test]
    fn lines_round_trip() {
        let text = line("CLAIM_ADDED", "3", r#"{"claim_id":"c","statement":"naïve ☃"}"#);
        let event = RunEvent::parse(text.as_bytes()).unwrap();
        assert_eq!(RunEvent::parse(event.to_line().trim_end().as_bytes()).unwrap(), event);
    }

    /// Lines of every type, with odd spellings among them.
    fn samples() -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for index in 0..5 {
            let events = super::super::tuning::shapes::generate(3, index, 60);
            lines.extend(events.iter().map(|event| event.to_line().trim_end().to_owned()));
        }
        lines.push(line("CLAIM_ADDED", "3", r#"{"claim_id":"\u00e9","statement":"☃\n\"x\""}"#));
        lines.push(line("TOOL_CALLED", "null", r#"{"deep":[[{"a":[1e9,-0.5,"\ud83d\ude00"]}]]}"#));
        lines.push(line("HANDOFF", "1", "{}").replace(r#""seq":1,"#, r#""seq":1,"extra":[{}],"#));
        lines.push(line("HANDOFF", "1", "{}").replace(r#""phase""#, r#""event_id":"e","phase""#));
        lines
    }

    #[test]
    fn one_pass_and_two_passes_parse_the_same() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = |bound: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % bound as u64).unwrap()
        };
        const ODD: &[u8] = b"\"{}[],:09-e n\\\n\xc3\xff";
        let mut refused = 0;
        for sample in samples() {
            let whole = Parser::default().parse_at_once(&sample).unwrap();
            assert_eq!(whole, Parser::default().parse_in_turn(sample.as_bytes()).unwrap());
            for _ in 0..40 {
                let mut bytes = sample.clone().into_bytes();
                for _ in 0..=next(3) {
                    let at = next(bytes.len());
                    match next(4) {
                        0 => drop(bytes.remove(at)),
                        1 => bytes.insert(at, ODD[next(ODD.len())]),
                        2 => bytes[at] = ODD[next(ODD.len())],
                        _ => {
                            let part = bytes[at..bytes.len().min(at + next(40))].to_vec();
                            let to = next(bytes.len());
                            bytes.splice(to..to, part);
                        }
                    }
                }
                let in_turn = Parser::default().parse_in_turn(&bytes);
                let text = std::str::from_utf8(&bytes);
                let at_once = text.ok().and_then(|text| Parser::default().parse_at_once(text).ok());
                match (at_once, &in_turn) {
                    (Some(event), Ok(other)) => assert_eq!(event, *other),
                    (Some(event), Err(error)) => panic!("{event:?} but {error}"),
                    (None, _) => refused += 1,
                }
                let parsed = RunEvent::parse(&bytes).map_err(|error| error.to_string());
                assert_eq!(parsed, in_turn.map_err(|error| error.to_string()));
            }
        }
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn members_may_stand_in_any_order_but_only_once() {
        let good = line("CLAIM_ADDED", "1", r#"{"claim_id":"c","statement":"s"}"#);
        let value: serde_json::Map<_, _> = serde_json::from_str(&good).unwrap();
        let backwards: serde_json::Map<_, _> = value.into_iter().rev().collect();
        let backwards = serde_json::to_string(&backwards).unwrap();
        assert_eq!(
            RunEvent::parse(backwards.as_bytes()).unwrap(),
            RunEvent::parse(good.as_bytes()).unwrap()
        );
        for twice in [r#""seq":1,"#, r#""type":"CLAIM_ADDED","#, r#""phase":"ACT","#] {
            assert!(RunEvent::parse(good.replace(twice, &twice.repeat(2)).as_bytes()).is_err());
        }
    }

    #[test]
    fn an_array_is_never_accepted_as_an_object() {
        let refused = |text: &str| RunEvent::parse(text.as_bytes()).unwrap_err().to_string();
        let array =
            r#"["run_event.v1","r",1,"2026-01-14T09:00:00Z",1,"ACT","HANDOFF",null,null,{}]"#;
        assert_eq!(refused(array), "an event is an object, not an array");
        let evidence = |evidence: &str| {
            let payload = format!(r#"{{"claim_id":"c","evidence":{evidence}}}"#);
            line("EVIDENCE_ATTACHED", "1", &payload)
        };
        let span = r#"{"start":1,"end":2}"#;
        let pointer = |span: &str| {
            format!(r#"{{"evidence_id":"e","chunk_id":"c","span":{span},"source_id":"s"}}"#)
        };
        assert!(RunEvent::parse(evidence(&pointer(span)).as_bytes()).is_ok());
        assert!(refused(&evidence(&pointer(r#"[1,2,"char"]"#))).contains("expected an object"));
        let flat = format!(r#"["e","c",{span},"s",null,null]"#);
        assert!(refused(&evidence(&flat)).contains("expected an object"));
        assert!(refused(&line("QUESTION_OPENED", "1", r#"["q","t"]"#)).contains("not an object"));
    }

    #[test]
    fn the_digest_of_what_an_event_says_ignores_order_place_and_time() {
        let digest = |text: &str| RunEvent::parse(text.as_bytes()).unwrap().content_digest();
        let manifest = |filters: &str| {
            let payload = format!(
                r#"{{"manifest_id":"m","candidate_chunk_ids":[],"selected_chunk_ids":[],"excluded":[],"filters":{filters},"reranker":null,"acceptance_threshold":0.5,"max_score":null}}"#
            );
            line("CONTEXT_MANIFEST_WRITTEN", "1", &payload)
        };
        let one = manifest(r#"{"a":1,"b":{"c":2,"d":3}}"#);
        let other = manifest(r#"{"b":{"d":3,"c":2},"a":1}"#);
        assert_eq!(digest(&one), digest(&other.replace("09:00:00Z", "10:00:00Z")));
        assert_ne!(digest(&one), digest(&manifest("{}")));
        let claim = line("CLAIM_ADDED", "1", r#"{"claim_id":"c","statement":"s"}"#);
        let turned = line("CLAIM_ADDED", "1", r#"{"statement":"s","claim_id":"c"}"#);
        assert_eq!(digest(&claim), digest(&turned));
        assert_ne!(digest(&claim), digest(&claim.replace(r#""step_id":1"#, r#""step_id":2"#)));
    }
}
