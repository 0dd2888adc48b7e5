"""A client for a summarizer home: submit, wait, read, verify.

It has no dependencies and uses the contracts only: it appends lines to ``run/queue.jsonl``, reads new
lines of ``run/ack.jsonl``, and reads published summaries by their manifests. It needs neither the
program nor a running service: without a service, lines wait in the queue.

    from summarizer_client import Home

    home = Home("my-home")
    ticket = home.submit(flow="docs.chunk_set.summarize.brief.v1", ids=["note.txt"])
    ack = home.wait(ticket, timeout=60)
    print(ack.status, home.item(ack)["outputs"]["summary_text"])

:class:`summarizer_client.aio.AsyncHome` is the same for ``asyncio``.
"""

from .client import (
    STREAMS,
    Ack,
    Home,
    ManifestMismatch,
    Partition,
    SummarizerError,
    Ticket,
    WaitTimeout,
)

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Home",
    "ManifestMismatch",
    "Partition",
    "STREAMS",
    "SummarizerError",
    "Ticket",
    "WaitTimeout",
]
