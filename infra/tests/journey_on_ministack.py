"""Runs the ledger suite and the end-to-end test on ministack, an independent emulator.

The script deploys the real template with `sam build && sam deploy` to ministack, which enforces the
permissions of the roles. It runs the same Rust tests as against the local stack.
"""

from __future__ import annotations

import base64
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "infra/webhookctl/src/demo/sources.toml"
WORK = ROOT / ".mitt" / "second-opinion"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> int:
    downstream, provider = free_port(), free_port()
    WORK.mkdir(parents=True, exist_ok=True)
    sources = WORK / "sources.toml"
    text = SOURCES.read_text()
    text = text.replace("{downstream}", f"http://127.0.0.1:{downstream}")
    sources.write_text(text.replace("{provider}", f"http://127.0.0.1:{provider}"))

    values = {f"ingress/{name}": secrets.token_hex(20)
              for name in ("stripe-main", "github-main", "slack-main", "fireflies-main", "acme")}
    values["egress/downstream"] = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    values["provider-api/stripe-main"] = "rk_test_" + secrets.token_hex(12)
    values["provider-api/app"] = secrets.token_hex(20)

    command = [sys.executable, str(ROOT / "infra/tests/second_opinion.py"), "--sources", str(sources),
               "--timeout", "1200"]
    for name, value in values.items():
        command += ["--secret", f"{name}={value}"]
    # The whole workspace, so that cargo reuses the existing build.
    test = "cargo test --workspace --locked --test"
    tests = ["sh", "-ec", f"{test} ledger; {test} cli -- journey::"]
    environment = dict(os.environ)
    environment["MITT_DEMO_SECRETS"] = "\n".join(f"{name}={value}" for name, value in values.items())
    environment["MITT_DEMO_PORTS"] = f"{downstream},{provider}"
    return subprocess.run([*command, "--", *tests], env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
