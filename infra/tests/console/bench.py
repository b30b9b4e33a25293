"""Measures the console in a headless Chromium: time to the shell, to the first rows, until all is read, each read, and sizes.

    .venv/console/bin/python infra/tests/console/bench.py [ROUNDS]

The times are of this machine and of the build that WEBHOOKCTL names, on the local stack: with the events of the demo, or with ROWS
events of a month if MITT_SCALE names the executable of the benchmark `scale`. Against AWS, a read takes longer by its calls; the
table has these too.
"""

import contextlib
import gzip
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from conftest import ADDRESS, ROOT, Cli, Process
from playwright.sync_api import sync_playwright

WEB = ROOT / "infra/webhookctl/web"
PAGES = {"Overview": ("", ".items .go"), "Inbox": ("inbox", "tbody tr"), "Event": ("event/{event}", ".history li"), "Sources": ("sources", "tbody tr")}
READS = ["status", "inbox.list", "inbox.stats", "inbox.stats?by=hour", "inbox.inspect?id={event}", "dlq.list", "quarantine.list", "sources.list",
         "sources.show?name={source}", "sync.status", "sync.coverage", "replay.log", "log", "doctor"]
# Runs in each document before its scripts. Notes when the shell is painted, when the first rows stand, and when nothing is read any more.
WATCH = """(() => {
  const seen = window.seen = {};
  const look = () => {
    const now = performance.now();
    const selector = Object.entries(SELECTORS).find(([where]) => where && location.hash.startsWith('#/' + where))?.[1] ?? SELECTORS[''];
    seen.shell ??= performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
    if (document.querySelector(selector)) seen.rows ??= now;
    if (seen.shell && seen.rows && !document.querySelector('[aria-busy], .skeleton')) seen.all ??= now;
    if (!seen.all) requestAnimationFrame(look);
  };
  look();
})()"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
READ = """async (path) => {
  const headers = { authorization: `Bearer ${localStorage.getItem('token')}` };
  const at = performance.now(), answer = await fetch('/api/' + path, { headers }), text = await answer.text();
  return [performance.now() - at, Number(answer.headers.get('x-calls')), text.length];
}"""


def middle(values):
    return f"{statistics.median(values):8.0f} ms"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rows = int(os.environ.get("ROWS") or 0)
    with tempfile.TemporaryDirectory() as folder, large(folder, rows) if rows else demo(folder) as (address, event, source):
        with sync_playwright() as playwright:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=f"/usr/bin/{os.environ.get('CHROMIUM', 'chromium')}", args=arguments)
            page = browser.new_page()
            print(f"{'page':36}{'shell':>11}{'first rows':>12}{'complete':>11}")
            empty(page, rounds, "one word, no script", {})
            empty(page, rounds, "the same with the console's headers", headers_of(address))
            page.goto(address)
            page.wait_for_selector("nav [aria-current]")
            pages(page, page.url.split("/#")[0], event, rounds)
            reads(page, event, source, rounds)
            browser.close()
    sizes()


@contextlib.contextmanager
def demo(folder):
    """Yields the address of a console with the events of the demo, the id of an event, and the name of a source."""
    dev = Process("dev", "--demo", "--port", "0", cwd=folder)
    try:
        assert dev.find("in the ledger", 90), "".join(dev.lines)
        event = Cli(folder).json("inbox", "list", "--status", "dead_letter")["items"][0]["id"]
        yield dev.find(ADDRESS, 20)[0], event, "stripe-main"
    finally:
        dev.stop()


@contextlib.contextmanager
def large(folder, rows):
    """As `demo`, with an inbox of this number of events."""
    with subprocess.Popen([os.environ["MITT_SCALE"], "serve", str(rows), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        event = served.stdout.readline().split()[1]
        console = Process("console", "--no-open", "--port", "0", cwd=folder)
        try:
            yield console.find(ADDRESS, 20)[0], event, "source-3"
        finally:
            console.stop()
            served.stdin.close()


def headers_of(address):
    """Returns the security headers of the console. For `cross-origin-opener-policy`, a browser starts a process."""
    with urllib.request.urlopen(address.split("/#")[0] + "/") as answer:
        return {name: value for name, value in answer.headers.items() if name.startswith(("cross-origin-", "content-security-"))}


def empty(page, rounds, name, headers):
    """Prints how long this browser takes to paint a page with one word and no script: the least that any page can take here."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Word) as server:
        server.more = headers
        threading.Thread(target=server.serve_forever, daemon=True).start()
        times = []
        for _ in range(rounds):
            page.goto("about:blank")
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            while not (painted := page.evaluate(PAINTED)):
                page.wait_for_timeout(20)
            times.append(painted)
        server.shutdown()
    print(f"{name:36}{middle(times)}")


class Word(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        for name, value in self.server.more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>One word</title><p>word")

    def log_message(self, *_):
        pass


def pages(page, base, event, rounds):
    selectors = {where.split("/")[0]: selector for where, selector in PAGES.values()}
    page.add_init_script(WATCH.replace("SELECTORS", json.dumps(selectors)))
    for name, (where, _) in PAGES.items():
        # The browser starts a process for a page that is opened from another one, and keeps it for a reload.
        for how in ("opened", "reloaded"):
            times = {"shell": [], "rows": [], "all": []}
            for _ in range(rounds):
                if how == "opened":
                    page.goto("about:blank")
                    page.goto(f"{base}/#/{where.format(event=event)}", wait_until="commit")
                else:
                    page.reload(wait_until="commit")
                # The policy of the page forbids `wait_for_function`, which evaluates a text.
                while not page.evaluate("window.seen.all"):
                    page.wait_for_timeout(20)
                for key, value in page.evaluate("window.seen").items():
                    times[key].append(value)
            print(f"{f'{name}, {how}':36}{middle(times['shell'])}{middle(times['rows']):>12}{middle(times['all'])}")
    page.goto(f"{base}/#/")
    page.wait_for_selector(".items .go")
    page.wait_for_timeout(3000)
    ticks = []
    page.on("request", lambda request: request.url.endswith("/api/status") and ticks.append(request))
    chromium = page.context.new_cdp_session(page)
    chromium.send("Performance.enable")
    before = main_thread(chromium)
    page.wait_for_timeout(20000)
    spent = main_thread(chromium) - before
    print(f"{'a tick of Overview':36}{f'{1000 * spent / len(ticks):.0f} ms':>11} of the main thread, {len(ticks)} ticks")


def main_thread(chromium):
    """Returns the seconds that the main thread of the page has worked."""
    metrics = chromium.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def reads(page, event, source, rounds):
    print(f"\n{'read':36}{'time':>11}{'calls':>8}{'bytes':>9}")
    for path in READS:
        times, calls, size = [], 0, 0
        for _ in range(max(3, rounds // 4)):
            # The server answers the same question within a second once.
            time.sleep(1.05)
            took, calls, size = page.evaluate(READ, path.format(event=event, source=source))
            times.append(took)
        print(f"{path.split('={')[0]:36}{middle(times)}{calls:8}{size:9}")


def sizes():
    files = sorted(file for file in WEB.rglob("*") if file.is_file())
    zipped = {file: len(gzip.compress(file.read_bytes(), 9)) for file in files}
    print(f"\n{'file':36}{'bytes':>9}{'gzip':>8}")
    for file in sorted(files, key=lambda file: -zipped[file]):
        print(f"{file.relative_to(WEB).as_posix():36}{file.stat().st_size:9}{zipped[file]:8}")
    whole = b"".join(file.read_bytes() for file in files)
    print(f"{'all together':36}{len(whole):9}{len(gzip.compress(whole, 9)):8}")


if __name__ == "__main__":
    main()
