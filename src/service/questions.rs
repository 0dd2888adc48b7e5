//! Input: questions and orders over the control socket.

use crate::contract::time::Timestamp;
use crate::control::answers;
use crate::control::question::{Answer, Question, done};
use crate::control::reply::{QuestionContext, Reply};
use crate::control::socket::Asked;
use crate::projections::digester::DigestOrder;
use crate::projections::summaries::Publishing;
use crate::sequencer::engine::EngineOptions;
use crate::state::event::Event;
use crate::work::other_hosts::{hosts_json, waits_for_role, waits_since};

use super::budget;
use super::error::ServiceError;
use super::setup::Reloaded;
use super::state::ServiceLoop;

impl ServiceLoop {
    pub(super) fn poll_questions(&mut self) -> Result<(), ServiceError> {
        while let Ok(asked) = self.questions.try_recv() {
            self.take_question(asked)?;
        }
        Ok(())
    }

    /// Answers are given once the batch is durable: an order that was answered must survive a crash.
    pub(super) fn take_question(&mut self, asked: Asked) -> Result<(), ServiceError> {
        let Asked { question, reply } = asked;
        let answer = self.answer(question)?;
        self.batch.waiters.answers.push((reply, answer));
        Ok(())
    }

    fn answer(&mut self, question: Question) -> Result<Reply, ServiceError> {
        let now = self.now();
        if question == Question::Page
            && let Some(page) = self.service.page.clone()
        {
            return Ok(Reply::Later(Box::new(move || page())));
        }
        if question == Question::Publish {
            self.service.publishing.iter().for_each(Publishing::ask);
        }
        let question = match (question, &self.service.aside) {
            (Question::Forget { order }, Some(aside)) => return Ok(Reply::Now(aside.leave(order))),
            (Question::ForgetAnswer { ticket }, Some(aside)) => {
                return Ok(Reply::Now(aside.fetch(ticket)));
            }
            (question, _) => question,
        };
        let question = match (question, self.service.runs.clone()) {
            (question @ (Question::Digest { .. } | Question::DigestAnswer { .. }), _) => {
                return Ok(self.about_digests(question));
            }
            (Question::Run(question), Some(runs)) => {
                return Ok(Reply::Later(Box::new(move || runs.answer(question).into())));
            }
            (Question::Reload { accept_mutations }, _) => {
                return Ok(Reply::Now(self.reload(accept_mutations, now)?));
            }
            (question, _) => question,
        };
        let asks_status = question == Question::Status;
        let queue = self.service.machine.disk.stat(&self.service.home.queue);
        let around = QuestionContext {
            now,
            machine: &self.service.machine,
            home: &self.service.home,
            config: &self.service.config,
            index: &self.service.index,
            flows: &self.service.flows,
            processes: self.service.processes.clone(),
            queue_bytes: queue.ok().flatten().map_or(0, |stat| stat.len),
            free_bytes: self.disk.bytes,
            waiting_calls: self.service.worker.waiting_calls(),
        };
        let mut answer = answers::answer(&mut self.engine, &around, question)?;
        if let Reply::Now(Answer::Ok(status)) = &mut answer
            && asks_status
        {
            if let Some(runs) = &self.service.runs {
                status["compaction"]["set_aside"] = serde_json::json!(runs.all_set_aside());
            }
            status["telemetry"] = serde_json::json!(self.service.worker.telemetry());
            let resting = self.service.worker.resting().into_iter().map(|(provider, rests)| {
                serde_json::json!({
                    "provider": provider, "until": rests.until.to_string(),
                    "cause": rests.cause, "message": rests.words,
                })
            });
            if self.service.lead.is_some() {
                let host = self.service.config.queue_host();
                let elsewhere = self.attempts.elsewhere();
                let waits = self.queue.waits.as_ref();
                let unshipped = waits.map(|(since, why)| waits_since(&since.to_string(), why));
                let config = &self.service.config;
                let unshipped = unshipped.or_else(|| waits_for_role(status, config.ingests()));
                status["cluster"] = serde_json::json!({
                    "host": host, "role": "leader", "attempts_elsewhere": elsewhere,
                    "unreached": null, "unshipped": unshipped,
                    "hosts": hosts_json(self.attempts.hosts().as_deref()),
                });
            }
            status["resting_providers"] = resting.collect();
            status["tokens_per_second"] = serde_json::json!(self.service.worker.speeds());
            if let Some(digests) = &self.service.digests {
                status["digests"] = digests.overview();
            }
        }
        Ok(answer)
    }

    /// Orders about digests go to their thread; the loop never waits for it.
    fn about_digests(&self, question: Question) -> Reply {
        let Some(digests) = self.service.digests.clone() else {
            let why = "the command that holds this home builds no digests; ask when it has ended";
            return Reply::Now(Answer::Refused(why.to_owned()));
        };
        let ticket = match question {
            Question::DigestAnswer { ticket } => Ok(ticket),
            Question::Digest { order } => {
                // Digests are made of what is published.
                self.service.publishing.iter().for_each(Publishing::ask);
                digests.leave(order)
            }
            _ => Err("the question is not about digests".to_owned()),
        };
        match ticket {
            Ok(ticket) => Reply::Later(Box::new(move || digests.fetch(ticket).into())),
            Err(why) => Reply::Now(Answer::Refused(why)),
        }
    }

    fn reload(&mut self, accept: bool, now: Timestamp) -> Result<Answer, ServiceError> {
        let Some(reload) = &mut self.service.reload else {
            return Ok(Answer::Refused(
                "the command that holds this home cannot reload its settings".to_owned(),
            ));
        };
        match reload(self.engine.state().flows(), accept) {
            Err(why) => Ok(Answer::Refused(format!("the old settings stay in force: {why}"))),
            Ok(Reloaded { config, accepted }) => {
                self.engine.accept_packs(&accepted, now)?;
                self.engine.retune(EngineOptions::of(&config));
                if let Some(runs) = &self.service.runs {
                    runs.retune(&config);
                }
                self.engine.record(Event::ConfigReloaded { config: config.fingerprint() }, now)?;
                let old = std::mem::replace(&mut self.service.config, config);
                let new = &self.service.config;
                let freed = budget::after_reload(
                    &mut self.engine,
                    &mut self.attempts.begun_before,
                    [&old, new],
                    now,
                )?;
                if let Some(digests) = &self.service.digests
                    && let Err(why) = digests.leave(DigestOrder::Reselect)
                {
                    let done = "the settings are reloaded, the selectors are not";
                    return Ok(Answer::Refused(format!("{done}: {why}; reload again")));
                }
                Ok(match freed {
                    0 => done("reloaded"),
                    1 => done("reloaded; 1 request that the budget held back continues"),
                    many => done(&format!(
                        "reloaded; {many} requests that the budget held back continue"
                    )),
                })
            }
        }
    }
}
