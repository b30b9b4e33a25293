"""Runs `webhookctl dev` in a folder."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = Path(os.environ.get("MITT_BIN", ROOT / "target/debug")) / "webhookctl"


class LocalMitt:
    """A `dev` in a folder, on a free port. It ends with the block."""

    def __init__(self, folder, *arguments, **environment):
        self.folder = folder
        # No settings of this machine.
        mine = ("MITT_", "WEBHOOKCTL_", "AWS_")
        others = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
        self.environment = others | {"WEBHOOKCTL_CONFIG": str(folder / "none.toml"), "WEBHOOKCTL_CACHE": str(folder / "cache")}
        self.environment |= environment
        self.arguments = [PROGRAM, "dev", "--port", "0", "-o", "jsonl", *arguments]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.arguments, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=(self.folder / "dev.txt").open("wb"), text=True,
        )
        line = self.process.stdout.readline()
        assert '"ready"' in line, line + (self.folder / "dev.txt").read_text()
        self.local = json.loads((self.folder / ".mitt/local.json").read_text())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)

    def webhookctl(self, *arguments):
        """Runs a command in the folder, and returns its standard output."""
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout
