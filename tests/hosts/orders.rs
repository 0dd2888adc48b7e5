//! Orders on their way to the leader and back, with lost answers, late calls and leaders that are deposed and go on.
//! An order is carried out once at most, and what its giver is told is true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use summarizer::cluster::orders::{Asking, OrderError, OrderTaking};
use summarizer::cluster::shared_log::{Member, SharedLog as _};
use summarizer::cluster::shared_orders::OrderAnswer;
use summarizer::contract::ids::Seq;

use super::plain::GENESIS;
use super::simulated::{Connection, Database};
use crate::support::{Rng, deep};

const LEASE: Duration = Duration::from_millis(100);

/// How often each order was carried out.
type Counts = Arc<Mutex<BTreeMap<Vec<u8>, u64>>>;

#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    not_taken: u64,
    no_answer: u64,
}

fn connection(database: &Arc<Mutex<Database>>) -> Connection {
    Connection(Arc::clone(database))
}

/// A start of a host that gets the lead.
fn desk(database: &Arc<Mutex<Database>>, start: u64, counts: &Counts) -> OrderTaking {
    let me = Member { host: "leads".to_owned(), start };
    loop {
        database.lock().clock_ms += 500;
        if let Ok(Some(_)) = connection(database).claim(&me, LEASE) {
            break;
        }
    }
    let counts = Arc::clone(counts);
    let carry_out = move |order: &[u8]| {
        *counts.lock().entry(order.to_vec()).or_default() += 1;
        OrderAnswer { bytes: [b"did ", order].concat(), seq: Seq(start) }
    };
    OrderTaking::new(me, Box::new(carry_out))
}

fn history(seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let database = Arc::new(Mutex::new(Database::new(seed, GENESIS)));
    let counts = Counts::default();
    let mut desks = vec![desk(&database, 1, &counts)];
    let faults = rng.below(60);
    // In some histories nobody takes orders for a while.
    let away = if rng.chance(20) { 25_000 } else { 0 };
    let (me, mut list) = (Member { host: "follows".to_owned(), start: 1 }, connection(&database));
    let mut told = Vec::new();
    for number in 0u64..3 {
        let (id, order) = (format!("{seed}-{number}"), number.to_le_bytes());
        let mut asking = Asking::new(&me, &id, &order);
        let begun = database.lock().clock_ms;
        database.lock().faults = faults;
        let answered = loop {
            let after = {
                let mut database = database.lock();
                database.clock_ms += 50 + rng.below(1000);
                if rng.chance(30) {
                    database.land_late();
                }
                database.clock_ms - begun
            };
            if after >= away {
                let at = rng.below(desks.len() as u64) as usize;
                let _ = desks[at].step(&mut connection(&database));
            }
            if rng.chance(2) {
                let start = desks.len() as u64 + 1;
                desks.push(desk(&database, start, &counts));
            }
            let after = Duration::from_millis(after);
            match asking.step(&mut list, after) {
                Ok(Some(answered)) => break answered,
                Ok(None) => {}
                Err(error) => {
                    if let Some(error) = asking.failed(error, after) {
                        break Err(error);
                    }
                }
            }
            assert!(after < Duration::from_secs(200), "seed {seed}: nobody is told anything");
        };
        told.push((order, answered));
    }
    // Whatever is still under way lands, and everybody looks once more.
    database.lock().faults = 0;
    for _ in 0..200 {
        database.lock().land_late();
        for desk in &mut desks {
            desk.step(&mut connection(&database)).unwrap();
        }
    }
    for (order, answered) in told {
        let count = counts.lock().get(&order[..]).copied().unwrap_or(0);
        assert!(count <= 1, "seed {seed}: an order was carried out {count} times");
        match answered {
            Ok(answer) => {
                assert_eq!((count, answer.bytes), (1, [b"did ", &order[..]].concat()), "{seed}");
                tally.answered += 1;
            }
            Err(OrderError::NotTaken) => {
                assert_eq!(count, 0, "seed {seed}: an order that nobody took was carried out");
                tally.not_taken += 1;
            }
            Err(OrderError::NoAnswer) => tally.no_answer += 1,
            Err(OrderError::NotGiven(_)) => {
                assert_eq!(count, 0, "seed {seed}: it was never given");
            }
        }
    }
}

#[test]
fn an_order_is_carried_out_once_at_most_and_its_giver_hears_the_truth() {
    let mut tally = Tally::default();
    let seeds = if deep() { 50_000 } else { 3000 };
    match std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => history(seed, &mut tally),
        None => (0..seeds).for_each(|seed| history(seed, &mut tally)),
    }
    println!("{tally:?}");
    if std::env::var_os("SIM_SEED").is_none() {
        let Tally { answered, not_taken, no_answer } = tally;
        assert!(
            answered > seeds && not_taken > 50 && no_answer > 50,
            "without these it proves nothing"
        );
    }
}

/// A giving that may have been lost is repeated: the order is not given up for that.
#[test]
fn an_order_whose_giving_has_no_answer_is_given_again() {
    let database = Arc::new(Mutex::new(Database::new(5, GENESIS)));
    let counts = Counts::default();
    let mut taking = desk(&database, 1, &counts);
    let me = Member { host: "follows".to_owned(), start: 1 };
    let (mut list, mut asking) = (connection(&database), Asking::new(&me, "one", b"pause"));
    // Nothing of it arrives now; a copy comes when everything is over.
    database.lock().faults = 100;
    while asking.step(&mut list, Duration::ZERO).is_err() {
        let mut database = database.lock();
        database.faults = database.faults.saturating_sub(20);
    }
    database.lock().faults = 0;
    taking.step(&mut list).unwrap();
    let answered = asking.step(&mut list, Duration::from_secs(1)).unwrap();
    assert_eq!(answered.unwrap().unwrap().bytes, b"did pause");
    for _ in 0..20 {
        database.lock().land_late();
        taking.step(&mut list).unwrap();
    }
    assert_eq!(counts.lock().values().copied().collect::<Vec<_>>(), [1]);
}
