//! What goes wrong with digests: selectors that do not read, builds that fail, and what they left.

use serde_json::Value;

use super::{Findings, HeldHome, Verdict, edit};
use crate::cli::{Context, ui};
use crate::digest::selector::Selectors;

/// What the log records about builds.
pub(super) fn look_at_digests(context: &Context, held: &HeldHome, findings: &mut Findings) {
    if let Err(error) = Selectors::for_build(context.machine.disk.as_ref(), &held.home.root) {
        let what = format!("the selectors do not read: {error}");
        let file = held.home.registry().join("registry.selectors.v1.jsonl");
        let fix = format!("{} && summarizer digest list", edit(&file));
        return findings.wrong("digests", what, &fix);
    }
    let overview = match held.digest_overview(context) {
        Ok(overview) => overview,
        Err(failure) => return findings.refused("digests", &failure),
    };
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let last = &overview["last_build"];
    match (last["ok"].as_bool(), overview["updated_at"].as_str()) {
        (Some(false), updated) => {
            failed_build(last, findings);
            if updated.is_none() && published(context, held) {
                of_earlier_log(findings);
            }
        }
        (_, Some(updated)) => {
            let bags = ui::count(overview["bags"].as_u64().unwrap_or(0), "bag");
            match held.damaged_indexes(context) {
                Ok(files) => match files.first() {
                    None => findings.fine("digests", format!("{bags}, as of {updated}")),
                    Some(first) => {
                        let more = and_more(files.len());
                        let what = format!(
                            "{bags} were published, but buses/{first}{more} is missing or not what the log says"
                        );
                        findings.wrong("digests", what, "summarizer export --repair");
                    }
                },
                Err(failure) => findings.refused("digests", &failure),
            }
            damaged(context, held, findings);
        }
        (_, None) if published(context, held) => of_earlier_log(findings),
        (_, None) => {
            let what = "none were built yet";
            findings.add("digests", Verdict::Notice, what, "summarizer digest build");
            findings.hint("or leave it to `summarizer serve`");
        }
    }
    if let Some(run_id) = overview["building"].as_str() {
        let what = format!("the build {run_id} was interrupted and published no digest");
        findings.add("digests", Verdict::Notice, what, "summarizer digest build");
    }
    for failed in overview["failed"].as_array().into_iter().flatten() {
        let what = format!(
            "a build that failed left {}; {} says why",
            text(&failed["staged"]),
            text(&failed["record"]),
        );
        findings.add("digests", Verdict::Notice, what, "summarizer digest gc");
        findings.hint("once it is clear why");
    }
}

/// Digests that the log does not know are published.
fn of_earlier_log(findings: &mut Findings) {
    let what = "the published digests belong to an earlier log; readers see them until a build replaces them";
    let fix = "summarizer digest build && summarizer digest gc --orphans --yes";
    findings.add("digests", Verdict::Notice, what, fix);
}

fn and_more(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

/// Bags whose files somebody or something changed.
fn damaged(context: &Context, held: &HeldHome, findings: &mut Findings) {
    let damaged = match held.damaged_bags(context) {
        Ok(damaged) => damaged,
        Err(failure) => return findings.refused("digests", &failure),
    };
    let Some(first) = damaged.first() else { return };
    let more = and_more(damaged.len());
    let what = format!("the files of {first}{more} are not what the log says");
    findings.wrong("digests", what, "summarizer digest build");
    findings.hint("the build writes them again from the log");
}

/// The last build failed; its record says why.
pub(super) fn failed_build(last: &Value, findings: &mut Findings) {
    let text = |name: &str| last[name].as_str().unwrap_or("-").to_owned();
    let what = format!(
        "the last build, {}, failed at {}: {} says why",
        text("run_id"),
        text("ended_at"),
        text("record"),
    );
    findings.wrong("digests", what, "summarizer digest build");
    findings.hint("correct the errors that the record names, then run it");
}

fn published(context: &Context, held: &HeldHome) -> bool {
    let index = held.home.buses.join("index/digest_registry.json");
    matches!(context.machine.disk.stat(&index), Ok(Some(_)))
}
