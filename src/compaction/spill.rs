//! Lists and texts that do not fit into a snapshot.
//!
//! A snapshot that would exceed its size limit, or has a text over its limit, shows the newest records
//! of each long list, and of a long text its beginning, its size and its hash. Beside it is a file with every record that changed since the snapshot before, which the snapshot names by
//! its hash. That file names the file before it in the same way. Together the files of this chain
//! hold the whole state, and a long run writes each change once.
//!
//! Contract: what is shown and what is written depends on the fold alone. The cost is that of the
//! shown records and of the changes, not of the state.
//!
//! See docs/adr/0098-spilled-lists.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fold::RunFold;
use super::previous::Previous;
use super::records;
use super::snapshot::{
    ClaimRecord, ConflictRecord, ConstraintRecord, FailureEntry, RetrievalDiagnostics,
    SNAPSHOT_BYTES_MAX, STATEMENT_BYTES_MAX, STRING_BYTES_MAX, Snapshot, SpillRef, StateCounts,
};
use super::state::{ClaimState, ConflictState, ConstraintState, FailureState, RunState};
use super::text::SharedText;
use crate::contract::hash::sha256;
use crate::contract::json::to_file;
use crate::markup::prefix;

/// Most pointers that a record shows in a snapshot that does not fit.
const REFS_SHOWN_MAX: usize = 8;
/// Bytes of a long text that a snapshot shows.
const TEXT_SHOWN_BYTES: usize = 1 << 10;
/// Room for the checks, the digest and the pointer to the file, in bytes.
const VERDICT_BYTES: usize = 6 << 10;
/// A lower bound of the size of a record in the file form: its keys and punctuation.
const RECORD_BYTES_MIN: usize = 100;
/// Deepest indentation of a record in the file form, in bytes.
const INDENT_BYTES: usize = 8;

/// Record kind of [`SpillFile`].
pub(crate) const SPILL_SCHEMA: &str = "compaction_spill.v1";

/// A link in the chain: every record that changed since the link before it, or every record in the
/// first link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpillFile {
    pub schema_version: String,
    pub run_id: SharedText,
    pub sequence: u64,
    pub previous: Option<SpillRef>,
    /// Records of the whole state as of this snapshot.
    pub counts: StateCounts,
    /// Claims that changed, with the pointers that are new.
    pub claims: Vec<ClaimRecord>,
    pub conflicts: Vec<ConflictRecord>,
    pub questions_closed: Vec<SharedText>,
    pub questions_opened: Vec<OpenQuestion>,
    pub failures: Vec<FailureEntry>,
    /// Further ids of failures, by the id that snapshots show.
    pub failure_aliases: BTreeMap<SharedText, SharedText>,
    pub constraints: Vec<ConstraintRecord>,
    pub source_ids: Vec<SharedText>,
    pub chunk_ids: Vec<SharedText>,
    /// What the snapshot lists of the time since the one before it, whole. `None` when the snapshot
    /// shows all of it.
    pub(crate) since_last: Option<RetrievalDiagnostics>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenQuestion {
    pub question_id: SharedText,
    pub text: SharedText,
}

/// A link with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spill {
    pub reference: SpillRef,
    pub bytes: Arc<Vec<u8>>,
}

/// File name of a link, beside its snapshot.
pub(crate) fn file_name(sequence: u64) -> String {
    format!("{sequence}.spill.json")
}

/// False when the lists surely do not fit: a bound that costs no encoding.
pub(super) fn may_fit(fold: &RunFold) -> bool {
    let (state, coverage) = (&fold.state, &fold.state.coverage);
    let records = state.claims.len()
        + state.conflicts.len()
        + state.failures.len()
        + state.constraints.len() / 2
        + fold.ledger.evidence.len();
    // Quotes, a comma and a line end.
    let texts = coverage.chunks.len() + coverage.sources.len() + state.questions.len();
    records * RECORD_BYTES_MIN + coverage.chunk_bytes + 4 * texts <= SNAPSHOT_BYTES_MAX
}

/// What can be shown of one list, best first, with the size of each record in the file form.
struct Candidates<T> {
    records: Vec<(T, usize)>,
    /// Bytes of the records, or more than there is room for.
    need: usize,
}

impl<T> Candidates<T> {
    fn of(records: impl Iterator<Item = (T, usize)>, room: usize) -> Candidates<T> {
        let mut found = Candidates { records: Vec::new(), need: 0 };
        for (record, bytes) in records {
            found.need += bytes;
            found.records.push((record, bytes));
            if found.need > room {
                break;
            }
        }
        found
    }

    fn plain(records: impl Iterator<Item = T>, room: usize) -> Candidates<T>
    where
        T: Serialize,
    {
        Candidates::of(
            records.map(|record| {
                let bytes = shown_bytes(&record);
                (record, bytes)
            }),
            room,
        )
    }

    fn within(self, share: usize) -> impl Iterator<Item = T> {
        let mut left = share;
        let fits = move |(record, bytes): (T, usize)| {
            left = left.checked_sub(bytes)?;
            Some(record)
        };
        self.records.into_iter().map_while(fits)
    }
}

/// Bytes of a record in the file form, with its comma and its indentation.
fn shown_bytes<T: Serialize + ?Sized>(record: &T) -> usize {
    let text = serde_json::to_string_pretty(record)
        .expect("a record of a snapshot has string keys and finite numbers");
    let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    text.len() + lines * INDENT_BYTES + 2
}

/// Divides room among lists: a list that needs less than its share leaves the rest to the others.
fn shares(needs: &[usize], room: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|index| needs[*index]);
    let (mut left, mut shares) = (room, vec![0; needs.len()]);
    for (place, index) in order.into_iter().enumerate() {
        let share = left / (needs.len() - place);
        shares[index] = share.min(needs[index]);
        left -= shares[index];
    }
    shares
}

/// What a snapshot shows of a text: a text over `limit` bytes is its beginning, its size and its hash.
pub(super) fn short(text: &SharedText, limit: usize) -> SharedText {
    if text.len() <= limit {
        return text.clone();
    }
    let (head, bytes, hash) = (prefix(text, TEXT_SHOWN_BYTES), text.len(), sha256(&**text));
    SharedText::from(format!("{}… ({bytes} bytes, {})", head.trim_end(), hash.prefixed()))
}

fn shorten(text: &mut SharedText) {
    *text = short(text, STRING_BYTES_MAX);
}

fn short_claim(id: &SharedText, held: &ClaimState) -> ClaimRecord {
    let mut record = records::claim(id, held, REFS_SHOWN_MAX);
    record.statement = short(&record.statement, STATEMENT_BYTES_MAX);
    record
}

fn short_conflict(id: &SharedText, held: &ConflictState) -> ConflictRecord {
    let mut record = records::conflict(id, held, REFS_SHOWN_MAX);
    shorten(&mut record.description);
    record.resolution.iter_mut().for_each(shorten);
    record
}

fn short_failure(id: &SharedText, held: &FailureState) -> FailureEntry {
    let mut record = records::failure(id, held);
    [&mut record.category, &mut record.place, &mut record.why].into_iter().for_each(shorten);
    record
}

fn short_constraint(id: &SharedText, held: &ConstraintState) -> ConstraintRecord {
    let mut record = records::constraint(id, held);
    shorten(&mut record.text);
    record
}

/// Shortens the strings of a value, the names of its members too.
fn short_value(value: Value) -> Value {
    let text = |text: String| match text.len() > STRING_BYTES_MAX {
        true => short(&SharedText::from(text), STRING_BYTES_MAX).to_string(),
        false => text,
    };
    match value {
        Value::String(long) => Value::String(text(long)),
        Value::Array(items) => items.into_iter().map(short_value).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (text(name), short_value(member))).collect()
        }
        other => other,
    }
}

/// Shortens the next actions. Their events keep them whole.
pub(super) fn shorten_actions(snapshot: &mut Snapshot) {
    if let Some(ext) = &mut snapshot.ext {
        ext.next_actions.iter_mut().for_each(shorten);
    }
}

/// Fills the empty lists of a snapshot with the newest records that fit, of the claims first those that
/// are verified.
pub(super) fn show_newest(snapshot: &mut Snapshot, fold: &RunFold) {
    let used = snapshot.to_bytes().len() + VERDICT_BYTES;
    let room = SNAPSHOT_BYTES_MAX.saturating_sub(used);
    let (state, changes, window) = (&fold.state, &fold.state.changes, &fold.window);
    // Verified claims come first.
    let candidates = changes.claims.newest_first().filter(|id| !changes.verified.contains(id));
    let claims = changes.verified.newest_first().chain(candidates).filter_map(|id| {
        let record = short_claim(id, state.claims.get(id)?);
        // A cited chunk is listed twice more: as cited and as seen.
        let chunks = record.evidence_refs.iter().map(|one| 2 * shown_bytes(&*one.chunk_id));
        let bytes = shown_bytes(&record) + chunks.sum::<usize>();
        Some((record, bytes))
    });
    let claims = Candidates::of(claims, room);
    let conflicts = changes.conflicts.newest_first().filter_map(|id| {
        let record = short_conflict(id, state.conflicts.get(id)?);
        let sides = record.side_a_refs.iter().chain(&record.side_b_refs);
        let chunks = sides.map(|one| 2 * shown_bytes(&*one.chunk_id));
        let bytes = shown_bytes(&record) + chunks.sum::<usize>();
        Some((record, bytes))
    });
    let conflicts = Candidates::of(conflicts, room);
    let questions = state.questions.iter().rev().map(|(_, text)| short(text, STRING_BYTES_MAX));
    let questions = Candidates::plain(questions, room);
    let failures = changes.failures.newest_first();
    let failures = failures.filter_map(|id| Some(short_failure(id, state.failures.get(id)?)));
    let failures = Candidates::plain(failures, room);
    let constraints = changes.constraints.newest_first();
    let constraints =
        constraints.filter_map(|id| Some(short_constraint(id, state.constraints.get(id)?)));
    let constraints = Candidates::plain(constraints, room);
    let sources = Candidates::plain(state.coverage.sources.newest_first().cloned(), room);
    let manifests = window.manifest_ids.iter().rev().cloned();
    // Each is listed twice.
    let manifests = Candidates::of(
        manifests.map(|id| {
            let bytes = 2 * shown_bytes(&id);
            (id, bytes)
        }),
        room,
    );
    let whole = records::whole_diagnostics(fold).since_last;
    let filters = whole.filters_applied.into_iter().map(short_value);
    let filters = Candidates::plain(filters, room);
    let reasons = whole.excluded_by_reason.into_iter();
    let reasons = reasons.map(|(reason, count)| (short(&reason, STRING_BYTES_MAX), count));
    let reasons = Candidates::plain(reasons, room);
    let rerankers = Candidates::plain(whole.rerankers.into_iter(), room);
    let limits = Candidates::plain(whole.acceptance_thresholds_milli.into_iter(), room);
    let steps = Candidates::plain(whole.no_evidence_steps.into_iter().rev(), room);
    let shares = shares(
        &[
            claims.need,
            conflicts.need,
            questions.need,
            failures.need,
            constraints.need,
            sources.need,
            manifests.need,
            filters.need,
            reasons.need,
            rerankers.need,
            limits.need,
            steps.need,
        ],
        room,
    );
    let shown = &mut snapshot.state;
    shown.claims = claims.within(shares[0]).collect();
    shown.conflicts = conflicts.within(shares[1]).collect();
    shown.open_questions = reversed(questions.within(shares[2]));
    shown.failures = failures.within(shares[3]).collect();
    let cited = cited(&shown.claims, &shown.conflicts, &fold.state);
    shown.source_coverage.chunk_ids_seen.clone_from(&cited);
    shown.source_coverage.chunk_ids_cited = cited;
    shown.source_coverage.source_ids_seen = sorted(sources.within(shares[5]), Clone::clone);
    let constraints = sorted(constraints.within(shares[4]), |one| one.constraint_id.clone());
    if let Some(ext) = &mut snapshot.ext {
        ext.constraints = records::constraints(constraints);
    }
    let manifests = reversed(manifests.within(shares[6]));
    snapshot.latest_context_manifest_ids.clone_from(&manifests);
    let diagnostics = &mut snapshot.retrieval_diagnostics;
    diagnostics.manifest_ids = manifests;
    let since_last = &mut diagnostics.since_last;
    since_last.filters_applied = filters.within(shares[7]).collect();
    since_last.excluded_by_reason = reasons.within(shares[8]).collect();
    since_last.rerankers = rerankers.within(shares[9]).collect();
    since_last.acceptance_thresholds_milli = limits.within(shares[10]).collect();
    since_last.no_evidence_steps = reversed(steps.within(shares[11]));
}

fn sorted<T, K: Ord>(records: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut records: Vec<T> = records.collect();
    records.sort_by_key(key);
    records
}

fn reversed<T>(records: impl Iterator<Item = T>) -> Vec<T> {
    let mut records: Vec<T> = records.collect();
    records.reverse();
    records
}

/// The chunks that records cite, as far as the state knows them as cited.
fn cited(
    claims: &[ClaimRecord],
    conflicts: &[ConflictRecord],
    state: &RunState,
) -> Vec<SharedText> {
    let claims = claims.iter().flat_map(|claim| &claim.evidence_refs);
    let conflicts = conflicts.iter().flat_map(|one| one.side_a_refs.iter().chain(&one.side_b_refs));
    let chunks = claims.chain(conflicts).map(|evidence| &evidence.chunk_id);
    let known: BTreeSet<&SharedText> =
        chunks.filter(|chunk| state.coverage.cited.contains(*chunk)).collect();
    known.into_iter().cloned().collect()
}

/// How many records the whole state has.
pub(super) fn counts(state: &RunState) -> StateCounts {
    StateCounts {
        claims: state.claims.len() as u64,
        verified_claims: state.verified,
        conflicts: state.conflicts.len() as u64,
        open_questions: state.questions.len() as u64,
        failures: state.failures.len() as u64,
        constraints: state.constraints.len() as u64,
        source_ids_seen: state.coverage.sources.len() as u64,
        chunk_ids_seen: state.coverage.chunks.len() as u64,
        chunk_ids_cited: state.coverage.cited.len() as u64,
    }
}

/// The link of a snapshot whose shown lists are filled.
pub(super) fn link(fold: &RunFold, previous: Option<&Previous>, snapshot: &Snapshot) -> SpillFile {
    let chain = previous.and_then(|previous| previous.spill.clone());
    // The first link lists everything.
    let since = if chain.is_some() { fold.stamp } else { 0 };
    let (state, changes, coverage) = (&fold.state, &fold.state.changes, &fold.state.coverage);
    let new_refs = |id: &SharedText, claim: &ClaimState| match &chain {
        None => claim.refs.iter().map(records::pointer).collect(),
        Some(_) => {
            let from = (id.clone(), SharedText::from(""));
            let of_claim = changes.fresh_refs.range(from..).take_while(|(of, _)| of == id);
            of_claim
                .filter_map(|(_, id)| claim.refs.get_key_value(id))
                .map(records::pointer)
                .collect()
        }
    };
    let claim = |id: &SharedText| {
        let held = state.claims.get(id)?;
        let evidence_refs = new_refs(id, held);
        Some(ClaimRecord { evidence_refs, ..records::claim(id, held, usize::MAX) })
    };
    let whole_conflict =
        |id: &SharedText| Some(records::conflict(id, state.conflicts.get(id)?, usize::MAX));
    let failure = |id: &SharedText| Some(records::failure(id, state.failures.get(id)?));
    let constraint = |id: &SharedText| Some(records::constraint(id, state.constraints.get(id)?));
    let open = |(id, text): &(SharedText, SharedText)| OpenQuestion {
        question_id: id.clone(),
        text: text.clone(),
    };
    let alias = |id: &SharedText| Some((id.clone(), state.failure_aliases.get(id)?.clone()));
    let whole = records::whole_diagnostics(fold);
    let is_cut = whole != snapshot.retrieval_diagnostics;
    SpillFile {
        schema_version: SPILL_SCHEMA.to_owned(),
        run_id: snapshot.run_id.clone(),
        sequence: snapshot.sequence,
        counts: counts(state),
        claims: changes.claims.since(since).filter_map(claim).collect(),
        conflicts: changes.conflicts.since(since).filter_map(whole_conflict).collect(),
        questions_closed: match &chain {
            Some(_) => state.questions.closed().cloned().collect(),
            None => Vec::new(),
        },
        questions_opened: match &chain {
            Some(_) => state.questions.fresh().map(open).collect(),
            None => state.questions.iter().map(open).collect(),
        },
        failures: changes.failures.since(since).filter_map(failure).collect(),
        failure_aliases: match &chain {
            Some(_) => changes.fresh_aliases.iter().filter_map(alias).collect(),
            None => state.failure_aliases.clone(),
        },
        constraints: changes.constraints.since(since).filter_map(constraint).collect(),
        source_ids: coverage.sources.since(since).cloned().collect(),
        chunk_ids: match &chain {
            Some(_) => coverage.fresh.iter().cloned().collect(),
            None => coverage.chunks.iter().cloned().collect(),
        },
        since_last: is_cut.then_some(whole),
        previous: chain,
    }
}

impl SpillFile {
    /// Its bytes and the pointer to them.
    pub(super) fn encode(&self) -> Spill {
        let bytes =
            to_file(self).expect("a spill file has string keys and finite numbers").into_bytes();
        let reference = SpillRef {
            artifact: file_name(self.sequence),
            sha256: sha256(&bytes).hex(),
            counts: self.counts,
        };
        Spill { reference, bytes: Arc::new(bytes) }
    }

    /// The snapshot with the claims and conflicts that its checks must judge: the shown ones and those of
    /// this link. The checks of earlier snapshots judged the other records.
    pub(super) fn judged(&self, snapshot: &Snapshot, state: &RunState) -> Snapshot {
        let mut judged = snapshot.clone();
        let claims = std::mem::take(&mut judged.state.claims);
        let mut claims: BTreeMap<SharedText, ClaimRecord> =
            claims.into_iter().map(|claim| (claim.claim_id.clone(), claim)).collect();
        for changed in &self.claims {
            let Some(held) = state.claims.get(&changed.claim_id) else { continue };
            let mut record = records::claim(&changed.claim_id, held, REFS_SHOWN_MAX);
            record.evidence_refs.extend(changed.evidence_refs.iter().cloned());
            claims.insert(changed.claim_id.clone(), record);
        }
        judged.state.claims = claims.into_values().collect();
        let conflicts = std::mem::take(&mut judged.state.conflicts).into_iter();
        let conflicts = conflicts.chain(self.conflicts.iter().cloned());
        let conflicts: BTreeMap<SharedText, ConflictRecord> =
            conflicts.map(|one| (one.conflict_id.clone(), one)).collect();
        judged.state.conflicts = conflicts.into_values().collect();
        let cited = cited(&judged.state.claims, &judged.state.conflicts, state);
        judged.state.source_coverage.chunk_ids_cited = cited;
        judged
    }
}
