//! What the tables say about the requests of a batch, looked up before the requests are decided.
//!
//! Contract. A parser thread looks at the tables of one checkpoint: all digests of a batch in one
//! sweep, then the rows and endings of the few requests that are known. The result may be used as
//! long as memory holds every event after that checkpoint ([`Foresight::holds`]). Then the result
//! and the log give the same answers, because memory is asked first. It only saves time: what it
//! does not know is asked of the log.
//!
//! See docs/adr/0078-looking-up-a-batch-in-advance.md.

use std::collections::BTreeMap;

use crate::contract::ids::{KeyIndex, Seq};
use crate::log::{LogError, Lookup, ReadError, Reader, codec};
use crate::sequencer::line::Line;
use crate::sequencer::past::PastView;
use crate::state::event::{AckHead, Event, Output, TakenRequest};
use crate::state::{Digest16, Past, Row};

/// What the tables say about the lines of a batch.
#[derive(Debug, Default)]
pub struct Foresight {
    /// The checkpoint of the tables that were looked at.
    applied: Seq,
    /// For each line the request with its request id, and the request with its key.
    known: Vec<[Option<Seq>; 2]>,
    rows: BTreeMap<Seq, Row>,
    outputs: BTreeMap<Seq, Output>,
}

impl Foresight {
    pub fn of(log: &Reader, lines: &[Line]) -> Result<Foresight, ReadError> {
        let tables = log.lookup()?;
        let ids = values(&tables, KeyIndex::RequestId, lines)?;
        let keys = values(&tables, KeyIndex::Idempotency, lines)?;
        let mut there: Vec<Seq> = ids.iter().chain(&keys).flatten().copied().collect();
        there.sort_unstable();
        there.dedup();
        let mut rows = BTreeMap::new();
        tables.rows::<ReadError>(&there, &mut |seq, bytes| {
            let row = codec::decode_row(bytes);
            rows.insert(seq, row.map_err(|source| ReadError::Event { seq, source })?);
            Ok(())
        })?;
        let mut outputs = BTreeMap::new();
        let holders = keys.iter().flatten().filter_map(|holder| rows.get(holder));
        for row in holders.filter(|row| row.status.has_output()) {
            if let Some(output) = log.event(row.last)?.as_ref().and_then(Event::output) {
                outputs.insert(row.last, output);
            }
        }
        let known = ids.into_iter().zip(keys).map(|(id, key)| [id, key]).collect();
        Ok(Foresight { applied: tables.applied(), known, rows, outputs })
    }

    /// Whether memory holds every event after the tables that were looked at. Memory keeps the events
    /// after `checkpoint`: when that checkpoint is newer than the look, events in between are in
    /// neither.
    pub fn holds(&self, checkpoint: Seq) -> bool {
        self.applied >= checkpoint
    }

    /// The event that ended the request which holds the key of a line, if it has an output.
    pub(super) fn ended(&self, line: usize) -> Option<Seq> {
        let [_, key] = self.known.get(line)?;
        let row = self.rows.get(key.as_ref()?)?;
        row.status.has_output().then_some(row.last)
    }

    /// The past for the decision about one line.
    pub fn past<'a>(
        &'a self,
        line: usize,
        request: &TakenRequest,
        log: PastView<'a>,
    ) -> Foreseen<'a> {
        let asked = [request.id.head(), request.key.head()];
        Foreseen { foresight: self, known: self.known.get(line).map(|known| (asked, known)), log }
    }
}

/// One value for each line. A bad line has a digest that no request has, so that places stay equal.
fn values(tables: &Lookup, index: KeyIndex, lines: &[Line]) -> Result<Vec<Option<Seq>>, LogError> {
    let digest = |line: &Line| match line {
        Line::Request(arrival) if index == KeyIndex::RequestId => arrival.request.id.head(),
        Line::Request(arrival) => arrival.request.key.head(),
        Line::Bad(_) => Digest16::default(),
    };
    let values = tables.find_all(index, lines.iter().map(digest))?;
    Ok(values.into_iter().map(|value| value.map(Seq)).collect())
}

/// A past that knows some answers already.
pub struct Foreseen<'a> {
    foresight: &'a Foresight,
    known: Option<([Digest16; 2], &'a [Option<Seq>; 2])>,
    log: PastView<'a>,
}

impl Past for Foreseen<'_> {
    type Error = ReadError;

    fn find(&self, index: KeyIndex, digest: &Digest16) -> Result<Option<Seq>, ReadError> {
        let slot = match index {
            KeyIndex::RequestId => 0,
            KeyIndex::Idempotency => 1,
            KeyIndex::SummaryId => return self.log.find(index, digest),
        };
        match self.known {
            Some((asked, known)) if asked[slot] == *digest => Ok(known[slot]),
            _ => self.log.find(index, digest),
        }
    }

    fn row(&self, request: Seq) -> Result<Option<Row>, ReadError> {
        match self.foresight.rows.get(&request) {
            Some(row) => Ok(Some(*row)),
            None => self.log.row(request),
        }
    }

    fn taken(&self, request: Seq) -> Result<TakenRequest, ReadError> {
        self.log.taken(request)
    }

    fn head(&self, request: Seq) -> Result<AckHead, ReadError> {
        self.log.head(request)
    }

    fn output(&self, ended: Seq) -> Result<Output, ReadError> {
        match self.foresight.outputs.get(&ended) {
            Some(output) => Ok(output.clone()),
            None => self.log.output(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::contract::hash::{Digest, sha256};
    use crate::contract::request::Request;
    use crate::contract::vocabulary::{QuarantineReason, Stream, Warnings};
    use crate::seam::arrival::arrival;
    use crate::sequencer::engine::{CheckpointWhen, Engine, SessionStart, Slots};
    use crate::sequencer::fixture::{self, Everything, NOW, request_line};
    use crate::state::decide::{Failed, Outcome, Report, RetryHint};
    use crate::state::event::{BadLine, RawLine, SummaryPointer};

    fn engine() -> Engine {
        let mut engine = fixture::engine(23);
        let run = SessionStart {
            run_id: "run".into(),
            command: "test".into(),
            version: "0".into(),
            config: Digest::ZERO,
            host: crate::facts::session::Host::default(),
        };
        engine.begin_session(run, NOW).unwrap();
        engine
    }

    /// Pseudo-random numbers for one place in a history.
    fn chance(seed: u64, at: usize) -> [usize; 8] {
        let hash = sha256(format!("{seed} {at}")).0;
        std::array::from_fn(|n| hash[n].into())
    }

    /// Lines that often repeat an earlier id or key.
    fn batch(seed: u64, number: usize) -> Vec<Line> {
        let line = |at: usize| {
            let [id, key, work, bad, ..] = chance(seed, number * 100 + at);
            let key = if id % 3 == 0 { id % 120 } else { 200 + key % 60 };
            let (id, event, key) =
                (format!("id-{}", id % 120), format!("e{}", work % 2), format!("key-{key}"));
            let line = request_line(&id, &event, &key);
            let place = ((number * 100 + at) as u64, 0);
            match Request::parse(line.as_bytes()) {
                Ok(request) if bad > 20 => {
                    Line::Request(arrival(request, place, line.into_bytes().into(), &Everything))
                }
                _ => Line::Bad(Box::new(BadLine {
                    line: place.0,
                    offset: 0,
                    length: line.len() as u64,
                    sha256: sha256(&line),
                    reason: QuarantineReason::MalformedJson,
                    request_id: None,
                    errors: Vec::new(),
                    errors_omitted: 0,
                    raw: RawLine::Whole(line.into()),
                })),
            }
        };
        (0..chance(seed, number)[0] % 14).map(line).collect()
    }

    /// What follows the lines of a batch: some attempts end, in different ways, and a commit.
    fn go_on(engine: &mut Engine, seed: u64) -> Vec<Event> {
        while engine.settle(NOW).unwrap() {}
        engine.start_ready(Slots::of(5), NOW).unwrap();
        let running = engine.state().running().map(|(request, open)| (request, open.row.attempts));
        let epoch = engine.state().epoch();
        for (request, attempt) in running.collect::<Vec<_>>() {
            let summary = SummaryPointer {
                summary_id: format!("sum_{:032x}", request.0),
                stream: Stream::Events,
                day: "2026-03-01".parse().unwrap(),
            };
            let (input, warnings) = (Box::default(), Warnings::default());
            let outcome = match chance(seed, request.0 as usize)[5] % 4 {
                0 => continue,
                1 => Outcome::Failed(Failed {
                    again: RetryHint::Never,
                    reason: None,
                    cause: None,
                    message: String::new(),
                    input,
                    error: None,
                }),
                _ => Outcome::Produced {
                    summary,
                    item: b"{}".to_vec(),
                    warnings,
                    input,
                    provenance: None,
                },
            };
            engine.report(Report { request, attempt, epoch, outcome }, NOW).unwrap();
        }
        let committed = engine.finish().unwrap();
        let sealed = engine.seal(None, CheckpointWhen::Due, &[], NOW).unwrap();
        // The next look-up must not depend on how fast the writer is.
        while sealed && engine.written().is_empty() {
            std::thread::yield_now();
        }
        committed.iter().map(|committed| committed.event.clone()).collect()
    }

    #[test]
    fn the_same_events_follow_with_and_without_a_look_ahead() {
        let (mut used, mut there) = (0, 0);
        for seed in 0..12 {
            let (mut plain, mut foreseen) = (engine(), engine());
            let mut ahead = VecDeque::new();
            for number in 0..60 {
                for line in batch(seed, number) {
                    match line {
                        Line::Request(arrival) => plain.arrival(arrival, NOW).unwrap(),
                        Line::Bad(bad) => plain.bad_line(*bad, NOW).unwrap(),
                    }
                }
                // Up to four batches ahead, each with the tables of that moment.
                let until = number + 1 + chance(seed, number)[6] % 5;
                for later in number + ahead.len()..until {
                    let lines = batch(seed, later);
                    let foresight = Foresight::of(foreseen.log(), &lines).unwrap();
                    ahead.push_back((lines, foresight));
                }
                let (lines, foresight) = ahead.pop_front().unwrap();
                used += usize::from(foresight.holds(foreseen.checkpoint_at()));
                there += foresight.outputs.len();
                foreseen.lines(lines, foresight, NOW).unwrap();
                assert_eq!(go_on(&mut foreseen, seed), go_on(&mut plain, seed), "{seed}/{number}");
            }
        }
        assert!((200..700).contains(&used), "{used} of 720 looks held");
        assert!(there > 100, "{there} outputs were found");
    }
}
