//! What models cost on the latest days, from committed events: those before the start are read from
//! the log once, in a thread of its own; later events are counted when they are committed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::log::codec::MODEL_CHARGED;
use crate::log::{LogError, ReadError, Reader};
use crate::projections::runs::described;
use crate::state::event::{Charge, Event};

/// Days that are told.
const DAYS_MAX: usize = 31;
/// How far back the log is read for them, in milliseconds.
const BACK_MS: i64 = 32 * 86_400_000;

/// The sums, by day and provider.
#[derive(Default)]
pub(super) struct Spend {
    days: Mutex<BTreeMap<Day, BTreeMap<String, Sum>>>,
    /// What was before the start is in the sums.
    is_whole: AtomicBool,
}

#[derive(Default, Clone)]
struct Sum {
    calls: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_nanos: u64,
    estimated: u64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cost_nanos += other.cost_nanos;
        self.estimated += other.estimated;
    }

    fn to_json(&self) -> Value {
        json!({
            "calls": self.calls, "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens, "cost": self.cost_nanos as f64 / 1e9,
            "estimated_calls": self.estimated,
        })
    }
}

impl Spend {
    pub(super) fn take(&self, charge: &Charge) {
        let mut days = self.days.lock();
        let sum = days.entry(charge.day).or_default().entry(charge.provider.clone()).or_default();
        sum.add(&Sum {
            calls: 1,
            input_tokens: charge.input_tokens,
            output_tokens: charge.output_tokens,
            cost_nanos: charge.cost_nanos,
            estimated: u64::from(charge.estimated),
        });
        while days.len() > DAYS_MAX {
            days.pop_first();
        }
    }

    /// Reads what the log held at the start.
    pub(super) fn read(&self, log: &Reader, until: Seq, now: Timestamp) {
        match self.read_from(log, until, now) {
            Ok(()) => self.is_whole.store(true, Ordering::Release),
            Err(error) => {
                let error = described(&error);
                tracing::warn!(error, "the cost of earlier days cannot be shown");
            }
        }
    }

    fn read_from(&self, log: &Reader, until: Seq, now: Timestamp) -> Result<(), ReadError> {
        let from = first_since(log, until, now.plus_ms(-BACK_MS))?;
        log.try_scan(from, Some(until), |entry| {
            if entry.tag == MODEL_CHARGED
                && let Event::ModelCharged { charge, .. } = entry.event()?
            {
                self.take(&charge);
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// The days, newest first.
    pub(super) fn to_json(&self) -> Value {
        let days = self.days.lock();
        let rows: Vec<Value> = days
            .iter()
            .rev()
            .map(|(day, providers)| {
                let mut all = Sum::default();
                providers.values().for_each(|sum| all.add(sum));
                let mut row = all.to_json();
                row["day"] = day.to_string().into();
                row["providers"] =
                    providers.iter().map(|(name, sum)| (name.clone(), sum.to_json())).collect();
                row
            })
            .collect();
        json!({"days": rows, "whole": self.is_whole.load(Ordering::Acquire)})
    }
}

/// A record from which on everything is at least as new, as far as clocks do not jump.
fn first_since(log: &Reader, until: Seq, moment: Timestamp) -> Result<Seq, LogError> {
    let (mut low, mut high) = (1, until.0.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        match log.get(Seq(middle))? {
            Some(record) if record.at >= moment => high = middle,
            _ => low = middle + 1,
        }
    }
    Ok(Seq(low))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::log::{Commit, NewRecord, Options, Store, codec};
    use crate::os::Disk;
    use crate::os::sim::SimDisk;

    fn charge(day: &str, provider: &str) -> Charge {
        Charge {
            provider: provider.to_owned(),
            model: "m".to_owned(),
            day: day.parse().unwrap(),
            input_tokens: 10,
            output_tokens: 5,
            cost_nanos: 1_500_000_000,
            estimated: provider == "b",
        }
    }

    #[test]
    fn days_are_summed_by_provider_and_bounded() {
        let spend = Spend::default();
        for provider in ["a", "a", "b"] {
            spend.take(&charge("2026-01-02", provider));
        }
        for day in 1..=28 {
            spend.take(&charge(&format!("2026-02-{day:02}"), "a"));
            spend.take(&charge(&format!("2026-03-{day:02}"), "a"));
        }
        let told = spend.to_json();
        let days = told["days"].as_array().unwrap();
        assert_eq!((days.len(), &told["whole"]), (DAYS_MAX, &json!(false)));
        assert_eq!(days[0]["day"], "2026-03-28");
        let spend = Spend::default();
        for provider in ["a", "a", "b"] {
            spend.take(&charge("2026-01-02", provider));
        }
        let told = spend.to_json();
        let day = &told["days"][0];
        assert_eq!((&day["cost"], &day["calls"]), (&json!(4.5), &json!(3)));
        assert_eq!(day["providers"]["a"]["input_tokens"], 20);
        assert_eq!(day["providers"]["b"]["estimated_calls"], 1);
    }

    #[test]
    fn a_charge_that_does_not_decode_is_an_error_with_its_event() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let path = Path::new("/log.redb");
        let options = Options::beside(path);
        let mut store = Store::open(disk, path, options, [7; 16], &mut |_| {}).unwrap();
        let record = |payload: &[u8]| NewRecord {
            at: Timestamp(0),
            tag: MODEL_CHARGED,
            version: 1,
            payload: payload.to_vec(),
            body: None,
        };
        let charge = charge("2026-01-02", "a");
        let event = Event::ModelCharged { request: Seq(1), attempt: 1, charge };
        let records = [record(&codec::encode(&event).2), record(b"no charge")];
        let commit = Commit { first: Seq(1), records: &records, mark: b"", checkpoint: None };
        store.append(commit).unwrap();
        let error = Spend::default().read_from(&store.reader(), Seq(2), Timestamp(0)).unwrap_err();
        assert!(matches!(error, ReadError::Event { seq: Seq(2), .. }), "{error:?}");
        Spend::default().read_from(&store.reader(), Seq(1), Timestamp(0)).unwrap();
    }
}
