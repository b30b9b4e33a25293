"""`make run` compiles only listed crates, because each further crate makes the first build longer."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("first_build.txt")
PACKAGES = ["-p", "webhookctl", "-p", "catcher", "-p", "processor", "-p", "backup-sync"]


def listed(text):
    """Returns the crates of the list. The text after a # is the reason for an added crate."""
    return {line.split("#")[0].strip() for line in text.splitlines() if line.split("#")[0].strip()}


def recipe(target):
    makefile = (ROOT / "Makefile").read_text()
    return re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.M)[1]


def test_the_crates_are_those_of_the_list():
    tree = ["cargo", "tree", "--locked", *PACKAGES, "--edges", "normal,build", "--prefix", "none"]
    target = ["--target", "x86_64-unknown-linux-gnu"]
    answer = subprocess.run(tree + target, cwd=ROOT, check=True, capture_output=True, text=True)
    built = {line.split()[0] for line in answer.stdout.splitlines() if line}

    assert built - listed(LISTED.read_text()) == set(), "add each crate to first_build.txt, with `# reason`"
    assert listed(LISTED.read_text()) - built == set(), "remove these crates from first_build.txt"


def test_the_first_build_is_of_these_packages_alone():
    assert " ".join(PACKAGES) in recipe("first")
    assert "--workspace" not in recipe("first")


def test_a_reason_is_not_a_crate():
    assert listed("serde\n# all of them\nureq  # for nothing\n\n") == {"serde", "ureq"}
