"""Measures the CPU time of webhookctl commands, which should be close to zero.

Wall-clock time depends on the load of the machine. User and system time, as the kernel counts them for
an ended process, depend only on the program. Each command runs many times against a `dev` with some
events. The script asserts nothing: compare its output with a run before your change.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 40
EVENTS = 50

# The interactive commands, each with its target in milliseconds.
COMMANDS = [
    (["--help"], 10),
    (["--version"], 10),
    (["help", "output"], 10),
    (["completions", "bash"], 60),
    (["inbox", "list"], 150),
    (["inbox", "list", "-o", "json"], 150),
    (["sources", "list"], 150),
    (["sources", "presets"], None),
    (["send", "--list"], None),
    (["send", "stripe"], None),
    (["quarantine", "list"], None),
]


def cost(program, command, folder):
    """Returns the user and system time of one run, in milliseconds, and its exit code."""
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.execv(program, [program, *command])
    _, status, usage = os.wait4(pid, 0)
    return (usage.ru_utime + usage.ru_stime) * 1000, os.waitstatus_to_exitcode(status)


def main():
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [program, "dev", "--port", "0", "-o", "jsonl"]
        dev = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            ready = json.loads(dev.stdout.readline())
            assert ready["event"] == "ready", ready
            sent = [program, "send", "stripe", "-n", str(EVENTS), "-q", "-o", "jsonl"]
            subprocess.run(sent, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            print(f"{'milliseconds of user and system time':<36} {'least':>8} {'median':>8} {'most':>8} {'target':>8}")
            for command, wanted in COMMANDS:
                runs = [cost(program, command, folder) for _ in range(RUNS)]
                failed = [code for _, code in runs if code != 0]
                times = [time for time, _ in runs]
                figures = [min(times), statistics.median(times), max(times)]
                columns = " ".join(f"{figure:8.1f}" for figure in figures)
                end = f"  {len(failed)} FAILED" if failed else ""
                print(f"{' '.join(command):<36} {columns} {wanted or '':>8}{end}")
        finally:
            dev.kill()
            dev.wait()


if __name__ == "__main__":
    main()
