"""Runs one tool of a flow: a JSON request on stdin, a JSON answer on stdout.

The programs of the pack come with the request, so the bytes that run are the bytes that were verified.
What a tool prints goes to stderr. A small stand-in offers what tools import from promptflow.
"""
import os
import sys

# What a tool, or a program that it starts, writes to descriptor 1 is no answer.
real_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sys.stdout = sys.stderr

import base64
import builtins
import concurrent.futures
import enum
import hashlib
import importlib.abc
import importlib.util
import inspect
import json
import re
import types
import typing

request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
files = request["files"]
given = request["connections"]
metrics = {}


def tool(func=None, **_):
    if func is None:
        return lambda f: tool(f)
    func.__is_flow_tool__ = True
    return func


def log_metric(key, value, *_, **__):
    metrics[str(key)] = value


class Missing(ModuleNotFoundError):
    """Something of PromptFlow that the replacement does not have; the message says what to do."""


INSTALL = "install it for the interpreter that python.interpreter names"


class StandIn(types.ModuleType):
    """A module of the replacement. What it does not have is named."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(sorted(known for known in vars(self) if not known.startswith("_")))
        raise Missing(
            f"{self.__name__} has no {name} here: promptflow is not installed, and the replacement of "
            f"this module has only {known or 'its name'}; {INSTALL}, or do without {name}"
        )


class NoStandIn(importlib.abc.MetaPathFinder):
    """Names the modules of PromptFlow that have no replacement. Every other finder comes first."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "promptflow":
            raise Missing(f"there is no {name} here: promptflow is not installed, and the replacement "
                          f"has no such module; {INSTALL}, or do without it")
        return None


class Stub:
    def __init__(self, *args, **kwargs):
        self.__dict__.update(kwargs)


class NamedUse(type):
    """A class whose every use is an error with its name; a tool may import it and annotate with it."""

    def __call__(cls, *_, **__):
        raise RuntimeError(f"{cls.__name__} {cls.WHY}")

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise RuntimeError(f"{cls.__name__}.{name}: {cls.__name__} {cls.WHY}")


def unavailable(*names, why=f"needs the package promptflow; {INSTALL}, or make the call a node of the flow"):
    return {name: NamedUse(name, (), {"WHY": why}) for name in names}


class PromptflowException(Exception):
    def __init__(self, message="", message_format="", target=None, module=None, **members):
        self.message = str(message) if message else message_format.format(**members)
        self.message = self.message or type(self).__name__
        self.target, self.module = target, module
        super().__init__(self.message)


def render_jinja_template(prompt, trim_blocks=True, keep_trailing_newline=True, **values):
    try:
        import jinja2
    except ImportError:
        raise Missing(
            f"render_jinja_template needs the package jinja2; {INSTALL}, or make the template a node of "
            "type prompt"
        ) from None
    form = {"trim_blocks": trim_blocks, "keep_trailing_newline": keep_trailing_newline}
    try:
        return jinja2.Template(prompt, **form).render(**values)
    except Exception as error:
        said = f"render_jinja_template: {type(error).__name__}: {error}"
        raise exceptions["JinjaTemplateError"](said) from error


def parse_chat(chat_str, images=None, valid_roles=None):
    """The messages of a rendered prompt, as PromptFlow reads its role lines."""
    if images:
        raise RuntimeError(f"parse_chat: {NO_PICTURES}")
    roles = valid_roles or ["system", "user", "assistant", "function"]
    line = r"(?i)^\s*#?\s*(" + "|".join(roles) + r")\s*:\s*\n"
    named = r"\n*#{0,2}\s*name:\n+\s*(\S+)\s*\n*#{0,2}\s*content:\n?(.*)"
    before, *rest = re.split(line, chat_str, flags=re.MULTILINE)
    if before.strip():
        raise exceptions["ChatAPIInvalidRole"](
            f"parse_chat: the text begins with {before.strip()[:40]!r} and not with a role line such as "
            "`system:`"
        )
    messages = []
    for role, text in zip(rest[::2], rest[1::2]):
        role, found = role.strip().lower(), re.search(named, text, re.DOTALL)
        if found:
            messages.append({"role": role, "name": found[1], "content": found[2].strip()})
        elif role == "function":
            raise exceptions["ChatAPIFunctionRoleInvalidFormat"](
                "parse_chat: a function message needs `name:` and `content:`"
            )
        else:
            messages.append({"role": role, "content": text.strip()})
    return messages


NO_PICTURES = "models get texts only; give what the picture shows as a text"


class PFBytes(bytes):
    """Bytes of a kind, as PromptFlow gives them to a tool."""

    def __new__(cls, value, *_, **__):
        return super().__new__(cls, value)

    def __init__(self, value, mime_type, source_url=None):
        self._hash = hashlib.sha1(value).hexdigest()[:8]
        self._mime_type, self._source_url = mime_type.lower(), source_url

    @property
    def source_url(self):
        return self._source_url

    def to_base64(self, with_type=False):
        code = base64.b64encode(self).decode()
        return f"data:{self._mime_type};base64,{code}" if with_type else code


# What the bytes of a picture begin with.
PICTURES = [
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"), (b"II*\0", "image/tiff"), (b"MM\0*", "image/tiff"),
]


class Image(PFBytes):
    def __init__(self, value, mime_type=None, source_url=None):
        kinds = [kind for start, kind in PICTURES if value.startswith(start)]
        is_webp = value[:4] == b"RIFF" and value[8:12] == b"WEBP"
        kinds += ["image/webp"] if is_webp else []
        super().__init__(value, mime_type or (kinds or ["image/*"])[0], source_url)

    def __str__(self):
        return f"Image({self._hash})"

    __repr__ = __str__

    def serialize(self, encoder=None):
        return encoder(self) if encoder else str(self)


def picture_class():
    """The class of pictures: that of an installed PromptFlow, or the one above."""
    return importlib.import_module("promptflow.contracts.multimedia").Image


# The only name of an object that is a picture.
OF_PICTURE = re.compile(r"data:(image/[^;]*);(path|base64|url)")


def picture(kind, form, value):
    if form == "url":
        raise ValueError(f"the picture {value} is an address, and no node fetches pictures: give its file")
    if form == "base64":
        content = base64.b64decode(value.split(",")[-1])
    else:
        if not request["has_folder"]:
            raise ValueError(f"the picture {value} is a file, and this flow has no folder: give its bytes as base64")
        folder = os.path.realpath(".")
        path = os.path.realpath(value)
        if os.path.commonpath([folder, path]) != folder:
            raise ValueError(f"the picture {value} does not lie in the folder of the flow")
        with open(path, "rb") as file:
            content = file.read()
    return picture_class()(content, mime_type=None if kind.endswith("*") else kind)


def form_of_picture(text):
    """What a text means that stands for a picture, as PromptFlow reads it."""
    head, _, code = text.rpartition(",")
    if re.fullmatch(r"(data:image/[^;]*;base64)?", head) and len(code) % 4 == 0 and re.fullmatch(
        "[A-Za-z0-9+/]*={0,2}", code
    ):
        return "base64"
    return "url" if "://" in text else "path"


def with_pictures(value):
    """The value with a picture in the place of each object that describes one."""
    if isinstance(value, list):
        return [with_pictures(one) for one in value]
    if not isinstance(value, dict):
        return value
    only = OF_PICTURE.fullmatch(next(iter(value))) if len(value) == 1 else None
    if only and isinstance(next(iter(value.values())), str):
        return picture(only[1], only[2], next(iter(value.values())))
    return {name: with_pictures(one) for name, one in value.items()}


class Members(dict):
    """Members of a connection, or one group of them. An error names the connection and the members that exist."""

    def __init__(self, what, members):
        super().__init__(members)
        self.what = what

    def __missing__(self, name):
        raise NoMember(self.what, name, self)


class NoMember(AttributeError, KeyError):
    """A member that a connection does not have, asked for as an attribute or as an item."""

    def __init__(self, what, name, members):
        known = ", ".join(sorted(map(str, members)))
        super().__init__(f"{what} has no member {name}; it has {known or 'no member'}")

    def __str__(self):
        return self.args[0]


class Connection:
    """Members in two groups, configs and secrets; each is an item and an attribute too."""

    DEFAULTS = {}

    def __init__(self, members):
        self.name, self.type = members.get("name"), members.get("type")
        what = f"the connection {self.name}"
        self.configs = Members(f"configs of {what}", {**self.DEFAULTS, **(members.get("configs") or {})})
        self.secrets = Members(f"secrets of {what}", members.get("secrets") or {})
        for key, value in members.items():
            if key in ("configs", "secrets", "name", "type", "module", "$schema"):
                continue
            # A variable of the environment may be a new value of a member that the file has.
            groups = [group for group in (self.configs, self.secrets) if key in group]
            for group in groups or self.groups_of(key):
                group[key] = value

    def groups_of(self, key):
        return [self.secrets if key == "api_key" else self.configs]

    def __getattr__(self, name):
        if name not in ("configs", "secrets"):
            for group in (self.configs, self.secrets):
                if name in group:
                    return group[name]
        if name.startswith("__") or name in ("configs", "secrets", "name"):
            raise AttributeError(name)
        raise NoMember(f"the connection {self.name}", name, {**self.configs, **self.secrets})

    def __getitem__(self, name):
        for group in (self.configs, self.secrets):
            if name in group:
                return group[name]
        raise NoMember(f"the connection {self.name}", name, {**self.configs, **self.secrets})

    def __contains__(self, name):
        return name in self.configs or name in self.secrets

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self.configs)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def keys(self):
        return list(self.configs)

    def is_secret(self, name):
        return name in self.secrets


class InBothGroups(Connection):
    """A connection whose members have no fixed groups."""

    def groups_of(self, key):
        return [self.configs, self.secrets]


class StrongType(InBothGroups):
    """A connection whose class declares its members. A value goes before the default of the class."""

    def __init__(self, members):
        super().__init__(members)
        for kind in type(self).__mro__:
            for name in getattr(kind, "__annotations__", {}):
                if name not in self and hasattr(type(self), name):
                    self.configs[name] = getattr(type(self), name)
                if name in self:
                    self.__dict__[name] = self[name]


def no_op(func=None, *_, **__):
    return func if callable(func) else no_op


def stand_in(name, **members):
    module = StandIn(name)
    module.__dict__.update(members)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


# What a connection has where neither its file nor the environment says it.
CONNECTIONS = {
    "CustomConnection": None,
    "CustomStrongTypeConnection": None,
    "OpenAIConnection": {"organization": None, "base_url": None},
    "AzureOpenAIConnection": {"api_type": "azure", "api_version": "2024-02-01", "auth_mode": "key"},
    "AzureAIServicesConnection": {"auth_mode": "key"},
    "AzureContentSafetyConnection": {"api_type": "Content Safety", "api_version": "2023-10-01"},
    "FormRecognizerConnection": {"api_type": "Form Recognizer", "api_version": "2023-07-31"},
    "CognitiveSearchConnection": {"api_version": "2023-11-01", "auth_mode": "key"},
    "AzureAISearchConnection": {"api_version": "2023-11-01", "auth_mode": "key"},
    "SerpConnection": {},
    "ServerlessConnection": {},
    "WeaviateConnection": {},
    "QdrantConnection": {},
}
# Errors that a tool may raise or catch, each with its base; those from the fourth on are of tools.
EXCEPTIONS = [
    ("UserErrorException", "PromptflowException"), ("SystemErrorException", "PromptflowException"),
    ("ValidationException", "UserErrorException"), ("LLMError", "UserErrorException"),
    ("WrappedOpenAIError", "UserErrorException"), ("ToolValidationError", "UserErrorException"),
    ("JinjaTemplateError", "ToolValidationError"), ("ChatAPIInvalidRole", "ToolValidationError"),
    ("ChatAPIFunctionRoleInvalidFormat", "ToolValidationError"),
    ("ChatAPIInvalidFunctions", "ToolValidationError"),
]
OF_TOOLS = [name for name, _ in EXCEPTIONS[3:]]
# Words that PromptFlow has as members of these classes.
TRACE_TYPES = {
    "LLM": "LLM", "FUNCTION": "Function", "LANGCHAIN": "LangChain", "FLOW": "Flow",
    "EMBEDDING": "Embedding", "RETRIEVAL": "Retrieval",
}
STATUSES = ["Running", "Preparing", "Completed", "Failed", "Bypassed", "Canceled", "NotStarted"]
ERROR_TARGETS = [
    "Executor", "Batch", "Core", "Flow_Executor", "Node_Executor", "Tool", "Azure_Run_Storage", "Runtime",
    "Unknown", "Run_Tracker", "Run_Storage", "Control_Plane_SDK", "Serving_App", "Flow_Invoker",
    "Function_Path",
]
VALUES = {
    "TraceType": TRACE_TYPES,
    "Status": {word: word for word in STATUSES},
    "ErrorTarget": {word.upper(): word.replace("_", "") for word in ERROR_TARGETS},
}
if not is_installed("promptflow"):
    connections = {
        name: type(name, (StrongType if "StrongType" in name else InBothGroups,), {}) if defaults is None
        else type(name, (Connection,), {"DEFAULTS": defaults})
        for name, defaults in CONNECTIONS.items()
    }
    words = {
        name: type(name, (str,), {})
        for name in ("PromptTemplate", "Secret", "FilePath", "AssistantDefinition")
    }
    exceptions = {"PromptflowException": PromptflowException}
    for name, base in EXCEPTIONS:
        exceptions[name] = type(name, (exceptions[base],), {})
    values = {name: enum.Enum(name, members, type=str) for name, members in VALUES.items()}
    stubs = {
        name: type(name, (Stub,), {})
        for name in (
            "Trace", "RunInfo", "FlowRunInfo", "InputSetting", "DynamicList", "GeneratedBy",
            "ModelConfiguration", "OpenAIModelConfiguration", "AzureOpenAIModelConfiguration",
        )
    }
    models = unavailable("Flow", "AsyncFlow", "Prompty", "AsyncPrompty")

    def some(*names):
        return {name: stubs[name] for name in names}

    tools = dict(tool=tool, ToolProvider=type("ToolProvider", (), {}))
    inputs = some("InputSetting", "DynamicList", "GeneratedBy")
    configurations = [name for name in stubs if name.endswith("ModelConfiguration")]
    core = dict(
        __version__="1.18.0", ThreadPoolExecutorWithContext=concurrent.futures.ThreadPoolExecutor,
        log_metric=log_metric, log_flow_metric=log_metric, trace=no_op, start_trace=no_op,
        register_builtin_method=no_op, **tools, **some(*configurations), **models,
    )
    for name in ("promptflow", "promptflow.core", "promptflow._internal", "promptflow.tracing"):
        stand_in(name, **core)
    stand_in("promptflow._core")
    stand_in("promptflow._core.tool", **tools, **inputs)
    stand_in("promptflow._core.metric_logger", log_metric=log_metric)
    stand_in("promptflow.core._connection", **connections)
    stand_in("promptflow.connections", **connections, **unavailable("ConnectionProvider"))
    stand_in("promptflow.entities", **connections, **inputs, **unavailable("Run", "FlowContext"))
    stand_in("promptflow.tracing.contracts")
    stand_in("promptflow.tracing.contracts.trace", **some("Trace"), TraceType=values["TraceType"])
    stand_in("promptflow.client", **unavailable("PFClient", "load_flow", "load_run"))
    stand_in("promptflow.contracts")
    stand_in("promptflow.contracts.types", **words)
    stand_in(
        "promptflow.contracts.run_info", **some("RunInfo", "FlowRunInfo"), Status=values["Status"]
    )
    stand_in(
        "promptflow.contracts.multimedia", Image=Image, PFBytes=PFBytes, Text=type("Text", (str,), {})
    )
    stand_in(
        "promptflow.exceptions", ErrorTarget=values["ErrorTarget"],
        **{name: kind for name, kind in exceptions.items() if name not in OF_TOOLS},
    )
    of_tools = {
        "aoai": ("AzureOpenAI", "chat", "completion"), "aoai_gpt4v": ("AzureOpenAI", "chat"),
        "openai": ("OpenAI", "chat", "completion"), "openai_gpt4v": ("OpenAI", "chat"),
        "open_model_llm": ("OpenModelLLM",), "embedding": ("embedding",),
        "serpapi": ("SerpAPI", "search"), "azure_content_safety": ("AzureContentSafety", "analyze_text"),
    }
    asks = f"needs the package promptflow-tools; {INSTALL}, or make the call a node of type llm"
    serves = f"needs the package promptflow-tools; {INSTALL}, or ask its service in this program"
    of_tools = {
        name: unavailable(*members, why=asks if "oai" in name or "openai" in name or "llm" in name else serves)
        for name, members in of_tools.items()
    }
    classes = {
        name: kind for members in of_tools.values() for name, kind in members.items() if name[0].isupper()
    }
    stand_in("promptflow.tools", **classes)
    for name, members in of_tools.items():
        stand_in(f"promptflow.tools.{name}", **members)
    stand_in(
        "promptflow.tools.common", render_jinja_template=render_jinja_template, parse_chat=parse_chat,
        to_bool=lambda value: str(value).lower() == "true",
    )
    stand_in(
        "promptflow.tools.template_rendering",
        render_template_jinja2=tool(lambda template, **values: render_jinja_template(template, **values)),
    )
    stand_in(
        "promptflow.tools.exception",
        **{name: kind for name, kind in exceptions.items() if name in OF_TOOLS},
    )


# A line of `.env`: a name, and a value in quotes or up to a comment.
BINDING = re.compile(
    r"""\s* (?:export[^\S\r\n]+)? (?: '([^']+)' | (?!'|export\s)([^=\#\s]+) ) [^\S\r\n]*
        (?: = [^\S\r\n]* ( '(?:\\'|[^'])*' | "(?:\\"|[^"])*" | (?![ \t'"])[^\r\n]* ) )?
        [^\S\r\n]* (?:\#[^\r\n]*)? (?:\r\n|\n|\r|$)""",
    re.VERBOSE,
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unquoted(text):
    if text[:1] == "'":
        return re.sub(r"\\([\\'])", r"\1", text[1:-1])
    if text[:1] == '"':
        return re.sub(r"""\\([\\'"abfnrtv])""", lambda m: ESCAPES.get(m[1], m[1]), text[1:-1])
    return re.sub(r"\s+\#.*", "", text).rstrip()


def read_env_text(text):
    """The variables of a text of lines `NAME=value`; `${NAME}` and `${NAME:-default}` are replaced."""
    found, at = {}, 0

    def known(match):
        name, default = match[1], match[2]
        return os.environ.get(name, found.get(name, default or ""))

    while at < len(text):
        line = BINDING.match(text, at)
        if line:
            if line[3] is not None:
                value = unquoted(line[3])
                found[line[1] or line[2]] = re.sub(r"\$\{([^}:]*)(?::-([^}]*))?\}", known, value)
            at = line.end()
        else:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end + 1
    return found


def read_env_file(path=".env"):
    """The variables of `.env` in the folder of the flow."""
    if not request["has_folder"]:
        return {}
    try:
        return read_env_text(open(path, encoding="utf-8-sig", newline="").read())
    except OSError:
        return {}
    except UnicodeDecodeError as error:
        raise ValueError(f"read {path}: it is not UTF-8 (`iconv` converts it): {error}") from None


def load_dotenv(dotenv_path=None, *_, override=False, **__):
    found = read_env_file(dotenv_path or ".env")
    for key, value in found.items():
        if override or key not in os.environ:
            os.environ[key] = value
    return bool(found)


if not is_installed("dotenv"):
    stand_in(
        "dotenv", load_dotenv=load_dotenv, find_dotenv=lambda *_, **__: ".env",
        dotenv_values=lambda dotenv_path=None, *_, **__: read_env_file(dotenv_path or ".env"),
    )


def is_known(name):
    """Whether there is a file or a variable of this connection."""
    prefix = prefix_of(name)
    return name in given["files"] or any(variable.startswith(prefix) for variable in os.environ)


def prefix_of(name):
    """What the variables of a connection begin with."""
    return "".join(c.upper() if c.isalnum() else "_" for c in name) + "_"


def reference(value):
    """The X of `${env:X}`."""
    is_one = isinstance(value, str) and value.startswith("${env:") and value.endswith("}")
    return value[6:-1].strip() if is_one else None


def not_set(name, variable, own):
    said = f"read the connection {name}: the environment variable {variable} "
    own = f"set {own}" if name in given["by_prefix"] else f"give the node the name {name} itself and set {own}"
    if given["in_service"]:
        return (f"{said}is not given to it, because a service gives a connection only the variables that "
                f"begin with its name; {own}, or set {variable} in `.env` beside the flow")
    return f"{said}is not set; set it, or set it in `.env` beside the flow"


# What PromptFlow writes where a secret stands that a person has to give.
PLACEHOLDERS = ("<user-input>", "<no-change>")


def is_placeholder(key, value, is_secret):
    hidden = (is_secret or key == "api_key") and isinstance(value, str) and value and not value.strip("*")
    return value in PLACEHOLDERS or hidden


def members_of(name):
    """The members of a connection, from its file and from variables of the environment."""
    file = given["files"].get(name, {})
    if "problem" in file:
        raise LookupError(file["problem"])
    members, prefix = file.get("members", {}), prefix_of(name)
    members = {key: dict(value) if isinstance(value, dict) else value for key, value in members.items()}
    for group in (members, members.get("secrets"), members.get("configs")):
        for key, value in (group or {}).items():
            variable, own = reference(value), prefix + key.upper()
            is_secret = group is not members and group is members.get("secrets")
            if isinstance(value, str) and is_placeholder(key, value, is_secret) and own not in os.environ:
                own = f", or set {own}" if name in given["by_prefix"] else ""
                raise LookupError(
                    f"read the connection {name}: its {key} is the placeholder {value} and no value; write "
                    f"`{key}: ${{env:VARIABLE}}` into its file and set this variable{own}"
                )
            if variable is not None:
                found = given["variables"].get(variable, os.environ.get(variable))
                if found is None and own not in os.environ:
                    raise LookupError(not_set(name, variable, own))
                group[key] = found or ""
    members.update(
        {k[len(prefix):].lower(): v for k, v in os.environ.items() if k.startswith(prefix)}
    )
    if not members:
        variables = f", or set {prefix}API_KEY and the like in the environment"
        raise LookupError(
            f"find the connection {name}: put {name}.yaml into the folder of the flow"
            + (variables if name in given["by_prefix"] else "")
        )
    return members


def connection(name, kinds, place=""):
    members = members_of(name)
    kind = kinds[0] if len(kinds) == 1 else kind_of(name, members, kinds, place)
    if issubclass(kind, Connection):
        return kind({"name": name, **members})
    members = {k: v for k, v in members.items() if k not in ("$schema", "name", "type")}
    return kind(**members)


def normal(kind):
    """A class or a `type` of a connection: `azure_open_ai` is AzureOpenAIConnection."""
    return re.sub("[^a-z0-9]|connection$", "", kind.lower())


def kind_of(name, members, kinds, place):
    """The class of these that the type of a connection means."""
    said = members.get("custom_type"), members.get("type")
    schema = str(members.get("$schema", "")).rpartition("/")[2].partition(".")[0]
    for one in [normal(str(one)) for one in (*said, schema) if one]:
        for wanted in (one, "customstrongtype") if one == "custom" else (one,):
            for kind in kinds:
                if wanted in (normal(base.__name__) for base in kind.__mro__):
                    return kind
    names = " or ".join(kind.__name__ for kind in kinds)
    raise LookupError(
        f"choose a class for the connection {name}: {place} takes {names}; say which with `type` in the "
        f"file of the connection" + (f", or with {prefix_of(name)}TYPE" if name in given["by_prefix"] else "")
    )


def is_connection(kind):
    return inspect.isclass(kind) and any(base.__name__ in CONNECTIONS for base in kind.__mro__)


def connection_class(name):
    return getattr(importlib.import_module("promptflow.connections"), name, None)


def annotations_of(func):
    """The annotations of a function; a name that means nothing here stays a text."""
    try:
        return typing.get_type_hints(func)
    except Exception:
        return dict(getattr(func, "__annotations__", {}))


def named_in(text, func):
    """What the words of an annotation mean, such as `Optional["X"]` or `A | B`."""
    known = {**vars(builtins), **getattr(func, "__globals__", {})}
    for word in re.findall(r"[A-Za-z_][\w.]*", text):
        first, *rest = word.split(".")
        found = type(None) if word == "None" else known.get(first)
        for part in rest:
            found = getattr(found, part, None)
        last = rest[-1] if rest else first
        if found is None and last in CONNECTIONS:
            found = connection_class(last)
        if found is not typing.Optional and found is not typing.Union:
            yield word if found is None else found


def alternatives(annotation, func):
    """The types that a parameter takes; a text for each that cannot be found."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    from_text = isinstance(annotation, str)
    if from_text:
        found = list(named_in(annotation, func))
    elif isinstance(annotation, typing.TypeVar):
        found = annotation.__constraints__ or [annotation.__bound__]
    elif typing.get_origin(annotation) in (typing.Union, getattr(types, "UnionType", typing.Union)):
        found = typing.get_args(annotation)
    else:
        return [annotation]
    of_each = ([one] if from_text and isinstance(one, str) else alternatives(one, func) for one in found)
    return [kind for kinds in of_each for kind in kinds]


def connection_for(key, name, kinds):
    """The connection that an input names; None where its parameter takes a text."""
    classes = [kind for kind in kinds if is_connection(kind)]
    unknown = [kind for kind in kinds if isinstance(kind, str)]
    if classes:
        return connection(name, classes, f"the input {key}") if str not in kinds or is_known(name) else None
    if not unknown or str in kinds:
        return None
    if name in given["files"]:
        every = [kind for kind in map(connection_class, CONNECTIONS) if kind is not None]
        return connection(name, every, f"the input {key}")
    if any("Connection" in kind for kind in unknown):
        raise LookupError(
            f"find the type {' or '.join(unknown)} of the input {key}, which names the connection {name}: "
            "import it where the program runs, and not only for type checks"
        )
    return None


def use_locks_of_threads():
    """Where no lock between processes can be made, as in a jail, gives libraries locks between threads.

    Libraries such as an installed PromptFlow make one when they are imported, and never share it.
    """
    import multiprocessing.context
    import threading

    try:
        multiprocessing.Lock()
        return
    except (ImportError, OSError):
        pass
    for kind in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier"):
        make = getattr(threading, kind)
        of_threads = lambda self, *given, make=make: make(*given)
        setattr(multiprocessing.context.BaseContext, kind, of_threads)
        setattr(multiprocessing, kind, make)


def set_environment():
    # The tracing of an installed PromptFlow would start a service, which no node may do.
    os.environ.setdefault("PF_TRACING_SKIP_LOCAL_SETUP", "true")
    for key, value in read_env_file().items():
        os.environ.setdefault(key, value)
    for key, value in request["environment"].items():
        if value.startswith("${") and value.endswith("}") and "." in value:
            name, _, member = value[2:-1].partition(".")
            value = str(connection(name, [InBothGroups])[member])
        os.environ[key] = value


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
            if files[origin] is None:
                raise ValueError(f"read {origin}: it is not UTF-8 (`iconv` converts it)")
            module.__file__ = origin
            exec(compile(files[origin], origin, "exec"), module.__dict__)


sys.meta_path.insert(0, Pack())
if isinstance(sys.modules.get("promptflow"), StandIn):
    sys.meta_path.append(NoStandIn())


def is_tool(value):
    # An installed PromptFlow marks a tool with `__tool`; a function that is only traced has other marks.
    marks = ("__is_flow_tool__", "__tool")
    return callable(value) and any(hasattr(value, mark) for mark in marks)


def find_tool(module):
    """The one tool of a program: a function, or a class and its method."""
    own = [v for v in vars(module).values() if getattr(v, "__module__", None) == module.__name__]
    found = [(None, v) for v in own if is_tool(v) and not inspect.isclass(v)]
    for value in own:
        if inspect.isclass(value):
            found += [(value, getattr(value, n)) for n, m in vars(value).items() if is_tool(m)]
    if len(found) != 1:
        raise TypeError(f"expected one @tool in {request['path']}, found {len(found)}")
    return found[0]


def find_entry(module):
    """The function or class that the flow names."""
    try:
        found = getattr(module, request["entry"])
    except AttributeError:
        raise LookupError(f"find {request['entry']} in {request['path']}") from None
    return (found, found.__call__) if inspect.isclass(found) else (None, found)


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


def whole_text(text, place):
    """The text; an error names the place of half a character, which UTF-8 cannot hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{place} has half a character at position {error.start}, which JSON cannot hold") from None
    return str(text)


def key_of(key):
    """The key as JSON writes it: `null` for None, `true` for True."""
    return str(key) if isinstance(key, str) else json.dumps(key)


# How deep lists and dicts may lie in each other; readers of JSON have a limit too.
DEPTH_MAX = 100


def plain(value, place="the output", within=()):
    """The value as JSON has it; an error names the part that JSON cannot hold."""
    if id(value) in within:
        raise ValueError(f"{place} contains itself, which JSON cannot hold")
    if len(within) > DEPTH_MAX:
        raise ValueError(f"{place[:200]}… lies more than {DEPTH_MAX} lists and dicts deep")
    if isinstance(value, bytes) and hasattr(value, "_mime_type"):
        return {f"data:{value._mime_type};base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        within = (*within, id(value))
        for key in value:
            if not (key is None or isinstance(key, (str, int, float, bool))):
                raise TypeError(f"{place} has a key of type {type(key).__name__}, and JSON has only texts")
        return {whole_text(key_of(k), f"a key of {place}"): plain(v, f"{place}[{k!r}]", within) for k, v in value.items()}
    if inspect.isgenerator(value) or isinstance(value, Parts):
        return plain("".join(str(part) for part in value), place)
    if isinstance(value, (list, tuple)):
        within = (*within, id(value))
        return [plain(v, f"{place}[{i}]", within) for i, v in enumerate(value)]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ValueError(f"{place} is {value}, which JSON cannot hold")
    if isinstance(value, str):
        return whole_text(value, place)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError(f"{place} is {value}, a number beyond 64 bits; return it as a text")
    if value is None or isinstance(value, (int, float, bool)):
        return value
    if hasattr(value, "__dataclass_fields__"):
        members = {k: getattr(value, k) for k in value.__dataclass_fields__}
        return plain(members, place, (*within, id(value)))
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json"), place, (*within, id(value)))
    raise TypeError(
        f"{place} is of type {type(value).__name__}, which JSON cannot hold; return texts, numbers, "
        "lists and dicts"
    )


def arguments_for(func, bound, annotated=None):
    parameters = inspect.signature(func).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    hints, arguments = annotations_of(annotated or func), {}
    for key, value in request["inputs"].items():
        parameter = parameters.get(key)
        kinds = alternatives(hints[key], annotated or func) if key in hints else []
        named = None
        if isinstance(value, str) and value and any(getattr(kind, "__name__", "") == "Image" for kind in kinds):
            value = picture("image/*", form_of_picture(value), value)
        value = with_pictures(value)
        if parameter is not None and isinstance(value, str) and value and key not in request["bypassed"]:
            named = connection_for(key, value, kinds)
        if bound and parameter is None and not takes_all:
            continue
        if key in request["bypassed"]:
            if parameter is None or parameter.default is not inspect.Parameter.empty:
                continue
            value = None
        elif named is not None:
            value = named
        elif key in request["literals"] and parameter is not None:
            if value is None or value == "":
                continue
            kinds = [kind for kind in kinds if kind is not type(None)]
            value = convert(value, kinds[0]) if len(kinds) == 1 else value
        elif request["entry"] and value is None and parameter is not None:
            # A default of the program is only known to the program.
            if parameter.default is not inspect.Parameter.empty:
                continue
        arguments[key] = value
    return arguments


class Parts(list):
    """What an asynchronous generator gave."""


async def collected(parts):
    return Parts([part async for part in parts])


def main():
    set_environment()
    if request["jailed"]:
        use_locks_of_threads()
    name = request["path"][:-3].replace("/", ".")
    module = importlib.import_module(name)
    owner, func = find_entry(module) if request["entry"] else find_tool(module)
    if owner is not None:
        made = owner(**arguments_for(owner, True, owner.__init__)) if owner.__init__ is not object.__init__ else owner()
        func = getattr(made, func.__name__)
    bound = owner is not None or request["entry"] is not None
    result = func(**arguments_for(func, bound))
    if inspect.iscoroutine(result) or inspect.isasyncgen(result):
        import asyncio

        parts = inspect.isasyncgen(result)
        result = asyncio.run(collected(result) if parts else result)
    result = plain(result)
    if request["entry"] and request["has_members"] and not isinstance(result, dict):
        return {"output": result}
    return result


def why(error):
    """What is said of an error, in parts: words of this program are kept, and others may repeat a text."""
    if isinstance(error, (Missing, NoMember)):
        return [{"ours": str(error)}]
    said = [{"theirs": f"{type(error).__name__}: {error}"[:2000]}]
    if isinstance(error, ImportError):
        said.append({"ours": "; install it for the interpreter that python.interpreter names"})
    return said


try:
    answer = {"output": main(), "metrics": plain(metrics, "a metric")}
except BaseException as error:
    answer = {"error": why(error)}
real_out.write(json.dumps(answer, allow_nan=False))
real_out.flush()
