//! One flow in a process: it is sent there, its questions are asked here, and it is sent again with the answers.
//!
//! Contract. Models are asked here, with the keys, limits, budgets and connections of this process. An answer that
//! costs money is kept before the flow sees it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::contract::ids::Seq;
use crate::contract::vocabulary::FailureCause;
use crate::flow::{FlowError, FlowOutcome, FlowProblem, OfNode, PackFacts, ReplyCache};
use crate::model::{
    BUILTIN, Bill, CallEnd, Listener, ModelCall, ModelError, ModelReply, Provider, ResponseFormat,
    RightOfWay,
};
use crate::registry::{FlowPackRecord, PackFiles};

use super::message::{
    self, Answered, EmbeddedQuestion, FlowJob, HowAnswered, OpenQuestion, ProviderFacts,
    QuestionSchema, Said, Task,
};
use super::pack::{PackParcel, ReadyPack};
use super::processes::{Client, FlowProcesses, Lost};

/// Why a pack is not ready.
pub(in crate::work) enum NotLoaded {
    /// It cannot be used.
    Unusable(String),
    /// The process that should load it gave no answer.
    Lost(FlowProblem),
}

/// Lets a process load a pack, and keeps what it says of it.
pub(in crate::work) fn load(
    processes: &FlowProcesses,
    record: &FlowPackRecord,
    files: &PackFiles,
    limit: Duration,
    client: &dyn Client,
) -> Result<ReadyPack, NotLoaded> {
    let parcel = PackParcel::of(record, files);
    let parcel = parcel.map_err(|error| NotLoaded::Lost(Lost::from(error).problem()))?;
    let said = processes.order(Task::Load, &parcel, &[], limit, client);
    match said.map_err(|lost| NotLoaded::Lost(lost.problem()))? {
        Said::Loaded(facts) => {
            Ok(ReadyPack::Apart { facts: Arc::new(*facts), parcel: Arc::new(parcel) })
        }
        Said::NotLoaded(why) => Err(NotLoaded::Unusable(why)),
        other => Err(NotLoaded::Lost(*unexpected(&other).problem)),
    }
}

/// What one flow runs with.
pub(in crate::work) struct Rounds<'a> {
    pub processes: &'a FlowProcesses,
    pub parcel: &'a PackParcel,
    pub facts: &'a PackFacts,
    pub provider: &'a dyn Provider,
    pub client: &'a dyn Client,
    /// Where answers that cost money are kept.
    pub replies: Option<&'a dyn ReplyCache>,
    pub bill: Option<&'a dyn Bill>,
    pub listener: Option<&'a dyn Listener>,
    /// Longest time between two answers of the process.
    pub limit: Duration,
    /// Questions that are asked at the same time.
    pub concurrency: usize,
}

impl Rounds<'_> {
    /// Runs the flow to its end.
    pub(crate) fn run(&self, job: &FlowJob<'_>) -> Result<FlowOutcome, FlowError> {
        match self.to_the_end(Task::Run, job, &[])? {
            Said::Made(made) => Ok(*made),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs the aggregation nodes over what they read of each line.
    pub(crate) fn aggregate(
        &self,
        job: &FlowJob<'_>,
        lines: &[Map<String, Value>],
    ) -> Result<Map<String, Value>, FlowError> {
        let mut of_lines = Vec::new();
        message::write(&mut of_lines, &lines).map_err(|error| lost(error.into()))?;
        match self.to_the_end(Task::Aggregate, job, &of_lines)? {
            Said::Aggregated(metrics) => Ok(metrics),
            other => Err(unexpected(&other)),
        }
    }

    /// What a process says when it has no further question.
    fn to_the_end(&self, task: Task, job: &FlowJob<'_>, more: &[u8]) -> Result<Said, FlowError> {
        match self.rounds(task, job, more).map_err(lost)? {
            Said::Failed(error) => Err(error),
            said => Ok(said),
        }
    }

    fn rounds(&self, task: Task, job: &FlowJob<'_>, more: &[u8]) -> Result<Said, Lost> {
        let mut of_job = Vec::new();
        message::write(&mut of_job, job)?;
        let mut answers: Vec<Answered> = Vec::new();
        loop {
            let mut of_answers = Vec::new();
            message::write(&mut of_answers, &answers)?;
            match self.order(task, &[&of_job, &of_answers, more])? {
                Said::Asks(questions) => answers.extend(self.ask_all(&questions)),
                said => return Ok(said),
            }
        }
    }

    fn order(&self, task: Task, rest: &[&[u8]]) -> Result<Said, Lost> {
        self.processes.order(task, self.parcel, rest, self.limit, self.client)
    }

    /// Asks some at a time, in order. After a failure no further ones are asked: the flow fails with it.
    fn ask_all(&self, questions: &[OpenQuestion]) -> Vec<Answered> {
        let mut answers = Vec::with_capacity(questions.len());
        for some in questions.chunks(self.concurrency.max(1)) {
            match some {
                [only] => answers.push(self.ask(only)),
                some => std::thread::scope(|scope| {
                    let asked = some.iter().map(|one| scope.spawn(|| self.ask(one)));
                    let asked: Vec<_> = asked.collect();
                    let joined = asked.into_iter().filter_map(|thread| thread.join().ok());
                    answers.extend(joined);
                }),
            }
            if answers.iter().any(is_failure) {
                break;
            }
        }
        answers
    }

    fn ask(&self, question: &OpenQuestion) -> Answered {
        let how = self.answer(question);
        let provider = ProviderFacts::of(self.provider);
        Answered { name: question.name.clone(), how, provider }
    }

    fn answer(&self, question: &OpenQuestion) -> HowAnswered {
        match self.replies.map_or(Ok(None), |replies| replies.get(&question.kept_as)) {
            Ok(Some(reply)) => return HowAnswered::Kept(reply),
            Err(reason) => return HowAnswered::Unreadable(reason),
            Ok(None) => {}
        }
        match self.call(question) {
            Ok(reply) => {
                if let Some(replies) = self.replies {
                    replies.put(&question.kept_as, &reply);
                }
                HowAnswered::Fresh(reply)
            }
            Err(error) => HowAnswered::Failed(error),
        }
    }

    fn call(&self, question: &OpenQuestion) -> Result<ModelReply, ModelError> {
        let nothing = Map::new();
        let texts = question.texts.as_ref();
        let is_data =
            question.schema.is_some() || question.settings.response_format != ResponseFormat::Text;
        let listener = OfNode { to: self, node: &question.node, is_data };
        self.provider.call(&ModelCall {
            flow_id: &self.facts.record().flow_id,
            variant: self.facts.record().variant.as_deref(),
            node: &question.node,
            messages: &question.messages,
            inputs: texts.map_or(&nothing, |texts| &texts.inputs),
            sources: texts.map_or(&[], |texts| &texts.sources),
            schema: question.schema.as_ref().and_then(|schema| self.schema(schema)),
            validator: None,
            hints: None,
            settings: question.settings.clone(),
            timeout: question.timeout,
            listener: Some(&listener),
            bill: self.bill,
            model: None,
            apart: question.apart,
            speakers: texts.and_then(|texts| texts.speakers.as_ref()),
            kept_as: &question.kept_as,
        })
    }

    /// The schema that a question names.
    fn schema<'q>(&'q self, schema: &'q QuestionSchema) -> Option<&'q Value> {
        match schema {
            QuestionSchema::OfPack(place) => self.facts.schemas.get(*place),
            QuestionSchema::Other(schema) => Some(schema),
        }
    }

    fn read(&self, call: &ModelCall<'_>) -> Result<Said, Lost> {
        let question = EmbeddedQuestion {
            node: Cow::Borrowed(call.node),
            schema: call.schema.map(Cow::Borrowed),
            settings: Cow::Borrowed(&call.settings),
            apart: call.apart,
            inputs: Cow::Borrowed(call.inputs),
            sources: Cow::Borrowed(call.sources),
            speakers: call.speakers.map(Cow::Borrowed),
        };
        let mut bytes = Vec::new();
        message::write(&mut bytes, &question)?;
        self.order(Task::Read, &[&bytes])
    }
}

/// The attempt hears what arrives, and the embedded summarizer reads in a process.
impl Listener for Rounds<'_> {
    fn heard(&self, text: &str) -> bool {
        self.listener.is_none_or(|listener| listener.heard(text))
    }

    fn heard_of(&self, node: &str, is_data: bool, text: &str) -> bool {
        self.listener.is_none_or(|listener| listener.heard_of(node, is_data, text))
    }

    fn right_of_way(&self) -> RightOfWay {
        self.listener.map_or(RightOfWay::First, Listener::right_of_way)
    }

    fn end(&self) -> Option<&Arc<CallEnd>> {
        self.listener.and_then(Listener::end)
    }

    fn read_elsewhere(&self, call: &ModelCall<'_>) -> Option<Result<ModelReply, ModelError>> {
        Some(match self.read(call) {
            Ok(Said::Read(answer)) => *answer,
            Ok(other) => Err(not_read(unexpected(&other).to_string())),
            Err(lost) => Err(not_read(lost.to_string())),
        })
    }

    fn batch_for(&self) -> Option<Seq> {
        self.listener.and_then(Listener::batch_for)
    }
}

fn is_failure(answered: &Answered) -> bool {
    match &answered.how {
        HowAnswered::Failed(error) => !error.waits_for_batch(),
        HowAnswered::Unreadable(_) => true,
        HowAnswered::Kept(_) | HowAnswered::Fresh(_) => false,
    }
}

fn lost(lost: Lost) -> FlowError {
    FlowError::without_calls(lost.problem())
}

/// The embedded summarizer could not stand in.
fn not_read(reason: String) -> ModelError {
    ModelError::Transient {
        provider: BUILTIN.to_owned(),
        reason: reason.into(),
        retry_after: None,
        cause: FailureCause::WorkerCrashed,
    }
}

/// A process answered something else than it was asked.
fn unexpected(said: &Said) -> FlowError {
    let reason = match said {
        Said::NotLoaded(reason) => format!("load the pack: {reason}"),
        _ => "it gave another answer than it was asked for".to_owned(),
    };
    FlowError::stopped(&reason)
}
