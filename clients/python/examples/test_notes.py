"""An example of a test of your own program: a new home for each test, without a service.

It needs the program `summarizer` on the path. Run it with `pytest`.
"""

import pathlib
import subprocess

import pytest

from summarizer_client import Home

FLOW = "docs.chunk_set.summarize.brief.v1"


@pytest.fixture
def home(tmp_path: pathlib.Path) -> Home:
    """A new home in a folder that pytest removes."""
    subprocess.run(["summarizer", "--home", tmp_path, "--quiet", "init"], check=True)
    return Home(tmp_path)


def drain(home: Home) -> None:
    """Processes what is in the queue, then ends."""
    subprocess.run(["summarizer", "--home", home.root, "--quiet", "drain"], check=True)


def write_note(home: Home, name: str, text: str) -> str:
    """Puts a text on the bus `other`. Its id is its name."""
    path = home.root / "buses" / "other" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def test_a_note_gets_a_summary(home: Home) -> None:
    note = write_note(home, "disk.txt", "The disk was full on Monday. Ana moved the archive.")
    ticket = home.submit(FLOW, [note])
    drain(home)
    ack = home.wait(ticket, timeout=10)
    assert ack.status == "completed"
    assert "disk" in home.item(ack)["outputs"]["summary_text"]
    assert home.verify() == []


def test_changed_text_is_new_work(home: Home) -> None:
    tickets = []
    for text in ("The disk was full.", "The disk was full.", "The disk has space again."):
        tickets.append(home.submit(FLOW, [write_note(home, "disk.txt", text)]))
        drain(home)
    statuses = [home.wait(ticket, timeout=10).status for ticket in tickets]
    assert statuses == ["completed", "duplicate", "completed"]
