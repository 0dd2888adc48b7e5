//! What every list must do, whatever keeps it.

use std::time::Duration;

use summarizer::cluster::shared_jobs::{ClaimedJob, JobReport, JobStanding, SharedJobs};
use summarizer::cluster::shared_lines::{SharedLines, Shipped, ShippedLines};
use summarizer::cluster::shared_log::{
    Appended, Claim, End, LeaseHeld, Member, Outgoing, Reading, SharedLog,
};
use summarizer::contract::hash::{Digest, sha256};
use summarizer::contract::ids::Seq;

pub fn member(host: &str, start: u64) -> Member {
    Member { host: host.to_owned(), start }
}

/// The commit of one record that continues `end`.
pub fn next(end: &End, content: &[u8]) -> Outgoing {
    let mut shipped = end.hash.0.to_vec();
    shipped.extend_from_slice(content);
    let hash = sha256(&shipped);
    Outgoing { from: (end.seq, end.hash), last: end.seq.next(), hash, shipped }
}

/// Runs all of them on an empty list. `open` makes a connection, `pass` lets time go by.
pub fn check<L: SharedLog>(
    genesis: Digest,
    lease: Duration,
    open: &mut dyn FnMut(&str) -> L,
    pass: &mut dyn FnMut(Duration),
) {
    let start = End { n: 0, seq: Seq(0), hash: genesis };
    let (one, two) = (member("one", 1), member("two", 1));
    let (mut a, mut b) = (open("one"), open("two"));

    // A list that is empty.
    assert_eq!(a.find(Seq(0), genesis).unwrap(), Some(start));
    assert_eq!(a.find(Seq(0), Digest([9; 32])).unwrap(), None);
    assert_eq!(a.read_after(&start, 1 << 20).unwrap(), Reading::Behind(Vec::new()));
    a.settle().unwrap();

    // One claim at a time.
    let claim = a.claim(&one, lease).unwrap().unwrap();
    assert_eq!(claim.end, start);
    assert_eq!(b.claim(&two, lease).unwrap(), None);
    assert_eq!(a.renew(&one, lease).unwrap(), LeaseHeld::Mine);
    assert_eq!(b.renew(&two, lease).unwrap(), LeaseHeld::Deposed);
    b.release(&two).unwrap();
    assert_eq!(b.claim(&two, lease).unwrap(), None, "only who has the lease may end it");
    assert_eq!(b.claim_again(&two, 0, lease).unwrap(), None, "only who has it may claim again");

    // Appends continue the end, and nothing else.
    let mut leads = claim;
    let mut ends = Vec::new();
    for content in 0u8..6 {
        let commit = next(&leads.end, &[content; 100]);
        assert_eq!(a.append(&leads, &commit, lease).unwrap(), Appended::Landed);
        assert_eq!(
            a.append(&leads, &commit, lease).unwrap(),
            Appended::Deposed,
            "a repeated append finds another end"
        );
        leads.end = leads.end.after(&commit);
        ends.push(leads.end);
    }
    let stale = Claim { epoch: leads.epoch - 1, ..leads };
    let commit = next(&leads.end, b"stale");
    assert_eq!(a.append(&stale, &commit, lease).unwrap(), Appended::Deposed);

    // A commit without records has the same last record and hash as the one before.
    let empty = Outgoing {
        from: (leads.end.seq, leads.end.hash),
        last: leads.end.seq,
        hash: leads.end.hash,
        shipped: b"mark".to_vec(),
    };
    assert_eq!(a.append(&leads, &empty, lease).unwrap(), Appended::Landed);
    let before = leads.end;
    leads.end = leads.end.after(&empty);
    assert_eq!(b.find(before.seq, before.hash).unwrap(), Some(before), "the first that ends so");

    // Reading is in order, about as much as asked for, and at least one commit.
    let Reading::Behind(all) = b.read_after(&start, 1 << 20).unwrap() else { panic!("differs") };
    let numbers: Vec<u64> = all.iter().map(|listed| listed.end.n).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    assert!(all.iter().zip(&ends).all(|(listed, end)| listed.end == *end));
    assert_eq!(all[2].shipped, next(&ends[1], &[2; 100]).shipped);
    b.settle().unwrap();
    let Reading::Behind(some) = b.read_after(&ends[1], 1).unwrap() else { panic!("differs") };
    assert!(!some.is_empty() && some.len() < 3 && some[0].end == ends[2]);
    assert_eq!(b.read_after(&leads.end, 1).unwrap(), Reading::Behind(Vec::new()));

    // A place that the list does not have.
    let other = End { hash: Digest([9; 32]), ..ends[1] };
    assert_eq!(b.read_after(&other, 1).unwrap(), Reading::Differs);
    let beyond = End { n: 99, ..leads.end };
    assert_eq!(b.read_after(&beyond, 1).unwrap(), Reading::Differs);

    // A higher epoch keeps out what was sent before it.
    let again = a.claim_again(&one, leads.epoch, lease).unwrap().unwrap();
    assert!(again.epoch > leads.epoch && again.end == leads.end);
    let commit = next(&leads.end, b"late");
    assert_eq!(a.append(&leads, &commit, lease).unwrap(), Appended::Deposed);
    assert_eq!(a.claim_again(&one, again.epoch + 1, lease).unwrap(), None);

    // Another host takes over when the lease has ended, and the one before is kept out.
    assert_eq!(b.claim(&two, lease).unwrap(), None);
    pass(lease * 2);
    let taken = b.claim(&two, lease).unwrap().unwrap();
    assert!(taken.epoch > again.epoch && taken.end == leads.end);
    assert_eq!(a.append(&again, &commit, lease).unwrap(), Appended::Deposed);
    assert_eq!(a.claim_again(&one, again.epoch, lease).unwrap(), None);
    assert_eq!(a.renew(&one, lease).unwrap(), LeaseHeld::Deposed);
    let commit = next(&taken.end, b"of the second");
    assert_eq!(b.append(&taken, &commit, lease).unwrap(), Appended::Landed);

    // Who leads keeps the keys, and never older ones than are kept.
    let (early, late) = (Seq(3), Seq(7));
    assert!(!a.keep_keys(&one, early, b"of one that was deposed").unwrap());
    assert!(b.keep_keys(&two, late, b"new").unwrap());
    assert!(!b.keep_keys(&two, early, b"older").unwrap());
    assert!(b.keep_keys(&two, late, b"newer").unwrap());

    // A new start of the same host is another member.
    let restarted = member("two", 2);
    assert_eq!(b.claim_again(&restarted, taken.epoch, lease).unwrap(), None);
    assert_eq!(b.renew(&restarted, lease).unwrap(), LeaseHeld::Deposed);

    // A lease that its holder ended is free at once.
    b.release(&restarted).unwrap();
    assert_eq!(a.claim(&one, lease).unwrap(), None);
    b.release(&two).unwrap();
    let freed = a.claim(&one, lease).unwrap().unwrap();
    assert_eq!(freed.end, taken.end.after(&commit));

    // The host that was named goes before others, for a time; its claim takes the name away.
    b.name_successor(Some("two")).unwrap();
    assert_eq!(a.renew(&one, lease).unwrap(), LeaseHeld::For("two".to_owned()));
    assert_eq!(b.claim(&two, lease).unwrap(), None, "the lease is held all the same");
    a.release(&one).unwrap();
    assert_eq!(a.claim(&member("one", 3), lease).unwrap(), None);
    assert!(b.claim(&two, lease).unwrap().is_some());
    assert_eq!(b.renew(&two, lease).unwrap(), LeaseHeld::Mine);
    b.name_successor(Some("two")).unwrap();
    assert_eq!(b.renew(&two, lease).unwrap(), LeaseHeld::Mine, "it leads already");
    b.name_successor(Some("gone")).unwrap();
    b.release(&two).unwrap();
    assert_eq!(a.claim(&one, lease).unwrap(), None);
    pass(lease * 4);
    assert!(a.claim(&one, lease).unwrap().is_some(), "a successor that does not come stops nobody");
    assert_eq!(a.renew(&one, lease).unwrap(), LeaseHeld::Mine);
    a.release(&one).unwrap();
    assert!(b.claim(&two, lease).unwrap().is_some());
}

fn lines(start: u64, end: u64) -> ShippedLines {
    ShippedLines { start, end, bytes: vec![start as u8; 40] }
}

/// The same for the lines of queues.
pub fn check_lines<L: SharedLines>(open: &mut dyn FnMut(&str) -> L) {
    let (one, two) = (member("one", 1), member("two", 1));
    let (mut a, mut b) = (open("one"), open("two"));
    assert_eq!(a.shipped(&one).unwrap(), None);
    assert_eq!(a.ship(&one, &lines(0, 10)).unwrap(), Shipped::Elsewhere, "it did not begin");

    // Lines continue those of the same start, once.
    a.begin(&one, 5).unwrap();
    b.begin(&two, 0).unwrap();
    assert_eq!(a.ship(&one, &lines(0, 10)).unwrap(), Shipped::Elsewhere);
    for start in [5, 10, 15] {
        assert_eq!(a.ship(&one, &lines(start, start + 5)).unwrap(), Shipped::Landed);
        assert_eq!(a.ship(&one, &lines(start, start + 5)).unwrap(), Shipped::Elsewhere);
    }
    assert_eq!(b.ship(&two, &lines(0, 7)).unwrap(), Shipped::Landed);
    assert_eq!((a.shipped(&one).unwrap(), b.shipped(&two).unwrap()), (Some(20), Some(7)));
    assert_eq!(b.ends().unwrap(), [("one".to_owned(), 20), ("two".to_owned(), 7)]);

    // The leader reads each queue in order, and drops what it took in.
    let three = [lines(5, 10), lines(10, 15), lines(15, 20)];
    assert_eq!(b.lines_after("one", 0, 1 << 20).unwrap(), three);
    assert_eq!(b.lines_after("one", 12, 1 << 20).unwrap(), three[1..]);
    let some = b.lines_after("one", 0, 1).unwrap();
    assert!(!some.is_empty() && some.len() < 3 && some[0] == three[0]);
    assert_eq!(b.lines_after("nobody", 0, 1).unwrap(), []);
    b.drop_lines("one", 12).unwrap();
    assert_eq!(b.lines_after("one", 0, 1 << 20).unwrap(), three[1..]);
    assert_eq!(b.lines_after("two", 0, 1).unwrap(), [lines(0, 7)]);

    // A beginning forgets what was shipped, and another start adds nothing any more.
    let again = member("one", 2);
    let mut c = open("one");
    c.begin(&again, 10).unwrap();
    assert_eq!(b.lines_after("one", 0, 1 << 20).unwrap(), []);
    assert_eq!(a.shipped(&one).unwrap(), None);
    assert_eq!(a.ship(&one, &lines(20, 25)).unwrap(), Shipped::Elsewhere);
    assert_eq!(a.ship(&one, &lines(10, 15)).unwrap(), Shipped::Elsewhere);
    assert_eq!(c.ship(&again, &lines(10, 18)).unwrap(), Shipped::Landed);
    assert_eq!(b.lines_after("one", 0, 1 << 20).unwrap(), [lines(10, 18)]);
}

fn said(job: u64, number: u64) -> JobReport {
    JobReport { job, number, bytes: vec![job as u8, number as u8] }
}

/// The jobs, in order. None of them is asked for.
fn plain(mut claimed: Vec<ClaimedJob>) -> Vec<u64> {
    assert!(claimed.iter().all(|one| !one.is_asked), "{claimed:?}");
    claimed.sort_unstable_by_key(|one| one.job);
    claimed.into_iter().map(|one| one.job).collect()
}

/// The same for jobs and reports. The connections are those of `leads`, which gets the lead, and `works`.
pub fn check_jobs<L: SharedLog + SharedJobs>(
    lease: Duration,
    open: &mut dyn FnMut(&str) -> L,
    pass: &mut dyn FnMut(Duration),
) {
    let (leader, one, two) = (member("leads", 1), member("works", 1), member("works", 2));
    let (mut a, mut b) = (open("leads"), open("works"));
    a.settle().unwrap();
    b.settle().unwrap();
    assert!(a.claim(&leader, lease * 20).unwrap().is_some());

    // Jobs are claimed once, the oldest first, and only those of the host that leads.
    a.list(&leader, &[3, 1, 2]).unwrap();
    a.list(&leader, &[1, 2]).unwrap();
    a.list(&member("deposed", 1), &[7]).unwrap();
    assert_eq!(plain(b.claim_jobs(&one, 2, lease).unwrap()), [1, 2]);
    assert_eq!(plain(b.claim_jobs(&two, 9, lease).unwrap()), [3]);
    assert!(b.claim_jobs(&two, 9, lease).unwrap().is_empty());
    assert_eq!(plain(b.hold_jobs(&one, 5, lease, &[]).unwrap()), [1, 2]);
    assert_eq!(plain(b.hold_jobs(&one, 5, lease, &[1]).unwrap()), [2]);
    let others = a.work_hosts(&leader).unwrap();
    let found = others.iter().find(|other| other.host == "works");
    assert_eq!(found.map(|other| other.places), Some(Some(5)), "{others:?}");
    assert!(a.work_hosts(&one).unwrap().iter().all(|other| other.host != "works"));
    a.forget_others(&leader).unwrap();
    b.forget_others(&member("deposed", 1)).unwrap();

    // Reports of a worker count while it has the job, each once, and in order.
    b.report(&one, &[said(1, 0), said(1, 1), said(3, 0), said(2, 0)]).unwrap();
    b.report(&one, &[said(1, 1), said(9, 0)]).unwrap();
    assert_eq!(a.reports(&leader).unwrap(), [said(1, 0), said(1, 1), said(2, 0)]);
    assert_eq!(a.reports(&one).unwrap(), [], "it leads nothing");
    a.drop_reports(&[(1, 0), (2, 0), (8, 8)]).unwrap();
    assert_eq!(a.reports(&leader).unwrap(), [said(1, 1)]);

    // A job that is removed takes its reports with it, also those that come late.
    a.remove(&one, &[1]).unwrap();
    a.remove(&leader, &[1, 77]).unwrap();
    b.report(&one, &[said(1, 2)]).unwrap();
    assert_eq!(a.reports(&leader).unwrap(), []);
    assert_eq!(plain(b.hold_jobs(&one, 5, lease * 9, &[]).unwrap()), [2]);

    // A lease that ends is seen, and a job that nobody has can be taken back.
    a.list(&leader, &[4, 5]).unwrap();
    a.withdraw(&leader, &[2, 4]).unwrap();
    pass(lease * 2);
    let mut standing = a.standing(&leader).unwrap();
    standing.sort_by_key(|(job, _)| *job);
    let expected = [(2, JobStanding::Held), (3, JobStanding::Over), (5, JobStanding::Free)];
    assert_eq!(standing, expected);
    a.remove(&leader, &[2, 3, 5]).unwrap();
    assert_eq!(a.standing(&leader).unwrap(), []);

    // Hosts that are asked take a job once each, and not the one that asks.
    a.hold_jobs(&leader, 5, lease * 9, &[]).unwrap();
    let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    a.ask(&leader, &[6], &hosts(&["works"])).unwrap();
    assert!(a.claim_jobs(&leader, 9, lease * 9).unwrap().is_empty());
    let asked = [ClaimedJob { job: 6, is_asked: true }];
    assert_eq!(b.claim_jobs(&one, 9, lease * 9).unwrap(), asked);
    assert_eq!(b.hold_jobs(&one, 5, lease * 9, &[]).unwrap(), asked);
    b.pass_on(&two, &[6]).unwrap();
    assert_eq!(a.standing(&leader).unwrap(), [(6, JobStanding::Held)], "another one has it");
    b.pass_on(&one, &[6]).unwrap();
    b.pass_on(&one, &[6]).unwrap();
    let asks = |names: &[&str]| [(6, JobStanding::Asks(hosts(names)))];
    assert_eq!(a.standing(&leader).unwrap(), asks(&[]));
    assert!(b.claim_jobs(&two, 9, lease * 9).unwrap().is_empty());
    // A host that comes later is asked too, and the others are not asked again meanwhile.
    b.ask(&two, &[6], &hosts(&["works"])).unwrap();
    assert_eq!(a.standing(&leader).unwrap(), asks(&[]), "only its own leader lists it");
    a.ask(&leader, &[6], &hosts(&["late"])).unwrap();
    a.ask(&leader, &[6], &hosts(&["works"])).unwrap();
    assert_eq!(a.standing(&leader).unwrap(), asks(&["late"]));
    assert!(b.claim_jobs(&two, 9, lease * 9).unwrap().is_empty());
    // What was listed for all is given back by a report alone.
    a.list(&leader, &[8]).unwrap();
    assert_eq!(plain(b.claim_jobs(&one, 9, lease * 9).unwrap()), [8]);
    b.pass_on(&one, &[8]).unwrap();
    assert_eq!(plain(b.hold_jobs(&one, 5, lease * 9, &[]).unwrap()), [8]);
    a.withdraw(&leader, &[6]).unwrap();
    a.remove(&leader, &[8]).unwrap();
    assert_eq!(a.standing(&leader).unwrap(), []);
    a.release(&leader).unwrap();
}
