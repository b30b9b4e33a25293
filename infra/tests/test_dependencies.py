"""Each rule of .deny.toml rejects a fault in a small separate workspace.

The tests fetch nothing: the dependencies are in the same folder.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DENY = ROOT / re.search(r"^DENY := (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]


@pytest.fixture
def judged(tmp_path):
    """Runs cargo-deny on a crate with these dependency lines. Returns whether the crate passes, and the output."""

    # A separate CARGO_HOME: no registry, and no wait for the lock of another cargo process.
    alone = os.environ | {"CARGO_HOME": str(tmp_path / "cargo")}

    def judge(*dependencies):
        crate(tmp_path, "ours", "MIT OR Apache-2.0", dependencies)
        lock = ["cargo", "generate-lockfile", "--quiet"]
        subprocess.run(lock, cwd=tmp_path, env=alone, check=True, capture_output=True, timeout=60)
        run = subprocess.run(
            [DENY, "--frozen", "--config", rules(tmp_path), "check", "licenses", "bans", "sources"],
            cwd=tmp_path,
            env=alone,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return run.returncode == 0, run.stderr + run.stdout

    return judge


def rules(folder: Path) -> Path:
    """Returns our rules without the check for unused licenses: a small workspace does not use all allowed licenses."""
    path = folder / "deny.toml"
    sound = (ROOT / ".deny.toml").read_text()
    path.write_text(sound.replace('unused-allowed-license = "deny"', 'unused-allowed-license = "allow"'))
    return path


def crate(folder: Path, name: str, licence: str, dependencies=()) -> Path:
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "src/lib.rs").write_text("")
    lines = ["[package]", f'name = "{name}"', 'version = "1.0.0"', 'edition = "2024"', f'license = "{licence}"']
    lines += ["publish = false", "[dependencies]", *dependencies]
    (folder / "Cargo.toml").write_text("\n".join(lines) + "\n")
    return folder


def test_a_tree_like_ours_passes(tmp_path, judged):
    crate(tmp_path / "theirs", "theirs", "MIT")

    assert judged('theirs = { path = "theirs" }')[0]


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "AGPL-3.0-or-later", "MIT AND GPL-2.0-only", "SSPL-1.0"])
def test_a_licence_that_asks_for_more_than_a_notice_is_refused(tmp_path, judged, licence):
    crate(tmp_path / "theirs", "theirs", licence)

    passes, said = judged('theirs = { path = "theirs" }')

    assert not passes and "rejected" in said and "theirs" in said, said


def test_a_crate_without_a_licence_is_refused(tmp_path, judged):
    manifest = crate(tmp_path / "theirs", "theirs", "MIT") / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace('license = "MIT"', ""))

    passes, said = judged('theirs = { path = "theirs" }')

    assert not passes and "unlicensed" in said, said


@pytest.mark.parametrize("banned", ["openssl-sys", "native-tls", "aws-lc-sys"])
def test_a_second_tls_is_refused(tmp_path, judged, banned):
    crate(tmp_path / "theirs", banned, "MIT")

    passes, said = judged(f'{banned} = {{ path = "theirs" }}')

    assert not passes and "rustls on ring" in said, said


def test_code_from_somewhere_else_than_the_registry_is_refused(tmp_path, judged):
    theirs = crate(tmp_path.parent / f"{tmp_path.name}-git", "theirs", "MIT")
    git = ["git", "-C", theirs, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "theirs"]):
        subprocess.run([*git, *command], check=True, capture_output=True, timeout=60)

    passes, said = judged(f'theirs = {{ git = "file://{theirs}" }}')

    assert not passes and "source-not-allowed" in said, said
