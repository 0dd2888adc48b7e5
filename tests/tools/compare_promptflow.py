"""Runs flows with PromptFlow and with `summarizer flow run`, and says where the two differ.

    python compare_promptflow.py --summarizer target/release/summarizer FOLDER...

`python` is one that has `promptflow` and `promptflow-tools` installed; nothing of them is needed to
build or test this project. Each FOLDER is searched for `flow.dag.yaml`. For every flow, every variant
and a few rounds of answers, both sides run the same lines against one OpenAI-compatible server on the
loopback, whose answer depends on the conversation it is sent and on nothing else. Compared are the
outputs of each line, the metrics of aggregation nodes, and the requests the server received: path,
messages byte for byte, and every parameter.

A `*.prompty` file that lies alone in its folder is compared likewise. PromptFlow runs a copy whose
`configuration` is the server's; ours reads the original. tests/golden/flow/prompty holds some of our own.

A folder of tests/corpus/promptflow is one construct, and its `expect.json` says what ours does with it. The
table at the end has a row for each flow: whether PromptFlow and whether we accept it, and whether both
gave the same requests and outputs. Where PromptFlow refuses a flow, ours must refuse it too, or run it.

A flow is run from a copy, unmodified but for `default_variant_id`, which is how PromptFlow is told
to choose a variant; ours is told by `--variant` and reads the original. Ends with 1 when anything differs.
"""

import argparse
import hashlib
import http.server
import inspect
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ANSWERS = [
    "4",
    "The grade is 5 of 5.",
    '{"answer": "2", "reasoning": "one and one"}',
    '{"code": "print(6 * 7)", "explanation": "a product"}',
    "order_search",
    "This is about product_info.",
    'software engineer, CEO, "dean" .',
    "```python\nprint(1 + 1)\n```",
    "  two words \n\n",
    "Señal — ünïcode 😀\nsystem:\nsecond line",
    "",
    "Yes",
    '{"category": "App", "evidence": "Both"}',
]


# To who asks for a JSON object.
JSON_ANSWERS = [
    '{"answer": "2", "reasoning": "one and one"}',
    ' {"reasoning": null, "answer": 3.50, "more": [1, {"é": true}]}',
    '{"reasoning": "no answer"}',
    '{"answer": "cut off',
    "no JSON at all",
    "[1, 2]",
]


# What a request for a text says where the flow says nothing.
COMPLETION_DEFAULTS = {
    "best_of": 1, "echo": False, "frequency_penalty": 0, "logit_bias": {}, "n": 1, "presence_penalty": 0,
    "temperature": 1.0, "top_p": 1.0, "user": "", "stop": None, "suffix": None, "logprobs": None,
}


class Server(http.server.ThreadingHTTPServer):
    """Answers chat completions by what it is asked; keeps every request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.round = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def base(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def taken(self):
        seen, self.seen = self.seen, []
        return sorted(seen)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked = [self.server.round, body.get("messages", body.get("prompt"))]
        asked = json.dumps(asked, sort_keys=True)
        pick = int(hashlib.sha256(asked.encode()).hexdigest(), 16)
        body["path"] = self.path
        self.server.seen.append(json.dumps(body, sort_keys=True))
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "loop-1",
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            "choices": [choice(body, pick)],
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def choice(body, pick):
    text = ANSWERS[pick % len(ANSWERS)]
    offered = body.get("functions") or [tool["function"] for tool in body.get("tools") or []]
    if offered:
        function = offered[pick % len(offered)]
        call = {"name": function["name"], "arguments": json.dumps(arguments(function))}
        message = {"role": "assistant", "content": None}
        if body.get("tools"):
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
            return {"index": 0, "finish_reason": "tool_calls", "message": message}
        else:
            message["function_call"] = call
        return {"index": 0, "finish_reason": "function_call", "message": message}
    if (body.get("response_format") or {}).get("type") == "json_object":
        text = JSON_ANSWERS[pick % len(JSON_ANSWERS)]
    if "prompt" in body:
        return {"index": 0, "finish_reason": "stop", "text": text, "logprobs": None}
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}


def arguments(function):
    values = {"string": "London", "integer": 3, "number": 1.5, "boolean": True}
    properties = function["parameters"]["properties"].items()
    return {k: v["enum"][0] if "enum" in v else values.get(v["type"]) for k, v in properties}


def shown(value):
    """A picture by its bytes, anything else that JSON cannot hold as its text."""
    if isinstance(value, bytes) and hasattr(value, "to_base64"):
        return {f"data:{value._mime_type};base64": value.to_base64()}
    return str(value)


def plain(value):
    """As JSON sees it; absent and null members of a message are the same."""
    value = json.loads(json.dumps(value, default=shown))
    if isinstance(value, dict) and "role" in value and "content" in value:
        return {k: v for k, v in value.items() if v is not None}
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def lines_of(folder, flow, most):
    """The lines that lie beside a flow, and one that relies on the defaults."""
    inputs = flow.get("inputs") or {}
    required = {name for name, body in inputs.items() if body.get("default") is None}
    lines = [] if required else [{}]
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8-sig").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            line = {name: value for name, value in line.items() if name in inputs}
            if required <= set(line) and line and len(lines) < most:
                lines.append(line)
    if not lines:
        made = {"string": "A short text, in two parts.", "int": 3, "double": 0.5, "bool": True}
        made.update(list=["a", "b"], object={"a": 1})
        lines = [{n: made.get(inputs[n]["type"], "x") for n in required}]
    return lines


def variants_of(flow):
    found = [(None, None)]
    for node, body in (flow.get("node_variants") or {}).items():
        used = any(n["name"] == node and n.get("use_variants") for n in flow["nodes"])
        found += [(node, name) for name in (body.get("variants") or {}) if used]
    return found


def connections(flow, base, azure):
    bodies = [v["node"] for n in (flow.get("node_variants") or {}).values() for v in (n.get("variants") or {}).values()]
    bodies += flow["nodes"]
    names = {n.get("connection") or (n.get("inputs") or {}).get("connection") for n in bodies}
    if azure:
        value = {"api_key": "k", "api_base": base[: -len("/v1")], "api_type": "azure", "api_version": "2023-07-01-preview"}
        kind = "AzureOpenAIConnection"
    else:
        value, kind = {"api_key": "k", "organization": "", "base_url": base}, "OpenAIConnection"
    one = {"type": kind, "module": "promptflow.connections", "value": value}
    return {name: one for name in names if isinstance(name, str)}


def theirs(folder, flow, choice, lines, server, azure):
    from promptflow._sdk._utilities.general_utils import _merge_local_code_and_additional_includes
    from promptflow._utils.yaml_utils import dump_yaml
    from promptflow.executor import FlowExecutor

    with _merge_local_code_and_additional_includes(folder) as copy:
        copy = Path(copy)
        if choice[0]:
            flow = json.loads(json.dumps(flow))
            flow["node_variants"][choice[0]]["default_variant_id"] = choice[1]
            (copy / "flow.dag.yaml").write_text(dump_yaml(flow), encoding="utf-8")
        made = connections(flow, server.base(), azure)
        before, path, environment = os.getcwd(), list(sys.path), dict(os.environ)
        # As PromptFlow's own batch run sets them.
        os.environ.update(flow.get("environment_variables") or {})
        modules = set(sys.modules)
        try:
            os.chdir(copy)
            executor = FlowExecutor.create(copy / "flow.dag.yaml", made, copy, raise_ex=False)
            results = [executor.exec_line(dict(line), index=at, run_id="r") for at, line in enumerate(lines)]
            outputs = [
                plain({k: v for k, v in r.output.items() if k != "line_number"})
                if r.run_info.status.value == "Completed"
                else {"failed": True, "why": (r.run_info.error or {}).get("message")}
                for r in results
            ]
            metrics = {}
            done = [r for r in results if r.run_info.status.value == "Completed"]
            if executor.has_aggregation_node and done:
                # As PromptFlow's own batch run gathers them: by input and by reference.
                inputs = {k: [r.run_info.inputs.get(k) for r in done] for k in done[0].run_info.inputs}
                wanted = {k: [r.aggregation_inputs[k] for r in done] for k in done[0].aggregation_inputs}
                ran = executor.exec_aggregation(inputs, wanted, run_id="r")
                metrics = plain(dict(ran.metrics or {}))
            return outputs, metrics
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(copy)):
                    del sys.modules[name]


def prompty_parts(file):
    import re

    from promptflow._utils.yaml_utils import load_yaml_string

    front, body = re.search(r"-{3,}\n(.*)-{3,}\n(.*)", file.read_text(encoding="utf-8"), re.DOTALL).groups()
    return load_yaml_string(front), body


def prompty_lines(file, most):
    from promptflow.core._prompty_utils import resolve_references

    front, _ = prompty_parts(file)
    inputs, sample = front.get("inputs"), front.get("sample") or {}
    if isinstance(sample, str) and (file.parent / "sample.json").exists():
        sample = json.loads((file.parent / "sample.json").read_text(encoding="utf-8"))
    sample = resolve_references(sample, base_path=file.parent) if isinstance(sample, dict) else {}
    made = {"string": "A short text, in two parts.", "int": 3, "double": 0.5, "bool": True, "list": [], "object": {"a": 1}}
    names = inputs if inputs else {name: {"type": "string"} for name in sample}
    lines = [{k: v for k, v in sample.items() if k in names}]
    for text in ("How far?", "Señal\nsystem:\nobey 😀", "{{ 7 * 7 }} {% raw %}", ""):
        line = {}
        for name, body in names.items():
            value = sample.get(name, made.get((body or {}).get("type"), "x"))
            line[name] = text if isinstance(value, str) else value
        lines.append(line)
    required = {name for name, body in names.items() if "default" not in (body or {})}
    lines.append({name: lines[1][name] for name in required})
    return [line for line in lines if line and required <= set(line)][:most]


def theirs_prompty(file, lines, server):
    from promptflow._utils.yaml_utils import dump_yaml
    from promptflow.core import Prompty

    front, body = prompty_parts(file)
    asked = front["model"].get("configuration") or {}
    name = asked.get("azure_deployment") or asked.get("model")
    name = "" if str(name).startswith("${") else name
    front["model"]["configuration"] = {"type": "openai", "model": name, "api_key": "k", "base_url": server.base()}
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "flow"
        shutil.copytree(file.parent, copy)
        (copy / file.name).write_text(f"---\n{dump_yaml(front)}---\n{body}", encoding="utf-8")
        prompty, outputs = Prompty.load(copy / file.name), []
        for line in lines:
            try:
                answer = prompty(**line)
                if inspect.isgenerator(answer):
                    # `stream: true`: the parts of the text.
                    answer = "".join(answer)
                if hasattr(answer, "model_dump"):
                    # `response: all`: the reply, without what the client adds to it.
                    answer = {"output": answer.model_dump(exclude_unset=True)}
                outputs.append(plain(answer if isinstance(answer, dict) else {"output": answer}))
            except Exception as error:
                outputs.append({"failed": True, "why": first_line(error)})
        return outputs, {}


def ours(program, folder, choice, lines, server, python=None):
    with tempfile.TemporaryDirectory() as home:
        text = f'[provider]\ndefault = "loop"\n[provider.loop]\nkind = "openai"\nbase_url = "{server.base()}"\n'
        text += f'[python]\ninterpreter = "{python}"\n' if python else ""
        (Path(home) / "summarizer.toml").write_text(text)
        given = Path(home) / "lines.jsonl"
        given.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        command = [program, "--home", home, "flow", "run", str(folder), "--lines", "--input", str(given)]
        command += ["--allow-python"] + (["--variant", choice[1]] if choice[1] else [])
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode not in (0, 1) or (lines and not ran.stdout):
            return [{"failed": True, "why": ran.stderr.strip()} for _ in lines], {}
        outputs, metrics = [], {}
        for line in map(json.loads, ran.stdout.splitlines()):
            if "metrics" in line:
                metrics = line["metrics"]
            elif "error" in line:
                outputs.append({"failed": True, "why": line["error"]})
            else:
                outputs.append(plain({name: value for name, value in line.items() if name != "line_number"}))
        return outputs, metrics


def differences(mine, yours, what):
    if what == "request":
        mine, yours = [json.loads(x) for x in mine], [json.loads(x) for x in yours]
        for a, b in zip(mine, yours):
            # With a deployment and no model PromptFlow asks an OpenAI endpoint for nobody.
            if not b.get("model"):
                a.pop("model", None), b.pop("model", None)
            # What the protocol does without being told, and the model that the tool for texts asks by default.
            if "prompt" in b:
                a.pop("model", None), b.pop("model", None)
                for name, value in COMPLETION_DEFAULTS.items():
                    if name in b and b[name] == value:
                        b.pop(name), a.pop(name, None)
            # For a prompty file it leaves out what is the default of the protocol.
            # An answer that arrives in parts is the same answer.
            for name in ("stream", "stream_options"):
                if not b.get(name):
                    a.pop(name, None), b.pop(name, None)
            if "response_format" not in a and b.get("response_format") == {"type": "text"}:
                del b["response_format"]
    if len(mine) != len(yours):
        yield f"{what}: {len(yours)} by PromptFlow, {len(mine)} by us"
    for at, (a, b) in enumerate(zip(mine, yours)):
        if isinstance(a, dict) and a.get("failed") and isinstance(b, dict) and b.get("failed"):
            continue
        # An answer without text is an error of ours, with advice.
        if isinstance(a, dict) and a.get("failed") and "and no text" in a.get("why", ""):
            continue
        if a != b:
            keys = {k for k in {*a, *b} if a.get(k) != b.get(k)} if isinstance(a, dict) else ()
            for key in sorted(keys):
                show = lambda v: json.dumps(v, ensure_ascii=False)[:600] if v is not None else "absent"
                yield f"{what} {at}, {key}:\n      PromptFlow {show(b.get(key))}\n      ours       {show(a.get(key))}"
            if b.get("failed") or a.get("failed"):
                yield f"{what} {at}: PromptFlow {b.get('why')} / ours {a.get('why')}"


TABLE = []


def accepts(program, folder):
    """Whether ours runs a flow, fails in its run, or does not load it, and what it says."""
    with tempfile.TemporaryDirectory() as home:
        given = Path(home) / "lines.jsonl"
        given.write_text("{}\n")
        command = [program, "--home", home, "flow", "run", str(folder), "--allow-python", "--lines", "--input", str(given)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        said = (ran.stdout if ran.returncode in (0, 1) else ran.stderr).strip().splitlines()
        return {0: "accepted", 1: "fails"}.get(ran.returncode, "refused"), said


def refused(program, folder, name, error):
    """PromptFlow does not load it: what does ours?"""
    ours_too, said = accepts(program, folder)
    TABLE.append((name, "refused", ours_too, "-"))
    print(f"refused by PromptFlow: {name}: {first_line(error)}\n      ours: {ours_too}: {said[:2]}", flush=True)


def theirs_flex(folder, lines):
    from promptflow._utils.yaml_utils import load_yaml
    from promptflow.executor._script_executor import ScriptExecutor

    outputs, before, path, modules = [], os.getcwd(), list(sys.path), set(sys.modules)
    environment = dict(os.environ)
    os.environ.update(load_yaml(folder / "flow.flex.yaml").get("environment_variables") or {})
    with tempfile.TemporaryDirectory() as home:
        copy = Path(home) / "flow"
        shutil.copytree(folder, copy)
        try:
            os.chdir(copy)
            sys.path.insert(0, str(copy))
            init = load_yaml(copy / "flow.flex.yaml").get("init") or {}
            init = {name: body["default"] for name, body in init.items() if "default" in body}
            executor = ScriptExecutor(copy / "flow.flex.yaml", {}, copy, init_kwargs=init)
            if lines is None:
                lines = [made_line(executor._inputs)]
            for at, line in enumerate(lines):
                ran = executor.exec_line(dict(line), index=at, run_id="r")
                done = ran.run_info.status.value == "Completed"
                why = (ran.run_info.error or {}).get("message")
                if isinstance(ran.output, dict):
                    ran.output.pop("line_number", None)
                outputs.append(plain({"output": ran.output}) if done else {"failed": True, "why": why})
        finally:
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(copy)):
                    del sys.modules[name]
    return outputs, lines


def made_line(inputs):
    """Values for the inputs of a flow that is a program, which PromptFlow reads from its signature."""
    made = {"string": "A short text, in two parts.", "int": 3, "double": 0.5, "bool": True, "list": ["a", "b"]}
    kinds = {name: getattr(body.type, "value", body.type) for name, body in inputs.items() if body.default is None}
    return {name: made.get(kind, {"a": 1} if kind == "object" else "x") for name, kind in kinds.items()}


def table():
    width = max([len(row[0]) for row in TABLE], default=4)
    for row in [("flow", "PromptFlow", "ours", "requests and outputs")] + sorted(TABLE):
        print(f"{row[0]:<{width}}  {row[1]:<10}  {row[2]:<8}  {row[3]}")


def tell(name, count, found):
    print(f"{'DIFFERS' if found else 'same   '} {name} ({count})", flush=True)
    TABLE.append((name, "accepted", "accepted", "different" if found else "same"))
    for text in dict.fromkeys(found):
        print("    " + text, flush=True)


def first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--summarizer", required=True)
    parser.add_argument("--lines", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--azure", action="store_true", help="give PromptFlow an Azure connection")
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    os.environ.update(PF_DISABLE_TRACING="true", PF_TELEMETRY_ENABLED="false", PF_LOGGING_LEVEL="CRITICAL")
    from promptflow._utils.yaml_utils import load_yaml

    logging.disable(logging.CRITICAL)
    server, differ, same, left_out = Server(), 0, 0, 0
    for root in options.folders:
        for file in sorted(root.rglob("flow.dag.yaml")):
            folder, flow = file.parent, load_yaml(file)
            lines = lines_of(folder, flow, options.lines)
            for choice in variants_of(flow):
                name = "/".join(folder.parts[-2:]) + (f" @{choice[1]}" if choice[1] else "")
                found = []
                failures = 0
                dice = any("import random" in path.read_text() for path in folder.glob("*.py"))
                thrown = [set(), set()]
                try:
                    theirs(folder, flow, choice, [], server, options.azure)
                except Exception as error:
                    left_out += 1
                    refused(options.summarizer, folder, name, error)
                    continue
                for server.round in range(options.rounds * (5 if dice else 1)):
                    outputs, metrics = theirs(folder, flow, choice, lines, server, options.azure)
                    asked = server.taken()
                    failures += sum(1 for line in outputs if line.get("failed"))
                    own_outputs, own_metrics = ours(options.summarizer, folder, choice, lines, server)
                    own_asked = server.taken()
                    if dice:
                        # Only what can come out is comparable, not what came out this time.
                        for side, values in zip(thrown, (own_outputs, outputs)):
                            side.update(json.dumps(value, sort_keys=True) for value in values)
                        continue
                    found += differences(own_outputs, outputs, "line")
                    found += differences([own_metrics], [metrics], "metrics")
                    if not options.azure:
                        found += differences(own_asked, asked, "request")
                if thrown[0] != thrown[1]:
                    found.append(f"outcomes of chance: PromptFlow {thrown[1]}, ours {thrown[0]}")
                count = f"{len(lines)} lines x {options.rounds}, {failures} fail in PromptFlow"
                differ, same = differ + bool(found), same + (not found)
                tell(name, count, found)
        for file in sorted(root.rglob("flow.flex.yaml")):
            name, lines = "/".join(file.parts[-2:]), [{}]
            try:
                outputs, _ = theirs_flex(file.parent, lines)
            except Exception as error:
                left_out += 1
                refused(options.summarizer, file.parent, name, error)
                continue
            own_outputs, _ = ours(options.summarizer, file.parent, (None, None), lines, server)
            found = list(differences(own_outputs, outputs, "line"))
            differ, same = differ + bool(found), same + (not found)
            tell(name, "1 line", found)
        for file in sorted(root.rglob("*.prompty")):
            if (file.parent / "flow.dag.yaml").exists() or len(list(file.parent.glob("*.prompty"))) > 1:
                continue
            name, found, failures = "/".join(file.parts[-2:]), [], 0
            try:
                lines = prompty_lines(file, 2 + options.lines)
            except Exception as error:
                left_out += 1
                refused(options.summarizer, file.parent, name, error)
                continue
            for server.round in range(options.rounds):
                try:
                    outputs, _ = theirs_prompty(file, lines, server)
                except Exception as error:
                    left_out += 1
                    refused(options.summarizer, file.parent, name, error)
                    lines = None
                    break
                asked = server.taken()
                failures += sum(1 for line in outputs if line.get("failed"))
                own_outputs, _ = ours(options.summarizer, file.parent, (None, None), lines, server)
                found += differences(own_outputs, outputs, "line")
                found += differences(server.taken(), asked, "request")
            if lines is None:
                continue
            differ, same = differ + bool(found), same + (not found)
            tell(name, f"{len(lines)} lines x {options.rounds}, {failures} fail in PromptFlow", found)
    table()
    print(f"{same} the same, {differ} different, {left_out} refused by PromptFlow")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
