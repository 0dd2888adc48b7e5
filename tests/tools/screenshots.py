#!/usr/bin/env python3
"""Makes the pictures of the page that the documentation shows.

    tests/tools/screenshots.py target/release/summarizer docs/images

It fills a home with sample notes, opens its page in a headless chromium, and writes PNG files: what a
reader sees on a desk and on a phone, light and dark. It needs Python and chromium, and no package. The
browser is driven over the DevTools protocol on two pipes.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

NOTES = {
    "house/roof offer.md": """# Roof

The roofer came on Monday and looked at the north side. Three tiles are cracked, and the gutter leaks at the
corner. The first offer is 1,840 EUR without the scaffold. We decided to wait for a second offer until the end
of February. Ana calls the insurance about the storm damage. The scaffold can stand in the yard for two weeks,
so nobody should park there meanwhile.
""",
    "house/heating.md": """# Heating

The heating used 312 cubic metres of gas in January, eight percent less than a year ago. The new valves in the
kitchen pay for themselves in about two winters. The chimney sweep comes on 3 March between nine and eleven.
Somebody has to be at home. The old pump is noisy, but the technician says that it will last another season.
""",
    "garden/spring plan.md": """# Spring plan

We plant 120 tulip bulbs along the path before the frost ends. The apple tree needs to be cut by the middle of
March. Ben wants a raised bed for tomatoes and beans beside the shed. The water barrel has a crack and loses a
litre a day; a new one costs about 60 EUR. The neighbours lend us their shredder in April.
""",
    "work/release meeting.md": """# Release meeting

- Decision: version 2.4 is released on 20 February.
- The importer reads mailboxes with attachments now. It refuses archives with a password and says so.
- Mia writes the release notes until Wednesday.
- Open question: who answers the first reports over the weekend?

The tests ran for four hours without an error. The old format is still read, but no longer written.
""",
    "travel/Sevilla.md": """# Sevilla

Reservamos el tren a Sevilla para el viernes. Los billetes costaron 164 euros y no se pueden cambiar. El hotel
está cerca del río y admite perros. Marta quiere ver la catedral por la mañana temprano. Hay que llevar abrigo,
porque por la noche hace frío. El domingo comemos con la familia de Pablo.
""",
    "travel/packing.md": """Take the tickets, the dog's passport and the grey bag. The adapter is in the left drawer.
Paul carries the tent. We leave at 7:40 and change trains in Madrid. The neighbours water the plants twice.
""",
}


class Tab:
    """A tab of a headless browser."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        to_read, to_write = os.pipe()
        answers_read, answers_write = os.pipe()

        def connect():
            # The browser reads commands from descriptor 3 and answers on 4.
            os.dup2(to_read, 20)
            os.dup2(answers_write, 21)
            os.dup2(20, 3)
            os.dup2(21, 4)

        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                     "--disable-dev-shm-usage", "--no-proxy-server", "--lang=en-US", "--remote-debugging-pipe",
                     f"--user-data-dir={self.profile}"]
        self.browser = subprocess.Popen([program, *arguments], preexec_fn=connect, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.commands, self.answers = to_write, answers_read
        self.number, self.buffer, self.session = 0, b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                self.buffer += os.read(self.answers, 1 << 16) or sys.exit("the browser ended")
            message, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(message)
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression):
        for _ in range(600):
            if self.value(expression) is True:
                return
            time.sleep(0.05)
        sys.exit(f"this did not come true: {expression}")

    def show(self, url, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.until("!!document.body && !!document.body.dataset.ready && document.readyState === 'complete'")
        self.until("!document.querySelector('#state').textContent.includes('connecting')")

    def picture(self, file):
        # A moving sheet or colour comes to rest, and no place is framed for the keyboard.
        self.value("document.activeElement.blur()")
        time.sleep(0.4)
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))
        print(f"{file}: {os.path.getsize(file)} bytes")

    def end(self):
        self.browser.terminate()
        self.browser.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


def make_home(binary, folder):
    """A home with the sample notes, each under the project of its folder."""
    notes, home = os.path.join(folder, "notes"), os.path.join(folder, "my-texts")
    start = 1770710400  # 10 February 2026: days of the notes, one after another
    for number, (name, text) in enumerate(NOTES.items()):
        path = os.path.join(notes, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        day = time.strftime("%Y-%m-%d", time.gmtime(start + 86400 * (number // 2)))
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"---\ndate: {day}\n---\n{text}")
    for project in sorted(os.listdir(notes)):
        run(binary, home, "add", "--init", os.path.join(notes, project), "--project", project)
    run(binary, home, "digest", "build")
    return home


def run(binary, home, *arguments):
    done = subprocess.run([binary, "--home", home, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    binary, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(out, exist_ok=True)
    names = ["chromium", "chromium-browser", "google-chrome"]
    browser = next(filter(None, map(shutil.which, names)), None) or sys.exit("chromium is not installed")
    # The name of the folder is on the pictures.
    folder = os.path.join(tempfile.gettempdir(), "sample")
    os.mkdir(folder)
    try:
        home = make_home(binary, folder)
        service = subprocess.Popen([binary, "--home", home, "open", "--print"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        link = service.stdout.readline().strip()
        page = re.sub("view=.*", "view=", link)
        tab = Tab(browser)
        try:
            take(tab, page, out)
        finally:
            tab.end()
            service.terminate()
            service.wait()
    finally:
        shutil.rmtree(folder)


def take(tab, page, out):
    to = lambda name: os.path.join(out, name)
    stories = "document.querySelectorAll('.story').length >= 3"
    tab.show(f"{page}/read", 1100, 760, "light")
    tab.until(stories)
    tab.picture(to("page-read.png"))
    tab.show(f"{page}/read", 390, 780, "dark")
    tab.until(stories)
    tab.picture(to("page-phone.png"))
    tab.show(f"{page}/read?q=scaffold", 1100, 760, "light")
    tab.until("document.querySelectorAll('b.hit').length > 0")
    tab.picture(to("page-search.png"))
    tab.value("document.querySelector('.story h3 a').click()")
    tab.until("document.querySelectorAll('.sentence').length > 2")
    tab.value("document.querySelectorAll('.sentence')[2].click()")
    tab.until("!!document.querySelector('.sources mark.on')")
    tab.picture(to("page-source.png"))
    tab.show(f"{page}/ask", 1100, 760, "dark")
    tab.picture(to("page-ask.png"))


main()
