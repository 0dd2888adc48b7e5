//! The worker of the service: a request becomes a summary item by its flow.
//!
//! Contract. The input is resolved from upstream, the flow's pack is verified and loaded, and the
//! item gets its name before a model is asked. A provider that costs nothing answers immediately. One
//! that costs money runs only after the name is committed, and each of its responses is recorded
//! before it is used. Given the same upstream, registry and responses, the item is the same.
//!
//! It does not retry, wait or choose among requests: it reports [`RetryHint`], and the core decides.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::config::{BATCH_POLL_MS, BATCH_WAIT_MS, Config};
use crate::contract::hash::Digest;
use crate::contract::ids::Seq;
use crate::contract::privacy::Confinement;
use crate::contract::request::Request;
use crate::contract::source::InputContext;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::{ErrorClass, FailureCause, ReasonCode, Warning, Warnings};
use crate::export::item::ContextIdentity;
use crate::facts::attempt::InputFacts;
use crate::facts::dialect::LearnedDialect;
use crate::facts::failure::ErrorDetails;
use crate::flow::context::Surroundings;
use crate::flow::{
    self, FlowError, FlowOutcome, FlowProblem, LoadedPack, PackFacts, PythonSettings, ReplyCache,
    RunOptions,
};
use crate::home::Home;
use crate::log::Reader;
use crate::model::builtin::Builtin;
use crate::model::{
    BatchLane, BatchPrice, Bill, Deadline, Listener, Provider, ProviderError, Providers, Resting,
    SourceText,
};
use crate::os::{Clock, Disk, Machine};
use crate::registry::{REGISTRY_KIND, Registry, Resolution, label};
use crate::state::Digest16;
use crate::state::decide::{Outcome, PARAMETERS_GONE, RetryHint};
use crate::state::event::{Event, SummaryPointer, TakenRequest};
use crate::state::flows::DayCharged;
use crate::telemetry::Telemetry;
use crate::upstream::context::context_of;
use crate::upstream::defect::Defect;
use crate::upstream::selection::Roots;
use crate::upstream::{self, IndexStore, InputSpec, Resolved, Upstream};

use super::attempt_facts::{
    error_of, failed, failed_by, flow_failed, places_of, provenance_of, resolved_input, subtype,
    unresolved, unresolved_input,
};
use super::data_rules::confinement;
use super::isolation::message::{FlowJob, ProviderFacts};
use super::isolation::pack::{PackParcel, ReadyPack, with_source};
use super::isolation::processes::{FlowProcesses, Isolation};
use super::isolation::rounds::{self, NotLoaded, Rounds};
use super::item;
use super::paid_replies::{PaidReplies, spent};
use super::params::{
    asked_day, flow_sections, for_data, known_params, python_of, wanted_day, with_request,
    wrong_param,
};
use super::prepared::Prepared;
use super::worker::{AttemptRecorder, Begun, Job, Worker};

/// Loaded packs that are kept. With more of them in use, all are dropped and loaded again.
const PACKS_MAX: usize = 256;
/// Calls of one flow to a provider that costs money, at the same time.
const CONCURRENCY: usize = 4;
/// Requests whose text is kept until a checkpoint has them in the tables. A checkpoint comes after
/// `compaction.checkpoint_every_events` events, and each request makes several.
const RECENT_MAX: usize = 1 << 17;
/// The skip policy by which every request of a flow is skipped.
const SKIP_ALL: &str = "all";

pub(crate) struct FlowWorker {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    upstream: Upstream,
    resolving: upstream::Options,
    setup: RwLock<Arc<Setup>>,
    packs: Mutex<BTreeMap<(String, Digest), ReadyPack>>,
    /// Where flows run, if not on the threads of this process.
    processes: Isolation,
    /// What was made lately, by key. The tables do not know it yet.
    recent: Arc<Mutex<HashMap<Digest16, Recent>>>,
    /// Calls that wait before they are sent, by their request: until when, and why.
    waiting: Arc<Mutex<BTreeMap<Seq, (Timestamp, String)>>>,
    /// Where traces go; `None` while no collector is configured.
    telemetry: Option<Arc<Telemetry>>,
    /// Flows whose pack this process has recorded in the log.
    told: Mutex<BTreeSet<(String, Digest)>>,
}

struct Setup {
    config: Config,
    registry: Registry,
    providers: Arc<Providers>,
}

impl FlowWorker {
    /// A worker over the buses and flows of a home. It reads nothing yet. `charged` is what the log says
    /// was spent on its latest day.
    pub(crate) fn new(
        machine: &Machine,
        home: &Home,
        config: &Config,
        registry: Registry,
        index: Arc<dyn IndexStore>,
        charged: Option<&DayCharged>,
    ) -> Result<FlowWorker, ProviderError> {
        let disk = Arc::clone(&machine.disk);
        let roots = Roots { service: Some(home.root.clone()), extra: Vec::new() };
        let providers = Arc::new(Providers::new(config, Arc::new(Builtin), machine)?);
        if let Some(charged) = charged {
            providers.budget().restore(charged.day, spent(charged));
        }
        let setup = Setup { config: config.clone(), registry, providers };
        Ok(FlowWorker {
            upstream: Upstream::new(Arc::clone(&disk), &home.buses, index),
            disk,
            clock: Arc::clone(&machine.clock),
            resolving: upstream::Options { title_as_text: false, roots, zone: None },
            setup: RwLock::new(Arc::new(setup)),
            packs: Mutex::default(),
            processes: None,
            recent: Arc::default(),
            waiting: Arc::default(),
            telemetry: None,
            told: Mutex::default(),
        })
    }

    /// The same worker, whose calls are traced.
    pub(crate) fn traced(self, telemetry: Option<Arc<Telemetry>>) -> FlowWorker {
        FlowWorker { telemetry, ..self }
    }

    /// The same worker, whose flows run in these processes.
    pub(crate) fn isolated(self, processes: Isolation) -> FlowWorker {
        FlowWorker { processes, ..self }
    }

    /// Puts another configuration and registry in force for attempts that begin from now on.
    pub(crate) fn reload(
        &self,
        machine: &Machine,
        config: &Config,
        registry: Registry,
    ) -> Result<(), ProviderError> {
        let old = Arc::clone(&self.setup.read());
        let providers = old.providers.reconfigured(config, Arc::new(Builtin), machine)?;
        let providers = Arc::new(providers);
        *self.setup.write() = Arc::new(Setup { config: config.clone(), registry, providers });
        self.packs.lock().clear();
        Ok(())
    }

    /// Speaks the dialects that the log knows, each for as many milliseconds.
    pub(crate) fn recall(&self, dialects: impl Iterator<Item = (LearnedDialect, u64)>) {
        let setup = self.setup.read();
        for (learned, left_ms) in dialects {
            setup.providers.recall(&learned, Duration::from_millis(left_ms));
        }
    }

    /// Where scheduled questions wait for their batch.
    pub(crate) fn lane(&self) -> Arc<BatchLane> {
        self.setup.read().providers.lane()
    }

    /// The provider of this name, if it has a batch lane.
    pub(crate) fn batch_provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let provider = self.setup.read().providers.named(name)?;
        provider.batches().is_some().then_some(provider)
    }

    /// The prices of its batches.
    pub(crate) fn batch_price(&self, name: &str) -> BatchPrice {
        let setup = self.setup.read();
        let section = setup.config.providers.get(name);
        let price = |price: Option<f64>| price.unwrap_or(0.0);
        let (input, output) = section.map_or((None, None), |one| (one.price_in, one.price_out));
        BatchPrice::of(price(input), price(output))
    }

    /// How long its questions wait for others.
    pub(crate) fn batch_wait_ms(&self, name: &str) -> i64 {
        let setup = self.setup.read();
        let wait = setup.config.providers.get(name).and_then(|section| section.batch_wait_ms);
        wait.unwrap_or(BATCH_WAIT_MS)
    }

    /// How often its server is asked about a batch.
    pub(crate) fn batch_poll(&self, name: &str) -> Duration {
        let setup = self.setup.read();
        let poll = setup.config.providers.get(name).and_then(|section| section.batch_poll_ms);
        Duration::from_millis(poll.unwrap_or(BATCH_POLL_MS).max(10).unsigned_abs())
    }

    /// Keeps what a request is made from, for a check of the same request later.
    fn remember(&self, key: Digest16, recently: Recent) {
        let mut recent = self.recent.lock();
        if recent.len() >= RECENT_MAX {
            recent.clear();
        }
        recent.insert(key, recently);
    }

    fn prepare(&self, job: &Job, recorder: &AttemptRecorder<'_>) -> Result<Prepared, Outcome> {
        let setup = Arc::clone(&self.setup.read());
        if job.taken.line.is_away() {
            let message = PARAMETERS_GONE.to_owned();
            return Err(failed(RetryHint::Never, None, message, &InputFacts::default(), None));
        }
        let request = Request::parse_stored(&job.taken.line).map_err(|refusal| {
            let message = format!("the stored request cannot be read: {}", refusal.reason);
            failed(RetryHint::Never, None, message, &InputFacts::default(), None)
        })?;
        let created = request.created_at.day_in(setup.config.timezone);
        let counted = wanted_day(&request).or(asked_day(&request)).unwrap_or(created);
        let found = unresolved_input(&request, counted);
        let input = InputSpec::of(&request.input);
        let kind = request.work.kind;
        let zone = Some(setup.config.timezone);
        let resolving = upstream::Options { zone, ..self.resolving.clone() };
        let resolved = upstream::resolve(&self.upstream, &input, kind, &resolving);
        let mut resolved = resolved.map_err(|error| {
            // Another host of the log may have the sources. It works only with a pack that is known.
            if setup.config.cluster.is_some()
                && let Ok(pack) = self.pack(&setup.registry, &request, &found, recorder)
            {
                self.tell(recorder, &pack);
            }
            unresolved(error, &found)
        })?;
        let wanted_day = wanted_day(&request);
        let day = wanted_day.or(resolved.day()).unwrap_or(created);
        let found = resolved_input(&resolved, day);
        if let Some(reason) = self.skip(&setup, &request, &resolved) {
            let (warnings, input) = (resolved.warnings, Box::new(found));
            return Err(Outcome::Skipped { reason, warnings, input });
        }
        let (mut surroundings, data) =
            self.surroundings(&setup.config, &request, &mut resolved, &found)?;
        let texts = self.texts(&mut resolved, &found)?;
        let pack = self.pack(&setup.registry, &request, &found, recorder)?;
        refuse_params(&request, &pack, &found)?;
        self.tell(recorder, &pack);
        let mut provider = provider_of(&setup, &request, &found, &data)?;
        if let Some(telemetry) = &self.telemetry
            && (telemetry.is_local() || !data.is_local_only())
        {
            let place = (recorder.request, job.attempt, job.started);
            provider = telemetry.traced(provider, &self.clock, place, &job.taken);
        }
        surroundings.private |= item::asked_to_publish(&request, &pack) == Some(false);
        let (flow_id, variant) = (&request.work.flow_id, request.work.variant.as_deref());
        let configured = known_params(setup.config.flow_params(flow_id, variant), &pack);
        let params = with_request(configured.clone(), &request);
        let prompt_hash = pack.prompt_hash(&params);
        let mut prepared = Prepared {
            pointer: SummaryPointer { summary_id: String::new(), stream: resolved.stream, day },
            run_id: job.run_id.clone(),
            timeout: job.timeout,
            request,
            texts,
            input: found,
            context: context_identity(&surroundings.input, &resolved, &data),
            python: python_of(&setup.config).map(|python| for_data(python, &data)),
            data,
            resolved,
            surroundings,
            pack,
            processes: self.processes.clone(),
            is_traced: self.telemetry.is_some(),
            prompt_hash,
            configured,
            params,
            provider,
            repair_turns: setup.config.repair_turns,
            clock: Arc::clone(&self.clock),
        };
        let identity = prepared.provider.identity();
        prepared.pointer.summary_id =
            prepared.summary_id(&identity.provider, item::model_name(&identity));
        Ok(prepared)
    }

    /// Moves the texts out of the resolved input, so that memory holds one copy of them.
    fn texts(
        &self,
        resolved: &mut Resolved,
        found: &InputFacts,
    ) -> Result<Vec<SourceText>, Outcome> {
        let mut texts = Vec::with_capacity(resolved.sources.len());
        let read = resolved.each_text(&self.upstream, &mut |source, text| {
            texts.push(SourceText { id: source.id.to_owned(), text: text.to_owned() });
        });
        read.map_err(|defect| unresolved(defect.into(), found))?;
        resolved.drop_texts();
        Ok(texts)
    }

    /// What upstream and the home know beside the texts, and what keeps the texts private. Data that is
    /// never published counts as marked so by its source.
    fn surroundings(
        &self,
        config: &Config,
        request: &Request,
        resolved: &mut Resolved,
        found: &InputFacts,
    ) -> Result<(Surroundings, Confinement), Outcome> {
        let broken = |defect: Defect| unresolved(defect.into(), found);
        let input = context_of(resolved, &self.upstream, config.timezone).map_err(broken)?;
        let data = confinement(config, &self.upstream, request, resolved, input.as_ref());
        let data = data.map_err(|defect| broken(*defect))?;
        if !data.private.is_empty() {
            resolved.common.publish = Some(false);
        }
        let surroundings = Surroundings {
            input: input.unwrap_or_default(),
            day: Some(request.created_at.day_in(config.timezone).to_string()),
            zone: Some(config.timezone),
            profile: config.profile.clone(),
            private: resolved.common.publish == Some(false),
            condensed: false,
        };
        Ok((surroundings, data))
    }

    /// Records the pack that a flow is used with, once in each process.
    fn tell(&self, recorder: &AttemptRecorder<'_>, pack: &PackFacts) {
        let record = pack.record();
        let (flow_id, variant) = (record.flow_id.as_str(), record.variant.as_deref());
        if self.told.lock().insert((label(flow_id, variant), pack.pack_hash())) {
            recorder.used_flow(flow_id, variant, pack.pack_hash());
        }
    }

    /// The reason to skip a request whose input was resolved.
    fn skip(&self, setup: &Setup, request: &Request, resolved: &Resolved) -> Option<ReasonCode> {
        if resolved.skip.is_some() {
            return resolved.skip;
        }
        if flow_sections(&setup.config, request).any(|section| section.skip_policy == SKIP_ALL) {
            return Some(ReasonCode::SkippedByPolicy);
        }
        let least = flow_sections(&setup.config, request).map(|section| section.min_chars).max()?;
        (resolved.chars < least).then_some(ReasonCode::SkippedBelowMinChars)
    }

    fn pack(
        &self,
        registry: &Registry,
        request: &Request,
        found: &InputFacts,
        recorder: &AttemptRecorder<'_>,
    ) -> Result<ReadyPack, Outcome> {
        let (flow_id, variant) = (&request.work.flow_id, request.work.variant.as_deref());
        let name = label(flow_id, variant);
        let record = match registry.resolve(REGISTRY_KIND, flow_id, variant) {
            Resolution::Active(record) | Resolution::Deprecated(record) => record,
            Resolution::Disabled(_) => {
                let message = format!("flow {name} was disabled after the request was accepted");
                let reason = Some(ReasonCode::FlowDisabled);
                return Err(failed(RetryHint::Never, reason, message, found, None));
            }
            Resolution::UnknownFlow | Resolution::UnknownVariant { .. } => {
                let message = format!("flow {name} was removed after the request was accepted");
                return Err(failed(RetryHint::Never, None, message, found, None));
            }
        };
        let key = record.pack_hash().map(|hash| (name.clone(), hash));
        if let Some(pack) = key.as_ref().and_then(|key| self.packs.lock().get(key).cloned()) {
            return Ok(pack);
        }
        let broken = |why: String| {
            let message = format!("the pack of {name} cannot be used: {why}");
            let class = ErrorClass::IntegrityMismatch;
            let error =
                error_of(class, "PACK_INTEGRITY", ErrorDetails::Pack { flow: name.clone() });
            failed(RetryHint::Never, Some(ReasonCode::PackIntegrity), message, found, Some(error))
        };
        let files = registry.verified_files(self.disk.as_ref(), record);
        let files = files.map_err(|error| broken(with_source(&error)))?;
        let pack = match &self.processes {
            None => match LoadedPack::load(record, &files) {
                Ok(pack) => ReadyPack::Here(Arc::new(pack)),
                Err(error) => return Err(broken(with_source(&error))),
            },
            Some(processes) => {
                let limit = recorder.timeout;
                match rounds::load(processes, record, &files, limit, recorder) {
                    Ok(pack) => pack,
                    Err(NotLoaded::Unusable(why)) => return Err(broken(why)),
                    Err(NotLoaded::Lost(problem)) => return Err(not_loaded(&name, problem, found)),
                }
            }
        };
        if let Some(key) = key {
            let mut packs = self.packs.lock();
            if packs.len() >= PACKS_MAX {
                packs.clear();
            }
            packs.insert(key, pack.clone());
        }
        Ok(pack)
    }
}

impl Worker for FlowWorker {
    fn begin(&self, job: &Job, recorder: &AttemptRecorder<'_>) -> Begun {
        // What an earlier attempt had read tells nothing of this one.
        let key = job.taken.key.head();
        self.recent.lock().remove(&key);
        let prepared = match self.prepare(job, recorder) {
            Ok(prepared) => prepared,
            Err(outcome) => return Begun::Done(vec![outcome]),
        };
        let text = prepared.resolved.source_text_hash;
        let made_from = MadeFrom::of(prepared.context, text);
        let request = recorder.request;
        self.remember(key, Recent::Read { request, made_from });
        let forget_failed = forget_failed(&self.recent, key, request);
        let resolved = Outcome::Resolved {
            summary: prepared.pointer.clone(),
            warnings: prepared.resolved.warnings,
            input: Box::new(prepared.input.clone()),
            sources: Box::new(places_of(&prepared.resolved)),
        };
        if prepared.provider.is_free() {
            let outcome = prepared.make(recorder, None, 1);
            forget_failed(&outcome);
            return Begun::Done(vec![resolved, outcome]);
        }
        let job = job.clone();
        let waiting = Arc::clone(&self.waiting);
        let paid = move |recorder: &AttemptRecorder<'_>| {
            let (fresh, clock) = (AtomicU64::new(0), &*prepared.clock);
            let waiting: &Mutex<_> = &waiting;
            let kept =
                PaidReplies { recorder, prepared: &prepared, job: &job, fresh, waiting, clock };
            let outcome = prepared.make(recorder, Some(&kept), CONCURRENCY);
            waiting.lock().remove(&recorder.request);
            forget_failed(&outcome);
            outcome
        };
        Begun::Resolved(resolved, Box::new(paid))
    }

    fn speeds(&self) -> BTreeMap<String, f64> {
        self.setup.read().providers.speeds()
    }

    fn resting(&self) -> BTreeMap<String, Resting> {
        self.setup.read().providers.resting()
    }

    fn waiting_calls(&self) -> BTreeMap<Seq, (Timestamp, String)> {
        self.waiting.lock().clone()
    }

    fn charged(&self, all: &DayCharged) {
        self.setup.read().providers.budget().catch_up(all.day, spent(all));
    }

    fn telemetry(&self) -> Option<Value> {
        self.telemetry.as_ref().map(|telemetry| telemetry.overview())
    }

    fn was_made(&self, key: Digest16, ended: Seq) {
        self.remember(key, Recent::Made(ended));
    }

    fn source_since(&self, log: &Reader, request: &TakenRequest, ended: Option<Seq>) -> Warnings {
        let recent = self.recent.lock().get(&request.key.head()).copied();
        let then = match (recent, ended) {
            (Some(Recent::Read { request, made_from }), _) => Some((request, made_from)),
            (Some(Recent::Made(ended)), _) | (None, Some(ended)) => made_from(log, ended),
            (None, None) => None,
        };
        let Some((maker, then)) = then else { return Warnings::default() };
        // A request with the same key may name other sources: those of the summary count.
        let Ok(Some(event)) = log.event(maker) else { return Warnings::default() };
        match event.taken().map(|made| self.read_again(made)) {
            Some(Ok(now)) => now.since(then),
            Some(Err(NotReadAgain::Missing)) => Warnings::default().with(Warning::SourceMissing),
            // A text that cannot be read now cannot be compared.
            Some(Err(NotReadAgain::Unread)) | None => Warnings::default(),
        }
    }
}

impl FlowWorker {
    /// What a request would be made from now.
    fn read_again(&self, request: &TakenRequest) -> Result<MadeFrom, NotReadAgain> {
        let unread = NotReadAgain::Unread;
        let parsed = Request::parse_stored(&request.line).map_err(|_| unread)?;
        let setup = Arc::clone(&self.setup.read());
        let zone = setup.config.timezone;
        let resolving = upstream::Options { zone: Some(zone), ..self.resolving.clone() };
        let input = InputSpec::of(&parsed.input);
        let now = upstream::resolve(&self.upstream, &input, parsed.work.kind, &resolving);
        let mut now = now.map_err(|defect| match defect.class {
            ErrorClass::InputMissing => NotReadAgain::Missing,
            _ => unread,
        })?;
        let context = context_of(&now, &self.upstream, zone).map_err(|_| unread)?;
        let data = confinement(&setup.config, &self.upstream, &parsed, &now, context.as_ref());
        let data = data.map_err(|_| unread)?;
        if !data.private.is_empty() {
            now.common.publish = Some(false);
        }
        let context = context_identity(&context.unwrap_or_default(), &now, &data);
        Ok(MadeFrom::of(context, now.source_text_hash))
    }
}

/// Why the sources of a request cannot be read again.
#[derive(Debug, Clone, Copy)]
enum NotReadAgain {
    /// One of them is not there any more.
    Missing,
    Unread,
}

/// Forgets what an attempt had read when it made no summary: the next one, perhaps on another host, reads again.
fn forget_failed(
    recent: &Arc<Mutex<HashMap<Digest16, Recent>>>,
    key: Digest16,
    request: Seq,
) -> impl Fn(&Outcome) + Send + Sync + use<> {
    let recent = Arc::clone(recent);
    move |outcome| {
        let is_made = matches!(outcome, Outcome::Produced { .. });
        let mut recent = recent.lock();
        let is_read =
            |known: &Recent| matches!(known, Recent::Read { request: one, .. } if *one == request);
        if !is_made && recent.get(&key).is_some_and(is_read) {
            recent.remove(&key);
        }
    }
}

/// What is known of the output of a key before the tables know it.
#[derive(Debug, Clone, Copy)]
enum Recent {
    /// This process read the sources of the request.
    Read { request: Seq, made_from: MadeFrom },
    /// This event made it.
    Made(Seq),
}

/// What an output is made from.
#[derive(Debug, Clone, Copy)]
struct MadeFrom {
    /// The hash of the texts and of what stands beside them.
    all: Digest,
    is_private: bool,
}

impl MadeFrom {
    fn of(context: ContextIdentity, text: Digest) -> MadeFrom {
        MadeFrom { all: context.with_text(text), is_private: context.publish == Some(false) }
    }

    /// What became of the sources since an output was made.
    fn since(self, then: MadeFrom) -> Warnings {
        let became = [
            (self.all != then.all, Warning::SourceChanged),
            (self.is_private && !then.is_private, Warning::SourcePrivate),
        ];
        let became = became.into_iter().filter(|(did, _)| *did);
        became.fold(Warnings::default(), |all, (_, warning)| all.with(warning))
    }
}

/// The request that made an output, and what it was made from.
fn made_from(log: &Reader, ended: Seq) -> Option<(Seq, MadeFrom)> {
    let Event::SummaryProduced { request, input, .. } = log.event(ended).ok()?? else {
        return None;
    };
    let item: Value = serde_json::from_slice(&log.body(ended).ok()??).ok()?;
    let context = ContextIdentity::of(&item["selection"]);
    Some((request, MadeFrom::of(context, input.source_text_hash?)))
}

/// What the sources say beside their texts. Above the bound of contexts it is the publish flag alone.
fn context_identity(
    context: &InputContext,
    resolved: &Resolved,
    data: &Confinement,
) -> ContextIdentity {
    ContextIdentity {
        sha256: (!context.sources.is_empty()).then(|| context.sha256()),
        publish: resolved.common.publish,
        missing_days: ContextIdentity::missing_days_of(&resolved.selection),
        local_only: data.is_local_only(),
    }
}

impl Prepared {
    /// Ids of the request that are not those of its texts.
    fn known_ids(&self) -> Vec<String> {
        let resolved = &self.resolved;
        let primary = resolved.source_ids().into_iter().map(str::to_owned);
        primary.chain(resolved.document_ids.clone()).chain(resolved.session_ids.clone()).collect()
    }

    /// Runs the flow and makes the item.
    fn make(
        &self,
        recorder: &AttemptRecorder<'_>,
        kept: Option<&PaidReplies<'_>>,
        concurrency: usize,
    ) -> Outcome {
        let ran = match (&self.pack, &self.processes) {
            (ReadyPack::Apart { facts, parcel }, Some(processes)) => {
                self.run_apart(processes, (facts, parcel), recorder, kept, concurrency)
            }
            (ReadyPack::Here(pack), _) => self.run_here(pack, kept, concurrency),
            // Packs are only loaded apart where there are processes.
            (ReadyPack::Apart { .. }, None) => Err(FlowError::stopped("there are no processes")),
        };
        self.outcome(ran, kept)
    }

    /// Runs the flow on this thread.
    fn run_here(
        &self,
        pack: &LoadedPack,
        kept: Option<&PaidReplies<'_>>,
        concurrency: usize,
    ) -> Result<FlowOutcome, FlowError> {
        let known_ids = self.known_ids();
        let options = RunOptions {
            known_ids: &known_ids,
            params: self.params.clone(),
            surroundings: Some(&self.surroundings),
            timeout: self.timeout,
            replies: kept.map(|kept| kept as &dyn ReplyCache),
            bill: kept.map(|kept| kept as &dyn Bill),
            listener: kept.map(|kept| kept as &dyn Listener),
            python: self.python_for(pack),
            repair_turns: self.repair_turns,
            concurrency,
            ..RunOptions::default()
        };
        let provider = Deadline::new(self.provider.as_ref(), self.clock.as_ref(), self.timeout);
        flow::run(pack, Map::new(), &self.texts, &provider, &options)
    }

    /// How Python nodes run: of the variables of this process they get those of the connections that the
    /// pack names, and no others.
    fn python_for(&self, facts: &PackFacts) -> Option<PythonSettings> {
        let python = self.python.clone()?;
        let variables = Some(facts.variables(false));
        Some(PythonSettings { variables, ..python })
    }

    /// Runs the flow in a process, which asks this one for answers.
    fn run_apart(
        &self,
        processes: &FlowProcesses,
        (facts, parcel): (&PackFacts, &PackParcel),
        recorder: &AttemptRecorder<'_>,
        kept: Option<&PaidReplies<'_>>,
        concurrency: usize,
    ) -> Result<FlowOutcome, FlowError> {
        let known_ids = self.known_ids();
        let provider = Deadline::new(self.provider.as_ref(), self.clock.as_ref(), self.timeout);
        let python = self.python_for(facts);
        let none = Map::new();
        let job = FlowJob {
            inputs: Cow::Borrowed(&none),
            params: Cow::Borrowed(&self.params),
            texts: Cow::Borrowed(&self.texts),
            surroundings: Some(Cow::Borrowed(&self.surroundings)),
            known_ids: Cow::Borrowed(&known_ids),
            timeout: self.timeout,
            repair_turns: self.repair_turns,
            concurrency,
            python,
            provider: ProviderFacts::of(&provider),
            // Traces name each call, so a traced one is asked from here.
            is_embedded: self.provider.is_free() && !self.is_traced,
            keeps_outputs: false,
            keeps_prompts: false,
        };
        let rounds = Rounds {
            processes,
            parcel,
            facts,
            provider: &provider,
            client: recorder,
            replies: kept.map(|kept| kept as &dyn ReplyCache),
            bill: kept.map(|kept| kept as &dyn Bill),
            listener: kept.map(|kept| kept as &dyn Listener),
            limit: self.timeout,
            concurrency,
        };
        rounds.run(&job)
    }

    /// The item of a flow that made a summary, else the reason why it made no summary.
    fn outcome(
        &self,
        ran: Result<FlowOutcome, FlowError>,
        kept: Option<&PaidReplies<'_>>,
    ) -> Outcome {
        let made = match ran {
            Ok(made) => made,
            Err(error) => {
                let got_on = kept.is_some_and(|kept| kept.fresh.load(Ordering::Relaxed) > 0);
                return flow_failed(self, &self.provider.identity(), &error, got_on);
            }
        };
        let mut warnings = self.resolved.warnings;
        if made.warnings.iter().any(|warning| warning == Warning::UnknownParam.as_str()) {
            warnings = warnings.with(Warning::UnknownParam);
        }
        // A setting is for sources that do not say it themselves; a parameter of the request is of this one.
        let asked = &self.request.work.params;
        if made.param_facts.ignored.iter().any(|name| asked.contains_key(name)) {
            warnings = warnings.with(Warning::ParamIgnored);
        }
        // A fallback provider may have answered. The item is named after the provider that did.
        let id = self.summary_id(&made.model.provider, item::model_name(&made.model));
        let provenance = Some(Box::new(provenance_of(self, &made)));
        let counts = item::counts(self, &made.coverage);
        let input = InputFacts { counts, ..self.input.clone() };
        match item::line(self, id.clone(), made) {
            Ok(item) => Outcome::Produced {
                summary: SummaryPointer { summary_id: id, ..self.pointer.clone() },
                item,
                warnings,
                input: Box::new(input),
                provenance,
            },
            Err(what) => {
                let class = ErrorClass::ModelFailure;
                let error = error_of(class, "ITEM_SCHEMA_VIOLATION", ErrorDetails::Item);
                let message = format!("the summary does not fit its schema: {what}");
                let reason = Some(ReasonCode::OutputSchemaViolation);
                failed(RetryHint::Never, reason, message, &self.input, Some(error))
            }
        }
    }
}

/// The process that should load a pack gave no answer.
fn not_loaded(name: &str, problem: FlowProblem, found: &InputFacts) -> Outcome {
    let message = format!("the pack of {name} cannot be loaded: {problem}");
    let error = FlowError::without_calls(problem);
    let reason = (ReasonCode::parse(error.reason_code()), error.cause());
    let details = ErrorDetails::Pack { flow: name.to_owned() };
    let facts = error_of(ErrorClass::ModelFailure, &subtype(&error), details);
    failed_by(RetryHint::Later, reason, message, found, Some(facts))
}

/// Refuses a parameter that would replace the sources, and one that is a misspelled other one.
fn refuse_params(request: &Request, pack: &PackFacts, found: &InputFacts) -> Result<(), Outcome> {
    let params = &request.work.params;
    // Null is absence, and replaces nothing.
    let given = params.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
    let wrong = given.into_iter().find_map(|name| Some((name, wrong_param(name, pack)?)));
    let Some((param, message)) = wrong else { return Ok(()) };
    let details = ErrorDetails::Param { param: param.clone() };
    let error = error_of(ErrorClass::SchemaMismatch, "INVALID_PARAMS", details);
    let reason = Some(ReasonCode::InvalidParams);
    Err(failed(RetryHint::InvalidInput, reason, message, found, Some(error)))
}

fn provider_of(
    setup: &Setup,
    request: &Request,
    found: &InputFacts,
    data: &Confinement,
) -> Result<Arc<dyn Provider>, Outcome> {
    let work = &request.work;
    setup.providers.for_flow(&work.flow_id, work.variant.as_deref(), None, data).map_err(|error| {
        let (subtype, cause) = match error.keeps_text_here() {
            true => ("PROVIDER_NOT_LOCAL", FailureCause::NotLocal),
            false => ("PROVIDER_UNUSABLE", FailureCause::Configuration),
        };
        let details = ErrorDetails::Provider { flow_id: work.flow_id.clone() };
        let facts = error_of(ErrorClass::ModelFailure, subtype, details);
        let why = (Some(ReasonCode::ModelError), Some(cause));
        failed_by(RetryHint::Never, why, error.to_string(), found, Some(facts))
    })
}
