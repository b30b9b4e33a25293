"""pip, npm and install.sh install webhookctl from its packages, without a registry, and it runs."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import tomllib
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import package_cli  # noqa: E402
import stand_in  # noqa: E402
from package import ROOT, sums  # noqa: E402
from package_cli import PLATFORMS, Release, check_static, pack, pack_common  # noqa: E402
from package_files import Trouble  # noqa: E402

HERE = next(p for p in PLATFORMS if (p.os, p.cpu) == (sys.platform, package_cli.processor()))
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
RELEASE = Release(VERSION, "mitt-webhookctl", "owner/repository")


@pytest.fixture
def built(tmp_path):
    return stand_in.write(tmp_path / "built") / "webhookctl"


def packages(built, to, release=RELEASE):
    to.mkdir()
    pack(built, to, ROOT, release, PLATFORMS)
    pack_common(to, ROOT, release)
    (to / "SHA256SUMS").write_text(sums(to))
    return to


@pytest.fixture
def packed(built, tmp_path):
    return packages(built, tmp_path / "packed")


def out(*command, **more):
    """Runs a command that must succeed. Returns its output."""
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, **more)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def members(archive):
    with tarfile.open(archive) as tar:
        return {entry.name: entry for entry in tar.getmembers()}


def test_two_runs_give_the_same_bytes(built, packed, tmp_path):
    for path in built.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)

    again = packages(built, tmp_path / "again")

    assert {p.name: p.read_bytes() for p in again.iterdir()} == {p.name: p.read_bytes() for p in packed.iterdir()}


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.target)
def test_an_archive_has_program_licences_pages_and_completions(packed, platform):
    stem = f"webhookctl-{VERSION}-{platform.target}"
    found = members(packed / f"{stem}.tar.gz")

    texts = ["completions/_webhookctl", "completions/webhookctl.bash", "completions/webhookctl.fish"]
    texts += ["man/man1/webhookctl.1", "man/man1/webhookctl-dev.1", "LICENSE-MIT", "LICENSE-APACHE"]
    assert set(found) == {f"{stem}/{name}" for name in [*texts, "webhookctl"]}
    assert {name: entry.mode for name, entry in found.items() if entry.mode != 0o644} == {f"{stem}/webhookctl": 0o755}
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in found.values()} == {(0, 0, "", 315532800)}


def test_the_page_names_the_place_of_each_text_of_an_archive():
    page = (ROOT / "infra/docs/install.md").read_text()
    for name in ["man/man1/", *(f"completions/{name}" for name in package_cli.COMPLETIONS.values())]:
        assert f"| `{name}` |" in page, name


def test_cargo_binstall_finds_each_archive(packed):
    about = tomllib.loads((ROOT / "infra/webhookctl/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
    assert about["pkg-fmt"] == "tgz"
    for platform in PLATFORMS:
        values = {"repo": "https://github.com/owner/repository", "name": "webhookctl", "version": VERSION}
        values |= {"target": platform.target, "bin": "webhookctl", "binary-ext": ""}
        url, path = about["pkg-url"], about["bin-dir"]
        for key, value in values.items():
            url, path = url.replace(f"{{ {key} }}", value), path.replace(f"{{ {key} }}", value)
        assert url.startswith(f"https://github.com/owner/repository/releases/download/v{VERSION}/")
        assert path in members(packed / url.rsplit("/", 1)[1])


def test_a_wheel_installs_without_a_registry(packed, tmp_path):
    out(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]

    out(*pip, "install", "--no-index", "--find-links", packed, RELEASE.name)

    assert out(tmp_path / "venv/bin/webhookctl", "--version") == stand_in.SAYS.decode()
    shown = out(*pip, "show", "--files", RELEASE.name)
    assert f"Version: {VERSION}" in shown and "LICENSE-APACHE" in shown and "LICENSE-MIT" in shown
    out(*pip, "uninstall", "--yes", RELEASE.name)
    assert not (tmp_path / "venv/bin/webhookctl").exists()


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.target)
def test_a_wheel_names_its_platform_and_records_each_file(packed, platform):
    [wheel] = packed.glob(f"mitt_webhookctl-{VERSION}-py3-none-*{platform.tags[0]}*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    about = f"mitt_webhookctl-{VERSION}.dist-info"
    tags = re.findall(r"^Tag: (\S+)$", files[f"{about}/WHEEL"].decode(), re.M)

    assert wheel.name == f"mitt_webhookctl-{VERSION}-py3-none-{'.'.join(platform.tags)}.whl"
    assert tags == [f"py3-none-{tag}" for tag in platform.tags]
    recorded = dict(line.rsplit(",", 2)[0:3:2] for line in files[f"{about}/RECORD"].decode().splitlines())
    sizes = {name: str(len(data)) for name, data in files.items()}
    assert recorded == sizes | {f"{about}/RECORD": ""}
    programs = [name for name, mode in modes.items() if mode & 0o111]
    assert programs == [f"mitt_webhookctl-{VERSION}.data/scripts/webhookctl"]


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node 20 with npm")
def test_an_npm_package_installs_without_a_registry(packed, tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    tarballs = [packed / f"mitt-webhookctl-{part}{VERSION}.tgz" for part in (f"{HERE.os}-{HERE.cpu}-", "")]
    npm = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--cache", tmp_path / "cache"]

    out(*npm, *tarballs, cwd=folder)

    assert out(folder / "node_modules/.bin/webhookctl", "--version") == stand_in.SAYS.decode()
    program = folder / f"node_modules/@mitt-webhookctl/{HERE.os}-{HERE.cpu}/bin/webhookctl"
    program.write_text('#!/bin/sh\necho "$#:$2"\nkill -TERM $$\n')
    command = [folder / "node_modules/.bin/webhookctl", "a", "b c"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (128 + 15, "2:b c\n")
    program.unlink()
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and f"@mitt-webhookctl/{HERE.os}-{HERE.cpu} is not installed" in run.stderr


def test_each_npm_package_is_for_one_platform(packed):
    def about(name):
        with tarfile.open(packed / f"{name}-{VERSION}.tgz") as tar:
            return json.load(tar.extractfile("package/package.json"))

    main = about("mitt-webhookctl")
    assert main["optionalDependencies"] == {f"@mitt-webhookctl/{p.os}-{p.cpu}": VERSION for p in PLATFORMS}
    assert "scripts" not in main, "a package must download nothing when npm installs it"
    for platform in PLATFORMS:
        its = about(f"mitt-webhookctl-{platform.os}-{platform.cpu}")
        assert (its["os"], its["cpu"], its["version"]) == ([platform.os], [platform.cpu], VERSION)
        assert its["name"] in main["optionalDependencies"] and "scripts" not in its


def test_the_owner_chooses_the_name(built, tmp_path):
    release = Release.of(ROOT, {"PACKAGE_NAME": "inbox-cli"})

    names = {path.name for path in packages(built, tmp_path / "named", release).iterdir()}

    assert {f"inbox-cli-{VERSION}.tgz", f"inbox-cli-linux-x64-{VERSION}.tgz"} <= names
    assert sum(name.startswith(f"inbox_cli-{VERSION}-py3-none-") for name in names) == len(PLATFORMS)
    assert not any("mitt" in name for name in names)
    assert Release.of(ROOT, {}).name == "mitt-webhookctl"


@pytest.mark.parametrize("name", ["Mitt", "../up", "a b", "a--b", "-a", "@scope/a"])
def test_a_name_that_a_registry_rejects_is_refused(name):
    with pytest.raises(Trouble, match="PACKAGE_NAME"):
        Release.of(ROOT, {"PACKAGE_NAME": name})


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(packed):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=packed))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def install(packed, served, home, *arguments):
    environment = os.environ | {"HOME": str(home), "MITT_DOWNLOADS": served, "no_proxy": "127.0.0.1"}
    command = ["sh", packed / "install.sh", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=home)


def test_install_sh_installs_what_the_sums_name(packed, served, tmp_path):
    run = install(packed, served, tmp_path)
    assert run.returncode == 0, run.stderr
    assert out(tmp_path / ".local/bin/webhookctl") == stand_in.SAYS.decode()
    assert "is not in PATH" in run.stdout

    # A second run replaces the program. A relative folder is below the current folder.
    assert install(packed, served, tmp_path).returncode == 0
    assert install(packed, served, tmp_path, "owner/repository", VERSION, "bin").returncode == 0
    assert os.listdir(tmp_path / "bin") == ["webhookctl"]


def test_install_sh_refuses_a_changed_archive(packed, served, tmp_path):
    archive = packed / f"webhookctl-{VERSION}-{HERE.target}.tar.gz"
    archive.write_bytes(archive.read_bytes() + b"!")

    run = install(packed, served, tmp_path)

    assert run.returncode == 1 and "checksum" in run.stderr, run.stderr
    assert os.listdir(tmp_path / ".local/bin") == []


def test_install_sh_names_what_is_missing(packed, served, tmp_path):
    (packed / "SHA256SUMS").write_text(f"{'0' * 64}  other.tar.gz\n")
    run = install(packed, served, tmp_path)
    assert run.returncode == 1 and "SHA256SUMS does not list webhookctl-" in run.stderr, run.stderr

    run = install(packed, served, tmp_path, "owner/repository", "9.9.9")
    assert run.returncode == 1 and "cannot download" in run.stderr, run.stderr

    (packed / "install.sh").write_text((ROOT / "infra/install.sh").read_text())
    run = install(packed, served, tmp_path)
    assert run.returncode == 1 and "usage: " in run.stderr, run.stderr


def test_install_sh_knows_each_platform_and_never_asks_for_root():
    script = (ROOT / "infra/install.sh").read_text()

    assert set(re.findall(r"target=(\S+)", script)) == {platform.target for platform in PLATFORMS}
    assert "sudo" not in re.sub(r"^#.*$", "", script, flags=re.M)
    out(ROOT / ".venv/check/bin/shellcheck", ROOT / "infra/install.sh")


def test_an_installer_that_it_does_not_understand_is_refused():
    with pytest.raises(Trouble, match="install.sh"):
        package_cli.installer("repository=$1\nversion=$2\n", RELEASE)


@pytest.mark.parametrize(
    "program, complaint",
    [
        (b"#!/bin/sh\n", "not a 64-bit ELF file"),
        (stand_in.elf(183, b""), "another processor"),
        (stand_in.elf(62, b"/lib64/ld-linux-x86-64.so.2\0", kind=3), "not static"),
    ],
    ids=["a script", "another processor", "a dynamic program"],
)
def test_a_program_that_does_not_run_everywhere_is_refused(program, complaint):
    check_static(stand_in.elf(62, b""), "x86_64-unknown-linux-musl")
    with pytest.raises(Trouble, match=complaint):
        check_static(program, "x86_64-unknown-linux-musl")


def test_what_is_missing_is_named(built, tmp_path):
    for missing in ["man/webhookctl.1", "completions/_webhookctl", "x86_64-unknown-linux-musl/webhookctl"]:
        folder = tmp_path / missing.replace("/", "-")
        shutil.copytree(built, folder / "built")
        (folder / "built" / missing).unlink()
        if missing.startswith("man"):
            shutil.rmtree(folder / "built/man")
        with pytest.raises(Trouble, match="is missing or empty|no man pages"):
            packages(folder / "built", folder / "packed")


def test_each_target_has_its_build_command():
    for platform in PLATFORMS:
        command, environment = package_cli.cargo_build(platform.target, {"A": "b"})
        assert command[:2] == ["cargo", "zigbuild" if platform.is_linux else "build"]
        assert {"--release", "--locked"} <= set(command) and command[-2:] == ["--target", platform.target]
        assert environment["A"] == "b" and re.fullmatch(r"([0-9a-f]{12}(-dirty)?)?", environment["MITT_COMMIT"])


def test_the_program_of_this_machine_writes_the_texts(tmp_path):
    program = tmp_path / HERE.target / "webhookctl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = man ] && mkdir -p "$2" && echo page > "$2/webhookctl.1" || echo "for $2"\n')
    program.chmod(0o755)

    package_cli.write_texts(tmp_path, PLATFORMS)

    assert package_cli.texts(tmp_path).keys() >= {"man/man1/webhookctl.1", "completions/webhookctl.bash"}
    assert (tmp_path / "completions/_webhookctl").read_text() == "for zsh\n"
    with pytest.raises(Trouble, match="none of the programs runs"):
        package_cli.write_texts(tmp_path, ())
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    with pytest.raises(Trouble, match="man failed: broken"):
        package_cli.write_texts(tmp_path, PLATFORMS)
