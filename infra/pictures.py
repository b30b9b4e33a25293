"""Records the pictures of the documentation: terminals with real commands and their output, as SVG.

    python3 infra/pictures.py            # records, and writes each picture whose text has changed
    python3 infra/pictures.py --force    # writes all pictures
    python3 infra/pictures.py --check    # writes nothing; fails if a picture shows other text

Ids, times and durations differ in each run, so a comparison ignores them. The script needs the debug build of
webhookctl and of the functions. The pictures need no fonts of their own, and have colors for light and for
dark pages.
"""

from __future__ import annotations

import contextlib
import fcntl
import html
import http.server
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "infra/docs"
BIN = Path(os.environ.get("MITT_BIN", ROOT / "target/debug"))
PATIENCE = 120

# The incident: every event has two attempts, and both happen while the destination is down.
SOURCES = """schema = 1
[[source]]
name = "stripe-main"
preset = "stripe"
retry = { attempts = 2, waits = ["1s"] }
[[source.action]]
kind = "http"
name = "orders"
url = "https://orders.example.com/stripe"
secret = "orders"
[forward]
allow_hosts = ["orders.example.com"]
"""

# The styles of escape sequences, and of words without one.
STYLES = {"1": "k", "2": "m", "31": "r", "32": "g", "33": "y"}
WORDS = [
    (r"^\$ ", "m"),
    (r"(?<=^\$ ).*", "k"),
    (r"^# .*", "m"),
    (r"^ +\d\d:\d\d:\d\d\.\d+", "m"),
    (r"● +\d* ?done", "g"),
    (r"◇ refused|(?<= )401(?= )", "y"),
    (r"■ dead[ _]letter", "r"),
    (r"○ dropped .*", "m"),
    (r"(?<=^  )\d+ sent, .*", "k"),
]
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")

SIZE, ADVANCE, LINE, MARGIN = 11, 6.62, 17, 16
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-labelledby="t">
<title id="t">{title}</title>
<style>
.b{{fill:#f6f8fa;stroke:#d0d7de}}.d{{fill:#d0d7de}}text{{font:{size}px ui-monospace,SFMono-Regular,Menlo,Consolas,\
"DejaVu Sans Mono",monospace;fill:#1f2328}}
.g{{fill:#1a7f37}}.r{{fill:#cf222e}}.y{{fill:#9a6700}}.m{{fill:#59636e}}.k{{font-weight:600}}
@media(prefers-color-scheme:dark){{.b{{fill:#0d1117;stroke:#3d444d}}.d{{fill:#3d444d}}text{{fill:#f0f6fc}}\
.g{{fill:#3fb950}}.r{{fill:#f85149}}.y{{fill:#d29922}}.m{{fill:#9198a1}}}}
</style>
<rect class="b" x=".5" y=".5" width="{right}" height="{bottom}" rx="8"/>
<circle class="d" cx="18" cy="17" r="5"/><circle class="d" cx="34" cy="17" r="5"/><circle class="d" cx="50" cy="17" r="5"/>
"""


@dataclass
class Line:
    """A line of a terminal: its text, and the style of each character."""

    text: str = ""
    styles: list[str] = field(default_factory=list)

    def put(self, column: int, letter: str, style: str) -> None:
        missing = max(0, column + 1 - len(self.text))
        letters = list(self.text + " " * missing)
        self.styles += [""] * missing
        letters[column], self.styles[column] = letter, style
        self.text = "".join(letters)

    def cut(self, column: int) -> None:
        self.text, self.styles = self.text[:column], self.styles[:column]

    def parts(self) -> Iterator[tuple[int, str, str]]:
        """Returns the words with their column and their style. Wide gaps and a new style begin a word."""
        styles = self.styles + [""] * (len(self.text) - len(self.styles))
        for pattern, style in WORDS:
            for found in re.finditer(pattern, self.text):
                for column in range(*found.span()):
                    styles[column] = styles[column] or style
        begin = 0
        for end in range(1, len(self.text) + 1):
            if end < len(self.text) and styles[end] == styles[begin] and not self.text[:end].endswith("  "):
                continue
            word = self.text[begin:end]
            if word.strip():
                yield begin + len(word) - len(word.lstrip()), word.strip(), styles[begin]
            begin = end


def screen(output: str, columns: int) -> list[Line]:
    """Returns the lines that a terminal of this width shows after this output."""
    lines, row, column, style, at = [Line()], 0, 0, "", 0
    while at < len(output):
        if escape := ESCAPE.match(output, at):
            values, kind = escape.groups()
            at = escape.end()
            if kind == "m":
                style = "".join(STYLES.get(value, "") for value in values.split(";"))[-1:]
            elif kind == "K":
                lines[row].cut(0 if values == "2" else column)
            elif kind == "A":
                row = max(0, row - int(values or 1))
            elif kind == "B":
                row = min(len(lines) - 1, row + int(values or 1))
            continue
        letter, at = output[at], at + 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            if row == len(lines):
                lines.append(Line())
        else:
            if column == columns:
                row, column = row + 1, 0
                if row == len(lines):
                    lines.append(Line())
            lines[row].put(column, letter, style)
            column += 1
    return lines


def picture(title: str, lines: list[Line]) -> str:
    longest = max(len(line.text) for line in lines)
    width, height = round(2 * MARGIN + longest * ADVANCE), 30 + LINE * len(lines) + 12
    head = HEAD.format(title=html.escape(title), width=width, height=height, right=width - 1, bottom=height - 1, size=SIZE)
    drawn = [head.rstrip("\n")]
    for number, line in enumerate(lines):
        if not line.text.strip():
            continue
        spans = []
        for column, word, style in line.parts():
            kind = f' class="{style}"' if style else ""
            spans.append(f'<tspan x="{MARGIN + column * ADVANCE:.1f}"{kind}>{html.escape(word, quote=False)}</tspan>')
        drawn.append(f'<text y="{46 + LINE * number}">{" ".join(spans)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def shown(svg: str) -> list[str]:
    """Returns the lines of a picture."""
    texts = re.findall(r"<text [^>]*>(.*)</text>", svg)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)) for text in texts]


def masked(lines: list[str]) -> list[str]:
    """Masks what differs in each run, and removes the empty lines."""
    masks = [
        (r"\b(evt|rpl)_\w+", "ID"),
        (r"\b\d\d:\d\d(:\d\d(\.\d+)?)?( UTC)?", "TIME"),
        (r"\d{4}-\d\d-\d\d", "DAY"),
        (r"\b\d+(\.\d+)?(ms|s|m)\b", "TOOK"),
        (r"\b[\d.]+ read units", "UNITS"),
        (r"\b[\d.]+/s", "RATE"),
        (r"\s+", " "),
    ]
    for pattern, mask in masks:
        lines = [re.sub(pattern, mask, line) for line in lines]
    return [line.strip() for line in lines if line.strip()]


class Terminal:
    """A terminal in a folder. It keeps the commands and what they print."""

    def __init__(self, folder: Path, columns: int):
        self.folder, self.columns, self.lines = folder, columns, []
        self.environment = {
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
            "TERM": "xterm-256color",
            "USER": "alice",
            "WEBHOOKCTL_CONFIG": str(folder / "none.toml"),
        }

    def note(self, text: str) -> None:
        self.lines += [Line(), Line(f"# {text}")] if self.lines else [Line(f"# {text}")]

    def runs(self, command: str, shows: str | None = None, ends_with: int = 0) -> str:
        """Runs a command, and answers its question with the word that it asks for."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, self.columns, 0, 0))
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        process = subprocess.Popen(
            shlex.split(command), cwd=self.folder, env=self.environment, start_new_session=True, **streams
        )
        os.close(theirs)
        output, answered = b"", False
        with contextlib.suppress(OSError):
            while chunk := os.read(ours, 4096):
                output += chunk
                question = re.search(rb"Type (\S+) to continue: $", output)
                if question and not answered:
                    os.write(ours, question[1] + b"\n")
                    answered = True
        os.close(ours)
        if process.wait(PATIENCE) != ends_with:
            sys.exit(f"{command} ends with {process.returncode}\n{output.decode()}")
        lines = screen(output.decode(), self.columns)
        if shows is not None:
            command, lines = shows, [Line(""), *lines]
        self.lines += [Line(f"$ {command}"), *lines]
        return output.decode()


def demo(folder: Path) -> list[Line]:
    """Runs the demo. The picture shows a line for each case, and the line with the counts."""
    terminal = Terminal(folder, columns=160)
    terminal.runs("webhookctl dev --demo --once --port 0", shows="make run")
    kept = [line for line in terminal.lines[1:] if re.search(r"  (●|○|◇|■) | sent, \d", line.text)]
    return [terminal.lines[0], *kept[:-1], Line(), kept[-1]]


class Destination(http.server.BaseHTTPRequestHandler):
    """A service that is down until `is_up` is set."""

    is_up = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b"" if self.is_up else b"no connection to the database"
        self.send_response(200 if self.is_up else 502)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def incident(folder: Path) -> list[Line]:
    """A destination is down, two events become dead letters, and a redrive processes them."""
    (folder / "sources.toml").write_text(SOURCES)
    terminal = Terminal(folder, columns=118)
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Destination)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    with stack(terminal, f"--forward :{service.server_port}"):
        send(terminal)
        terminal.note("The service `orders` is down: it answers 502. Two webhooks have used up their attempts.")
        error = re.search(r"^\w+(?=  +2 )", terminal.runs("webhookctl dlq list"), re.MULTILINE)
        terminal.note("The service is back.")
        Destination.is_up = True
        terminal.runs(f"webhookctl dlq redrive --error {error[0]} -m 'orders is back'")
        terminal.note("Each event is done, and its history says who replayed it and why.")
        terminal.runs("webhookctl inbox list")
    lines = [line for line in terminal.lines if not line.text.startswith("tip: ")]
    return [line for line, before in zip(lines, [Line(), *lines], strict=False) if line.text.strip() or before.text.strip()]


@contextlib.contextmanager
def stack(terminal: Terminal, options: str) -> Iterator[None]:
    command = shlex.split(f"webhookctl dev --port 0 -o jsonl {options}")
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=terminal.folder, env=terminal.environment, **streams)
    try:
        if b'"ready"' not in process.stdout.readline():
            sys.exit(f"webhookctl dev ended with {process.wait()}")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def send(terminal: Terminal) -> None:
    """Sends two webhooks, and waits until both are dead letters. The picture does not show this."""
    ask = {"cwd": terminal.folder, "env": terminal.environment, "stdout": subprocess.PIPE, "check": True}
    subprocess.run(shlex.split("webhookctl send stripe-main -n 2"), **ask)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        dead = subprocess.run(shlex.split("webhookctl inbox list --status dead_letter -o ids"), **ask).stdout
        if len(dead.split()) == 2:
            return
        time.sleep(0.5)
    sys.exit("the events do not become dead letters")


def show_demo(lines: list[Line]) -> None:
    """Writes the output of the demo into the page that explains it."""
    page = DOCS / "getting-started.md"
    text = "".join(f"{line.text}\n" for line in lines)
    page.write_text(re.sub(r"(?<=```\n)  \d\d:[^`]*(?=```)", lambda _: text, page.read_text(), count=1))


# The function that records each picture, and its title.
PICTURES = {
    "demo.svg": (demo, "make run: ten demo webhooks, each with its answer and its outcome"),
    "incident.svg": (incident, "A destination was down: find its dead letters, and process them again"),
}


def main(options: list[str]) -> int:
    wrong = 0
    for name, (record, title) in PICTURES.items():
        with tempfile.TemporaryDirectory(prefix="mitt-picture-") as folder:
            lines = record(Path(folder))
        path = DOCS / name
        before = masked(shown(path.read_text())) if path.exists() else []
        now = masked([line.text for line in lines])
        # The cases of the demo run at the same time, so their order can differ.
        is_same = sorted(before) == sorted(now) if record is demo else before == now
        if is_same and "--force" not in options:
            print(f"{name} shows what the commands print")
        elif "--check" in options:
            wrong += 1
            differ = [f"- {line}" for line in before if line not in now]
            differ += [f"+ {line}" for line in now if line not in before]
            print(f"{name} does not show what the commands print; run make pictures", *differ, sep="\n  ", file=sys.stderr)
        else:
            path.write_text(picture(title, lines))
            if record is demo:
                show_demo(lines[1:])
            print(f"{name} is written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
