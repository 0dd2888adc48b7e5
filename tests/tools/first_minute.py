"""Plays a person who has a text and nothing else: from a clone to the first summary of that text.

    python3 tests/tools/first_minute.py                          clones this repository and builds it: minutes
    python3 tests/tools/first_minute.py --program PROGRAM        takes a program that is built already: seconds
    python3 tests/tools/first_minute.py --steps 2026-11-22 ...   follows the README of that day instead

It prints how long each step took, then the number of commands and of lines that the person typed after the build.
Wait until no other program uses the machine.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = """The import failed twice on Monday because the disk was full.
Ana moved the archive to the new volume. Since then every import has finished.
Next week we delete the old volume and add an alert for free space.
"""
#: What the person types in a shell after the build. The last command shows the summary.
STEPS = {
    "now": ["summarizer sum note.txt"],
    # The last command is the JSON reader, because no command of that version printed a summary.
    "2026-11-22": [
        "export SUMMARIZER_HOME=my-home",
        "summarizer init",
        "mkdir -p my-home/buses/other && cp note.txt my-home/buses/other/note.txt",
        "summarizer submit --flow docs.chunk_set.summarize.brief.v1 --id note.txt --request-id note-1",
        "summarizer drain",
        "grep -rhoE '.summary_text.: ?.[^}]*' my-home/buses/summaries",
    ],
}


def timed(what: str, command: str, folder: pathlib.Path, path: str) -> str:
    start = time.monotonic()
    environment = {**os.environ, "PATH": path}
    environment.pop("SUMMARIZER_HOME", None)
    ran = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    print(f"{time.monotonic() - start:8.2f} s  {what}", flush=True)
    if ran.returncode != 0:
        sys.exit(f"{what} ended with {ran.returncode}")
    return ran.stdout


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, help="a program that is built already")
    parser.add_argument("--steps", choices=STEPS, default="now")
    options = parser.parse_args()
    steps = STEPS[options.steps]

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        if options.program:
            (folder / "bin").mkdir()
            (folder / "bin" / "summarizer").symlink_to(options.program.resolve())
        else:
            timed("clone", f"git -c advice.detachedHead=false clone --quiet '{ROOT}' clone", folder, path)
            timed("build", "cargo install --quiet --locked --path clone --root .", folder, path)
        (folder / "note.txt").write_text(NOTE, encoding="utf-8")
        shown = timed("commands", "\n".join(steps), folder, path)
        if "archive" not in shown:
            sys.exit(f"the last command showed no summary: {shown!r}")
        load = os.getloadavg()[0]
        lines = len("\n".join(steps).splitlines())
        print(f"{counted(len(steps), 'command')}, {counted(lines, 'line')}; load of the machine {load:.1f}")


if __name__ == "__main__":
    main()
