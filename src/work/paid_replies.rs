//! Responses that cost money, and what they cost.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::contract::hash::sha256;
use crate::contract::ids::Seq;
use crate::contract::time::Timestamp;
use crate::facts::dialect::LearnedDialect;
use crate::facts::model::AnswerFacts;
use crate::flow::ReplyCache;
use crate::model::{
    Bill, CallEnd, Charge, Listener, ModelError, ModelIdentity, ModelReply, RightOfWay, Spent,
};
use crate::os::Clock;
use crate::state::event;
use crate::state::flows::DayCharged;

use super::item::model_name;
use super::prepared::Prepared;
use super::worker::{AttemptRecorder, Job};

/// A shorter wait of a call is not told.
const TOLD_MIN: Duration = Duration::from_secs(1);
/// The log counts cost in billionths of the currency.
const NANOS: f64 = 1e9;

/// The responses of one attempt, each recorded in the log before it is used.
pub(super) struct PaidReplies<'a> {
    pub(crate) recorder: &'a AttemptRecorder<'a>,
    pub(crate) prepared: &'a Prepared,
    pub job: &'a Job,
    /// The number of responses that this attempt itself paid for.
    pub fresh: AtomicU64,
    pub waiting: &'a Mutex<BTreeMap<Seq, (Timestamp, String)>>,
    pub clock: &'a dyn Clock,
}

impl Bill for PaidReplies<'_> {
    fn charge(&self, charge: Charge) {
        self.recorder.charged(event::Charge {
            provider: charge.identity.provider.clone(),
            model: model_name(&charge.identity).to_owned(),
            day: charge.day,
            input_tokens: charge.usage.input_tokens,
            output_tokens: charge.usage.output_tokens,
            cost_nanos: nanos(charge.cost),
            estimated: charge.estimated,
        });
    }

    fn passed_over(&self, failed: &ModelIdentity, error: &ModelError, answered_by: &str) {
        self.recorder.passed_over(event::PassedOver {
            provider: failed.provider.clone(),
            model: model_name(failed).to_owned(),
            cause: error.cause(),
            message: error.clone().rewritten(&|said| self.prepared.unquoted(said)).to_string(),
            answered_by: answered_by.to_owned(),
        });
    }

    fn learned(&self, learned: LearnedDialect) {
        self.recorder.learned(learned);
    }

    fn waits(&self, why: &ModelError, time: Duration) {
        if time >= TOLD_MIN {
            let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let until = self.clock.now().plus_ms(ms);
            self.waiting.lock().insert(self.recorder.request, (until, why.to_string()));
        }
    }
}

impl Listener for PaidReplies<'_> {
    fn heard(&self, _: &str) -> bool {
        self.recorder.goes_on()
    }

    fn right_of_way(&self) -> RightOfWay {
        self.recorder.right_of_way()
    }

    fn end(&self) -> Option<&Arc<CallEnd>> {
        Some(self.recorder.end())
    }

    /// `now` never waits for a batch.
    fn batch_for(&self) -> Option<Seq> {
        self.right_of_way().is_scheduled().then_some(self.recorder.request)
    }
}

/// Money in the unit of the log.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "prices are not negative, and the cast saturates"
)]
pub(super) fn nanos(cost: f64) -> u64 {
    (cost * NANOS).round() as u64
}

/// The charges that the log knows, in the unit of the budget.
#[allow(clippy::cast_precision_loss, reason = "a day's money")]
pub(super) fn spent(charged: &DayCharged) -> Spent {
    let mut spent = Spent::default();
    for one in charged.by_provider.values() {
        spent.cost += one.cost_nanos as f64 / NANOS;
        spent.tokens = spent.tokens.saturating_add(one.input_tokens + one.output_tokens);
    }
    spent
}

impl ReplyCache for PaidReplies<'_> {
    /// An answer that does not decode is corruption: asking again would pay twice and report nothing.
    fn get(&self, request_hash: &str) -> Result<Option<ModelReply>, String> {
        self.recorder.reply(self.job, &sha256(request_hash)).map_err(|error| {
            let (mut text, mut cause) = (error.to_string(), error.source());
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            text
        })
    }

    fn put(&self, request_hash: &str, reply: &ModelReply) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
        match serde_json::to_vec(reply) {
            Ok(body) => {
                let (identity, usage, stop) = (reply.identity.clone(), reply.usage, reply.stop);
                let answer = AnswerFacts { identity, usage, stop };
                self.recorder.responded(sha256(request_hash), body, answer);
            }
            Err(error) => tracing::warn!(%error, "cannot record a response in the log"),
        }
    }
}
