//! Replays every run under every setting. Settings that cut a run at the same places give the same
//! result and are compacted once. All reported figures come from real compactions.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::super::build::{BuildPass, SnapshotForm};
use super::super::compactor::Compactor;
use super::super::event::{Body, Class, RunEvent};
use super::super::trigger::Thresholds;
use super::super::window::{SinceSnapshot, Terminal};
use super::cost::CostSums;
use super::metrics::{ConstraintBreach, RunMetrics, measure};

/// The usual step fallbacks.
pub(super) const STEP_FALLBACKS: [u64; 6] = [2, 4, 6, 8, 12, 16];
/// Groups of runs whose costs are summed apart, so that runs can be drawn again at random.
const BLOCKS: usize = 64;

pub fn grid(event_thresholds: &[u64], step_fallbacks: &[u64]) -> Vec<Thresholds> {
    event_thresholds
        .iter()
        .flat_map(|&event_threshold| {
            step_fallbacks
                .iter()
                .map(move |&step_fallback| Thresholds { event_threshold, step_fallback })
        })
        .collect()
}

/// True when runs of whole steps, three events each, trigger by events and not by the fallback.
pub(super) fn keeps_order(thresholds: Thresholds) -> bool {
    thresholds.step_fallback.saturating_mul(3) >= thresholds.event_threshold
}

/// How far a setting is from the defaults: the tie-breaker, since a change needs a reason.
pub(super) fn strangeness(thresholds: Thresholds) -> u64 {
    let usual = Thresholds::default();
    thresholds.event_threshold.abs_diff(usual.event_threshold)
        + 3 * thresholds.step_fallback.abs_diff(usual.step_fallback)
}

/// What one setting costs over all runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRow {
    pub thresholds: Thresholds,
    pub snapshots: u64,
    /// Runs stopped because a snapshot failed its checks.
    pub(crate) failed_runs: u64,
    /// Snapshots, narratives and spilled records.
    pub(crate) bytes_written: u64,
    /// Time to fold every event.
    pub fold_ns: u64,
    /// Time to build, check and encode every snapshot.
    pub build_ns: u64,
    /// Events since the last snapshot, at every position of every run.
    pub tails: Tails,
    /// Events that no snapshot covers where a run broke off, verbose ones not counted.
    pub(crate) at_risk: Tails,
    /// Constraint violations with a snapshot between the last honouring and the violation.
    pub(crate) violations_after_compaction: u64,
    /// The parts of the cost, by group of runs.
    pub(crate) blocks: Vec<CostSums>,
}

/// A distribution of event counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tails(Vec<u64>);

impl Tails {
    pub fn note(&mut self, events: usize) {
        if self.0.len() <= events {
            self.0.resize(events + 1, 0);
        }
        self.0[events] += 1;
    }

    /// The mean, or 0 without values.
    pub fn mean(&self) -> f64 {
        let count: u64 = self.0.iter().sum();
        let sum: u64 = self.0.iter().zip(0u64..).map(|(count, events)| count * events).sum();
        if count == 0 { 0.0 } else { sum as f64 / count as f64 }
    }

    pub(crate) fn p95(&self) -> u64 {
        let count: u64 = self.0.iter().sum();
        let mut below = 0;
        for (share, events) in self.0.iter().zip(0..) {
            below += share;
            if below * 100 >= count * 95 {
                return events;
            }
        }
        0
    }

    pub fn max(&self) -> u64 {
        self.0.len().saturating_sub(1) as u64
    }

    fn add(&mut self, other: &Tails) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

impl SweepRow {
    fn new(thresholds: Thresholds) -> SweepRow {
        SweepRow {
            thresholds,
            snapshots: 0,
            failed_runs: 0,
            bytes_written: 0,
            fold_ns: 0,
            build_ns: 0,
            tails: Tails::default(),
            at_risk: Tails::default(),
            violations_after_compaction: 0,
            blocks: vec![CostSums::default(); BLOCKS],
        }
    }

    /// The parts of the cost over all runs.
    pub(crate) fn sums(&self) -> CostSums {
        let mut sums = CostSums::default();
        self.blocks.iter().for_each(|block| sums.add(block));
        sums
    }

    fn add(&mut self, other: &SweepRow) {
        self.snapshots += other.snapshots;
        self.failed_runs += other.failed_runs;
        self.bytes_written += other.bytes_written;
        self.fold_ns += other.fold_ns;
        self.build_ns += other.build_ns;
        self.tails.add(&other.tails);
        self.at_risk.add(&other.at_risk);
        self.violations_after_compaction += other.violations_after_compaction;
        for (mine, theirs) in self.blocks.iter_mut().zip(&other.blocks) {
            mine.add(theirs);
        }
    }
}

/// Where the runs come from: the n-th of them, made or read when it is needed.
pub trait RunSource: Sync {
    fn count(&self) -> usize;
    fn get(&self, index: usize) -> Vec<RunEvent>;
}

/// Rows in the order of the settings, and what the runs themselves say.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdSweep {
    pub rows: Vec<SweepRow>,
    /// Figures no setting changes.
    pub metrics: RunMetrics,
}

/// Sweeps all settings over all runs on every core; `progress` is called after each run.
pub fn sweep(
    runs: &dyn RunSource,
    settings: &[Thresholds],
    progress: &(dyn Fn() + Sync),
) -> ThresholdSweep {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(runs.count().max(1));
    let work = || {
        let mut part = empty(settings);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= runs.count() {
                return part;
            }
            add(&mut part, &one_run(&runs.get(index), settings, index % BLOCKS));
            progress();
        }
    };
    let mut total = empty(settings);
    thread::scope(|scope| {
        let parts: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for part in parts {
            match part.join() {
                Ok(part) => add(&mut total, &part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total
}

fn empty(settings: &[Thresholds]) -> ThresholdSweep {
    let rows = settings.iter().map(|thresholds| SweepRow::new(*thresholds)).collect();
    ThresholdSweep { rows, metrics: RunMetrics::default() }
}

fn add(total: &mut ThresholdSweep, part: &ThresholdSweep) {
    for (total, part) in total.rows.iter_mut().zip(&part.rows) {
        total.add(part);
    }
    total.metrics.add(&part.metrics);
}

fn one_run(events: &[RunEvent], settings: &[Thresholds], block: usize) -> ThresholdSweep {
    let (metrics, violations) = measure(events);
    let mut done: HashMap<Vec<usize>, SweepRow> = HashMap::new();
    let rows = settings
        .iter()
        .map(|thresholds| {
            let row = done
                .entry(cuts(events, *thresholds))
                .or_insert_with(|| replay(events, *thresholds, &violations, block));
            SweepRow { thresholds: *thresholds, ..row.clone() }
        })
        .collect();
    ThresholdSweep { rows, metrics }
}

/// How many events each snapshot covers: the trigger alone, without state.
fn cuts(events: &[RunEvent], thresholds: Thresholds) -> Vec<usize> {
    let mut window = SinceSnapshot::default();
    let mut newest = 0;
    let mut cuts = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if event.class() == Class::Verbose {
            continue;
        }
        let step = event.step_id.unwrap_or(0);
        if step > newest && thresholds.reached(&window) {
            cuts.push(index);
            window = SinceSnapshot::default();
        }
        newest = newest.max(step);
        let terminal = match &event.body {
            Body::PlanDone(_) => Some(Terminal::Plan),
            Body::ActDone(_) => Some(Terminal::Act),
            Body::ObserveDone(_) => Some(Terminal::Observe),
            _ => None,
        };
        window.enter_step(event.step_id);
        if let Some(terminal) = terminal {
            window.count(step, terminal, None);
        }
        if terminal == Some(Terminal::Observe) && thresholds.reached(&window) {
            cuts.push(index + 1);
            window = SinceSnapshot::default();
        }
    }
    cuts
}

fn replay(
    events: &[RunEvent],
    thresholds: Thresholds,
    violations: &[ConstraintBreach],
    block: usize,
) -> SweepRow {
    let mut row = SweepRow::new(thresholds);
    let mut compactor = Compactor::new(thresholds);
    let mut taken = Vec::new();
    let mut stopped = false;
    let mut begun = Instant::now();
    for (index, event) in events.iter().enumerate() {
        if !stopped && compactor.due_before(event) {
            row.fold_ns += elapsed(begun);
            stopped = !take(&mut compactor, &mut row, index, &mut taken);
            begun = Instant::now();
        }
        // A recorded log is read only up to its first event that does not fold.
        if compactor.fold(event).is_err() {
            break;
        }
        if !stopped && compactor.due() {
            row.fold_ns += elapsed(begun);
            stopped = !take(&mut compactor, &mut row, index + 1, &mut taken);
            begun = Instant::now();
        }
    }
    row.fold_ns += elapsed(begun);
    row.failed_runs = u64::from(stopped);
    note_tails(&mut row, events, &taken, block);
    let forgotten = violations.iter().filter(|violation| {
        taken.iter().any(|cut| *cut > violation.honoured && *cut <= violation.violated)
    });
    row.violations_after_compaction = forgotten.count() as u64;
    row
}

fn take(
    compactor: &mut Compactor,
    row: &mut SweepRow,
    covered: usize,
    taken: &mut Vec<usize>,
) -> bool {
    let begun = Instant::now();
    let built = compactor.build(BuildPass::First, SnapshotForm::Full);
    row.build_ns += elapsed(begun);
    let Some(built) = built.filter(|built| built.snapshot.passes()) else { return false };
    let spilled = built.spill.as_ref().map_or(0, |spill| spill.bytes.len());
    row.bytes_written += (built.bytes.len() + built.narrative.len() + spilled) as u64;
    row.snapshots += 1;
    taken.push(covered);
    compactor.adopt(built.previous);
    true
}

fn note_tails(row: &mut SweepRow, events: &[RunEvent], taken: &[usize], block: usize) {
    let mut taken_so_far = taken.iter().peekable();
    let mut covered = 0;
    let mut sums = CostSums { bytes: row.bytes_written, ..CostSums::default() };
    let mut longest = 0;
    for (read, event) in (1..).zip(events) {
        while let Some(cut) = taken_so_far.next_if(|cut| **cut <= read) {
            covered = *cut;
        }
        let tail = read - covered;
        row.tails.note(tail);
        // Until the first snapshot the age is that of the run.
        let since = events[covered.saturating_sub(1)].ts;
        sums.events += 1;
        sums.tail_events += tail as u64;
        sums.age_ms += u64::try_from(event.ts.ms_since(since)).unwrap_or(0);
        longest = longest.max(tail as u64);
    }
    sums.longest_tails = longest * sums.events;
    row.blocks[block] = sums;
    let broke_off = !events.last().is_some_and(|event| matches!(event.body, Body::RunStopped(_)));
    if broke_off {
        let uncovered = events.iter().skip(covered);
        row.at_risk.note(uncovered.filter(|event| event.class() != Class::Verbose).count());
    }
}

fn elapsed(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Generated runs: see [`super::shapes`].
#[derive(Debug, Clone, Copy)]
pub struct Generated {
    /// Seed of all runs.
    pub seed: u64,
    pub runs: usize,
    /// Mean events of a run.
    pub events: usize,
}

impl RunSource for Generated {
    fn count(&self) -> usize {
        self.runs
    }

    fn get(&self, index: usize) -> Vec<RunEvent> {
        super::shapes::generate(self.seed, index as u64, self.events)
    }
}

/// Recorded runs, read and known to fold.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedRuns(pub Vec<Vec<RunEvent>>);

impl RunSource for RecordedRuns {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Vec<RunEvent> {
        self.0[index].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid for tests that need many settings.
    const THRESHOLDS: [u64; 6] = [3, 6, 9, 18, 30, 48];

    const RUNS: Generated = Generated { seed: 3, runs: 10, events: 200 };

    #[test]
    fn the_bare_trigger_cuts_where_the_compactor_does() {
        for index in 0..RUNS.runs {
            let events = RUNS.get(index);
            for thresholds in grid(&THRESHOLDS, &STEP_FALLBACKS) {
                let mut compactor = Compactor::new(thresholds);
                let mut taken = Vec::new();
                let mut row = SweepRow::new(thresholds);
                for (index, event) in events.iter().enumerate() {
                    if compactor.due_before(event) {
                        assert!(take(&mut compactor, &mut row, index, &mut taken));
                    }
                    compactor.fold(event).unwrap();
                    if compactor.due() {
                        assert!(take(&mut compactor, &mut row, index + 1, &mut taken));
                    }
                }
                assert_eq!(taken, cuts(&events, thresholds), "run {index} {thresholds:?}");
            }
        }
    }

    #[test]
    fn more_snapshots_leave_shorter_tails() {
        let settings = grid(&[6, 48], &[16]);
        let swept = sweep(&RUNS, &settings, &|| {});
        let [often, seldom] = &swept.rows[..] else { panic!() };
        assert!(often.snapshots > seldom.snapshots);
        assert!(often.bytes_written > seldom.bytes_written);
        assert!(often.tails.mean() < seldom.tails.mean());
        assert_eq!(swept.metrics.runs, 10);
    }

    #[test]
    fn figures_that_are_not_times_are_the_same_every_time() {
        let strip = |mut swept: ThresholdSweep| {
            for row in &mut swept.rows {
                (row.fold_ns, row.build_ns) = (0, 0);
            }
            swept.rows
        };
        let settings = grid(&[9, 18], &[4, 8]);
        assert_eq!(strip(sweep(&RUNS, &settings, &|| {})), strip(sweep(&RUNS, &settings, &|| {})));
    }

    #[test]
    fn mean_and_p95_and_longest_come_from_all_tails() {
        let mut tails = Tails::default();
        (1..=100).for_each(|events| tails.note(events));
        assert_eq!((tails.mean(), tails.p95(), tails.max()), (50.5, 95, 100));
    }
}
