#!/usr/bin/env python3
"""Groups summaries again and compares: python3 check_digests.py BUS_HOME SELECTORS [TIME_ZONE]

Reads the Summary Bus of BUS_HOME, the lists of versions, and a file of selectors; computes every bag
of every active selector, and compares with the bags that the digest registry lists. Written from
docs/digests.md and the decisions it names alone, with nothing but the standard library. Which tasks
are closed is not computed: bags of open tasks must hold no summary without a task.
Prints what differs and ends with 1, or prints what was checked.
"""

import json
import math
import re
import sys
import unicodedata
from datetime import date, datetime, timedelta, timezone
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from zoneinfo import ZoneInfo

COLUMNS = ["stage", "msg_type", "domain", "note_type", "format_type", "category", "subtopic",
           "verdict"]
RANKS = ["topic", "category", "domain", "stage", "msg_type", "format_type", "note_type", "rtype",
         "snippet_type", "free"]
SAME_NAMESPACE = {
    "message_type": "msg_type", "msgtype": "msg_type", "messagetype": "msg_type",
    "format": "format_type", "fmt": "format_type", "content_type": "format_type",
    "formattype": "format_type", "notetype": "note_type", "response_type": "rtype",
    "responsetype": "rtype", "snippettype": "snippet_type", "topics": "topic"}
RULES = [{"from": "request"}, {"from": "source"},
         {"from": "label", "not": ["inbox", "Inbox", "INBOX", "sent", "Sent", "unread", "Unread",
                                   "important", "Important"]},
         {"from": "feed"}, {"from": "mailbox", "not": ["inbox", "Inbox", "INBOX"]},
         {"from": "folder"}, {"from": "repo", "not": ["summarizer*", "cli"]}]

wrong, checked = [], 0


def scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def slug(text):
    text = text.strip()
    kept, lossy = "", False
    for c in unicodedata.normalize("NFKD", text):
        if c in " -/\t\n\r":
            kept += "_"
        elif "!" <= c <= "~":
            kept += c.lower()
        elif not unicodedata.category(c).startswith("M"):
            lossy = True
        if len(kept) > 80:
            lossy = True
            break
    if lossy:
        whole = unicodedata.normalize("NFC", text).lower()
        mark = f"chk_{sha256(whole.encode()).hexdigest()[:8]}"
        return f"{kept[:64]}_{mark}" if kept else mark
    return kept or "unknown"


def tag_of(raw):
    namespace, colon, value = raw.partition(":")
    if not colon:
        namespace, value = "", raw
    namespace = slug(namespace) if namespace.strip() else "free"
    return f"{SAME_NAMESPACE.get(namespace, namespace)}:{slug(value)}"


def rank(tag):
    namespace = tag.split(":", 1)[0]
    return RANKS.index(namespace) if namespace in RANKS else len(RANKS)


def verdicts(structured):
    """What a flow decided, in words that it also writes as tags."""
    found = set()
    for name, value in structured.items():
        if name.startswith("has_") and isinstance(value, bool):
            found |= {name[4:], f"no_{name[4:]}"}
        elif isinstance(value, str) and re.fullmatch("[a-z_]{0,40}", value):
            found.add(value)
    return found


def structured_of(item):
    structured = item.get("outputs", {}).get("structured")
    return structured if isinstance(structured, dict) else {}


def tags_of(item):
    outputs, meta = item.get("outputs", {}), item.get("meta", {})
    judged = verdicts(structured_of(item))
    raw = [f"verdict:{one}" if one in judged else one
           for one in outputs.get("tags") or [] if isinstance(one, str)]
    raw += [f"topic:{one}" for one in outputs.get("topics") or [] if isinstance(one, str)]
    for name in ("category", "format_type"):
        if isinstance(outputs.get(name), str):
            raw.append(f"{name}:{outputs[name]}")
    for name in COLUMNS:
        if scalar(meta.get(name)) is not None:
            raw.append(f"{name}:{scalar(meta[name])}")
    best = {}
    for tag in map(tag_of, (one for one in raw if one.strip())):
        value = tag.split(":", 1)[1]
        if value not in best or (rank(tag), len(tag), tag) < (rank(best[value]), len(best[value]),
                                                              best[value]):
            best[value] = tag
    return sorted(best.values(), key=lambda tag: (rank(tag), tag))


def fits(value, patterns):
    return any(value.startswith(one[:-1]) if one.endswith("*") else value == one
               for one in patterns)


def project_of(meta, rules):
    for rule in rules:
        place = rule["from"]
        if place in ("request", "source", "flow"):
            named = meta.get("project_from", "source") == place
            value = scalar(meta.get("project")) if named else None
        else:
            value = scalar(meta.get(place))
        value = (value or "").strip()
        if not value or fits(value, rule.get("not", [])):
            continue
        if rule.get("only") and not fits(value, rule["only"]):
            continue
        return rule.get("project", value)
    return None


def has_tasks(item):
    outputs, structured = item.get("outputs", {}), structured_of(item)
    lists = [structured.get("tasks"), outputs.get("actions"), structured.get("pending_tasks")]
    # A note marks its tasks with a label. Which labels count is not computed.
    if not any(isinstance(one, list) for one in lists):
        return bool(structured.get("marked_tasks")) or ": " in (outputs.get("summary_text") or "")
    return any(isinstance(one, list) and one for one in lists)


def known_by(item):
    """What the sources of a summary are known by, so that several flows about one count once."""
    meta, origins = item.get("meta", {}), item.get("selection", {}).get("origins")
    name = meta.get("conversation_id") or meta.get("source_name")
    if item.get("source_type") == "session" and name:
        return name, item["ts_abs_ms"]
    return tuple(sorted(origins or item.get("source_ids") or [item["summary_id"]]))


class Summary:
    def __init__(self, item, stream, rules):
        self.id, self.stream = item["summary_id"], stream
        self.at = item["ts_abs_ms"]
        self.meta, self.tags = item.get("meta", {}), tags_of(item)
        self.project = project_of(self.meta, rules)
        self.confidence = item.get("outputs", {}).get("confidence")
        self.tasks, self.source = has_tasks(item), known_by(item)
        self.private = self.meta.get("publish") is False
        self.replaced = False

    def day(self, zone):
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=self.at)
        return at.astimezone(zone).date()


def window_of(kind, day):
    """The label of the window that holds a day."""
    year, week, _ = day.isocalendar()
    if kind == "day":
        return day.isoformat()
    if kind == "iso_week":
        return f"{year}-W{week:02}"
    if kind == "fortnight":
        odd = week if week % 2 else week - 1
        return f"{year}-W{odd:02}_W{min(odd + 1, date(year, 12, 28).isocalendar()[1]):02}"
    return day.strftime("%Y-%m") if kind == "month" else "all"


def matches(one, rule):
    def has(wanted):
        if ":" in wanted:
            return tag_of(wanted) in one.tags
        return slug(wanted) in [tag.split(":", 1)[1] for tag in one.tags]

    publish = rule.get("publish", "public")
    return all([
        not rule.get("streams") or one.stream in rule["streams"],
        publish == "any" or one.private == (publish == "private"),
        not one.replaced,
        not rule.get("projects") or one.project in rule["projects"],
        all(has(tag) for tag in rule.get("tags_all", [])),
        not rule.get("tags_any") or any(has(tag) for tag in rule["tags_any"]),
        not any(has(tag) for tag in rule.get("tags_none", [])),
        all(scalar(one.meta.get(name)) in [scalar(value) for value in values]
            for name, values in rule.get("meta", {}).items()),
        "min_confidence" not in rule or (one.confidence or -1) >= rule["min_confidence"],
        not rule.get("has_tasks") or one.tasks,
    ])


def grouping_tags(units):
    """Tags of texts: no columns, and no tag that a flow puts on all of its several outputs."""
    outputs, carrying = {}, {}
    for one in units:
        flow = scalar(one.meta.get("flow_id"))
        outputs[flow] = outputs.get(flow, 0) + 1
        for tag in one.tags:
            carrying[flow, tag] = carrying.get((flow, tag), 0) + 1

    def says_something(one, tag):
        flow = scalar(one.meta.get("flow_id"))
        stamped = flow is not None and outputs[flow] > 1 and carrying[flow, tag] == outputs[flow]
        return not stamped and tag.split(":", 1)[0] not in COLUMNS

    return {one.id: [tag for tag in one.tags if says_something(one, tag)] for one in units}


def best_pairs(units, grouping, rule, top):
    n, counts, both = len(units), {}, {}
    for one in units:
        for tag in grouping[one.id]:
            counts[tag] = counts.get(tag, 0) + 1
    least = rule.get("min_count", 3)
    frequent = sorted((tag for tag in counts if counts[tag] >= least),
                      key=lambda tag: (-counts[tag], tag))[:rule.get("vocabulary", 300)]
    for one in units:
        for pair in combinations(sorted(set(grouping[one.id]) & set(frequent)), 2):
            both[pair] = both.get(pair, 0) + 1
    scored = []
    for (a, b), c in both.items():
        p = min(max(c / n, 1e-12), 1 - 1e-12)
        lift = p / (counts[a] / n * (counts[b] / n))
        npmi = math.log(lift) / -math.log(p)
        edge = max(npmi, 0) * math.log(1 + c) * math.log(max(lift, 1.0000001))
        if c >= least and npmi >= rule.get("min_npmi", 0.05):
            scored.append((-round(edge, 9), -c, a, b))
    return [f"{a}+{b}" for _, _, a, b in sorted(scored)[:top]]


def joined(tags):
    """The key of a group that several tags define."""
    return "+".join(tag.replace("%", "%25").replace("+", "%2B") for tag in tags)


def combos(units, grouping, rule, top):
    """The members of each combination of the most frequent tags."""
    counts, groups = {}, {}
    for one in units:
        for tag in grouping[one.id]:
            counts[tag] = counts.get(tag, 0) + 1
    frequent = sorted((tag for tag in counts if counts[tag] >= rule.get("min_items", 1)),
                      key=lambda tag: (-counts[tag], tag))[:min(top, 100)]
    for one in units:
        own = sorted(set(grouping[one.id]) & set(frequent))
        for combo in combinations(own, rule.get("combo_size", 2)):
            groups.setdefault(joined(combo), []).append(one)
    return groups


def groups_of(units, selector):
    """The members of each group, by its key."""
    rule = selector.get("group", {})
    by, top = rule.get("by", "none"), rule.get("top", 50)
    if by == "none":
        groups = {None: units}
    elif by in ("tag", "pair", "combo"):
        grouping = grouping_tags(units)
        if by == "pair":
            pairs = best_pairs(units, grouping, selector.get("pairs", {}), top)
            return {pair: [one for one in units if set(pair.split("+")) <= set(one.tags)]
                    for pair in pairs}
        groups = combos(units, grouping, rule, top) if by == "combo" else {}
        for one in units if by == "tag" else []:
            for tag in grouping[one.id]:
                groups.setdefault(tag, []).append(one)
    else:
        groups = {}
        for one in units:
            key = {"project": one.project, "stream": one.stream,
                   "meta": scalar(one.meta.get(rule.get("field")))}[by]
            if key is not None:
                groups.setdefault(key, []).append(one)
    enough = [(key, held) for key, held in groups.items()
              if len({one.source for one in held}) >= rule.get("min_items", 1)]
    return dict(sorted(enough, key=lambda one: (-len(one[1]), one[0] or ""))[:top])


def ordered(units, selector):
    units = sorted(units, key=lambda one: (one.at, one.id))
    for key in reversed(selector.get("order", [])):
        down, key = key.startswith("-"), key.lstrip("-")
        if key == "time":
            units.sort(key=lambda one: one.at, reverse=down)
            if down:  # summaries of one moment stay in the order of their ids
                units.sort(key=lambda one: -one.at)
        elif key == "confidence":
            units.sort(key=lambda one: (one.confidence or 0) * (-1 if down else 1))
    return units


def capped(units, caps):
    kept, projects, tags = [], {}, {}
    for one in units:
        tag = one.tags[0] if one.tags else None
        if tags.get(tag, 0) >= caps.get("per_tag", math.inf):
            continue
        if projects.get(one.project, 0) >= caps.get("per_project", math.inf):
            continue
        if len(kept) >= caps.get("total", math.inf):
            continue
        tags[tag] = tags.get(tag, 0) + 1
        projects[one.project] = projects.get(one.project, 0) + 1
        kept.append(one)
    return kept


def summaries(home, rules):
    found = {}
    for stream in ("events", "sessions", "documents", "chunk_sets"):
        for path in sorted((home / "summaries" / stream).glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                one = Summary(json.loads(line), stream, rules)
                found[one.id] = one
    for path in sorted((home / "versions").glob("*.versions.jsonl")):
        for line in path.read_bytes().splitlines():
            version = json.loads(line)
            one = found.get(version["summary_id"])
            if one is not None:
                one.replaced |= version.get("replaced_by") is not None
                one.private |= version.get("private") is True
    return list(found.values())


def main(home, selectors, zone="UTC"):
    global checked
    home = Path(home)
    lines = [json.loads(line) for line in Path(selectors).read_bytes().splitlines() if line.strip()]
    rules = [line["rules"] for line in lines if line["schema_version"] == "project_rules.v1"]
    units = summaries(home, rules[0] if rules else RULES)
    registry = json.loads((home / "index/digest_registry.json").read_bytes())
    published = {}
    for entry in registry["entries"]:
        trace = json.loads((home / entry["path"] / "meta/trace.json").read_bytes())
        key = (entry["selector_id"], entry["window_label"], entry.get("group"))
        if key in published:
            wrong.append(f"{key} is published twice")
        published[key] = trace
    for selector in lines:
        if selector["schema_version"] != "selector.v1" or selector.get("status") == "disabled":
            continue
        where = selector["selector_id"]
        local = ZoneInfo(selector["window"].get("tz", zone))
        windows = {}
        for one in units:
            label = window_of(selector["window"]["type"], one.day(local))
            windows.setdefault(label, []).append(one)
        for label, candidates in sorted(windows.items()):
            fitting = [one for one in candidates if matches(one, selector.get("match", {}))]
            groups = groups_of(ordered(fitting, selector), selector)
            for key, members in groups.items():
                members = {one.id for one in capped(members, selector.get("caps", {}))}
                trace = published.pop((where, label, key), None)
                found = set(trace["upstream"]["summary_ids"]) if trace else set()
                checked += 1
                open_tasks = selector.get("match", {}).get("has_tasks")
                if members != found and not (open_tasks and found <= members):
                    wrong.append(f"{where} {label} {key}: {len(found - members)} too many, "
                                 f"{len(members - found)} missing")
                dropped = trace["coverage"]["dropped_summary_ids"] if trace else 0
                if trace and dropped != len(candidates) - len(found):
                    wrong.append(f"{where} {label} {key}: {dropped} dropped of {len(candidates)}")
    wrong.extend(f"{key} is published and has no group" for key in published)
    for line in wrong[:40]:
        print(line)
    print(f"{len(units)} summaries, {checked} bags, {len(wrong)} differences")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
