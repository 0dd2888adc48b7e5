#!/usr/bin/env python3
"""Checks a pack that was made from a selection: python3 check_packs.py PACK MANIFEST BUS_HOME

Reads the pack, the selection manifest that it was made from, and the summaries on the bus. Written from
docs/adr/0030 and docs/adr/0093 alone, with nothing but the standard library. Prints what is wrong and ends
with 1, or prints what was checked.
"""

import json
import re
import sys
import unicodedata
from hashlib import sha256
from pathlib import Path

# Ids may take less than a fifth of what a pack says.
SHARE_MAX = 0.2
MARK = re.compile(r"\[@([^\]]+)\]")

wrong, checked = [], 0


def check(is_right, what):
    global checked
    checked += 1
    if not is_right:
        wrong.append(what)


def canonical(value):
    """JSON with sorted names and without blanks, as hashes of selections are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_of(data):
    return sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def words(text):
    plain = unicodedata.normalize("NFD", text.casefold())
    return re.findall(r"\w+", "".join(c for c in plain if not unicodedata.combining(c)))


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def section(text, name):
    """The items of a section."""
    inside, found = False, []
    for line in text.splitlines():
        if line.startswith("## "):
            inside = line == f"## {name}"
        elif inside and line.startswith("- "):
            found.append(line[2:])
    return found


def read_bus(home):
    """The newest summaries by stream, day and id, and the ids that were marked private later."""
    items, private = {}, set()
    for path in sorted((home / "summaries").glob("*/*.summary.jsonl")):
        for item in lines_of(path):
            items[(path.parent.name, path.name.split(".")[0], item["id"])] = item
            if item.get("meta", {}).get("publish") in (False, "false", "no"):
                private.add(item["id"])
    for path in (home / "versions").glob("*.versions.jsonl"):
        private.update(row["summary_id"] for row in lines_of(path) if row["publish"] is False)
    return items, private


def is_confidence(claim):
    sure = claim.get("confidence")
    return sure is None or isinstance(sure, int) and 0 <= sure <= 100


def check_selection(manifest, run):
    selection = manifest["selection"]
    digest = hash_of(canonical(selection))
    check(manifest["selection_hash"] == f"sha256:{digest}", "the selection has another hash")
    check(selection["bus"] == "summary_bus", "the selection is of another bus")
    check(run["run_id"] == f"sel_{digest[:16]}", "the run is of another selection")
    picked = [(item["id"], item.get("group")) for item in selection["items"]]
    return list(dict.fromkeys(picked)), selection.get("ordering", "as_listed")


def expected_groups(picked, ordering, items, private):
    """The summaries of each group, in their order. A private summary is in none."""
    by_id = {key[2]: (key, item) for key, item in items.items()}
    groups = {}
    for number, (name, group) in enumerate(picked):
        if name not in by_id:
            wrong.append(f"{name} of the selection is not on the bus")
        elif name not in private:
            key, item = by_id[name]
            at = item.get("ts_abs_ms", 0)
            order = {"by_time": (at, name), "by_id": (name,)}.get(ordering, (number,))
            groups.setdefault(group or key[0], []).append((order, key))
    return {name: [key for _, key in sorted(members)] for name, members in sorted(groups.items())}


def check_pool(pool, groups):
    """Each label stands for one summary of the selection, in the order of the groups."""
    wanted = list(dict.fromkeys(key for members in groups.values() for key in members))
    table = {}
    for row in pool:
        url = row["normalized_url"]
        place = tuple(url.removeprefix("summary-bus:").split("/"))
        check(row["cid"] not in table, f"{row['cid']} is in the table twice")
        check(url.startswith("summary-bus:") and place in wanted, f"{url} is not of the selection")
        check(row["status"] == "valid", f"{row['cid']} is not valid")
        table[row["cid"]] = place
    labels = {f"s{number}": key for number, key in enumerate(wanted, 1)}
    check(table == labels, "the labels do not count the summaries of the groups in their order")
    return table


def check_claim(claim, table, members, items):
    """A claim cites summaries of its group, and each of them has its words."""
    cids = claim["citation_cids"]
    check(cids and len(set(cids)) == len(cids), f"without a citation or twice: {claim['claim']}")
    check(is_confidence(claim), f"no share of 100: {claim['claim']}")
    for cid in cids:
        place = table.get(cid)
        check(place in members, f"{cid} is of another group: {claim['claim']}")
        if place not in items:
            continue
        item = items[place]
        # The title of its document, and the job and the firm of its post, may stand before a claim.
        said = set(words(json.dumps([item.get("title"), item["outputs"]], ensure_ascii=False)))
        said.update(words(item["outputs"]["summary_text"]))
        missing = [word for word in words(claim["claim"]) if word not in said]
        check(not missing, f"{cid} does not say {missing[:3]}: {claim['claim']}")


def check_entry(pack_dir, entry, meta, members, table, items):
    text = (pack_dir / entry["summary_md"]).read_bytes()
    source = (pack_dir / entry["source_artifact"]).read_bytes()
    name = entry["perspective_id"]
    check(hash_of(text) == meta["summary_sha256"], f"{name}: another text than the sidecar says")
    check(len(text) == meta["summary_bytes"], f"{name}: another length than the sidecar says")
    check(hash_of(source) == meta["source_sha256"], f"{name}: another output than the sidecar says")
    text, source = text.decode(), source.decode()
    marks = lambda claim: "".join(f" [@{cid}]" for cid in claim["citation_cids"])
    lines = [claim["claim"] + marks(claim) for claim in entry["key_claims"]]
    check(section(text, "Findings") == lines, f"{name}: the summary has other claims than the pack")
    for claim in entry["key_claims"]:
        check_claim(claim, table, members, items)
    said = [claim["claim"].casefold() for claim in entry["key_claims"]]
    check(len(set(said)) == len(said), f"{name}: a claim is made twice")
    first = [int(claim["citation_cids"][0][1:]) for claim in entry["key_claims"]
             if claim["citation_cids"] and claim["citation_cids"][0][1:].isdigit()]
    check(first == sorted(first), f"{name}: the claims are not in the order of the summaries")
    # What is no claim has its reason, in the output or in the sidecar.
    claims = {" ".join(words(claim["claim"])) for claim in entry["key_claims"]}
    listed = {" ".join(words(one["finding"])) for one in meta["left_out"]}
    for finding in section(source, "Findings"):
        plain = " ".join(words(MARK.sub("", finding.split(" (confidence:")[0])))
        is_listed = plain in claims or any(plain.startswith(one) for one in listed if one)
        check(is_listed, f"{name}: dropped without a reason: {finding}")
    for line in section(source, "Left out"):
        check(line.endswith(")") or line.endswith("publish: false"), f"{name}: no reason: {line}")
    dropped = sum(count for kind, count in meta["dropped"].items() if kind not in ("gaps", "duplicate"))
    check(dropped <= len(meta["left_out"]), f"{name}: {dropped} dropped, not all of them listed")
    cited = set(MARK.findall(source))
    for cid, place in table.items():
        check(place not in members or cid in cited, f"{name}: nothing is said of {cid}")
    return text


def check_pack(pack_dir, manifest, bus_home):
    read = lambda name: json.loads((pack_dir / name).read_text("utf-8"))
    run, perspectives = read("manifest.json"), read("perspectives.json")
    pack, meta = read("summaries/summary-pack.json"), read("summaries/summary-pack.meta.json")
    items, private = read_bus(bus_home)
    picked, ordering = check_selection(manifest, run)
    groups = expected_groups(picked, ordering, items, private)
    table = check_pool(lines_of(pack_dir / "citations/citations.jsonl"), groups)
    titles = {one["id"]: one["title"].split(": ")[0] for one in perspectives["perspectives"]}
    check(sorted(titles.values()) == sorted(groups), "the perspectives are not the groups")
    check(pack["run_id"] == run["run_id"], "the pack is of another run")
    check(pack["limits"].items() <= run["limits"].items(), "the pack has other limits than its run")
    bytes_of_pack = (pack_dir / "summaries/summary-pack.json").read_bytes()
    check(hash_of(bytes_of_pack) == meta["pack_sha256"], "the pack is another than the sidecar says")
    names = [entry["perspective_id"] for entry in pack["summaries"]]
    check(names == [one["perspective_id"] for one in meta["entries"]], "the sidecar has other entries")
    check(names == sorted(names) and set(names) <= set(titles), "the pack has other perspectives")
    texts = []
    for entry, about in zip(pack["summaries"], meta["entries"]):
        members = groups.get(titles.get(entry["perspective_id"]), [])
        texts.append(check_entry(pack_dir, entry, about, members, table, items))
    sizes = [len(text.encode()) for text in texts]
    limits = pack["limits"]
    check(all(size <= limits["max_summary_kb"] * 1024 for size in sizes), "a summary is too long")
    check(sum(sizes) <= limits["max_total_summary_kb"] * 1024, "the summaries are too long together")
    ids = sum(len(f" [@{cid}]".encode()) for text in texts for cid in MARK.findall(text))
    share = ids / max(1, sum(sizes))
    check(share < SHARE_MAX, f"ids take {share:.0%} of the bytes")
    listed = {Path(entry["summary_md"]).name for entry in pack["summaries"]}
    found = {path.name for path in (pack_dir / "summaries").glob("*.md")}
    check(listed == found, f"files that no entry names, or that are missing: {sorted(listed ^ found)}")
    for name in private & {key[2] for key in table.values()}:
        check(False, f"{name} is private")
    return len(pack["summaries"]), sum(len(entry["key_claims"]) for entry in pack["summaries"]), share


def main():
    pack_dir, manifest, bus_home = (Path(name) for name in sys.argv[1:4])
    try:
        told = check_pack(pack_dir, json.loads(manifest.read_text("utf-8")), bus_home)
    except (OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        print(f"cannot be read as a pack: {error!r}")
        sys.exit(1)
    if wrong:
        print("\n".join(wrong))
        sys.exit(1)
    print(f"{told[0]} summaries, {told[1]} claims, ids {told[2]:.1%}: {checked} checks")


if __name__ == "__main__":
    main()
