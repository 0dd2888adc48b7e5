"""The blocking client: :class:`Home` submits requests, waits for acks, and reads summaries."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import time
import uuid
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Union

try:
    import fcntl
except ImportError:  # not Unix: the single write is then the only protection
    fcntl = None  # type: ignore[assignment]

Json = Dict[str, Any]

STREAMS = ("events", "sessions", "documents", "chunk_sets")
TERMINAL = frozenset(
    {
        "completed",
        "duplicate",
        "failed_permanent",
        "rejected_invalid_schema",
        "rejected_unknown_flow",
        "rejected_invalid_input",
    }
)
#: The kind of summary for each bus, when the caller names no kind.
KIND_OF_BUS = {
    "event_bus": "event_summary",
    "session_bus": "session_summary",
    "chunk_bus": "chunk_set_summary",
    "other": "document_summary",
}
#: A publication may exchange the tree between manifest and data; then it is opened again.
REOPENS = 5
#: Bytes at the end of the acks in which an earlier summary of the same content is looked for.
ACK_BYTES = 32 << 20


class SummarizerError(Exception):
    """Base class of the errors of this module."""


class WaitTimeout(SummarizerError):
    """No terminal ack came within the timeout. The request stays in the queue."""


class ManifestMismatch(SummarizerError):
    """Published data does not match its manifest."""


@dataclasses.dataclass(frozen=True)
class Ticket:
    """A submitted request, and the offset in the acks from which to look for it."""

    request_id: str
    acks_from: int = 0


@dataclasses.dataclass(frozen=True)
class Ack:
    """One line of ``run/ack.jsonl``."""

    raw: Json

    @property
    def request_id(self) -> Optional[str]:
        return self.raw.get("request_id")

    @property
    def status(self) -> str:
        return str(self.raw["status"])

    @property
    def reason_code(self) -> Optional[str]:
        return self.raw.get("reason_code")

    @property
    def message(self) -> Optional[str]:
        return self.raw.get("message")

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def has_summary(self) -> bool:
        """False when the request was skipped, rejected or failed."""
        return self.raw.get("summary") is not None

    @property
    def anchor(self) -> str:
        """Keep this string: ``summarizer log verify --anchor`` checks the log up to this ack with it."""
        return f"{self.raw['ack_seq']}:{self.raw['log_head']}"


@dataclasses.dataclass(frozen=True)
class Partition:
    """One day of one stream, verified against its manifest."""

    stream: str
    day: str
    manifest: Json
    items: List[Json]


class AckReader:
    """Reads new lines of a file of acks as it grows.

    The start may be the size of the file while a line was being written: reading begins with the next
    line.
    """

    def __init__(self, path: pathlib.Path, start: int = 0) -> None:
        self._path = path
        # With the byte before the start, which ends a line or does not.
        self._position = max(0, start - 1)
        self._cuts = start > 0
        self._rest = b""
        self._inode: Optional[int] = None

    def new(self) -> List[Ack]:
        """The acks that were appended since the last call; none when the file does not exist yet."""
        try:
            file = open(self._path, "rb")
        except FileNotFoundError:
            return []
        with file:
            stat = os.fstat(file.fileno())
            # The file was written again from the log, so earlier acks come again.
            replaced = self._inode is not None and self._inode != stat.st_ino
            if replaced or stat.st_size < self._position:
                self._position, self._rest, self._cuts = 0, b"", False
            self._inode = stat.st_ino
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._cuts and lines:
            # What stands before the first end of a line began before the start.
            del lines[0]
            self._cuts = False
        return [Ack(json.loads(line)) for line in lines if line]


def no_ack(ticket: Ticket, timeout: Optional[float]) -> WaitTimeout:
    return WaitTimeout(
        f"no terminal ack for {ticket.request_id} within {timeout} s; is `summarizer serve` running?"
    )


def not_published(ack: Ack, timeout: float) -> SummarizerError:
    return SummarizerError(f"{ack.raw['summary']['summary_id']} is not published after {timeout} s")


class Home:
    """A summarizer home. Files are opened when they are needed."""

    def __init__(
        self,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        queue: str = "run/queue.jsonl",
        bus_home: str = "buses",
    ) -> None:
        root = path if path is not None else os.environ.get("SUMMARIZER_HOME", ".")
        self.root = pathlib.Path(root)
        self.queue = self.root / queue
        self.acks = self.root / "run" / "ack.jsonl"
        self.summaries = self.root / bus_home / "summaries"
        self.versions = self.root / bus_home / "versions"

    # Submitting.

    def build(
        self,
        flow: str,
        ids: Sequence[str],
        *,
        bus: str = "other",
        kind: Optional[str] = None,
        subkind: str = "other",
        variant: Optional[str] = None,
        params: Optional[Mapping[str, Any]] = None,
        request_id: Optional[str] = None,
        idempotency_key: Optional[str] = None,
        again: bool = False,
        priority: Optional[int] = None,
        not_before: Optional[datetime.datetime] = None,
        deadline: Optional[datetime.datetime] = None,
        repo: str = "python",
        component: str = "summarizer_client",
        version: str = "1",
    ) -> Json:
        """A ``summary_request.v1``. With ``not_before`` it is scheduled and never starts earlier.

        Without an ``idempotency_key`` it gets one over the work, the content of the input and the
        configuration: changed content is new work, and the same again gives the answer that exists.
        A content that comes back after another one is asked anew, so that its summary is the newest.
        ``again`` asks anew in any case.
        """
        if isinstance(ids, (str, bytes)):
            raise TypeError("ids is a list of ids, not one string")
        if bus not in KIND_OF_BUS:
            raise ValueError(f"bus is one of {', '.join(KIND_OF_BUS)}, not {bus!r}")
        # None as a value says nothing, so the parameter is left out.
        params = {name: value for name, value in (params or {}).items() if value is not None}
        if again:
            params["again"] = _now_ms()
        flow_ref: Json = {"kind": "registry", "flow_id": flow}
        if variant is not None:
            flow_ref["variant"] = variant
        request: Json = {
            "schema_version": "summary_request.v1",
            "request_id": request_id or str(uuid.uuid4()),
            "created_at": _instant(datetime.datetime.now(datetime.timezone.utc)),
            "requested_by": {"repo": repo, "component": component, "version": version},
            "urgency": "now" if not_before is None else "scheduled",
            "work": {
                "output_bus": "summary_bus",
                "output_kind": "summary_item",
                "summary_kind": kind or KIND_OF_BUS[bus],
                "summary_subkind": subkind,
                "flow_ref": flow_ref,
                "params": params,
            },
            "input": {"mode": "ids", "bus": bus, "ids": list(ids)},
        }
        if not idempotency_key:
            idempotency_key = self._content_key(request)
            if not again and self._came_back(idempotency_key):
                params["again"] = _now_ms()
                idempotency_key = self._content_key(request)
        optional: Json = {
            "idempotency_key": idempotency_key,
            "priority": priority,
            "not_before": None if not_before is None else _instant(not_before),
            "deadline": None if deadline is None else _instant(deadline),
        }
        request.update({name: value for name, value in optional.items() if value is not None})
        return request

    def _content_key(self, request: Json) -> str:
        """A key over the work, what the input holds now, and the configuration."""
        source = request["input"]
        work = {**request["work"], "bus": source["bus"], "ids": sorted(set(source["ids"]))}
        config = self.root / "summarizer.toml"
        key = {
            "content": self._content(source["bus"], source["ids"]),
            "model": _sha256(config.read_bytes()) if config.is_file() else None,
            "work": _sha256(_canonical(work)),
        }
        return f"content:{_sha256(_canonical(key))}"

    def _content(self, bus: str, ids: Sequence[str]) -> Optional[str]:
        """The files of the bus ``other``, or the manifests of another bus; None if one is missing."""
        buses = self.summaries.parent
        paths: List[pathlib.Path] = []
        if bus == "other":
            for id_ in ids:
                name = id_[len("other:") :] if id_.startswith("other:") else id_
                found = [buses / bus / one for one in (name, name.rpartition("#")[0]) if one]
                path = next((path for path in found if path.is_file()), None)
                if path is None:
                    return None
                paths.append(path)
        else:
            # The texts of a session are those of its events.
            folders = {"event_bus": ["eventbus"], "session_bus": ["sessions", "eventbus"], "chunk_bus": ["chunks"]}
            for folder in folders[bus]:
                paths.extend(sorted((buses / folder / "manifest").glob("*.json")))
        return _sha256(_canonical([[path.name, _sha256(path.read_bytes())] for path in paths]))

    def _came_back(self, key: str) -> bool:
        """Whether this key has a summary, and a newer one of another content stands in its place.

        Without this rule the request would be a duplicate of the old summary, and readers would go
        on showing the other one. Only published summaries and lists of versions are looked at.
        """
        replaced_by = self._replaced_by()
        made = self._summary_of(key) if replaced_by else None
        if made is None or made["summary_id"] not in replaced_by:
            return False
        newest = str(made["summary_id"])
        seen: Set[str] = set()
        while newest in replaced_by and newest not in seen:
            seen.add(newest)
            newest = replaced_by[newest]
        hashes: List[str] = []
        # The two may be of different days.
        for day in reversed(self.days(made["stream"])):
            with contextlib.suppress(ManifestMismatch, FileNotFoundError):
                hashes += [
                    item["selection"]["source_text_hash"]
                    for item in self.partition(made["stream"], day).items
                    if item["summary_id"] in (made["summary_id"], newest)
                ]
            if len(hashes) == 2:
                return hashes[0] != hashes[1]
        return False

    def _replaced_by(self) -> Dict[str, str]:
        """The next newer version of each summary that has one."""
        marks: Dict[str, str] = {}
        for path in self.versions.glob("*.versions.jsonl"):
            # A day whose last older version went away has no list.
            with contextlib.suppress(FileNotFoundError):
                lines = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
                marks.update((m["summary_id"], m["replaced_by"]) for m in lines if m["replaced_by"])
        return marks

    def _summary_of(self, key: str) -> Optional[Json]:
        """The summary that the last request with a key led to, as far as the newest acks tell."""
        try:
            with open(self.acks, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - ACK_BYTES))
                data = file.read()
        except FileNotFoundError:
            return None
        word, end = key.encode(), len(data)
        while (at := data.rfind(word, 0, end)) >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            # The first line may lack its beginning, and the last one its end.
            with contextlib.suppress(ValueError):
                ack = json.loads(data[start : (data.find(b"\n", at) + 1) or len(data)])
                if ack.get("idempotency_key") == key and ack.get("summary"):
                    return dict(ack["summary"])
            end = start
        return None

    def submit(self, flow: str, ids: Sequence[str], **options: Any) -> Ticket:
        """Builds a request, appends it durably and returns a ticket for :meth:`wait`."""
        return self.submit_request(self.build(flow, ids, **options))

    def submit_request(self, request: Mapping[str, Any]) -> Ticket:
        """Appends an unchanged request as one line by one write, and syncs it.

        It makes no home: where the folder of the queue is missing, the request would reach nobody.
        """
        if not self.queue.parent.is_dir():
            raise SummarizerError(
                f"{self.root} is no summarizer home: it has no folder {self.queue.parent.name}; "
                "`summarizer init` makes one"
            )
        line = json.dumps(request, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        ticket = Ticket(str(request["request_id"]), _size(self.acks))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self.queue, flags, 0o640)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            # End another producer's unfinished line, so that it does not include this one.
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            written = os.write(descriptor, line)
            if written != len(line):
                raise SummarizerError(f"only {written} of {len(line)} bytes were written")
            os.fsync(descriptor)
            if size == 0:
                _sync_name(self.queue.parent)
        finally:
            os.close(descriptor)
        return ticket

    # Outcomes.

    def follow_acks(self, start: int = 0, *, poll: float = 0.05) -> Iterator[Optional[Ack]]:
        """Acks from a byte offset on, without an end; ``None`` when there is no new ack yet."""
        reader = AckReader(self.acks, start)
        while True:
            yield from reader.new()
            yield None
            time.sleep(poll)

    def wait(
        self,
        ticket: Union[Ticket, str],
        *,
        timeout: Optional[float] = None,
        poll: float = 0.05,
    ) -> Ack:
        """The terminal ack of a request. Raises :class:`WaitTimeout` after the timeout."""
        if isinstance(ticket, str):
            ticket = Ticket(ticket)
        deadline = None if timeout is None else time.monotonic() + timeout
        for ack in self.follow_acks(ticket.acks_from, poll=poll):
            if ack is not None:
                if ack.request_id == ticket.request_id and ack.is_terminal:
                    return ack
            elif deadline is not None and time.monotonic() >= deadline:
                raise no_ack(ticket, timeout)
        raise AssertionError("the acks are followed for ever")

    # Reading.

    def days(self, stream: str) -> List[str]:
        """Days of a stream that have a manifest, sorted."""
        ending = f".{_stream(stream)}.summary.manifest.json"
        try:
            names = os.listdir(self.summaries / "manifest")
        except FileNotFoundError:
            return []
        return sorted(name[: -len(ending)] for name in names if name.endswith(ending))

    def partition(self, stream: str, day: str) -> Partition:
        """One day of one stream, read by its manifest, with bytes, lines and hash verified."""
        problem = ""
        for _ in range(REOPENS):
            # One descriptor, so that manifest and data come from the same published tree.
            tree = os.open(self.summaries, os.O_RDONLY)
            try:
                manifest = json.loads(
                    _read(tree, f"manifest/{day}.{_stream(stream)}.summary.manifest.json")
                )
                data = _read(tree, f"{stream}/{day}.{stream}.summary.jsonl")
            except FileNotFoundError as error:
                problem = f"{error.filename} is missing"
                continue
            finally:
                os.close(tree)
            found = hashlib.sha256(data).hexdigest()
            if found == manifest["integrity"]["sha256"]:
                items = [json.loads(line) for line in data.split(b"\n") if line]
                return Partition(stream, day, manifest, items)
            problem = f"{stream} of {day} hashes to {found}, not what its manifest says"
        raise ManifestMismatch(problem)

    def read(self, stream: str, *, since: str = "", until: str = "9999-12-31") -> Iterator[Json]:
        """Items of a stream between two days, both included, verified day by day."""
        for day in self.days(stream):
            if since <= day <= until:
                yield from self.partition(stream, day).items

    def item(self, ack: Ack, *, timeout: float = 30.0, poll: float = 0.05) -> Json:
        """The summary that an ack points at. It may be published shortly after its ack."""
        deadline = time.monotonic() + timeout
        while True:
            item = self.published(ack)
            if item is not None:
                return item
            if time.monotonic() >= deadline:
                raise not_published(ack, timeout)
            time.sleep(poll)

    def published(self, ack: Ack) -> Optional[Json]:
        """The summary that an ack points at, or ``None`` when it is not published yet."""
        pointer = ack.raw.get("summary")
        if pointer is None:
            why = ack.reason_code or ack.message or ack.status
            raise SummarizerError(f"{ack.request_id} has no summary: {why}")
        with contextlib.suppress(ManifestMismatch, FileNotFoundError):
            for item in self.partition(pointer["stream"], pointer["day"]).items:
                if item["summary_id"] == pointer["summary_id"]:
                    return item
        return None

    def verify(self) -> List[str]:
        """Every published day whose bytes, hash, count or order differs from its manifest."""
        wrong: List[str] = []
        for stream in STREAMS:
            for day in self.days(stream):
                try:
                    partition = self.partition(stream, day)
                except ManifestMismatch as error:
                    wrong.append(str(error))
                    continue
                ids = [item["summary_id"] for item in partition.items]
                produced = partition.manifest["counts"]["produced"]
                if len(ids) != produced:
                    wrong.append(f"{stream} of {day}: {len(ids)} lines, {produced} counted")
                if ids != sorted(set(ids)):
                    wrong.append(f"{stream} of {day}: ids are not sorted and distinct")
        return wrong


def _instant(moment: datetime.datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone: datetime.now(datetime.timezone.utc)")
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stream(stream: str) -> str:
    if stream not in STREAMS:
        raise ValueError(f"stream is one of {', '.join(STREAMS)}, not {stream!r}")
    return stream


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _size(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_name(folder: pathlib.Path) -> None:
    """Syncs a folder: without it a new file may be missing after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(tree: int, relative: str) -> bytes:
    descriptor = os.open(relative, os.O_RDONLY, dir_fd=tree)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
