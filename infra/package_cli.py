"""Makes the packages of webhookctl: an archive, a Python wheel and an npm package for each platform.

package.py calls this module. All packages of a platform contain the same binary, and the same binaries always give the
same bytes.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import platform as this_machine
import re
import struct
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from package_files import MACHINES, Trouble, machine, read, without_place, write_zip

SUMMARY = "Inspect and operate a webhook inbox on AWS, or run one on this machine"
LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
COMPLETIONS = {"bash": "webhookctl.bash", "fish": "webhookctl.fish", "zsh": "_webhookctl"}


@dataclass(frozen=True)
class Platform:
    """A rustc target, with the names that Python and npm use for the machines that it runs on."""

    target: str
    tags: tuple[str, ...]
    os: str
    cpu: str

    @property
    def is_linux(self) -> bool:
        return self.os == "linux"


# A static program for Linux runs with glibc and with musl, so one wheel has the tags of both.
PLATFORMS = (
    Platform("x86_64-unknown-linux-musl", ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"), "linux", "x64"),
    Platform("aarch64-unknown-linux-musl", ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"), "linux", "arm64"),
    Platform("x86_64-apple-darwin", ("macosx_10_12_x86_64",), "darwin", "x64"),
    Platform("aarch64-apple-darwin", ("macosx_11_0_arm64",), "darwin", "arm64"),
)


def platforms_built_here() -> tuple[Platform, ...]:
    """Returns the platforms of this operating system. macOS programs need Apple's frameworks to link."""
    return tuple(platform for platform in PLATFORMS if platform.os == sys.platform)


@dataclass(frozen=True)
class Release:
    """What the packages say about themselves."""

    version: str
    # The name on PyPI and npm.
    name: str
    # OWNER/REPOSITORY on GitHub, or empty if the build does not know it.
    repository: str

    @classmethod
    def of(cls, root: Path, environment: dict[str, str]) -> "Release":
        manifest = tomllib.loads((root / "Cargo.toml").read_text())
        name = environment.get("PACKAGE_NAME") or "mitt-webhookctl"
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
            raise Trouble(f"PACKAGE_NAME is '{name}'; use lower-case letters, digits and single hyphens")
        repository = environment.get("GITHUB_REPOSITORY") or ""
        return cls(manifest["workspace"]["package"]["version"], name, repository)

    @property
    def url(self) -> str:
        return f"https://github.com/{self.repository}" if self.repository else ""


# -------------------------------------------------------------------- packing


def pack(built: Path, to: Path, root: Path, release: Release, platforms: tuple[Platform, ...]) -> None:
    """Writes the packages of these platforms into a folder."""
    licences = {name: read(root / name) for name in LICENCES}
    for platform in platforms:
        folder = built / platform.target
        program = read(folder / "webhookctl")
        if platform.is_linux:
            check_static(program, platform.target)
        stem = f"webhookctl-{release.version}-{platform.target}"
        files = {"webhookctl": program} | licences | texts(built)
        write_tar(to / f"{stem}.tar.gz", {f"{stem}/{name}": data for name, data in files.items()})
        sbom = read(folder / "webhookctl.cdx.json").decode()
        (to / f"{stem}.cdx.json").write_text(without_place(sbom, root))
        wheel(to, program, licences, release, platform)
        npm_platform(to, program, licences, release, platform)


def pack_common(to: Path, root: Path, release: Release) -> None:
    """Writes the files that do not depend on a platform."""
    npm_main(to, read(root / "infra/npm/webhookctl.js"), {name: read(root / name) for name in LICENCES}, release)
    (to / "install.sh").write_text(installer((root / "infra/install.sh").read_text(), release))


def texts(built: Path) -> dict[str, bytes]:
    """Returns the man pages and the completion scripts."""
    pages = sorted((built / "man").glob("*.1"))
    if not pages:
        raise Trouble(f"{built / 'man'} has no man pages")
    found = {f"man/man1/{page.name}": read(page) for page in pages}
    return found | {f"completions/{name}": read(built / "completions" / name) for name in COMPLETIONS.values()}


def write_tar(to: Path, files: dict[str, bytes]) -> None:
    """Writes an archive without the user, the time and the permissions of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), mode(name), 315532800
            archive.addfile(entry, io.BytesIO(data))
    with to.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(packed.getvalue())


def mode(name: str) -> int:
    return 0o755 if Path(name).name in ("webhookctl", "webhookctl.js") else 0o644


def wheel(to: Path, program: bytes, licences: dict[str, bytes], release: Release, platform: Platform) -> None:
    """Writes a wheel that contains only the program: pip puts it beside `python`."""
    stem = f"{release.name.replace('-', '_')}-{release.version}"
    about = f"{stem}.dist-info"
    lines = ["Metadata-Version: 2.4", f"Name: {release.name}", f"Version: {release.version}", f"Summary: {SUMMARY}"]
    lines += ["License-Expression: MIT OR Apache-2.0", *(f"License-File: {name}" for name in licences)]
    lines += [f"Project-URL: Source, {release.url}"] if release.url else []
    tags = [f"Tag: py3-none-{tag}" for tag in platform.tags]
    files = {f"{stem}.data/scripts/webhookctl": program}
    files |= {f"{about}/licenses/{name}": data for name, data in licences.items()}
    files[f"{about}/METADATA"] = text(lines)
    files[f"{about}/WHEEL"] = text(["Wheel-Version: 1.0", "Generator: mitt", "Root-Is-Purelib: false", *tags])
    record = [f"{name},sha256={record_hash(data)},{len(data)}" for name, data in sorted(files.items())]
    files[f"{about}/RECORD"] = text([*record, f"{about}/RECORD,,"])
    write_zip(
        to / f"{stem}-py3-none-{'.'.join(platform.tags)}.whl",
        {name: (data, mode(name)) for name, data in files.items()},
    )


def record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def npm_platform(to: Path, program: bytes, licences: dict[str, bytes], release: Release, platform: Platform) -> None:
    """Writes the npm package with the program of a platform. npm installs it on this platform only."""
    more = {"os": [platform.os], "cpu": [platform.cpu], "preferUnplugged": True}
    about = manifest(npm_name(release, platform), release, more)
    files = {"package.json": about, "bin/webhookctl": program} | licences
    write_tar(to / f"{release.name}-{platform.os}-{platform.cpu}-{release.version}.tgz", in_package(files))


def npm_main(to: Path, script: bytes, licences: dict[str, bytes], release: Release) -> None:
    """Writes the npm package that users install. It starts the program of an optional dependency."""
    needed = {npm_name(release, platform): release.version for platform in PLATFORMS}
    more = {"bin": {"webhookctl": "webhookctl.js"}, "optionalDependencies": needed, "engines": {"node": ">=18"}}
    files = {"package.json": manifest(release.name, release, more), "webhookctl.js": script} | licences
    write_tar(to / f"{release.name}-{release.version}.tgz", in_package(files))


def npm_name(release: Release, platform: Platform) -> str:
    return f"@{release.name}/{platform.os}-{platform.cpu}"


def manifest(name: str, release: Release, more: dict) -> bytes:
    about = {"name": name, "version": release.version, "description": SUMMARY, "license": "MIT OR Apache-2.0"}
    if release.url:
        about["repository"] = {"type": "git", "url": f"git+{release.url}.git"}
    return (json.dumps(about | more, indent=2) + "\n").encode()


def in_package(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"package/{name}": data for name, data in files.items()}


def installer(script: str, release: Release) -> str:
    """Returns install.sh with the values of this release as defaults."""
    for name, value in [("repository=${1:-", release.repository), ("version=${2:-", release.version)]:
        if script.count(f"\n{name}}}\n") != 1:
            raise Trouble("install.sh does not read its arguments as package_cli.py expects")
        script = script.replace(f"\n{name}}}\n", f"\n{name}{value}}}\n")
    return script


def check_static(program: bytes, target: str) -> None:
    """Fails if the program is for another processor, or needs a dynamic loader and so a C library of the machine."""
    found = machine(program)
    if found is None:
        raise Trouble(f"webhookctl for {target} is not a 64-bit ELF file")
    if found != MACHINES[target.split("-")[0]]:
        raise Trouble(f"webhookctl for {target} is for another processor")
    [start] = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, start + size * place)[0] for place in range(count)]
    if 3 in kinds:  # PT_INTERP
        raise Trouble(f"webhookctl for {target} is not static")


# -------------------------------------------------------------------- building


def cargo_build(target: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command that builds webhookctl for a target, and its environment."""
    # zig brings the C compiler and the linker for Linux targets. macOS has its own.
    build = "zigbuild" if target.endswith("-musl") else "build"
    command = ["cargo", build, "--release", "--locked", "--package", "webhookctl", "--target", target]
    return command, environment | {"MITT_COMMIT": commit()}


def commit() -> str:
    """Returns the commit of the source code, or nothing outside a git repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return ""
    return found.stdout.strip()


def write_texts(built: Path, platforms: tuple[Platform, ...]) -> None:
    """Lets the program of this machine write its man pages and completion scripts."""
    runs = [platform.target for platform in platforms if (platform.os, platform.cpu) == (sys.platform, processor())]
    if not runs:
        raise Trouble("none of the programs runs on this machine, so none can write the man pages")
    program = built / runs[0] / "webhookctl"
    (built / "completions").mkdir(parents=True, exist_ok=True)
    say(program, "man", built / "man")
    for shell, name in COMPLETIONS.items():
        (built / "completions" / name).write_bytes(say(program, "completions", shell))


def processor() -> str:
    """Returns the processor of this machine, by its name in npm."""
    name = this_machine.machine()
    return {"x86_64": "x64", "aarch64": "arm64"}.get(name, name)


def say(program: Path, *arguments: object) -> bytes:
    run = subprocess.run([program, *map(str, arguments)], capture_output=True, env=os.environ | {"NO_COLOR": "1"})
    if run.returncode != 0:
        raise Trouble(f"webhookctl {arguments[0]} failed: {run.stderr.decode(errors='replace').strip()}")
    return run.stdout
