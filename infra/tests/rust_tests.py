"""Runs all Rust test programs, two at a time, because half of them mostly wait.

    python3 infra/tests/rust_tests.py

The script does the same as `cargo test --workspace`, except documentation tests, because there are none. It prints
the output of a program when the program ends. A failing program does not stop the others. At the end, the script
compares the calls of the functions with the permissions of their roles.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import rights

ROOT = Path(__file__).parents[2]
CARGO = os.environ.get("CARGO", "cargo")
AT_ONCE = 2
RECORD = ROOT / "target/rights"

# Programs that take more than a minute start first, so that none of them runs alone at the end.
LONG = ["stack", "cli", "sync", "providers", "commands", "ledger", "properties", "runs"]


def main():
    tests = sorted(programs(), key=lambda test: LONG.index(test[0]) if test[0] in LONG else len(LONG))
    failed = []
    shutil.rmtree(RECORD, ignore_errors=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run, *test) for test in tests]
        for ended in as_completed(running):
            name, code, seconds, output = ended.result()
            print(f"== {name}: {seconds:.0f} s\n{output}", flush=True)
            if code:
                failed.append(name)
    wrong = rights.complaints(RECORD)
    if wrong:
        print("== rights\n" + "\n".join(wrong))
        failed.append("rights")
    print(f"{len(tests)} programs, {len(failed)} failed" + "".join(f"\n  {name}" for name in failed))
    sys.exit(bool(failed))


def programs():
    """Returns name, executable and folder of each test program. Builds the programs if necessary."""
    command = [CARGO, "test", "--workspace", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            yield message["target"]["name"], message["executable"], Path(message["manifest_path"]).parent


def run(name, executable, folder):
    began = time.monotonic()
    environment = os.environ | {"CARGO_MANIFEST_DIR": str(folder), "MITT_RIGHTS_RECORD": str(RECORD)}
    # A process that outlives its test would hold a pipe open until it ends.
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        ended = subprocess.run([executable], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        seconds = time.monotonic() - began
        output.seek(0)
        return f"{folder.name} {name}", ended.returncode, seconds, output.read()


if __name__ == "__main__":
    main()
