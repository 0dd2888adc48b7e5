//! What it costs that flows run in processes of their own: `cargo bench --bench flow -- isolation [ROUNDS [REQUESTS]]`
//! (default 11 and 300).
//!
//! Each round drains the same queue in two new homes, one with `workers.isolation = "process"` and one with
//! `"thread"`, and begins with the other one each time. It prints which part of the throughput of threads the
//! processes reach: the middle of the rounds, and between which values the middle half of them lies. It does so for
//! the time on the clock and for that of the processors, which other work on the machine changes little. The start of
//! the program, the commits and the publication are included.

use std::sync::LazyLock;
use std::time::Instant;

use crate::flow_home::{FLOW, Home, config, good};
use crate::server::Server;

/// A flow that the embedded summarizer does.
const EMBEDDED: &str = "docs.chunk_set.summarize.brief.v1";
/// Bytes of a text, as a long mail has them.
const TEXT_BYTES: usize = 4_000;

pub fn measure(numbers: &[usize], measured: bool) {
    let number = |at: usize, usual: usize, few: usize| {
        numbers.get(at).copied().unwrap_or(if measured { usual } else { few }).max(1)
    };
    let (rounds, requests) = (number(0, 11, 1), number(1, 300, 4));
    println!("\n{rounds} rounds of {requests} requests: the throughput of processes / of threads");
    println!("  {:<30} {:<26} processors", "", "clock");
    let server = Server::start(vec![good()]);
    for (name, flow) in
        [("the embedded summarizer", EMBEDDED), ("a model that answers at once", FLOW)]
    {
        let mut shares: [Vec<f64>; 2] = Default::default();
        for round in 0..rounds {
            let [mut process, mut thread] = [[0.0; 2]; 2];
            for turn in [round, round + 1] {
                match turn % 2 {
                    0 => process = drained(&server, "process", flow, requests),
                    _ => thread = drained(&server, "thread", flow, requests),
                }
            }
            for kind in 0..2 {
                shares[kind].push(thread[kind] / process[kind]);
            }
        }
        let [mut clock, mut processors] = shares;
        println!("  {name:<30} {:<26} {}", told(&mut clock), told(&mut processors));
    }
}

/// Seconds of the clock and of the processors for a `drain` of so many requests.
fn drained(server: &Server, isolation: &str, flow: &str, requests: usize) -> [f64; 2] {
    let home = Home::new(&config(server, "", &format!("[workers]\nisolation = \"{isolation}\"\n")));
    for number in 0..requests {
        home.ask(&format!("r{number}"), flow, &text(number));
    }
    let then = now();
    home.ok(&["drain"]);
    let now = now();
    let acks = std::fs::read_to_string(home.path("run/ack.jsonl")).expect("the acks");
    let completed = acks.lines().filter(|line| line.contains("\"status\":\"completed\"")).count();
    assert_eq!(completed, requests, "every request completes");
    // Never zero, so that ratios are numbers.
    [0, 1].map(|kind| (now[kind] - then[kind]).max(0.01))
}

/// A text that no other request has.
fn text(number: usize) -> String {
    let mut text = format!("# Meeting {number}\n\n");
    for line in 0.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        let (day, sum) = (1 + line % 28, 100 + number * 7 + line * 13);
        text.push_str(&format!(
            "We decided to pay {sum} EUR for hall {line} by {day} March. Ana asks who brings the projector of \
             room {number}. The pump in the cellar failed on Monday and works again since Tuesday.\n\n"
        ));
    }
    text
}

/// Seconds of the clock, and of the processors for all programs that have ended, in hundredths.
fn now() -> [f64; 2] {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    [START.elapsed().as_secs_f64(), ticks / 100.0]
}

/// The middle of some shares, and between which values the middle half of them lies.
fn told(shares: &mut [f64]) -> String {
    shares.sort_by(f64::total_cmp);
    let at = |part: usize| shares[(shares.len() - 1) * part / 4];
    format!("{:.3} ({:.3} to {:.3})", at(2), at(1), at(3))
}
