"""The same binaries give the same bytes, and the package contains only the files of a release."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import package  # noqa: E402
import stand_in  # noqa: E402
from package import FUNCTIONS, ROOT, TARGETS, Trouble, pack, prebuilt, without_place  # noqa: E402
from samcli.yamlhelper import yaml_parse  # noqa: E402
from stand_in import SBOM  # noqa: E402


@pytest.fixture
def built(tmp_path):
    return stand_in.write(tmp_path / "built")


@pytest.fixture
def packed(built, tmp_path):
    pack(built, tmp_path / "packed", ROOT)
    return tmp_path / "packed"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_runs_give_the_same_bytes(built, packed, tmp_path):
    # Simulates a build at another time, by a user with another umask.
    for path in built.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o600)
    umask = os.umask(0o077)
    try:
        pack(built, tmp_path / "again", ROOT)
    finally:
        os.umask(umask)

    assert contents(tmp_path / "again") == contents(packed)


def test_one_changed_byte_changes_the_sums_of_its_zip_alone(built, packed, tmp_path):
    path = built / "functions/arm64/catcher/bootstrap"
    path.write_bytes(path.read_bytes() + b"!")

    pack(built, tmp_path / "again", ROOT)

    one, other = contents(packed), contents(tmp_path / "again")
    assert {name for name in one if one[name] != other[name]} == {"catcher-arm64.zip", "SHA256SUMS"}


def test_a_zip_holds_a_program_that_lambda_can_start(built, packed):
    for architecture in TARGETS:
        for function in FUNCTIONS:
            with zipfile.ZipFile(packed / f"{function}-{architecture}.zip") as archive:
                [entry] = archive.infolist()
                binary = archive.read(entry)
            assert entry.filename == "bootstrap"
            assert stat.filemode(entry.external_attr >> 16) == "-rwxr-xr-x"
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert binary == (built / "functions" / architecture / function / "bootstrap").read_bytes()


def test_the_sums_are_of_all_that_is_there(packed):
    lines = [line.split("  ") for line in (packed / "SHA256SUMS").read_text().splitlines()]
    names = [name for _, name in lines]

    assert names == sorted(path.name for path in packed.iterdir() if path.name != "SHA256SUMS")
    # A zip and an SBOM of each function, two templates of each architecture, sources.toml; four files of webhookctl for each of two
    # platforms, the npm package for all platforms, install.sh.
    assert len(names) == 2 * len(FUNCTIONS) * len(TARGETS) + 2 * len(TARGETS) + 1 + 4 * 2 + 2
    for digest, name in lines:
        assert hashlib.sha256((packed / name).read_bytes()).hexdigest() == digest


def test_the_templates_name_the_zips_beside_them(packed):
    for architecture in TARGETS:
        template = yaml_parse((packed / f"template-{architecture}.yaml").read_text())
        parts = [part["Properties"] for part in template["Resources"].values()]
        zips = [part["CodeUri"] for part in parts if "CodeUri" in part]
        # Both processors use one zip.
        assert sorted(set(zips)) == [f"{function}-{architecture}.zip" for function in FUNCTIONS]
        assert all((packed / name).is_file() for name in zips)
        assert template["Parameters"]["Architecture"]["AllowedValues"] == [architecture]
        assert template["Parameters"]["Architecture"]["Default"] == architecture


def test_each_function_gets_its_own_zip():
    template = yaml_parse(prebuilt((ROOT / "template.yaml").read_text(), "arm64"))
    for part in template["Resources"].values():
        if "CodeUri" in part["Properties"]:
            binary = part["Metadata"]["BuildProperties"]["Binary"]
            assert part["Properties"]["CodeUri"] == f"{binary}-arm64.zip"


def test_a_template_that_it_does_not_understand_is_refused():
    sound = (ROOT / "template.yaml").read_text()
    for text, fault in [
        ("CodeUri: .\n", "CodeUri: ./functions\n"),
        ("BuildProperties: { Binary: processor }", "BuildProperties: { Binary : processor }"),
        ("    AllowedValues: [arm64, x86_64]", "    AllowedValues: [x86_64, arm64]"),
        ("Resources:\n", "Resources:\n  Fourth: { Properties: { CodeUri: . } }\n"),
    ]:
        assert text in sound
        with pytest.raises(Trouble, match="template.yaml"):
            prebuilt(sound.replace(text, fault, 1), "arm64")


def test_an_sbom_does_not_say_where_it_was_made(packed):
    text = (packed / "catcher-arm64.cdx.json").read_text()

    assert str(ROOT) not in text and "path+file:///shared#0.1.0" in text


@pytest.mark.parametrize("change", [
    {"bomFormat": "SPDX"},
    {"components": []},
    {"serialNumber": "urn:uuid:1"},
    {"metadata": f"{ROOT}/target"},
])
def test_an_sbom_that_is_none_or_would_differ_each_time_is_refused(change):
    with pytest.raises(Trouble, match="SBOM"):
        without_place(json.dumps(SBOM | change), ROOT)


def test_what_is_missing_or_in_the_way_is_named(built, tmp_path):
    (built / "functions/x86_64/processor/bootstrap").write_bytes(b"")
    with pytest.raises(Trouble, match="x86_64/processor/bootstrap is missing or empty"):
        pack(built, tmp_path / "one", ROOT)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/old.zip").write_bytes(b"old")
    with pytest.raises(Trouble, match="is not empty"):
        pack(built, tmp_path / "two", ROOT)


def test_a_program_for_another_architecture_is_refused(built, tmp_path):
    shutil.copyfile(built / "functions/x86_64/catcher/bootstrap", built / "functions/arm64/catcher/bootstrap")
    with pytest.raises(Trouble, match="catcher for arm64 is not a program for arm64"):
        pack(built, tmp_path / "one", ROOT)
    (built / "functions/arm64/catcher/bootstrap").write_text("#!/bin/sh\n")
    with pytest.raises(Trouble, match="catcher for arm64 is not a program for arm64"):
        pack(built, tmp_path / "two", ROOT)


def test_the_command_packs_what_it_is_given(built, tmp_path):
    to = tmp_path / "given"
    command = [sys.executable, package.__file__, "--built", built, "--to", to]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    assert said == (to / "SHA256SUMS").read_text()
    check = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=to, capture_output=True, timeout=60)
    assert check.returncode == 0


def test_it_is_built_as_sam_builds_it_and_says_no_path_of_this_machine():
    for architecture in TARGETS:
        command = package.cargo_lambda(architecture)
        assert command[:4] == ["cargo", "lambda", "build", "--release"] and "--locked" in command
        assert "--" + architecture.replace("_", "-") in command
        assert [word for before, word in zip(command, command[1:]) if before == "--bin"] == list(FUNCTIONS)
        assert f"--remap-path-prefix={ROOT}=/mitt" in command[-1]


def test_a_panic_unwinds_in_what_is_deployed():
    # Without an explicit value, cargo-lambda, which SAM uses, builds with `abort`. Then a record that panics ends the
    # process, and with it the other records of its batch.
    release = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["release"]
    assert release.get("panic") == "unwind"
