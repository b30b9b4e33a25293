"""The inbox at 50 events a second: no row moves, the focus stays, no task is long, and the tab stays small."""

import os
import subprocess

from conftest import executable

# A minute or an hour takes longer than the suite may: set MITT_LIVE_SECONDS to run it by itself.
SECONDS = int(os.environ.get("MITT_LIVE_SECONDS", "20"))
WATCH = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: 'longtask' });
  window.shifts = 0;
  new PerformanceObserver((list) => { for (const e of list.getEntries()) shifts += e.value; }).observe({ type: 'layout-shift' });
}"""


def place(look):
    return look.page.evaluate("""() => {
      const row = document.activeElement.closest('tr');
      return [row.innerText.split('\\t')[2], Math.round(row.getBoundingClientRect().top), scrollY, document.querySelectorAll('tbody tr').length];
    }""")


def test_fifty_events_a_second_move_nothing(tab, cli):
    look = tab()
    look.open("inbox")
    look.page.wait_for_timeout(1500)
    look.page.keyboard.press("j")
    look.page.keyboard.press("j")
    before = place(look)
    look.page.evaluate(WATCH)
    words = ["send", "generic-hmac", "-n", str(50 * SECONDS), "--rate", "50/s", "--quiet"]
    flood = subprocess.Popen([executable(), *words], cwd=cli.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        look.page.locator(".news").wait_for(timeout=20000)
        seen = []
        for _ in range(SECONDS):
            look.page.wait_for_timeout(1000)
            seen.append(int(look.page.locator(".news").inner_text().split()[0].replace(",", "")))
            assert place(look) == before
    finally:
        flood.kill()
        flood.wait()
    assert seen == sorted(seen) and seen[-1] > 100, seen
    tasks, shifts, heap = look.page.evaluate("[tasks, shifts, performance.memory.usedJSHeapSize]")
    # A new number in the button of new events must not push anything.
    assert shifts < 0.01, shifts
    assert sum(tasks) < 0.1 * SECONDS * 1000, tasks
    assert heap < 100e6, heap
    print(f"{seen[-1]} events in {SECONDS} s, {len(tasks)} tasks above 50 ms, {heap / 1e6:.0f} MB")
    look.blameless()


def test_a_hidden_tab_reads_nothing(tab):
    look = tab()
    look.open("")
    calls = []
    look.page.on("request", lambda request: calls.append(request.url))
    look.page.evaluate("""() => {
      Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' });
      document.dispatchEvent(new Event('visibilitychange'));
    }""")
    look.page.wait_for_timeout(1000)
    calls.clear()
    look.page.wait_for_timeout(9000)
    assert calls == []
