//! A sweep for people and tools: table rows, CSV, SVG plots, one HTML page with all of it, and a
//! TOML snippet with the recommended settings. Pure: results in, text out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::trigger::Thresholds;
use super::choose::ThresholdChoice;
use super::cost::CostWeights;
use super::log_sweep::{self, LogRow, LogSetting};
use super::metrics::RunMetrics;
use super::plot::{self, Axis, AxisScale, PlotMark, Series, escape};
use super::sweep::{SweepRow, ThresholdSweep};

/// Header of the table and of the CSV.
pub(crate) const COLUMNS: [&str; 15] = [
    "event_threshold",
    "step_fallback",
    "cost",
    "snapshots",
    "failed_runs",
    "bytes_written",
    "fold_us",
    "build_us_per_snapshot",
    "tail_mean",
    "tail_p95",
    "tail_max",
    "at_risk_mean",
    "at_risk_max",
    "violations_after_compaction",
    "mark",
];

/// Header of the log's table and of its CSV.
pub(crate) const LOG_COLUMNS: [&str; 8] = [
    "checkpoint_every_events",
    "commit_batch",
    "events_per_second",
    "bytes_per_event",
    "checkpoint_ms_max",
    "tail_events_on_open",
    "open_ms",
    "mark",
];

/// The limits of a replay, shown wherever its figures are shown.
pub(crate) const NOT_MEASURABLE: &str = "A replay cannot measure loop rate, forgotten constraints, \
NO_EVIDENCE stalls, or cost and latency per verified claim under another threshold: the log was \
recorded under one setting and says the same under all of them. They are shown once, as facts of \
these logs; whether an agent behaves differently needs live runs.";

/// The cheapest settings that a terminal shows beside the marked ones.
const SHORT_ROWS: usize = 10;

/// Most lines of a plot.
const LINES_MAX: usize = 6;

/// A finished sweep with where it came from.
pub(crate) struct TuningReport<'a> {
    /// What was replayed, in words.
    pub runs: String,
    pub sweep: &'a ThresholdSweep,
    pub choice: &'a ThresholdChoice,
    pub weights: &'a CostWeights,
    /// The log's own sweep, when it was measured.
    pub log_rows: &'a [LogRow],
}

impl TuningReport<'_> {
    /// One row a setting, in the order of [`COLUMNS`].
    pub(crate) fn table(&self) -> Vec<Vec<String>> {
        let rows = self.sweep.rows.iter().enumerate();
        rows.map(|(index, row)| {
            let mut cells = cells(row, self.choice.costs[index].total());
            cells.push(self.mark(index).to_owned());
            cells
        })
        .collect()
    }

    /// The columns and the rows that a terminal has room for: the settings with a mark, and the cheapest.
    pub(crate) fn short_table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let shown = [
            "event_threshold",
            "step_fallback",
            "cost",
            "snapshots",
            "tail_p95",
            "at_risk_max",
            "mark",
        ];
        let columns: Vec<usize> =
            (0..COLUMNS.len()).filter(|at| shown.contains(&COLUMNS[*at])).collect();
        let mut by_cost: Vec<usize> = (0..self.sweep.rows.len()).collect();
        by_cost.sort_by(|a, b| {
            let cost = |index: &usize| self.choice.costs[*index].total();
            cost(a).total_cmp(&cost(b)).then(a.cmp(b))
        });
        let is_named = |index: &usize| matches!(self.mark(*index), "chosen" | "default");
        let mut kept: Vec<usize> = by_cost.iter().copied().filter(is_named).collect();
        kept.extend(by_cost.iter().copied().filter(|index| !is_named(index)).take(SHORT_ROWS));
        kept.sort_unstable();
        let rows = self.table();
        let rows = kept.into_iter().map(|index| {
            columns.iter().map(|column| rows[index][*column].clone()).collect::<Vec<String>>()
        });
        (shown.to_vec(), rows.collect())
    }

    pub(crate) fn csv(&self) -> String {
        let mut text = COLUMNS.join(",");
        for row in self.table() {
            text.push('\n');
            text.push_str(&row.join(","));
        }
        text.push('\n');
        text
    }

    /// The settings to use, with the reason.
    pub(crate) fn toml(&self) -> String {
        let chosen = &self.sweep.rows[self.choice.chosen].thresholds;
        let mut text = format!("# Chosen over {}.\n", self.runs);
        for line in wrapped(&self.choice.reason, 96) {
            let _ = writeln!(text, "# {line}");
        }
        for line in wrapped(NOT_MEASURABLE, 96) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(
            text,
            "[compaction]\nevent_threshold = {}\nstep_fallback = {}",
            chosen.event_threshold, chosen.step_fallback
        );
        if let Some((chosen, reason)) = log_sweep::choose(self.log_rows) {
            let setting = self.log_rows[chosen].setting;
            for line in wrapped(&format!("The log's own: {reason}."), 96) {
                let _ = writeln!(text, "# {line}");
            }
            let _ = writeln!(
                text,
                "checkpoint_every_events = {}\n\n[commit]\nmax_batch = {}",
                setting.checkpoint_every_events, setting.commit_batch
            );
        }
        text
    }

    /// One row a setting of the log, in the order of [`LOG_COLUMNS`].
    pub(crate) fn log_table(&self) -> Vec<Vec<String>> {
        let chosen = log_sweep::choose(self.log_rows).map(|(chosen, _)| chosen);
        let cells = |(index, row): (usize, &LogRow)| {
            vec![
                row.setting.checkpoint_every_events.to_string(),
                row.setting.commit_batch.to_string(),
                format!("{:.0}", row.events_per_second),
                format!("{:.0}", row.bytes_per_event),
                format!("{:.1}", row.checkpoint_ms_max),
                format!("{:.0}", row.tail_events_on_open),
                format!("{:.1}", row.open_ms),
                if Some(index) == chosen { "chosen" } else { "" }.to_owned(),
            ]
        };
        self.log_rows.iter().enumerate().map(cells).collect()
    }

    /// The log's table as CSV.
    pub(crate) fn log_csv(&self) -> String {
        let mut text = LOG_COLUMNS.join(",");
        for row in self.log_table() {
            text.push('\n');
            text.push_str(&row.join(","));
        }
        text.push('\n');
        text
    }

    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .sweep
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| {
                let mut record = serde_json::Map::new();
                record.insert("event_threshold".into(), row.thresholds.event_threshold.into());
                record.insert("step_fallback".into(), row.thresholds.step_fallback.into());
                record.insert("snapshots".into(), row.snapshots.into());
                record.insert("failed_runs".into(), row.failed_runs.into());
                record.insert("bytes_written".into(), row.bytes_written.into());
                record.insert("fold_ns".into(), row.fold_ns.into());
                record.insert("build_ns".into(), row.build_ns.into());
                record.insert("tail_mean".into(), row.tails.mean().into());
                record.insert("tail_p95".into(), row.tails.p95().into());
                record.insert("tail_max".into(), row.tails.max().into());
                record.insert("at_risk_mean".into(), row.at_risk.mean().into());
                record.insert("at_risk_max".into(), row.at_risk.max().into());
                let violations = row.violations_after_compaction;
                record.insert("violations_after_compaction".into(), violations.into());
                let cost = self.choice.costs[index];
                record.insert("cost".into(), cost.total().into());
                record.insert("cost_parts".into(), json!(cost));
                record.insert("as_good".into(), self.choice.as_good.contains(&index).into());
                Value::Object(record)
            })
            .collect();
        let chosen = &self.sweep.rows[self.choice.chosen].thresholds;
        json!({
            "schema_version": "tune_report.v1",
            "runs": self.runs,
            "recommended": {
                "event_threshold": chosen.event_threshold,
                "step_fallback": chosen.step_fallback,
                "as_good_from": self.choice.between.0,
                "as_good_to": self.choice.between.1,
                "confidence": self.choice.confidence,
                "reason": self.choice.reason,
            },
            "weights": self.weights,
            "rows": rows,
            "log_rows": self.log_rows,
            "log_recommended": log_sweep::choose(self.log_rows).map(|(chosen, reason)| json!({
                "checkpoint_every_events": self.log_rows[chosen].setting.checkpoint_every_events,
                "commit_batch": self.log_rows[chosen].setting.commit_batch,
                "reason": reason,
            })),
            "of_the_logs": metrics_json(&self.sweep.metrics),
            "not_measurable": NOT_MEASURABLE,
        })
    }

    /// File names and contents of the plots.
    pub(crate) fn plots(&self) -> Vec<(&'static str, String)> {
        let runs = self.sweep.metrics.runs.max(1) as f64;
        vec![
            (
                "cost.svg",
                self.curves(
                    "Cost of a setting",
                    &self.cost_note(),
                    "cost for 1,000 events",
                    AxisScale::Log,
                    |index| self.choice.costs[index].total(),
                ),
            ),
            (
                "bytes.svg",
                self.curves(
                    "Bytes written",
                    "one line a step fallback; both axes logarithmic",
                    "bytes per run",
                    AxisScale::LogBytes,
                    |index| self.sweep.rows[index].bytes_written as f64 / runs,
                ),
            ),
            (
                "tail.svg",
                self.curves(
                    "Events to re-read on resume",
                    "mean over every position a run could stop at",
                    "events",
                    AxisScale::Linear,
                    |index| self.sweep.rows[index].tails.mean(),
                ),
            ),
            (
                "at_risk.svg",
                self.curves(
                    "Events no snapshot covers when a run breaks off",
                    "mean over the runs that broke off, verbose events left out",
                    "events",
                    AxisScale::Linear,
                    |index| self.sweep.rows[index].at_risk.mean(),
                ),
            ),
            (
                "compute.svg",
                self.curves(
                    "Time to build, check and encode",
                    "per run, on the machine that ran the sweep",
                    "microseconds per run",
                    AxisScale::Log,
                    |index| (self.sweep.rows[index].build_ns as f64 / runs / 1000.0).max(0.1),
                ),
            ),
        ]
    }

    fn cost_note(&self) -> String {
        let (low, high) = self.choice.between;
        match low < high {
            true => format!("any setting in the shaded range, {low} to {high}, is as good"),
            false => "no threshold beside the marked one is as good".to_owned(),
        }
    }

    pub(crate) fn html(&self) -> String {
        let chosen = &self.sweep.rows[self.choice.chosen].thresholds;
        let mut page = String::from(HEAD);
        let _ = writeln!(
            page,
            "<h1>Compaction thresholds</h1>\n<p class=\"lead\">Use <b>event_threshold = {}</b>, \
             <b>step_fallback = {}</b>: {}.</p>\n<p>Replayed: {}.</p>",
            chosen.event_threshold,
            chosen.step_fallback,
            escape(&self.choice.reason),
            escape(&self.runs)
        );
        page.push_str("<div class=\"plots\">\n");
        for (_, svg) in self.plots() {
            let _ = writeln!(page, "<figure>{svg}</figure>");
        }
        let _ = write!(page, "</div>\n<h2>What a setting costs</h2>\n<table>");
        for (name, value) in self.cost_lines() {
            let _ = write!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value));
        }
        page.push_str("</table>\n<h2>What these logs say, whatever the threshold</h2>\n");
        let _ = write!(page, "<p class=\"note\">{}</p>\n<table>", escape(NOT_MEASURABLE));
        for (name, value) in metric_lines(&self.sweep.metrics) {
            let _ = write!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value));
        }
        page.push_str("</table>\n<h2>Every setting</h2>\n<table><tr>");
        for column in COLUMNS {
            let _ = write!(page, "<th>{}</th>", column.replace('_', " "));
        }
        page.push_str("</tr>\n");
        for (index, row) in self.table().iter().enumerate() {
            let class = match self.mark(index) {
                "" => "",
                "as good" => " class=\"good\"",
                _ => " class=\"marked\"",
            };
            let _ = write!(page, "<tr{class}>");
            row.iter().for_each(|cell| {
                let _ = write!(page, "<td>{}</td>", escape(cell));
            });
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
        self.log_section(&mut page);
        let _ = writeln!(
            page,
            "<h2>Settings</h2>\n<pre>{}</pre>\n</main></body></html>",
            escape(&self.toml())
        );
        page
    }

    /// The parts of the cost of the chosen setting, with their weights.
    pub(crate) fn cost_lines(&self) -> Vec<(&'static str, String)> {
        let (cost, weights) = (self.choice.costs[self.choice.chosen], self.weights);
        let line = |cost: f64, weight: f64, of: &str| format!("{cost:.1} ({weight} for each {of})");
        vec![
            ("bytes written", line(cost.bytes, weights.bytes, "KiB")),
            ("reading again", line(cost.reread, weights.reread, "event after a restart")),
            ("memory", line(cost.memory, weights.memory, "event no snapshot covers, at worst")),
            ("age of the snapshot", line(cost.age, weights.age, "minute")),
            ("together, for 1,000 events", format!("{:.1}", cost.total())),
        ]
    }

    /// The figures of the logs, for a terminal.
    pub(crate) fn metrics(&self) -> Vec<(&'static str, String)> {
        metric_lines(&self.sweep.metrics)
    }

    fn log_section(&self, page: &mut String) {
        if self.log_rows.is_empty() {
            return;
        }
        page.push_str("<h2>The log's own thresholds</h2>\n");
        if let Some((_, reason)) = log_sweep::choose(self.log_rows) {
            let _ = writeln!(page, "<p class=\"note\">The marked setting {}.</p>", escape(&reason));
        }
        page.push_str("<div class=\"plots\">\n");
        for (_, svg) in self.log_plots() {
            let _ = writeln!(page, "<figure>{svg}</figure>");
        }
        page.push_str("</div>\n<table><tr>");
        for column in LOG_COLUMNS {
            let _ = write!(page, "<th>{}</th>", column.replace('_', " "));
        }
        page.push_str("</tr>\n");
        for row in self.log_table() {
            let class = if row.last().is_some_and(|mark| !mark.is_empty()) { "marked" } else { "" };
            let _ = write!(page, "<tr class=\"{class}\">");
            row.iter().for_each(|cell| {
                let _ = write!(page, "<td>{cell}</td>");
            });
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
    }

    /// File names and contents of the plots of the log's own sweep.
    pub(crate) fn log_plots(&self) -> Vec<(&'static str, String)> {
        if self.log_rows.is_empty() {
            return Vec::new();
        }
        let batches: BTreeSet<u64> =
            self.log_rows.iter().map(|row| row.setting.commit_batch).collect();
        let curves = |title: &str, note: &str, unit: &str, value: fn(&LogRow) -> f64| {
            let at = |row: &LogRow| (row.setting.checkpoint_every_events as f64, value(row));
            let series = |batch: &u64| Series {
                name: format!("commits of {batch}"),
                points: (self.log_rows.iter())
                    .filter(|row| row.setting.commit_batch == *batch)
                    .map(at)
                    .collect(),
            };
            let series: Vec<Series> = batches.iter().map(series).collect();
            let chosen = log_sweep::choose(self.log_rows).map(|(chosen, _)| {
                let LogSetting { checkpoint_every_events: every, commit_batch: batch } =
                    self.log_rows[chosen].setting;
                let name = format!("chosen {every}/{batch}");
                PlotMark { at: at(&self.log_rows[chosen]), name, chosen: true }
            });
            let marks: Vec<PlotMark> = chosen.into_iter().collect();
            let x = Axis { label: "events between checkpoints".into(), scale: AxisScale::Log };
            let y = Axis { label: unit.to_owned(), scale: AxisScale::Log };
            plot::lines(title, note, (&x, &y), &series, &marks, None)
        };
        vec![
            (
                "log_rate.svg",
                curves(
                    "Events committed a second",
                    "every one of them durable; higher is better",
                    "events per second",
                    |row| row.events_per_second.max(1.0),
                ),
            ),
            (
                "log_open.svg",
                curves(
                    "Time to open the log after a crash",
                    "mean over the crashes played; lower is better",
                    "milliseconds",
                    |row| row.open_ms.max(0.1),
                ),
            ),
        ]
    }

    fn mark(&self, index: usize) -> &'static str {
        if index == self.choice.chosen {
            "chosen"
        } else if Some(index) == self.choice.default {
            "default"
        } else if self.choice.as_good.contains(&index) {
            "as good"
        } else {
            ""
        }
    }

    fn marks(&self, value: impl Fn(usize) -> f64) -> Vec<PlotMark> {
        let mark = |index: usize, chosen: bool| {
            let Thresholds { event_threshold, step_fallback } = self.sweep.rows[index].thresholds;
            let what = if chosen { "chosen" } else { "default" };
            let name = format!("{what} {event_threshold}/{step_fallback}");
            PlotMark { at: (event_threshold as f64, value(index)), name, chosen }
        };
        let default = self.choice.default.filter(|default| *default != self.choice.chosen);
        let default = default.map(|index| mark(index, false));
        std::iter::once(mark(self.choice.chosen, true)).chain(default).collect()
    }

    /// A line for each of the fallbacks that most thresholds were tried with.
    fn by_fallback(&self, value: impl Fn(usize) -> f64) -> Vec<Series> {
        let mut points: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
        for (index, row) in self.sweep.rows.iter().enumerate() {
            let Thresholds { event_threshold, step_fallback } = row.thresholds;
            points.entry(step_fallback).or_default().push((event_threshold, value(index)));
        }
        let mut longest: Vec<(u64, Vec<(u64, f64)>)> = points.into_iter().collect();
        longest.sort_by_key(|(fallback, points)| (Reverse(points.len()), *fallback));
        longest.truncate(LINES_MAX);
        longest.sort_by_key(|(fallback, _)| *fallback);
        let series = |(fallback, mut points): (u64, Vec<(u64, f64)>)| {
            points.sort_by_key(|(threshold, _)| *threshold);
            let points = points.into_iter().map(|(threshold, value)| (threshold as f64, value));
            Series { name: format!("fallback {fallback} steps"), points: points.collect() }
        };
        longest.into_iter().map(series).collect()
    }

    fn curves(
        &self,
        title: &str,
        note: &str,
        unit: &str,
        scale: AxisScale,
        value: impl Fn(usize) -> f64,
    ) -> String {
        // Costs and bytes span more than one power of ten.
        let x = Axis { label: "EVENT_THRESHOLD (counted events)".into(), scale: AxisScale::Log };
        let y = Axis { label: unit.to_owned(), scale };
        let (low, high) = self.choice.between;
        let band = (low < high).then_some((low as f64, high as f64));
        plot::lines(title, note, (&x, &y), &self.by_fallback(&value), &self.marks(&value), band)
    }
}

fn cells(row: &SweepRow, cost: f64) -> Vec<String> {
    let per_snapshot = row.build_ns as f64 / 1000.0 / row.snapshots.max(1) as f64;
    vec![
        row.thresholds.event_threshold.to_string(),
        row.thresholds.step_fallback.to_string(),
        format!("{cost:.1}"),
        row.snapshots.to_string(),
        row.failed_runs.to_string(),
        row.bytes_written.to_string(),
        (row.fold_ns / 1000).to_string(),
        format!("{per_snapshot:.1}"),
        format!("{:.1}", row.tails.mean()),
        row.tails.p95().to_string(),
        row.tails.max().to_string(),
        format!("{:.1}", row.at_risk.mean()),
        row.at_risk.max().to_string(),
        row.violations_after_compaction.to_string(),
    ]
}

fn metric_lines(metrics: &RunMetrics) -> Vec<(&'static str, String)> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none verified".to_owned());
    vec![
        ("runs", metrics.runs.to_string()),
        ("events", metrics.events.to_string()),
        ("verified claims", metrics.verified_claims.to_string()),
        (
            "cost per verified claim",
            or_none(metrics.cost_per_verified_claim().map(|cost| format!("${cost:.4}"))),
        ),
        (
            "latency per verified claim",
            or_none(
                metrics.latency_per_verified_claim_ms().map(|ms| format!("{:.1} s", ms / 1000.0)),
            ),
        ),
        ("loop rate", format!("{:.3}", metrics.loop_rate())),
        ("constraint violations", metrics.constraint_violations.to_string()),
        ("NO_EVIDENCE stalls", metrics.no_evidence_stalls.to_string()),
    ]
}

fn metrics_json(metrics: &RunMetrics) -> Value {
    json!({
        "runs": metrics.runs,
        "events": metrics.events,
        "verified_claims": metrics.verified_claims,
        "cost_per_verified_claim_usd": metrics.cost_per_verified_claim(),
        "latency_per_verified_claim_ms": metrics.latency_per_verified_claim_ms(),
        "loop_rate": metrics.loop_rate(),
        "constraint_violations": metrics.constraint_violations,
        "no_evidence_stalls": metrics.no_evidence_stalls,
    })
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>Compaction thresholds</title>
<style>
body{margin:0;background:#f5f7fa;color:#1f2933;font:15px/1.5 system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
main{max-width:1600px;margin:0 auto;padding:32px 24px}
h1{margin:0 0 8px;font-size:26px}h2{margin:36px 0 8px;font-size:19px}
.lead{font-size:17px;max-width:70em}.note{max-width:70em;color:#52606d}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(520px,1fr));gap:20px;margin:24px 0}
figure{margin:0;background:#fff;border:1px solid #e4e7eb;border-radius:8px;padding:6px}
figure svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;background:#fff;font-variant-numeric:tabular-nums;font-size:13px}
th,td{padding:4px 10px;border-bottom:1px solid #e4e7eb;text-align:right}
th{color:#52606d;font-weight:600}
tr.good td{background:#f0f7f7}tr.marked td{background:#fdecea;font-weight:600}
pre{background:#1f2933;color:#e4e7eb;padding:16px;border-radius:8px;overflow-x:auto}
@media(prefers-color-scheme:dark){
body{background:#0f141a;color:#dde3ea}.note,th{color:#9aa5b1}
figure,table{background:#171d25;border-color:#2b343f}th,td{border-color:#2b343f}
tr.good td{background:#12303a}tr.marked td{background:#4a2326}pre{background:#171d25}}
</style></head><body><main>
"#;

#[cfg(test)]
mod tests {
    use super::super::choose::choose;
    use super::super::sweep::{Generated, grid, sweep};
    use super::*;

    #[test]
    fn every_output_names_the_choice_and_says_what_is_not_measured() {
        let runs = Generated { seed: 5, runs: 5, events: 120 };
        let swept = sweep(&runs, &grid(&[6, 18], &[4, 8]), &|| {});
        let weights = CostWeights::default();
        let choice = choose(&swept.rows, swept.rows.len(), &weights).unwrap();
        let report = TuningReport {
            runs: "5 generated runs".into(),
            sweep: &swept,
            choice: &choice,
            weights: &weights,
            log_rows: &[],
        };
        assert_eq!(report.csv().lines().count(), 5);
        assert!(report.csv().lines().all(|line| line.split(',').count() == COLUMNS.len()));
        let parsed: toml::Table = report.toml().parse().unwrap();
        let threshold = parsed["compaction"]["event_threshold"].as_integer().unwrap();
        assert_eq!(threshold as u64, swept.rows[choice.chosen].thresholds.event_threshold);
        let page = report.html();
        assert!(page.contains("needs live runs") && report.toml().contains("cannot measure"));
        assert_eq!(page.matches("<svg").count(), 5);
        for (name, svg) in report.plots() {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        }
        assert_eq!(report.json()["rows"].as_array().unwrap().len(), 4);
    }
}
