"""The client for ``asyncio``: the event loop stays free while a request is waited for.

    from summarizer_client.aio import AsyncHome

    async def main() -> None:
        home = AsyncHome("my-home")
        ticket = await home.submit("docs.chunk_set.summarize.brief.v1", ["note.txt"])
        ack = await home.wait(ticket, timeout=60)
        print((await home.item(ack))["outputs"]["summary_text"])

Files are read and synced in threads of the loop. A wait holds no thread while it sleeps, so one loop
can wait for thousands of requests.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

from .client import Ack, AckReader, Home, Json, Partition, Ticket, no_ack, not_published

__all__ = ["AsyncHome"]


class AsyncHome:
    """A summarizer home for ``asyncio``. :attr:`home` is the blocking client for the same folder."""

    def __init__(
        self,
        path: Union[str, os.PathLike[str], None] = None,
        *,
        queue: str = "run/queue.jsonl",
        bus_home: str = "buses",
    ) -> None:
        self.home = Home(path, queue=queue, bus_home=bus_home)

    async def submit(self, flow: str, ids: Sequence[str], **options: Any) -> Ticket:
        """Builds a request as :meth:`Home.build` does, and appends it durably."""
        return await asyncio.to_thread(self.home.submit, flow, ids, **options)

    async def submit_request(self, request: Mapping[str, Any]) -> Ticket:
        """Appends an unchanged request as one line by one write, and syncs it."""
        return await asyncio.to_thread(self.home.submit_request, request)

    async def follow_acks(self, start: int = 0, *, poll: float = 0.05) -> AsyncIterator[Ack]:
        """Acks from a byte offset on, without an end."""
        reader = AckReader(self.home.acks, start)
        while True:
            for ack in await asyncio.to_thread(reader.new):
                yield ack
            await asyncio.sleep(poll)

    async def wait(
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
        reader = AckReader(self.home.acks, ticket.acks_from)
        while True:
            for ack in await asyncio.to_thread(reader.new):
                if ack.request_id == ticket.request_id and ack.is_terminal:
                    return ack
            if deadline is not None and time.monotonic() >= deadline:
                raise no_ack(ticket, timeout)
            await asyncio.sleep(poll)

    async def item(self, ack: Ack, *, timeout: float = 30.0, poll: float = 0.05) -> Json:
        """The summary that an ack points at. It may be published shortly after its ack."""
        deadline = time.monotonic() + timeout
        while True:
            item = await asyncio.to_thread(self.home.published, ack)
            if item is not None:
                return item
            if time.monotonic() >= deadline:
                raise not_published(ack, timeout)
            await asyncio.sleep(poll)

    async def days(self, stream: str) -> List[str]:
        """Days of a stream that have a manifest, sorted."""
        return await asyncio.to_thread(self.home.days, stream)

    async def partition(self, stream: str, day: str) -> Partition:
        """One day of one stream, read by its manifest, with bytes, lines and hash verified."""
        return await asyncio.to_thread(self.home.partition, stream, day)

    async def read(
        self, stream: str, *, since: str = "", until: str = "9999-12-31"
    ) -> AsyncIterator[Json]:
        """Items of a stream between two days, both included, verified day by day."""
        for day in await self.days(stream):
            if since <= day <= until:
                for item in (await self.partition(stream, day)).items:
                    yield item

    async def verify(self) -> List[str]:
        """Every published day whose bytes, hash, count or order differs from its manifest."""
        return await asyncio.to_thread(self.home.verify)
