"""One query language: 60 filters, right and wrong, give the same rows and the same errors in the page and in a terminal."""

import json
import shlex

RIGHT = [
    "", "status:done", "status:failed", "status:dead_letter", "status:quarantined", "status:received", "status:processing", "status:held",
    "status:done status:dead_letter", "source:acme", "source:stripe-main", "source:stripe-main source:acme", "source:acme status:dead_letter",
    "type:job.completed", "type:job.*", "type:*", 'type:"Transcription completed"', "type:'Transcription completed'", "type:Transcription\\ completed",
    "type:no.such.type", "since:1h", "since:24h", "since:30m", "since:2d", "until:1h since:3h", "since:2026-01-01", "via:webhook", "via:backup_sync",
    "via:webhook via:backup_sync", "attempts:2", "attempts:3 status:dead_letter", "attempts:9", "limit:1", "limit:3 status:done", "error:566c5b",
    "id:evt_01", "since:1h source:github-main type:push", "status:done via:backup_sync", "--status:done", "type:it's", "account:none",
]
WRONG = [
    "statsu:failed", "status:faild", "status:", "since:soon", "since:-1h", "until:yesterday-ish", "limit:0", "limit:many", "limit:-1", "via:pigeon",
    "attempts:x", "attempts:-1", "source:", "type:", "columns:id", "profile:x", "region:eu-west-1", "endpoint-url:http://evil.example",
    "output:json", "table:other", "since:1h until:2h", "id:-", "after:nonsense", "constructor:1", "__proto__:1",
]
PARSE = "async (text) => { const m = await import('/m/filter.js'); return [m.parseFilter(text), m.printFilter(m.parseFilter(text))]; }"
ASK = """async (flags) => {
  const { read } = await import('/m/api.js');
  try { const a = await read('inbox.list', flags); return { command: a.command, ids: a.doc.items.map((i) => i.id) }; }
  catch (e) { return { code: e.code, message: e.message, tip: e.tip ?? null }; }
}"""


def test_sixty_filters_mean_the_same_in_the_page_and_in_a_terminal(tab, cli):
    assert len(RIGHT) + len(WRONG) >= 60
    look = tab()
    look.open("presets")
    refused = 0
    for text in RIGHT + WRONG:
        flags, printed = look.page.evaluate(PARSE, text)
        assert look.page.evaluate(PARSE, printed)[0] == flags, text
        page = look.page.evaluate(ASK, flags)
        run = cli("inbox", "list", *[f"--{name}={value}" for name, value in flags], "-o", "json", check=False)
        if "ids" in page:
            assert [item["id"] for item in json.loads(run.stdout)["items"]] == page["ids"], text
            # The command in the foot, pasted into a shell, is the same read.
            again = cli(*shlex.split(page["command"])[1:], "-o", "json")
            assert [item["id"] for item in json.loads(again.stdout)["items"]] == page["ids"], text
            continue
        refused += 1
        if page["code"] == "console.flag":
            assert "cannot be set from here" in page["message"], text
            continue
        error = json.loads(run.stderr)["error"]
        assert (error["code"], error["message"], error.get("tip")) == (page["code"], page["message"], page["tip"]), text
    assert refused >= len(WRONG) - 5, "most of the wrong filters must be refused"
    look.blameless()
