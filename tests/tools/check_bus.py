#!/usr/bin/env python3
"""Checks a home from its contracts alone: python3 check_bus.py HOME

Reads the four streams of the Summary Bus, the upstream they were made from, the run records and the
acks. Knows nothing of the program that wrote them and imports nothing but the standard library and
source_text.py, which reads files from docs/source-text-hash.md alone.
Also reads every line the way real readers of this bus do. Prints what does not hold and ends with
1, or prints what was checked.
"""

import hashlib
import io
import json
import os
import re
import sys
import unicodedata
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

from source_text import source_of

STREAMS = {
    "events": ("event", "event_summary.v1", "events_summary_manifest.v1"),
    "sessions": ("session", "session_summary.v1", "sessions_summary_manifest.v1"),
    "documents": ("document", "document_summary.v1", "documents_summary_manifest.v1"),
    "chunk_sets": ("chunk_set", "chunk_set_summary.v1", "chunk_sets_summary_manifest.v1"),
}
SELECTIONS = {
    "events": {"single_event", "event_slice"},
    "sessions": {"session_full", "session_slice"},
    "documents": {"document_full", "document_slice"},
    "chunk_sets": {"chunk_set", "document_subset", "selection_manifest"},
}
ANCHOR = {"events": "eventbus_manifest", "sessions": "sessions_manifest",
          "documents": "chunk_manifest", "chunk_sets": "chunk_manifest"}
FAMILY_OF = {"events": "eventbus/", "sessions": "sessions/", "documents": "chunks/",
             "chunk_sets": "chunks/"}
COUNTERS = ["files_seen", "files_processed", "files_skipped", "records_seen", "records_processed",
            "records_skipped", "artifacts_written", "errors_count", "warnings_count"]
CLASSES = {"INPUT_MISSING", "SCHEMA_MISMATCH", "INTEGRITY_MISMATCH", "STORAGE_UNAVAILABLE",
           "MODEL_FAILURE", "PUBLISH_FAILURE"}
UI_STATUS = {"success": "OK", "empty_success": "OK", "partial_success": "WARN", "error": "FAIL"}
HEX = re.compile(r"[0-9a-f]{64}\Z")

wrong, checked = [], Counter()


def check(holds, where, what):
    checked["statements"] += 1
    if not holds:
        wrong.append(f"{where}: {what}")
    return holds


def sha256(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def canonical(value):
    """RFC 8785, for values without floating point numbers and with names in ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def as_line(value):
    """Canonical, with the characters escaped that some readers take for a line end."""
    text = canonical(value)
    for separator in ("\u0085", "\u2028", "\u2029"):
        text = text.replace(separator, f"\\u{ord(separator):04x}")
    return text


def stable_id(prefix, parts):
    parts = [unicodedata.normalize("NFC", " ".join(part.split())) for part in parts]
    text = f"stable_id:v1|{len(parts)}" + "".join(f"|{len(p.encode())}:{p}" for p in parts)
    return f"{prefix}_{sha256(text)[:32]}"


def list_hash(ids):
    parts = ["list", *ids]
    return sha256(f"stable_id:v1|{len(parts)}" + "".join(f"|{len(p.encode())}:{p}" for p in parts))


def normal(text):
    """summarizer.text version 1."""
    text = re.sub("\r\n|[\r\v\f\x85]", "\n", unicodedata.normalize("NFC", text))
    keep = lambda c: c in "\t\n" or (unicodedata.category(c) != "Cc" and c != "\ufeff")
    lines = [line.rstrip(" \t") for line in "".join(filter(keep, text)).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    return text.strip("\n")


# --- upstream, manifest first ------------------------------------------------------------------

class Upstream:
    def __init__(self, buses):
        self.buses, self.records = buses, {"event_id": {}, "session_id": {}, "chunk_id": {}}
        self.summaries = {}
        for folder, data, key in [("eventbus", "daily", "event_id"),
                                  ("sessions", "daily", "session_id"),
                                  ("chunks", "canonical", "chunk_id")]:
            for manifest in sorted((buses / folder / "manifest").glob("*.manifest.json")):
                self.read(manifest, buses / folder / data, key)

    def read(self, path, folder, key):
        manifest = json.loads(path.read_bytes())
        stem = path.name[: -len(".manifest.json")]
        names = [f"{stem}.jsonl", f"{stem}.sessions.jsonl"]
        data = next((folder / name for name in names if (folder / name).exists()), None)
        if not check(data is not None, path, "its data is missing"):
            return
        content = data.read_bytes()
        integrity = manifest.get("integrity", {})
        content = content[: integrity.get("bytes", len(content))]
        declared = integrity.get("sha256") or str(list(manifest["checksums"].values())[0])
        check(declared.replace("sha256:", "") == sha256(content), path, "the data has another hash")
        for line in content.decode().splitlines():
            if line.strip():
                record = json.loads(line)
                self.records[key][record[key]] = record

    def text(self, stream, item, source):
        """The text of one source, before normalization; None when we cannot know it."""
        if source.startswith("other:"):
            return source_of(self.buses / "other", source[len("other:"):])
        if item["selection"].get("anchor") == "other":
            line = self.summary_line(source)
            return None if line is None else json.loads(line)["outputs"]["summary_text"]
        if stream in ("events", "sessions"):
            event = self.records["event_id"].get(source)
            return None if event is None else self.event_text(event, item)
        chunk = self.records["chunk_id"].get(source)
        return None if chunk is None else chunk["text"]

    def summary_line(self, summary_id):
        """The line of a summary of this bus, in whichever day it is."""
        if not self.summaries:
            for path in sorted((self.buses / "summaries").glob("*/*.summary.jsonl")):
                for line in path.read_bytes().split(b"\n"):
                    if line:
                        self.summaries[json.loads(line)["summary_id"]] = line
        return self.summaries.get(summary_id)

    def event_text(self, event, item):
        payload = event.get("payload") if isinstance(event.get("payload"), dict) else {}
        steps = [event.get("content"), event.get("text")]
        steps += [payload.get(name) for name in ("text", "content", "summary")]
        if item["selection"].get("title_as_text"):
            steps.append(event.get("title"))
        for step in steps:
            if isinstance(step, str) and normal(step):
                return step
        ids = event.get("chunk_ids") or ([event["chunk_id"]] if event.get("chunk_id") else [])
        ids = ids or [ref["chunk_id"] for ref in event.get("refs") or [] if "chunk_id" in ref]
        return "\n\n".join(self.records["chunk_id"][one]["text"] for one in ids)


# --- lines -------------------------------------------------------------------------------------

def text_ids(stream, item):
    if item["selection"].get("anchor") == "other":
        return item["source_ids"]
    return {"sessions": item.get("event_ids"), "documents": item.get("chunk_ids")}.get(
        stream, item["source_ids"])


def check_item(where, stream, day, item, upstream):
    source_type, version, _ = STREAMS[stream]
    check(item["schema_version"] == version, where, "schema_version")
    check(item["day"] == day and item["source_type"] == source_type, where, "day or source_type")
    ids = item["source_ids"]
    check(ids and all(isinstance(one, str) and one for one in ids), where, "source_ids")
    selection, model, prompt = item["selection"], item["model"], item["prompt"]
    check(selection["selection_type"] in SELECTIONS[stream], where, "selection_type")
    check(HEX.match(selection["source_text_hash"]), where, "source_text_hash")
    check(selection["normalization"] == {"name": "summarizer.text", "version": "1"}, where,
          "normalization")
    counts = selection["counts"]
    check(counts["sources"] == counts["used"] + counts["skipped"], where, "selection.counts")
    check(sum(selection["skip_reasons"].values()) == counts["skipped"], where, "skip_reasons")
    for holder, names in [(model, ["provider", "model_name", "model_version"]),
                          (prompt, ["prompt_hash", "template_id", "prompt_version"]),
                          (item["producer"], ["summarizer_version", "run_id"])]:
        check(all(isinstance(holder[name], str) for name in names), where, f"one of {names}")
    check("temperature" in model and "max_tokens" in model, where, "temperature or max_tokens")
    outputs = item["outputs"]
    check(isinstance(outputs["summary_text"], str) and outputs["summary_text"], where, "no text")
    check(isinstance(outputs["model_generated"], bool), where, "model output is not labelled")
    check(outputs["model_generated"] == (model["provider"] != "builtin"), where, "the label is wrong")
    if stream == "sessions":
        check(len(ids) == 1 and item["event_ids"], where, "one session, with its events")
        sessions = selection["session_ids"]
        union = {one for s in sessions for one in upstream.records["session_id"][s]["event_ids"]}
        check(sessions[0] == ids[0] and set(item["event_ids"]) == union, where, "event_ids")
    if stream == "documents":
        check(item["document_id"] == ids[0], where, "document_id")
    if stream == "chunk_sets" or (stream == "documents" and item["chunk_ids"]):
        chunks = ids if stream == "chunk_sets" else item["chunk_ids"]
        found = [upstream.records["chunk_id"].get(one) for one in chunks]
        documents = list(dict.fromkeys(one["document_id"] for one in found if one))
        claimed = item["document_ids"] if stream == "chunk_sets" else ids
        check(None not in found and documents == claimed, where, "documents of the chunks")
    primary = selection["session_ids"] if stream == "sessions" else ids
    meta = item["meta"]
    context = selection.get("context", {})
    beside = [f"context:{context['sha256']}"] if "sha256" in context else []
    if "publish" in context:
        beside.append(f"publish:{json.dumps(context['publish'])}")
    if "missing_days" in context:
        beside.append(f"missing_days:{context['missing_days']}")
    expected = stable_id("sum", [
        "summary", f"type:{stream}", f"kind:{meta['summary_kind']}",
        f"subkind:{meta['summary_subkind']}", f"sources_hash:{list_hash(primary)}",
        f"selection_checksum:{selection['source_text_hash']}",
        f"prompt_hash:{prompt['prompt_hash']}", "summarizer:engine_v1",
        f"provider:{model['provider']}", f"model:{model['model_name']}", *beside])
    check(item["summary_id"] == expected, where, f"summary_id: expected {expected}")
    check_texts(where, stream, item, upstream)
    if "hierarchy" in outputs:
        check_hierarchy(where, outputs)
    check_real_readers(where, item)


def check_texts(where, stream, item, upstream):
    sources = text_ids(stream, item)
    texts = [upstream.text(stream, item, one) for one in sources]
    if not check(None not in texts, where, "a source is nowhere upstream"):
        return
    texts = [normal(text) for text in texts]
    array = canonical([{"id": one, "text": text} for one, text in zip(sources, texts)])
    check(sha256(array) == item["selection"]["source_text_hash"], where, "source_text_hash")
    used = sum(1 for text in texts if text)
    # A flow may have read fewer than those that have words; skip_reasons then says why.
    check(item["selection"]["counts"]["used"] <= used, where, "counts.used")
    checked["texts"] += len(texts)
    by_id, places = dict(zip(sources, texts)), set()
    for name in ["rendered_short", "rendered_medium", "rendered_long"]:
        said = item["outputs"].get(name)
        check(said != item["outputs"]["summary_text"], where, f"{name} repeats summary_text")
    for ref in item["outputs"].get("evidence_refs", []):
        text, span = by_id.get(ref["chunk_id"]), ref["span"]
        if not check(text is not None, where, f"evidence in {ref['chunk_id']}, no source of it"):
            continue
        quote = text.encode()[span["start"]: span["end"]]
        said = ref["quote"] if "quote" in ref else member(item["outputs"], ref["pointers"][0])
        check(quote == said.encode() and quote, where, f"evidence {ref['evidence_id']}")
        named = canonical(["evidence.v1", ref["namespace"], ref["chunk_id"], span["start"],
                           span["end"], "utf8_byte", sha256(quote)])
        check(ref["evidence_id"] == f"ev_{sha256(named)[:32]}", where, "evidence_id")
        check(ref["evidence_id"] not in places, where, "a passage has two entries")
        places.add(ref["evidence_id"])
        left_out = {"/rendered_short", "/rendered_medium", "/rendered_long"}
        left_out -= {f"/{name}" for name in item["outputs"]}
        check(not left_out & set(ref["pointers"]), where, "a pointer to a rendering that is left out")
        check(ref["pointers"] and all(p.startswith("/") for p in ref["pointers"]), where, "pointers")
        checked["evidence"] += 1


def member(outputs, pointer):
    """The text that a pointer into the answer names; `outputs` has what `structured` leaves out."""
    for found in [outputs["structured"], outputs]:
        for name in pointer.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list):
                found = found[int(name)]
            else:
                found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str):
            return found
    return ""


def check_hierarchy(where, outputs):
    check(outputs["hierarchy_version"] == "tree.v1", where, "hierarchy_version")
    nodes = outputs["hierarchy"]["nodes"]
    by_id = {node["node_id"]: node for node in nodes}
    check(len(by_id) == len(nodes) == outputs["node_count"], where, "node_count")
    leaves = [node for node in nodes if node["level"] == 0]
    check(len(leaves) == outputs["leaf_count"], where, "leaf_count")
    check([n["level"] for n in nodes] == sorted(n["level"] for n in nodes), where, "node order")
    seen, stack = set(), [outputs["hierarchy"]["root"]]
    while stack:
        node = by_id[stack.pop()]
        check(node["node_id"] not in seen, where, "a node has two parents")
        seen.add(node["node_id"])
        for child in node["children"]:
            check(by_id[child]["level"] < node["level"], where, "a child above its parent")
            stack.append(child)
    check(seen == set(by_id), where, "a node hangs nowhere")
    checked["hierarchies"] += 1


# --- how real readers read a line ---------------------------------------------------------------

def first(*values):
    return next((value for value in values if value not in (None, "", [])), None)


def read_as_bags(item):
    """The bag builder: text, tags, actions, a stable id, an integer time and a `meta` to group by."""
    outputs, meta = item.get("outputs", {}), item.get("meta")
    if not meta:
        raise ValueError("nothing to group by")
    when = item["ts_abs_ms"]
    cohort = datetime.fromtimestamp(when / 1000, timezone.utc).strftime("%G-W%V")
    return {"id": first(item.get("event_id"), item.get("id")), "cohort": cohort,
            "text": first(item.get("text"), outputs.get("summary_text")),
            "tags": first(item.get("tags"), outputs.get("tags"), meta.get("tags")) or [],
            "actions": first(item.get("suggested_actions"), outputs.get("actions")) or []}


def read_as_selector(item):
    """The artifact selector: one record with a reference, a time to filter by, and annotations."""
    outputs, meta = item.get("outputs", {}), item.get("meta")
    if not isinstance(meta, dict):
        raise ValueError("invalid line")
    when = first(*(item.get(name) for name in ("timestamp", "ts_abs", "ts", "created_at")),
                 meta.get("timestamp"), meta.get("ts_abs"), item.get("ts_abs_ms"))
    when = datetime.fromisoformat(when.replace("Z", "+00:00"))
    reference = first(meta.get("provenance", {}).get("source_ref"), item.get("source_ref"))
    annotations = {name: value for name, value in meta.items() if name != "provenance"}
    scalar = all(isinstance(value, (str, int, float, bool, type(None), list))
                 for value in annotations.values())
    return {"record_id": reference, "when": when, "title": first(item.get("title")),
            "text": first(item.get("text"), item.get("content"), outputs.get("summary_text")),
            "filterable": scalar and bool(annotations)}


def check_real_readers(where, item):
    try:
        bag, record = read_as_bags(item), read_as_selector(item)
    except (KeyError, TypeError, ValueError) as error:
        check(False, where, f"a real reader stops: {error!r}")
        return
    text, ident = item["outputs"]["summary_text"], item["summary_id"]
    check(bag["id"] == ident and record["record_id"] == ident, where, "readers name it otherwise")
    check(bag["text"] == text and record["text"] == text, where, "readers see another text")
    check(all(isinstance(tag, str) for tag in bag["tags"]), where, "tags are words")
    check(isinstance(bag["actions"], list), where, "actions are a list")
    check(int(record["when"].timestamp() * 1000) == item["ts_abs_ms"], where, "two times")
    check(record["title"] and record["filterable"], where, "title or annotations")


# --- partitions ----------------------------------------------------------------------------------

def singular(values):
    return "" if not values else values[0] if len(values) == 1 else "mixed"


def check_partition(buses, stream, day, upstream):
    data_path = f"summaries/{stream}/{day}.{stream}.summary.jsonl"
    manifest_path = f"summaries/manifest/{day}.{stream}.summary.manifest.json"
    where = data_path
    for path in (data_path, manifest_path):
        if not check((buses / path).is_file(), path, "is missing"):
            return None, []
    raw = (buses / manifest_path).read_bytes()
    check(len(raw) < 1 << 20, manifest_path, "more than a gateway takes")
    data, manifest = (buses / data_path).read_bytes(), json.loads(raw)
    check(not data or data.endswith(b"\n"), where, "the last line does not end")
    lines = data.decode("utf-8").split("\n")[:-1]
    items = []
    for number, line in enumerate(lines, 1):
        at = f"{where}:{number}"
        item = json.loads(line)
        if not re.search(r"\d\.\d|\d[eE]", re.sub(r'"(?:[^"\\]|\\.)*"', "", line)):
            check(as_line(item) == line, at, "not canonical JSON")
        check_item(at, stream, day, item, upstream)
        items.append(item)
    ids = [item["summary_id"] for item in items]
    check(ids == sorted(set(ids)), where, "not in order of summary_id, each once")
    check_manifest(buses, manifest_path, manifest, stream, day, data_path, data, items)
    checked["partitions"] += 1
    checked["lines"] += len(items)
    return manifest, items


def check_manifest(buses, where, manifest, stream, day, data_path, data, items):
    _, item_version, version = STREAMS[stream]
    same = lambda left, right, what: check(left == right, where, f"{what}: {left!r}, not {right!r}")
    same(manifest["schema_version"], version, "schema_version")
    same(manifest["bus_schema_version"], item_version, "bus_schema_version")
    same(manifest["schema_version_emitted"], item_version, "schema_version_emitted")
    same(manifest["artifact_family"], "summary_bus", "artifact_family")
    same(manifest["day"], day, "day")
    for path in (manifest["data_path"], manifest["paths"]["summaries_path"]):
        same(path, data_path, "path of the data")
    integrity, counts = manifest["integrity"], manifest["counts"]
    same((integrity["sha256"], integrity["bytes"], integrity["lines"]),
         (sha256(data), len(data), len(items)), "integrity")
    same(manifest["hashes"]["data_hash"], integrity["sha256"], "hashes.data_hash")
    same(counts["eligible"], counts["produced"] + counts["skipped"] + counts["failed"], "eligible")
    same((counts["produced"], counts["records_total"], counts["records_valid"]),
         (len(items),) * 3, "produced")
    same(counts["records_dropped"], counts["skipped"] + counts["failed"], "records_dropped")
    same(sum(manifest["skip_reasons"].values()), counts["skipped"], "skip_reasons")
    same(sum(manifest["fail_reasons"].values()), counts["failed"], "fail_reasons")
    for name in ("sources", "used", "skipped"):
        total = sum(item["selection"]["counts"][name] for item in items)
        same(manifest["source_counts"][name], total, f"source_counts.{name}")
    reasons = Counter()
    for item in items:
        reasons.update(item["selection"]["skip_reasons"])
    same(manifest["source_skip_reasons"], dict(reasons), "source_skip_reasons")
    times = [item["ts_abs_ms"] for item in items]
    ends = (min(times), max(times)) if times else (None, None)
    iso = lambda ms: ms if ms is None else datetime.fromtimestamp(
        ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"
    same((manifest["time_range"]["min_ts"], manifest["time_range"]["max_ts"]),
         tuple(map(iso, ends)), "time_range")
    models = sorted({item["model"]["model_name"] for item in items})
    prompts = sorted({item["prompt"]["prompt_hash"] for item in items})
    producer = manifest["producer"]
    same((producer["model_name"], producer["model_names"]), (singular(models), models), "models")
    same((producer["prompt_hash"], producer["prompt_hashes"]), (singular(prompts), prompts),
         "prompts")
    same(producer["run_id"], manifest["run_id"], "run_id")
    check_inputs(buses, where, manifest, stream)


def begins_with(content, data_hash):
    """Whether this is the hash of some first lines of a file."""
    beginning = hashlib.sha256()
    for line in io.BytesIO(content):
        beginning.update(line)
        if beginning.hexdigest() == data_hash:
            return True
    return False


def check_inputs(buses, where, manifest, stream):
    inputs = manifest["inputs"]
    paths = [one["path"] for one in inputs]
    check(paths == sorted(paths), where, "inputs are not in order of their paths")
    anchors = {}
    for one in inputs:
        path = one["path"]
        check(not path.startswith("/") and ".." not in path.split("/"), where, f"path {path}")
        if one.get("manifest_path"):
            data = (buses / one["manifest_path"]).read_bytes()
            if path.startswith(FAMILY_OF[stream]):
                anchors[one["partition"]] = one["manifest_hash"]
            upstream = json.loads(data)
            size = upstream.get("integrity", {}).get("bytes")
            read = (buses / path).read_bytes()[:size]
            if sha256(read) == one["data_hash"]:
                same = sha256(data) == one["manifest_hash"]
                check(same, where, f"{one['manifest_path']} changed")
            else:
                # An upstream file may have grown; its manifest was then written again.
                check(begins_with(read, one["data_hash"]), where, f"{path} changed")
        elif re.search("#sum_[0-9a-f]{32}$", path):
            name, _, summary = path.rpartition("#")
            lines = (buses / name).read_bytes().split(b"\n")
            mine = [l for l in lines if l and json.loads(l)["summary_id"] == summary]
            check([sha256(l) for l in mine] == [one["data_hash"]], where, f"{path} changed")
        else:
            check(sha256((buses / path).read_bytes()) == one["data_hash"], where, f"{path} changed")
    plain = [one for one in inputs if one["bus"] == "other"]
    if plain:
        listed = [{"path": one["path"], "sha256": one["data_hash"]} for one in plain]
        anchors["other"] = sha256(canonical(listed))
    prefix, given = ANCHOR[stream], manifest["input"]
    days = sorted(anchors)
    check(given[f"{prefix}_day"] == (singular(days) or manifest["day"]), where, "input day")
    hashes = [anchors[day] for day in days]
    check(given[f"{prefix}_sha256"] == singular(hashes), where, "input hash")
    if len(days) > 1:
        check(given[f"{prefix}_days"] == days, where, "input days")
    if not inputs:
        check(manifest["warnings"], where, "nothing was read and nobody is warned")
    checked["inputs"] += len(inputs)


# --- run records and acks -------------------------------------------------------------------------

def check_runs(buses, items, manifests):
    records = {}
    for path in sorted((buses / "artifacts/run_records").glob("*.run_record.json")):
        record, where = json.loads(path.read_bytes()), path.name
        records[record["run_id"]] = record
        check(path.name == f"{record['run_id']}.run_record.json", where, "name")
        check(record["status"] in UI_STATUS, where, "status")
        check(all(isinstance(record["counters"][name], int) for name in COUNTERS), where, "counters")
        check(record["counters"]["errors_count"] >= len(record["errors"]), where, "errors_count")
        for error in record["errors"]:
            check(error["type"] in CLASSES and error["message"], where, "class of an error")
            check(error["severity"] in ("error", "fatal"), where, "severity")
        check(record["status"] != "error" or record["errors"], where, "an error nobody names")
        for end in [*record["inputs"], *record["outputs"]]:
            check(not end["path"].startswith("/"), where, "an absolute path")
        for one in record["outputs"]:
            check(one["promotion_status"] in ("staged", "promoted", "not_written"), where,
                  "promotion_status")
            if one["promotion_status"] == "promoted":
                # `digest gc` removes bags that were published.
                kept = (buses / one["path"]).exists() or one["path"].startswith("digests/")
                check(kept, where, f"{one['path']} is gone")
                hashed = one["artifact_family"] != "summary_bus" or HEX.match(one["data_hash"])
                check(hashed, where, f"{one['path']} has no hash")
    rows = {}
    for manifest_path in sorted((buses / "run_records/daily").glob("*.manifest.json")):
        manifest = json.loads(manifest_path.read_bytes())
        data = manifest_path.with_name(manifest_path.name.replace(".manifest.json", ".jsonl"))
        content, where = data.read_bytes(), data.name
        check(manifest["integrity"]["sha256"] == sha256(content), where, "hash")
        lines = content.decode().splitlines()
        check(manifest["counts"]["records_total"] == len(lines), where, "records_total")
        for line in lines:
            row = json.loads(line)
            check(row["run_id"] not in rows, where, "a run with two rows")
            rows[row["run_id"]] = row
    check(set(records) == set(rows), "run records", "records and rows are not of the same runs")
    for run_id, record in records.items():
        status = UI_STATUS[record["status"]]
        if status == "OK" and record["counters"]["warnings_count"]:
            status = "WARN"
        check(rows[run_id]["status"] == status, run_id, "status of the row")
    named = {item["producer"]["run_id"] for item in items} | {one["run_id"] for one in manifests}
    check(named <= set(records), "run records", f"no record of {sorted(named - set(records))}")
    made = sum(stage["counters"].get("produced", 0) for record in records.values()
               for stage in record["stages"] if stage["stage"] == "model_execute")
    check(made == len(items), "run records", f"{made} produced, {len(items)} on the bus")
    checked["runs"] += len(records)


def check_acks(home, items, manifests):
    last, accepted = {}, set()
    for line in (home / "run/ack.jsonl").read_text("utf-8").splitlines():
        ack = json.loads(line)
        if ack["request_id"] is None:
            continue
        if ack["status"] == "accepted":
            accepted.add(ack["request_id"])
        elif ack["retry_at"] is None:
            last[ack["request_id"]] = ack
    pointed = {ack["summary"]["summary_id"] for ack in last.values()
               if ack["status"] == "completed" and ack["summary"]}
    check(pointed == {item["summary_id"] for item in items}, "acks", "they name other summaries")
    skipped = Counter(ack["reason_code"].replace("skipped_", "") for ack in last.values()
                      if ack["status"] == "completed" and not ack["summary"])
    counted = Counter()
    for manifest in manifests:
        counted.update(manifest["skip_reasons"])
    check(skipped == counted, "acks", f"skips {dict(skipped)}, counted {dict(counted)}")
    check(accepted <= set(last), "acks", "somebody was accepted and never told the end")
    checked["requests"] += len(last)


def main(home):
    buses = home / "buses"
    upstream = Upstream(buses)
    found = set()
    for stream in STREAMS:
        for path in (buses / "summaries" / stream).iterdir():
            match = re.fullmatch(rf"(\d{{4}}-\d\d-\d\d)\.{stream}\.summary\.jsonl", path.name)
            if check(match, path, "this name belongs to no partition"):
                found.add(match[1])
    names = {path.name for path in (buses / "summaries/manifest").iterdir()}
    expected = {f"{day}.{stream}.summary.manifest.json" for day in found for stream in STREAMS}
    check(names == expected, "summaries/manifest", "not one manifest for each day and stream")
    check(found, "summaries", "no day at all")
    items, manifests = [], []
    for day in sorted(found):
        for stream in STREAMS:
            manifest, lines = check_partition(buses, stream, day, upstream)
            if manifest:
                manifests.append(manifest)
                items.extend(lines)
                checked[f"lines of {stream}"] += len(lines)
    check(len({item["summary_id"] for item in items}) == len(items), "summaries", "an id twice")
    check_runs(buses, items, manifests)
    check_acks(home, items, manifests)
    for line in wrong[:40]:
        print(line)
    print(json.dumps(dict(sorted(checked.items()))))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
