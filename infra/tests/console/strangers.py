"""What other pages of the same browser can do to the console: nothing. A name that an attacker points at 127.0.0.1, and a
page of another port of this machine."""

import contextlib
import http.server
import os
import threading

import pytest

# Each way in which a page can send a request without reading the answer, or with it.
TRIES = """async (base) => {
  const said = {};
  const way = async (name, run) => { try { said[name] = await run(); } catch (e) { said[name] = `refused: ${e.name}`; } };
  const soon = (node, read) => new Promise((done) => {
    node.onload = () => done(read ? read(node) : 'loaded'); node.onerror = () => done('refused: error');
    document.body.append(node); setTimeout(() => done('refused: silent'), 1500);
  });
  const make = (tag, more) => Object.assign(document.createElement(tag), more);
  await way('fetch', async () => (await fetch(base + '/api/status')).status);
  await way('no-cors', async () => (await (await fetch(base + '/api/status', { mode: 'no-cors' })).text()).length);
  await way('json post', async () => (await fetch(base + '/api/plan', { method: 'POST', body: '{}',
    headers: { 'content-type': 'application/json' } })).status);
  await way('plain post', async () => (await (await fetch(base + '/api/plan', { method: 'POST', mode: 'no-cors',
    body: JSON.stringify({ attempt: 'attempt-of-a-stranger', reason: 'x', flags: {} }) })).text()).length);
  await way('beacon', async () => { navigator.sendBeacon(base + '/api/plan', '{}'); return 'sent'; });
  await way('script', () => soon(make('script', { src: base + '/console.js' })));
  await way('module', () => import(base + '/m/api.js').then(() => 'loaded'));
  await way('image', () => soon(make('img', { src: base + '/icon.svg' })));
  await way('frame', () => soon(make('iframe', { src: base + '/' }), (f) => { try { return f.contentDocument.body.textContent.length; }
    catch (e) { return `refused: ${e.name}`; } }));
  await way('events', () => new Promise((done) => { const s = new EventSource(base + '/api/inbox.tail');
    s.onmessage = () => done('data'); s.onerror = () => { s.close(); done('refused: error'); }; }));
  await way('socket', () => new Promise((done) => { const s = new WebSocket(base.replace('http', 'ws') + '/api/inbox.tail');
    s.onopen = () => done('open'); s.onerror = () => done('refused: error'); }));
  await way('form', () => new Promise((done) => { const f = make('iframe', { name: 'sink' }); document.body.append(f);
    const form = make('form', { action: base + '/api/plan', method: 'post', target: 'sink' }); document.body.append(form);
    form.submit(); setTimeout(() => { try { done(f.contentDocument?.body.textContent.length ?? 'refused: cross-origin'); }
    catch (e) { done(`refused: ${e.name}`); } }, 1000); }));
  return said;
}"""


@pytest.fixture(scope="module")
def stranger():
    """A page of another port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>a stranger</title><body>")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


def plans(cli):
    return {item["plan"] for item in cli.json("replay", "log")["items"]}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_port_gets_no_data_and_makes_no_change(chromium, writer, cli, stranger, name):
    base, session = writer
    before = plans(cli)
    context = chromium.new_context(storage_state=session)
    page = context.new_page()
    page.goto(stranger.replace("127.0.0.1", name))
    said = page.evaluate(TRIES, base)
    context.close()
    assert len(said) == 12
    # An opaque answer has no length, and a beacon has no answer at all.
    allowed = {"no-cors": 0, "plain post": 0, "beacon": "sent"}
    for way, answer in said.items():
        assert answer == allowed.get(way) or str(answer).startswith("refused"), (way, answer)
    assert plans(cli) == before


@pytest.mark.parametrize("path", ["/", "/icon.svg", "/console.js", "/session", "/api/status", "/api/inbox.list", "/api/inbox.tail", "/api/body/evt_1"])
def test_a_rebound_name_gets_421_on_every_route(rebound, writer, path):
    port = writer[0].rsplit(":", 1)[1]
    page = rebound.new_page()
    statuses = []
    page.on("response", lambda answer: statuses.append((answer.url, answer.status)))
    from playwright.sync_api import Error

    # A refusal without a body is an error page of the browser.
    with contextlib.suppress(Error):
        page.goto(f"http://evil.example:{port}{path}")
    assert statuses[0] == (f"http://evil.example:{port}{path}", 421), statuses
    page.close()


@pytest.fixture(scope="module")
def rebound(chromium):
    """A browser for which evil.example is this machine, as after DNS rebinding."""
    arguments = ["--host-resolver-rules=MAP evil.example 127.0.0.1", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    browser = chromium.browser_type.launch(executable_path=chromium.executable, args=arguments)
    yield browser.new_context()
    browser.close()


READS = """async (n) => {
  const { read } = await import('/m/api.js');
  const at = performance.now();
  const one = (i) => read('inbox.list', [['limit', String(i + 1)]]).then(() => performance.now() - at, (e) => e.code);
  return Promise.all(Array.from({ length: n }, (_, i) => one(i)));
}"""
STREAMS = """async (n) => {
  const token = localStorage.getItem('token');
  const stop = new AbortController(), said = [];
  for (let i = 0; i < n; i++) said.push((await fetch('/api/inbox.tail', { headers: { authorization: `Bearer ${token}` }, signal: stop.signal })).status);
  stop.abort();
  return said;
}"""


def test_a_ninth_read_waits_and_a_fifth_stream_is_refused(tab):
    look = tab()
    look.open("presets")
    times = look.page.evaluate(READS, 9)
    assert all(isinstance(time, (int, float)) for time in times), times
    other = tab()
    other.open("presets")
    assert other.page.evaluate(STREAMS, 5) == [200, 200, 200, 200, 429]
    # The places are free again.
    end = 50
    while other.page.evaluate(STREAMS, 1) != [200] and end:
        other.page.wait_for_timeout(100)
        end -= 1
    assert end, "a closed stream keeps its place"
