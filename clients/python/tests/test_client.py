"""Tests of the client against a home that a running service holds: SUMMARIZER_HOME."""

import asyncio
import datetime
import os
import pathlib
import tempfile
import threading
import time
import unittest
from typing import List

import summarizer_client as summarizer
from summarizer_client import Home, Ticket
from summarizer_client.aio import AsyncHome
from summarizer_client.client import AckReader

FLOW = os.environ.get("SUMMARIZER_TEST_FLOW", "docs.chunk_set.summarize.brief.v1")


class Reader(unittest.TestCase):
    def test_reading_from_the_middle_of_a_line_begins_with_the_next_one(self) -> None:
        lines = b'{"ack_seq": 1}\n{"ack_seq": 2}\n{"ack_seq": 3}\n'
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ack.jsonl"
            # The file while its second line is being written, and its size then.
            for start, expected in [(0, [1, 2, 3]), (15, [2, 3]), (20, [3]), (30, [3]), (45, [])]:
                path.write_bytes(lines[:start])
                reader = AckReader(path, start)
                reader.new()
                path.write_bytes(lines)
                seen = [ack.raw["ack_seq"] for ack in reader.new()]
                self.assertEqual(seen, expected, start)


class Client(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()

    def note(self, name: str, text: str) -> str:
        path = self.home.root / "buses" / "other" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def test_submit_wait_read_verify(self) -> None:
        note = self.note("python.txt", "Ana moved the archive. The disk is full no more.")
        ack = self.home.wait(self.home.submit(FLOW, [note]), timeout=300)
        self.assertEqual(ack.status, "completed")
        self.assertTrue(ack.is_terminal and ack.has_summary)
        item = self.home.item(ack, timeout=300)
        self.assertIn("Ana", item["outputs"]["summary_text"])
        self.assertIn(item, list(self.home.read("documents")))
        self.assertEqual(self.home.verify(), [])
        sequence, head = ack.anchor.split(":")
        self.assertTrue(int(sequence) > 0 and len(head) == 64)

    def test_a_folder_that_is_no_home_gets_no_request(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for path in (folder, pathlib.Path(folder) / "mistyped"):
                with self.assertRaisesRegex(summarizer.SummarizerError, "is no summarizer home"):
                    Home(path).submit(FLOW, ["a.txt"])
            self.assertEqual(os.listdir(folder), [])

    def test_asking_again_gives_the_same_summary(self) -> None:
        note = self.note("again.txt", "One thing happened. Then nothing else did.")
        first = self.home.wait(self.home.submit(FLOW, [note], idempotency_key="k"), timeout=300)
        second = self.home.wait(self.home.submit(FLOW, [note], idempotency_key="k"), timeout=300)
        self.assertEqual((first.status, second.status), ("completed", "duplicate"))
        self.assertEqual(
            self.home.item(first, timeout=300), self.home.item(second, timeout=300)
        )

    def test_a_content_that_comes_back_is_summarized_anew(self) -> None:
        def ask(budget: int) -> summarizer.Ack:
            note = self.note("back.txt", f"The budget of the garden is {budget} EUR this year.")
            ack = self.home.wait(self.home.submit(FLOW, [note]), timeout=300)
            self.home.item(ack, timeout=300)
            return ack

        def wait_until_replaced(ack: summarizer.Ack) -> None:
            # The lists of versions are published just after the summaries.
            end = time.monotonic() + 300
            while ack.raw["summary"]["summary_id"] not in self.home._replaced_by():
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)

        first, second = ask(40), ask(90)
        wait_until_replaced(first)
        third = ask(40)
        self.assertEqual([ack.status for ack in (first, second, third)], ["completed"] * 3)
        wait_until_replaced(second)
        self.assertIn("40 EUR", self.home.item(third, timeout=300)["outputs"]["summary_text"])
        replaced = self.home._replaced_by()
        self.assertNotIn(third.raw["summary"]["summary_id"], replaced)
        # Now the newest summary is of this content, so asking again is asking for nothing new.
        self.assertEqual(ask(40).status, "duplicate")
        self.assertEqual(ask(90).status, "completed")

    def test_many_writers_at_once(self) -> None:
        note = self.note("many.txt", "Many ask for the same thing at the same time.")
        tickets: List[Ticket] = []
        lock = threading.Lock()

        def ask(number: int) -> None:
            ticket = self.home.submit(FLOW, [note], idempotency_key=f"many-{number}")
            with lock:
                tickets.append(ticket)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = sorted(self.home.wait(ticket, timeout=300).status for ticket in tickets)
        self.assertEqual(statuses, ["completed"] + ["duplicate"] * 19)

    def test_an_unfinished_line_of_somebody_else_swallows_nothing(self) -> None:
        with open(self.home.queue, "ab") as queue:
            queue.write(b'{"half a line')
        note = self.note("torn.txt", "After a torn line comes a whole one. It is read.")
        ack = self.home.wait(self.home.submit(FLOW, [note]), timeout=300)
        self.assertEqual(ack.status, "completed")

    def test_what_went_wrong_is_said(self) -> None:
        ack = self.home.wait(self.home.submit(FLOW, ["no-such-file.txt"]), timeout=300)
        self.assertEqual(ack.status, "rejected_invalid_input")
        with self.assertRaisesRegex(summarizer.SummarizerError, "has no summary"):
            self.home.item(ack)
        ack = self.home.wait(self.home.submit("no.such.flow.v1", ["x.txt"]), timeout=300)
        self.assertEqual(ack.status, "rejected_unknown_flow")
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=9)
        with self.assertRaises(summarizer.WaitTimeout):
            self.home.wait(self.home.submit(FLOW, ["x.txt"], not_before=later), timeout=0.3)
        with self.assertRaises(TypeError):
            self.home.build(FLOW, "one string")  # a string is a sequence of texts to a type checker
        with self.assertRaises(ValueError):
            self.home.build(FLOW, ["x"], not_before=datetime.datetime.now())
        with self.assertRaises(ValueError):
            self.home.days("tweets")

    def test_asyncio_waits_for_many_requests_at_the_same_time(self) -> None:
        notes = [self.note(f"async-{n}.txt", f"Number {n} is read. Nobody waits.") for n in range(8)]

        async def ask(home: AsyncHome, note: str) -> str:
            ack = await home.wait(await home.submit(FLOW, [note]), timeout=300)
            item = await home.item(ack, timeout=300)
            return str(item["outputs"]["summary_text"])

        async def main() -> None:
            home = AsyncHome(self.home.root)
            texts = await asyncio.gather(*(ask(home, note) for note in notes))
            self.assertTrue(all(f"Number {n}" in text for n, text in enumerate(texts)))
            published = [item["outputs"]["summary_text"] async for item in home.read("documents")]
            self.assertLessEqual(set(texts), set(published))
            self.assertEqual(await home.verify(), [])
            later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=9)
            ticket = await home.submit(FLOW, ["x.txt"], not_before=later)
            with self.assertRaises(summarizer.WaitTimeout):
                await home.wait(ticket, timeout=0.3)

        asyncio.run(main())

    def test_altered_data_is_noticed(self) -> None:
        note = self.note("altered.txt", "This will be altered. Somebody edits a published file.")
        ack = self.home.wait(self.home.submit(FLOW, [note]), timeout=300)
        self.home.item(ack, timeout=300)
        other = Home(self.home.root, bus_home="altered")
        day = ack.raw["summary"]["day"]
        names = ("manifest/{}.documents.summary.manifest.json", "documents/{}.documents.summary.jsonl")
        for name in (name.format(day) for name in names):
            target = other.summaries / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((self.home.summaries / name).read_bytes())
        self.assertEqual(other.verify(), [])
        data = other.summaries / f"documents/{day}.documents.summary.jsonl"
        data.write_bytes(data.read_bytes().replace(b"altered", b"ALTERED", 1))
        with self.assertRaises(summarizer.ManifestMismatch):
            other.partition("documents", day)
        self.assertEqual(len(other.verify()), 1)


if __name__ == "__main__":
    unittest.main()
