"""Runs one tool of a flow: a JSON request on stdin, a JSON answer on stdout.

The programs of the pack come with the request, so the bytes that run are the bytes that were verified.
What a tool prints goes to stderr. A small stand-in offers what tools import from promptflow.
"""
import sys

real_out = sys.stdout
sys.stdout = sys.stderr

import importlib.abc
import importlib.util
import inspect
import json
import types

request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
files = request["files"]
metrics = {}


def tool(func=None, **_):
    if func is None:
        return lambda f: tool(f)
    func.__is_flow_tool__ = True
    return func


def log_metric(key, value, *_, **__):
    metrics[str(key)] = value


class Stub:
    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__path__ = []
    sys.modules[name] = module
    return module


names = dict(
    tool=tool, log_metric=log_metric, ToolProvider=Stub, trace=lambda f=None, **_: f or (lambda g: g)
)
for name in ("promptflow", "promptflow.core", "promptflow._internal", "promptflow.tracing"):
    stand_in(name, **names)
stand_in(
    "promptflow.connections",
    **{k: Stub for k in ("CustomConnection", "OpenAIConnection", "AzureOpenAIConnection")},
)


class Pack(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        base = name.replace(".", "/")
        for candidate, package in ((base + ".py", False), (base + "/__init__.py", True)):
            if candidate in files:
                return importlib.util.spec_from_loader(
                    name, self, origin=candidate, is_package=package
                )
        folder = base + "/"
        if any(f.startswith(folder) for f in files):
            return importlib.util.spec_from_loader(name, self, origin=folder, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        origin = module.__spec__.origin
        if origin in files:
            module.__file__ = origin
            exec(compile(files[origin], origin, "exec"), module.__dict__)


sys.meta_path.insert(0, Pack())


def is_tool(value):
    return callable(value) and getattr(value, "__is_flow_tool__", False)


def find_tool(module):
    own = [v for v in vars(module).values() if is_tool(v) and v.__module__ == module.__name__]
    for value in list(vars(module).values()):
        if inspect.isclass(value) and value.__module__ == module.__name__:
            own += [
                getattr(value(), n) for n, m in vars(value).items() if is_tool(m)
            ]
    if len(own) != 1:
        raise TypeError(f"expected one @tool in {request['path']}, found {len(own)}")
    return own[0]


def convert(value, annotation):
    if annotation is bool:
        return value if isinstance(value, bool) else {"true": True, "false": False}[str(value).lower()]
    if annotation in (int, float, str):
        return annotation(value)
    origin = getattr(annotation, "__origin__", annotation)
    if origin is list and isinstance(value, str):
        return json.loads(value)
    if origin is dict and isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def plain(value):
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return plain({k: getattr(value, k) for k in value.__dataclass_fields__})
    return str(value)


def main():
    name = request["path"][:-3].replace("/", ".")
    func = find_tool(importlib.import_module(name))
    parameters = inspect.signature(func).parameters
    arguments = {}
    for key, value in request["inputs"].items():
        parameter = parameters.get(key)
        if key in request["bypassed"]:
            if parameter is None or parameter.default is not inspect.Parameter.empty:
                continue
            value = None
        elif key in request["literals"] and parameter is not None:
            if value is None or value == "":
                continue
            value = convert(value, parameter.annotation)
        arguments[key] = value
    result = func(**arguments)
    if inspect.iscoroutine(result):
        import asyncio

        result = asyncio.run(result)
    if inspect.isgenerator(result):
        result = "".join(str(part) for part in result)
    return plain(result)


try:
    answer = {"output": main(), "metrics": plain(metrics)}
except BaseException as error:
    answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
real_out.write(json.dumps(answer))
real_out.flush()
