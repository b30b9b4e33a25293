"""A new user brings a first event to each recipe: `init --for`, `sources add`, `dev --forward`, `send --wait`.

`make recipes` runs these tests. They need the packages of the recipes, and the programs that `make build` builds.
"""

import os
import shutil

import pytest
from http_receivers import SECRET
from local_mitt import LocalMitt
from receivers import EXAMPLES, HTTP, Receiver, needs_interpreter

ADD = "sources add stripe-main --preset stripe --to https://app.example.com/webhooks"


def link(old, new):
    """Links a file instead of copying it, because the packages of Next.js have 360 MB."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copy2(old, new)


@pytest.mark.parametrize("name", HTTP)
def test_a_first_event_arrives(name, tmp_path):
    needs_interpreter(name)
    unstarted = LocalMitt(tmp_path)
    said = unstarted.webhookctl("init", "--for", name)
    assert f"webhookctl {ADD}" in said
    unstarted.webhookctl(*ADD.split())
    folder = tmp_path / "receiver"
    installed = EXAMPLES / name / "node_modules"
    if installed.exists():
        # The bundler of Next.js does not follow a symbolic link out of the project.
        shutil.copytree(installed, folder / "node_modules", symlinks=True, copy_function=link)

    with Receiver(name, folder, tmp_path, SECRET) as receiver:
        with LocalMitt(tmp_path, "--forward", f":{receiver.port}", WEBHOOK_SECRET=SECRET) as mitt:
            mitt.webhookctl("secrets", "put", "stripe-main", "--egress", "--from", "env:WEBHOOK_SECRET")
            # send exits with 0 only if the event is done.
            mitt.webhookctl("send", "stripe-main", "--wait")
            assert receiver.effects() == 1
            mitt.webhookctl("send", "stripe-main", "--wait")
            assert receiver.effects() == 2
