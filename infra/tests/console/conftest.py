"""A console with the events of the demo, and a browser that looks at it.

The tests start `webhookctl dev --demo` in a new folder. Set MITT_CONSOLE_URL (with its `#code=…`) and MITT_CONSOLE_DIR to use
a console that runs already, and WEBHOOKCTL to use another executable.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/#code=([\w-]+)")
# Playwright is imported where it is used: `pytest infra/tests` also reads this file, in an environment without it.


def executable():
    return os.environ.get("WEBHOOKCTL", str(ROOT / "target/debug/webhookctl"))


class Cli:
    """The command line in the folder of the local stack."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, *words, check=True):
        run = subprocess.run([executable(), *words], cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert not check or run.returncode in (0, 5, 6), run.stderr
        return run

    def json(self, *words):
        return json.loads(self(*words, "-o", "json").stdout)


class Process:
    """A process whose output is read until a line matches."""

    def __init__(self, *words, cwd):
        self.lines = []
        self.process = subprocess.Popen(
            [executable(), *words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def find(self, pattern, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, "".join(self.lines))
            if found or self.process.poll() is not None:
                return found
            time.sleep(0.1)
        return None

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="session")
def stack(tmp_path_factory):
    """A local stack on which the demo has ended. Yields the command line, and the address of its console."""
    if url := os.environ.get("MITT_CONSOLE_URL"):
        yield Cli(os.environ["MITT_CONSOLE_DIR"]), url
        return
    folder = tmp_path_factory.mktemp("console")
    dev = Process("dev", "--demo", "--port", "0", cwd=folder)
    try:
        assert dev.find(r"in the ledger", 90), "".join(dev.lines)
        address = ADDRESS.search("".join(dev.lines))
        yield Cli(folder), address[0] if address else ""
    finally:
        dev.stop()


@pytest.fixture(scope="session")
def console(stack):
    """The address of a console that only reads, with a code that is good once."""
    cli, url = stack
    if os.environ.get("MITT_CONSOLE_URL"):
        yield url
        return
    # The console of `dev` may write; the tests look at one that may not.
    started = Process("console", "--no-open", "--port", "0", cwd=cli.folder)
    try:
        found = started.find(ADDRESS, 20)
        assert found, "".join(started.lines)
        yield found[0]
    finally:
        started.stop()


@pytest.fixture(scope="session")
def cli(stack):
    """The command line, with one plan so that no page is empty."""
    cli = stack[0]
    if not cli.json("replay", "log")["items"]:
        cli("replay", "plan", "--status", "dead_letter", "--mode", "guarded", "--reason", "the warehouse is up again")
    return cli


@pytest.fixture(scope="session")
def chromium():
    named = os.environ.get("CHROMIUM", "chromium")
    path = shutil.which(named)
    if not path:
        pytest.exit(f"{named} is missing. Install Debian's package `chromium`, or set CHROMIUM to another one.", returncode=1)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        browser.executable = path
        yield browser
        browser.close()


def opened(chromium, address):
    """Opens a console, and returns its stored session: the code of the address is good once, the token for all tabs."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address)
    # The menu is there before the session is.
    page.wait_for_selector("nav [aria-current]")
    assert "code=" not in page.url, "the code stays in the address"
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="session")
def session(chromium, console, cli):
    return opened(chromium, console)


@pytest.fixture(scope="session")
def console_at(chromium):
    """Starts a console in a folder. Yields its address, without a code, and its session."""

    @contextlib.contextmanager
    def start(folder, *more):
        started = Process("console", "--no-open", "--port", "0", *more, cwd=folder)
        try:
            found = started.find(ADDRESS, 20)
            assert found, "".join(started.lines)
            yield found[1], opened(chromium, found[0])
        finally:
            started.stop()

    return start


@pytest.fixture(scope="session")
def writer(console_at, cli):
    """A console that may write."""
    with console_at(cli.folder, "--write") as found:
        yield found


class Tab:
    """A page of the console, and what went wrong in it."""

    def __init__(self, context, base):
        self.base = base
        self.faults = []
        self.foreign = []
        self.page = context.new_page()
        self.page.add_init_script(
            "window.reports = []; document.addEventListener('securitypolicyviolation', (e) => reports.push(`${e.violatedDirective} ${e.sample}`));"
        )
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("pageerror", lambda error: self.faults.append(f"error {error}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _console(self, message):
        if "Content Security Policy" in message.text or "requires 'Trusted" in message.text:
            self.faults.append(message.text)

    def _request(self, request):
        if not request.url.startswith((self.base, "about:", "data:", "blob:" + self.base)):
            self.foreign.append(request.url)

    def open(self, where):
        """Opens a page as if its address were typed, and waits until nothing is read any more."""
        address = f"{self.base}/#/{where}"
        if self.page.url.startswith(self.base):
            # A change of the fragment alone would not load the page again. For a reload, the browser starts no process.
            self.page.evaluate("(address) => history.replaceState(null, '', address)", address)
            self.page.reload()
        else:
            self.page.goto(address)
        self.settle()

    def settle(self):
        self.page.wait_for_selector("h1")
        end = time.monotonic() + 30
        calm = 0
        while calm < 2 and time.monotonic() < end:
            calm = 0 if self.page.evaluate("document.querySelector('[aria-busy], .skeleton') !== null") else calm + 1
            self.page.wait_for_timeout(40)
        assert calm == 2, f"{self.page.url} is still reading"

    def blameless(self):
        assert not self.faults and not self.foreign, (self.faults, self.foreign)
        assert self.page.evaluate("window.reports") == []


@pytest.fixture
def tab_of(chromium):
    """Makes tabs of a console. Each test gets fresh ones."""
    contexts = []

    def make(base, session, scheme="light", width=1280, height=900, **more):
        size = {"width": width, "height": height}
        context = chromium.new_context(storage_state=session, color_scheme=scheme, viewport=size, reduced_motion="reduce", **more)
        contexts.append(context)
        return Tab(context, base)

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def tab(tab_of, console, session):
    """Makes tabs of the console that only reads."""
    return functools.partial(tab_of, console.split("/#")[0], session)


@pytest.fixture(scope="session")
def pages(cli):
    """The pages of the menu, and the pages of one thing each."""
    dead = cli.json("inbox", "list", "--status", "dead_letter")["items"][0]["id"]
    return {
        "overview": "",
        "inbox": "inbox",
        "event": f"event/{dead}",
        "dead": "dead",
        "plans": "plans",
        "quarantine": "quarantine",
        "approvals": "approvals",
        "sync": "sync",
        "drift": "drift",
        "sources": "sources",
        "flow": "flow",
        "log": "log",
        "doctor": "doctor",
        "error": f"dead/{cli.json('dlq', 'list')['items'][0]['error']}",
        "plan": f"plan/{cli.json('replay', 'log')['items'][0]['plan']}",
        "request": f"quarantine/{cli.json('quarantine', 'list')['items'][0]['id']}",
        "source": "source/stripe-main",
        "presets": "presets",
    }
