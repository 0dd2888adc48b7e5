#!/usr/bin/env python3
"""Folds a run log again and compares: python3 check_snapshots.py RUN_LOG DIR [EVENTS [STEPS]]

DIR is what `compact RUN_LOG --out DIR` wrote, EVENTS and STEPS its thresholds. The fold is written
from docs/compaction.md and the schemas alone and imports nothing but the standard library. Every
snapshot is computed from the events; its state, counts, deltas, diagnostics, digest and id are
compared. Where lists were spilled, the chain of files must hold the whole state.
Prints what differs and ends with 1, or prints what was checked.
"""

import hashlib
import json
import math
import sys
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

TERMINAL = ("PLAN_DONE", "ACT_DONE", "OBSERVE_DONE")
STATE = {"RUN_STARTED", "RUN_STOPPED", "CONTEXT_MANIFEST_WRITTEN", "CHUNKS_SEEN", "CLAIM_ADDED",
         "EVIDENCE_ATTACHED", "CLAIM_VERIFIED", "CLAIM_RETRACTED", "CONFLICT_RECORDED",
         "CONFLICT_RESOLVED", "QUESTION_OPENED", "QUESTION_CLOSED", "CONSTRAINT_SET",
         "CONSTRAINT_VIOLATED", "FAILURE_RECORDED", "FAILURE_RESOLVED", "OVERRIDE_SET",
         "LOOP_DETECTED", "BUDGET_WARNING", "HANDOFF", "POLICY_CHANGED", "SNAPSHOT_WRITTEN",
         "COMPACTION_FAILED"}
SEVERITY = ["low", "medium", "high", "critical"]
SHOWN_REFS = 8
LIMIT = 64 * 1024

wrong, checked = [], 0


def same(where, found, expected):
    global checked
    checked += 1
    if found != expected:
        wrong.append(f"{where}: found {str(found)[:300]}, expected {str(expected)[:300]}")


def number(value):
    """A number as ECMAScript prints it, for the sizes that run logs have."""
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def canonical(value):
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda one: one[0].encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(k)}:{canonical(v)}" for k, v in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return number(value)


def sha256(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def thousandths(value):
    """Half rounded up, on the decimal digits."""
    return int((Decimal(repr(value)) * 1000 + Decimal("0.5")).to_integral_value(ROUND_FLOOR))


class Window:
    """What happened since the last snapshot."""

    def __init__(self):
        self.steps, self.counted = set(), set()
        self.deltas = dict.fromkeys(
            ["claims_added", "claims_verified", "claims_retracted", "conflicts_added",
             "questions_opened", "questions_closed", "failures_added", "evidence_attached"], 0)
        self.manifests, self.next_actions = [], []
        self.candidates = self.selected = 0
        self.excluded, self.filters, self.rerankers = {}, [], set()
        self.acceptance, self.scores = set(), []
        self.weak, self.strong, self.proven = set(), set(), set()

    def manifest(self, step, payload):
        if payload["manifest_id"] in self.manifests:
            return
        self.manifests.append(payload["manifest_id"])
        candidates = payload.get("candidate_chunk_ids", [])
        selected = payload.get("selected_chunk_ids", [])
        self.candidates += len(candidates)
        self.selected += len(selected)
        for one in payload.get("excluded", []):
            self.excluded[one["reason"]] = self.excluded.get(one["reason"], 0) + 1
        filters = payload.get("filters")
        if filters is not None and canonical(filters) not in map(canonical, self.filters):
            self.filters.append(filters)
        if payload.get("reranker"):
            self.rerankers.add(f"{payload['reranker']['model']}@{payload['reranker']['version']}")
        least, score = payload.get("acceptance_threshold"), payload.get("max_score")
        if least is not None:
            self.acceptance.add(thousandths(least))
        if score is not None:
            self.scores.append(thousandths(score))
        below = None not in (least, score) and score < least
        (self.weak if below or not selected else self.strong).add(step or 0)

    def diagnostics(self):
        return {
            "since_last": {
                "manifests": len(self.manifests),
                "candidates_retrieved": self.candidates,
                "candidates_selected": self.selected,
                "excluded_by_reason": self.excluded,
                "filters_applied": self.filters,
                "rerankers": sorted(self.rerankers),
                "acceptance_thresholds_milli": sorted(self.acceptance),
                "min_max_score_milli": min(self.scores, default=None),
                "no_evidence_steps": sorted(self.weak - self.strong - self.proven),
            },
            "manifest_ids": self.manifests,
        }


class Run:
    def __init__(self):
        self.started = self.first = self.ts = None
        self.claims, self.conflicts, self.questions = {}, {}, {}
        self.failures, self.primary, self.by_fingerprint = {}, {}, {}
        self.constraints, self.evidence = {}, {}
        self.sources, self.chunks, self.cited = set(), set(), set()
        self.newest_step, self.window = 0, Window()

    def fold(self, event):
        kind, step, payload = event["type"], event["step_id"], event["payload"]
        window = self.window
        if kind in TERMINAL:
            window.counted.add((step or 0, kind))
        if kind == "RUN_STARTED":
            self.started = dict(payload)
            self.first = self.first or payload
        elif kind == "OBSERVE_DONE":
            window.next_actions = payload.get("next_actions", [])[:3]
        elif kind == "CONTEXT_MANIFEST_WRITTEN":
            window.manifest(step, payload)
            self.chunks.update(payload.get("selected_chunk_ids", []))
        elif kind == "CHUNKS_SEEN":
            self.sources.add(payload["source_id"])
            self.chunks.update(payload["chunk_ids"])
        elif kind == "CLAIM_ADDED" and payload["claim_id"] not in self.claims:
            self.claims[payload["claim_id"]] = {
                "status": "candidate", "statement": payload["statement"], "refs": {},
                "supersedes": payload.get("supersedes")}
            window.deltas["claims_added"] += 1
        elif kind == "EVIDENCE_ATTACHED":
            one = payload["evidence"]
            span = {"unit": "utf8_byte", **one["span"]}
            ref = {"evidence_id": one["evidence_id"], "chunk_id": one["chunk_id"], "span": span}
            refs = self.claims[payload["claim_id"]]["refs"]
            window.deltas["evidence_attached"] += one["evidence_id"] not in refs
            refs[one["evidence_id"]] = self.evidence[one["evidence_id"]] = ref
            self.sources.add(one["source_id"])
            self.chunks.add(one["chunk_id"])
            self.cited.add(one["chunk_id"])
            if step is not None:
                window.proven.add(step)
        elif kind in ("CLAIM_VERIFIED", "CLAIM_RETRACTED"):
            status = kind[len("CLAIM_"):].lower()
            claim = self.claims[payload["claim_id"]]
            window.deltas[f"claims_{status}"] += claim["status"] != status
            claim["status"] = status
        elif kind == "CONFLICT_RECORDED" and payload["conflict_id"] not in self.conflicts:
            sides = {f"side_{side}_refs": self.refs(payload[f"side_{side}_evidence_ids"])
                     for side in "ab"}
            self.conflicts[payload["conflict_id"]] = {
                "conflict_id": payload["conflict_id"], "description": payload["description"],
                **sides}
            window.deltas["conflicts_added"] += 1
        elif kind == "CONFLICT_RESOLVED":
            self.conflicts[payload["conflict_id"]]["resolution"] = payload["resolution"]
        elif kind == "QUESTION_OPENED" and payload["question_id"] not in self.questions:
            self.questions[payload["question_id"]] = payload.get("text", payload["question_id"])
            window.deltas["questions_opened"] += 1
        elif kind == "QUESTION_CLOSED":
            del self.questions[payload["question_id"]]
            window.deltas["questions_closed"] += 1
        elif kind == "CONSTRAINT_SET":
            held = self.constraints.setdefault(
                payload["constraint_id"],
                {"constraint_id": payload["constraint_id"], "text": None, "violations": 0})
            held["text"] = payload.get("text") or payload["constraint_id"]
        elif kind == "CONSTRAINT_VIOLATED" and payload["constraint_id"] in self.constraints:
            self.constraints[payload["constraint_id"]]["violations"] += 1
        elif kind == "FAILURE_RECORDED":
            self.failed(payload)
        elif kind == "FAILURE_RESOLVED":
            primary = self.primary[payload["failure_id"]]
            self.failures[primary]["status"] = "resolved"
        elif kind == "POLICY_CHANGED":
            self.started["policy_snapshot_ref"] = payload.get("policy_snapshot_ref")
        if step is not None:
            window.steps.add(step)
            self.newest_step = max(self.newest_step, step)
        self.ts = event["ts"]

    def failed(self, payload):
        known = self.by_fingerprint.setdefault(payload["fingerprint"], payload["failure_id"])
        self.primary[payload["failure_id"]] = known
        if known not in self.failures:
            self.failures[known] = {
                "failure_id": known, "category": payload["signal_type"], "where": payload["where"],
                "why": payload["why"], "severity": payload["severity"], "status": "active",
                "occurrence_count": 0, "fingerprint": payload["fingerprint"]}
            self.window.deltas["failures_added"] += 1
        held = self.failures[known]
        held["occurrence_count"] += 1
        held["status"] = "active"
        held["severity"] = max(held["severity"], payload["severity"], key=SEVERITY.index)

    def refs(self, ids):
        return [self.evidence[one] for one in sorted(set(ids))]

    def claim(self, name):
        held = self.claims[name]
        claim = {"claim_id": name, "status": held["status"], "statement": held["statement"],
                 "evidence_refs": [held["refs"][one] for one in sorted(held["refs"])]}
        if held["supersedes"] is not None:
            claim["supersedes"] = held["supersedes"]
        return claim

    def state(self):
        return {
            "claims": [self.claim(name) for name in sorted(self.claims)],
            "conflicts": [self.conflicts[name] for name in sorted(self.conflicts)],
            "open_questions": list(self.questions.values()),
            "failures": [self.failures[name] for name in sorted(self.failures)],
            "source_coverage": {
                "source_ids_seen": sorted(self.sources), "chunk_ids_seen": sorted(self.chunks),
                "chunk_ids_cited": sorted(self.cited)},
        }


class Chain:
    """What the files of spilled lists hold together."""

    def __init__(self, folder):
        self.folder, self.last = folder, None
        self.claims, self.conflicts, self.questions, self.failures = {}, {}, {}, {}
        self.constraints, self.sources, self.chunks = {}, set(), set()

    def take(self, where, reference):
        data = (self.folder / reference["artifact"]).read_bytes()
        same(f"{where} hash of {reference['artifact']}", sha256(data), reference["sha256"])
        spill = json.loads(data)
        before = spill["previous"]
        if before is None:
            self.__init__(self.folder)
        else:
            same(f"{where} link", before.get("sha256"), self.last)
        self.last = sha256(data)
        for claim in spill["claims"]:
            held = self.claims.setdefault(claim["claim_id"], {"refs": {}})
            held["refs"].update({one["evidence_id"]: one for one in claim["evidence_refs"]})
            held.update(status=claim["status"], statement=claim["statement"],
                        supersedes=claim.get("supersedes"))
        for name in spill["questions_closed"]:
            self.questions.pop(name, None)
        for one in spill["questions_opened"]:
            self.questions[one["question_id"]] = one["text"]
        for records, held, name in [(spill["conflicts"], self.conflicts, "conflict_id"),
                                    (spill["failures"], self.failures, "failure_id"),
                                    (spill["constraints"], self.constraints, "constraint_id")]:
            held.update({one[name]: one for one in records})
        self.sources.update(spill["source_ids"])
        self.chunks.update(spill["chunk_ids"])

    def compare(self, where, run):
        same(f"{where} chain of claims", self.claims, run.claims)
        same(f"{where} chain of questions", self.questions, run.questions)
        for name in ("conflicts", "failures", "constraints", "sources", "chunks"):
            same(f"{where} chain of {name}", getattr(self, name), getattr(run, name))


def shows(where, shown, whole, name):
    """A spilled list shows some of the records, with the first pointers of each."""
    whole = {one[name]: one for one in whole}
    for one in shown:
        full = dict(whole.get(one[name], {}))
        for refs in [member for member in full if member.endswith("_refs")]:
            count = len(full[refs])
            full[refs] = full[refs][:SHOWN_REFS]
            if count > SHOWN_REFS:
                full[refs[:-1] + "_count"] = count
        same(f"{where} {one[name]}", one, full)


def compare(where, run, sequence, previous, found, chain):
    window, ext, state = run.window, found["ext"], run.state()
    same(f"{where} sequence", found["sequence"], sequence)
    same(f"{where} created_at", found["created_at"], run.ts)
    for name in ("objective", "done_definition"):
        same(f"{where} {name}", found[name], run.first[name])
    for name in ("provenance_mode", "policy_snapshot_ref"):
        same(f"{where} {name}", found[name], run.started[name])
    same(f"{where} counts", found["counts"], {
        "steps_since_last_compaction": len(window.steps),
        "counted_events_since_last_compaction": len(window.counted)})
    same(f"{where} deltas", ext["deltas"], window.deltas)
    same(f"{where} next_actions", ext["next_actions"], window.next_actions)
    same(f"{where} previous", ext["prev_snapshot_id"], previous)
    same(f"{where} budgets", ext.get("budgets"), run.started.get("budgets"))
    same(f"{where} checks", {one["status"] for one in found["validation"]["checks"]}, {"PASS"})
    same(f"{where} digest", ext["state_digest"], f"sha256:{sha256(canonical(found['state']))}")
    named = {name: value for name, value in found.items()
             if name not in ("snapshot_id", "validation")}
    expected = "snap_" + sha256("snapshot.v1\n" + canonical(named))[:24]
    same(f"{where} id", found["snapshot_id"], expected)
    if "spill" in ext:
        chain.take(where, ext["spill"])
        chain.compare(where, run)
        for name, key in (("claims", "claim_id"), ("conflicts", "conflict_id"),
                          ("failures", "failure_id")):
            shows(where, found["state"][name], state[name], key)
        return
    same(f"{where} state", found["state"], state)
    same(f"{where} constraints", ext.get("constraints", []),
         [run.constraints[name] for name in sorted(run.constraints)])
    same(f"{where} manifests", found["latest_context_manifest_ids"], window.manifests)
    same(f"{where} diagnostics", found["retrieval_diagnostics"], window.diagnostics())


def main(log, out, events=18, steps=8):
    run, sequence, previous, folder, chain = Run(), 0, None, None, None

    def take_if_due():
        nonlocal sequence, previous
        if len(run.window.counted) < events and len(run.window.steps) < steps:
            return
        sequence += 1
        path = folder / f"{sequence}.snapshot.json"
        if not path.exists():
            wrong.append(f"{path} is due after {run.ts} and missing")
        else:
            data = path.read_bytes()
            same(f"{path} fits", len(data) <= LIMIT, True)
            found = json.loads(data)
            compare(str(path), run, sequence, previous, found, chain)
            previous = found["snapshot_id"]
        run.window = Window()

    with open(log, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if folder is None:
                folder = Path(out) / event["run_id"]
                chain = Chain(folder)
            if event["type"] not in STATE and event["type"] not in TERMINAL:
                continue
            if event["step_id"] is not None and event["step_id"] > run.newest_step:
                take_if_due()
            run.fold(event)
            if event["type"] == "OBSERVE_DONE":
                take_if_due()
    written = len(list(folder.glob("*.snapshot.json")))
    same(f"{folder} snapshots", written, sequence)
    for line in wrong[:40]:
        print(line)
    print(f"{sequence} snapshots, {checked} comparisons, {len(wrong)} differences")
    return 1 if wrong or not sequence else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])))
