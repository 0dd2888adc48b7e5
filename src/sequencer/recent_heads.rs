//! What acks repeat about the requests that were taken in last.
//!
//! Contract. [`RecentHeads::find`] gives the head that the log gives for the same request, or `None`. An
//! ending and an ack of a parked request need the head of an earlier request; without this memory each of
//! them unpacks a whole frame for a few dozen bytes. When the limit is reached, the oldest heads are
//! forgotten. Nothing is read back after a start: then the log answers.
//!
//! See docs/adr/0124-heads-of-recent-requests.md.

use std::collections::VecDeque;

use crate::contract::ids::Seq;
use crate::state::event::AckHead;

/// Bytes of heads that stay in memory: about 150,000 requests with ids and keys of 30 bytes.
const BYTES_MAX: usize = 16 << 20;
/// Requests in a page, which is forgotten as a whole.
const PAGE_REQUESTS: usize = 512;

/// Pages of heads, oldest first.
pub(super) struct RecentHeads {
    pages: VecDeque<Page>,
    bytes: usize,
    bytes_max: usize,
}

/// Heads in the order of their requests, with their texts one behind another: a head takes no memory of
/// its own.
#[derive(Default)]
struct Page {
    places: Vec<Place>,
    texts: String,
}

struct Place {
    request: Seq,
    line: u64,
    offset: u64,
    /// Where its request id begins in the texts of the page, and where its key begins and ends.
    id: usize,
    key: usize,
    end: usize,
}

impl Default for RecentHeads {
    fn default() -> RecentHeads {
        RecentHeads::with_limit(BYTES_MAX)
    }
}

impl RecentHeads {
    fn with_limit(bytes_max: usize) -> RecentHeads {
        RecentHeads { pages: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Remembers the head of a request that is newer than every other one here.
    pub(super) fn note(&mut self, request: Seq, head: &AckHead) {
        let last = self.pages.back();
        if last.is_none_or(|page| page.places.len() == PAGE_REQUESTS) {
            let page = last.map(Page::like).unwrap_or_default();
            self.bytes += page.bytes();
            self.pages.push_back(page);
        }
        if let Some(page) = self.pages.back_mut() {
            self.bytes += page.note(request, head);
        }
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.pages.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    pub(super) fn find(&self, request: Seq) -> Option<AckHead> {
        let after = self.pages.partition_point(|page| page.first() <= Some(request));
        self.pages.get(after.checked_sub(1)?)?.find(request)
    }
}

impl Page {
    fn first(&self) -> Option<Seq> {
        self.places.first().map(|place| place.request)
    }

    /// An empty page with room for as much.
    fn like(full: &Page) -> Page {
        Page {
            places: Vec::with_capacity(full.places.len()),
            texts: String::with_capacity(full.texts.len()),
        }
    }

    fn bytes(&self) -> usize {
        self.texts.capacity() + self.places.capacity() * size_of::<Place>()
    }

    /// Returns by how much the page grew.
    fn note(&mut self, request: Seq, head: &AckHead) -> usize {
        let AckHead { request_id, key: its_key, line, offset } = head;
        let before = self.bytes();
        let id = self.texts.len();
        self.texts.push_str(request_id);
        let key = self.texts.len();
        self.texts.push_str(its_key);
        let (line, offset, end) = (*line, *offset, self.texts.len());
        self.places.push(Place { request, line, offset, id, key, end });
        self.bytes() - before
    }

    fn find(&self, request: Seq) -> Option<AckHead> {
        let at = self.places.binary_search_by_key(&request, |place| place.request).ok()?;
        let Place { line, offset, id, key, end, .. } = self.places[at];
        Some(AckHead {
            request_id: self.texts[id..key].to_owned(),
            key: self.texts[key..end].to_owned(),
            line,
            offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    use super::*;
    use crate::contract::request::Request;
    use crate::contract::vocabulary::{Stream, Warnings};
    use crate::log::{LogError, Reader};
    use crate::seam::arrival::arrival;
    use crate::sequencer::engine::{CheckpointWhen, Engine, Slots};
    use crate::sequencer::fixture::{Everything, NOW, engine, request_line};
    use crate::state::decide::{Outcome, Report};
    use crate::state::event::{Event, SummaryPointer};

    fn take(engine: &mut Engine, id: &str, key: &str) {
        let line = request_line(id, "e1", key);
        let request = Request::parse(line.as_bytes()).unwrap();
        let place = (3, 90 + id.len() as u64);
        engine
            .arrival(arrival(request, place, line.into_bytes().into(), &Everything), NOW)
            .unwrap();
    }

    fn commit(engine: &mut Engine) {
        engine.commit(None, CheckpointWhen::Due, &[], NOW).unwrap();
    }

    /// Makes an item for each request that may start.
    fn finish_all(engine: &mut Engine) {
        engine.start_ready(Slots::of(100), NOW).unwrap();
        let running = engine.state().running().map(|(request, open)| (request, open.row.attempts));
        let epoch = engine.state().epoch();
        for (request, attempt) in running.collect::<Vec<_>>() {
            let summary = SummaryPointer {
                summary_id: format!("sum_{:032x}", request.0),
                stream: Stream::Events,
                day: "2026-03-01".parse().unwrap(),
            };
            let outcome = Outcome::Produced {
                summary,
                item: b"{}".to_vec(),
                warnings: Warnings::default(),
                input: Box::default(),
                provenance: None,
            };
            engine.report(Report { request, attempt, epoch, outcome }, NOW).unwrap();
        }
        while engine.settle(NOW).unwrap() {}
    }

    /// Which head each ending repeats, and how often a parked line names the request it waits for.
    fn repeated(log: &Reader) -> (BTreeMap<Seq, AckHead>, BTreeMap<String, usize>) {
        let (mut ended, mut named) = (BTreeMap::new(), BTreeMap::<String, usize>::new());
        log.try_scan::<LogError>(Seq(1), None, |entry| {
            match entry.event().unwrap() {
                Event::SummaryProduced { request, head, .. }
                | Event::RequestDuplicated { request, head, .. } => {
                    ended.insert(request, head);
                }
                Event::RequestParked { behind_request_id, .. } => {
                    *named.entry(behind_request_id).or_default() += 1;
                }
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        (ended, named)
    }

    #[test]
    fn parked_lines_and_endings_read_no_frame_for_a_recent_request() {
        let mut engine = engine(1000);
        for (id, key) in [("a", "x"), ("b", "y"), ("c", "z")] {
            take(&mut engine, id, key);
        }
        commit(&mut engine);
        for (id, key) in [("d", "x"), ("e", "x"), ("f", "y")] {
            take(&mut engine, id, key);
        }
        commit(&mut engine);
        finish_all(&mut engine);
        commit(&mut engine);
        assert_eq!(engine.state().open_count(), 0);
        assert_eq!(engine.log().frames_in_memory(), 0);
        let (ended, named) = repeated(engine.log());
        assert_eq!(ended.len(), 6);
        assert_eq!(named, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 1)]));
        for (request, head) in ended {
            let taken = engine.log().event(request).unwrap();
            assert_eq!(taken.as_ref().and_then(Event::taken).map(|taken| &taken.head), Some(&head));
        }
    }

    fn head(number: u64) -> AckHead {
        let request_id = format!("é-{number}");
        let key = "k".repeat((number % 7) as usize);
        AckHead { request_id, key, line: number + 1, offset: 800 * number }
    }

    /// Every third event takes a request in.
    fn noted(requests: u64, bytes_max: usize) -> RecentHeads {
        let mut heads = RecentHeads::with_limit(bytes_max);
        for number in 0..requests {
            heads.note(Seq(1 + 3 * number), &head(number));
        }
        heads
    }

    #[test]
    fn a_remembered_head_is_the_noted_one_and_other_events_have_none() {
        let heads = noted(1500, BYTES_MAX);
        for number in 0..1500 {
            assert_eq!(heads.find(Seq(1 + 3 * number)), Some(head(number)));
            assert_eq!(heads.find(Seq(2 + 3 * number)), None);
        }
        assert_eq!(heads.find(Seq(0)), None);
        assert_eq!(noted(0, BYTES_MAX).find(Seq(1)), None);
    }

    #[test]
    fn the_oldest_heads_are_forgotten_at_the_limit() {
        let (requests, bytes_max) = (9_000, 150_000);
        let heads = noted(requests, bytes_max);
        let is_known = |number: &u64| heads.find(Seq(1 + 3 * number)).is_some();
        let first = (0..requests).find(is_known).unwrap();
        assert!(
            (first..requests).all(|number| heads.find(Seq(1 + 3 * number)) == Some(head(number)))
        );
        let bytes: usize = heads.pages.iter().map(Page::bytes).sum();
        assert_eq!(bytes, heads.bytes);
        assert!(
            (bytes_max - 2 * heads.pages[0].bytes()..=bytes_max).contains(&bytes),
            "{bytes} bytes"
        );
    }

    #[test]
    fn a_head_above_the_limit_is_forgotten_immediately() {
        let mut heads = RecentHeads::with_limit(1_000);
        heads.note(Seq(1), &AckHead { request_id: "r".repeat(1_001), ..head(1) });
        heads.note(Seq(2), &head(2));
        assert_eq!((heads.find(Seq(1)), heads.find(Seq(2))), (None, Some(head(2))));
    }
}
