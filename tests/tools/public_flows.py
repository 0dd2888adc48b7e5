"""Asks PromptFlow and `summarizer` which flows of public repositories they load, and compares the runs.

    python public_flows.py --summarizer target/debug/summarizer CLONE...

`python` has `promptflow` and `promptflow-tools`. Each CLONE is a git clone; its commit is printed. Every
`flow.dag.yaml`, `flow.flex.yaml` and `*.prompty` in it is a flow. PromptFlow loads it as its executor
does: every source is imported and every input is checked, with stand-ins for the connections that it
names. Ours loads it with `flow run` over no lines; a flow with a node that cannot run counts as refused.
A flow that both load runs in both, against one model server on the loopback. Compared are outputs and
requests, as in compare_promptflow.py.

The flows are programs of strangers. Run this where nothing is secret, and without a network, so that
what needs a service fails at once:

    unshare -rn sh -c 'ip link set lo up; python public_flows.py ...'

A flow needs a service that ours lacks when a node of it is a tool of a package that asks one (SERVICES).
A Python node that has a connection asks a service by itself: it loads, but its run is not compared.
"""

import argparse
import collections
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import compare_promptflow as compare

# What a tool of a package asks, by a part of its name.
SERVICES = {
    "serpapi": "web search",
    "content_safety": "content safety",
    "azure_content_safety": "content safety",
    "embedding": "embeddings",
    "vector": "vector index",
    "index_lookup": "vector index",
    "gpt4v": "a model that sees",
    "open_model_llm": "an endpoint of Azure ML",
    "azure_language": "Azure AI Language",
    "azure_ai_language": "Azure AI Language",
}
SECONDS = 90


def flows_of(clone):
    for name in ("flow.dag.yaml", "flow.flex.yaml", "*.prompty"):
        yield from sorted(path for path in clone.rglob(name) if ".git" not in path.parts)


def commit_of(clone):
    said = subprocess.run(["git", "-C", str(clone), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def read_dag(file):
    from promptflow._utils.yaml_utils import load_yaml

    try:
        flow = load_yaml(file)
        return flow if isinstance(flow, dict) else {}
    except Exception:
        return {}


def service_of(file):
    """The service that a tool of a package needs, or nothing."""
    if file.name != "flow.dag.yaml":
        return None
    flow = read_dag(file)
    nodes = list(flow.get("nodes") or [])
    for body in (flow.get("node_variants") or {}).values():
        nodes += [variant.get("node") or {} for variant in (body.get("variants") or {}).values()]
    for node in nodes:
        tool = str((node.get("source") or {}).get("tool") or "").lower()
        for part, service in SERVICES.items():
            if part in tool:
                return service
    return None


def stand_ins(server, asked):
    """Connections for whoever asks PromptFlow for one; `asked` gets the nodes that do."""
    from promptflow import connections
    from promptflow.executor._tool_resolver import ToolResolver

    def made(self, key, value, node, kinds):
        if not isinstance(value.value, str):
            return value.value
        asked.append(f"{node}.{key}")
        kind = getattr(connections, str(kinds[0]), connections.CustomConnection)
        if kind is connections.OpenAIConnection:
            return kind(api_key="k", base_url=server.base())
        if kind is connections.AzureOpenAIConnection:
            return kind(api_key="k", api_base=server.base()[: -len("/v1")])
        if kind is connections.CustomConnection:
            return kind(secrets={"api_key": "k"}, configs={"api_base": server.base()})
        try:
            return kind(api_key="k", endpoint=server.base())
        except TypeError:
            return kind(api_key="k")

    def own(self, key, value, node, source, tool, kinds, module):
        asked.append(f"{node}.{key}")
        return connections.CustomConnection(secrets={"api_key": "k"}, configs={"api_base": server.base()})

    ToolResolver._convert_to_connection_value = made
    ToolResolver._convert_to_custom_strong_type_connection_value = own


def theirs(file, server, most):
    """What PromptFlow does with a flow; in a process of its own."""
    asked = []
    stand_ins(server, asked)
    found = {"loads": False, "connections": asked}
    try:
        if file.name == "flow.dag.yaml":
            flow = read_dag(file)
            compare.theirs(file.parent, flow, (None, None), [], server, False)
            found.update(loads=True, lines=compare.lines_of(file.parent, flow, most))
            if not asked:
                found["outputs"], _ = compare.theirs(file.parent, flow, (None, None), found["lines"], server, False)
        elif file.name == "flow.flex.yaml":
            compare.theirs_flex(file.parent, [])
            found["loads"] = True
            found["outputs"], found["lines"] = compare.theirs_flex(file.parent, None)
        else:
            from promptflow.core import Prompty

            Prompty.load(file)
            found.update(loads=True, lines=compare.prompty_lines(file, most))
            found["outputs"], _ = compare.theirs_prompty(file, found["lines"], server)
    except BaseException as error:
        found["why"] = f"{type(error).__name__}: {compare.first_line(error)}"
    return found


def apart(work, *given):
    """The result of a function that runs in another process, within a time."""
    context = multiprocessing.get_context("fork")
    mine, other = context.Pipe(duplex=False)

    def child():
        null = os.open(os.devnull, os.O_RDWR)
        for at in (0, 1, 2):
            os.dup2(null, at)
        other.send(json.loads(json.dumps(work(*given), default=compare.shown)))

    process = context.Process(target=child)
    process.start()
    result = {"loads": False, "why": f"no end in {SECONDS} s"}
    if mine.poll(SECONDS):
        try:
            result = mine.recv()
        except EOFError:
            result = {"loads": False, "why": "the process ended"}
    process.kill()
    process.join()
    return result


def ours_loads(program, path):
    """Whether ours loads a flow and every node of it can run; `registry add` says of a node that it cannot."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "registry.flow_packs.v1.jsonl").write_text("")
        empty = Path(home) / "lines.jsonl"
        empty.write_text("")
        load = ["flow", "run", str(path), "--allow-python", "--lines", "--input", str(empty)]
        check = ["registry", "add", str(path), "--dataset", home, "--flow-id", "public.v1"]
        for command in (load, check):
            ran = subprocess.run(
                [program, "--home", home, *command], capture_output=True, text=True, check=False, timeout=SECONDS
            )
            if ran.returncode and (command is load or "cannot run here" in ran.stderr):
                return False, " ".join(ran.stderr.split("  hint:")[0].split())
        return True, ""


def by_chance(folder):
    return any("import random" in path.read_text(errors="replace") for path in folder.glob("*.py"))


def judged(options, file, server):
    program, most = options.summarizer, options.lines
    path = file if file.suffix == ".prompty" else file.parent
    yours = apart(theirs, file, server, most)
    asked = server.taken()
    loads, why = ours_loads(program, path)
    row = {"theirs": yours["loads"], "ours": loads, "why": "" if loads else why}
    row.update(their_why=yours.get("why", ""), service=service_of(file), run="-", found=[])
    if not (yours["loads"] and loads):
        return row
    if yours.get("connections"):
        row["run"] = "asks a service"
        return row
    if "outputs" not in yours or by_chance(file.parent):
        row["run"] = "not comparable"
        return row
    try:
        outputs, _ = compare.ours(program, path, (None, None), yours["lines"], server, options.python)
    except subprocess.TimeoutExpired:
        outputs = [{"failed": True, "why": f"no end in {SECONDS} s"}]
    own_asked, fails = server.taken(), lambda lines: bool(lines) and all(line.get("failed") for line in lines)
    if fails(yours["outputs"]):
        row["run"] = "both fail" if fails(outputs) else "only theirs fails"
        row["found"] = sorted({str(line.get("why")) for line in yours["outputs"] + outputs})
        return row
    row["found"] += compare.differences(outputs, yours["outputs"], "line")
    row["found"] += compare.differences(own_asked, asked, "request")
    row["run"] = "different" if row["found"] else "same"
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--summarizer", required=True)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of our Python nodes")
    parser.add_argument("--lines", type=int, default=2)
    parser.add_argument("--only", default="", help="flows whose path has this part")
    parser.add_argument("--json", type=Path, help="write every row into this file")
    parser.add_argument("clones", nargs="+", type=Path)
    options = parser.parse_args()
    os.environ.update(PF_DISABLE_TRACING="true", PF_TELEMETRY_ENABLED="false", PF_LOGGING_LEVEL="CRITICAL")
    import promptflow.core
    import promptflow.executor

    logging.disable(logging.CRITICAL)
    server, rows, commits = compare.Server(), [], {}
    for clone in options.clones:
        commits[clone.name] = commit_of(clone)
        for file in flows_of(clone):
            if options.only not in str(file):
                continue
            row = judged(options, file, server)
            row["flow"] = f"{clone.name}/{file.relative_to(clone)}"
            rows.append(row)
            told = "loads" if row["theirs"] else "refused"
            own = "loads" if row["ours"] else "refused"
            print(f"PromptFlow {told:<7}  ours {own:<7}  run {row['run']:<14}  {row['flow']}  {row['service'] or ''}")
            for text in [row["why"]] * bool(row["theirs"]) + row["found"]:
                print("    " + text[:600]) if text else None
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    summary(rows, commits)


def summary(rows, commits):
    for name, commit in sorted(commits.items()):
        print(f"{name}  {commit}  {sum(row['flow'].startswith(name + '/') for row in rows)} flows")
    theirs_load = [row for row in rows if row["theirs"]]
    excluded = collections.Counter(row["service"] for row in theirs_load if row["service"])
    print(f"{len(rows)} flows; PromptFlow loads {len(theirs_load)}")
    print(f"of these need a service that ours lacks: {sum(excluded.values())} {dict(excluded)}")
    able = [row for row in theirs_load if not row["service"]]
    load = sum(row["ours"] for row in able)
    print(f"of the others ours loads {load} of {len(able)}: {100 * load / max(1, len(able)):.1f} %")
    print(f"runs: {dict(collections.Counter(row['run'] for row in able if row['ours']))}")


if __name__ == "__main__":
    main()
