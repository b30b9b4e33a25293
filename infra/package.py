"""Makes the files of a release: the functions as zips, webhookctl in several packages, SBOMs and checksums.

    .venv/check/bin/python infra/package.py [--part functions|webhookctl] [--built FOLDER] [--to FOLDER]

Without --built the script builds first: the functions as `sam build` does, with the same tools, and webhookctl for the
platforms of this operating system. The same binaries always give the same bytes: a zip of a function contains only
`bootstrap`, dated 1980 and executable, for every user, machine and time. PACKAGE_NAME is the name of webhookctl on PyPI
and npm.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import package_cli
import package_template
from package_files import MACHINES, Trouble, machine, read, without_place, write_zip

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".venv/check/bin"
FUNCTIONS = ("backup-sync", "catcher", "processor")
# The rustc target for each of Lambda's architecture names.
TARGETS = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}
PARTS = ("functions", "webhookctl")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the files of a release.")
    parser.add_argument("--part", choices=PARTS, action="append", help="make only these files")
    parser.add_argument("--built", type=Path, help="a finished build: a folder for each part")
    parser.add_argument("--to", type=Path, default=ROOT / "target/package", help="an empty or new folder")
    parser.add_argument("--cyclonedx", type=Path, default=Path("cargo-cyclonedx"), help="the tool that writes SBOMs")
    options = parser.parse_args()
    parts = options.part or PARTS
    try:
        built = options.built or build(ROOT / "target/package-build", options.cyclonedx, parts)
        pack(built, options.to, ROOT, parts)
    except Trouble as trouble:
        print(f"package: {trouble}", file=sys.stderr)
        return 1
    print((options.to / "SHA256SUMS").read_text(), end="")
    return 0


# -------------------------------------------------------------------- packing


def pack(built: Path, to: Path, root: Path, parts: tuple[str, ...] = PARTS) -> None:
    """Writes the package of these binaries into an empty or new folder."""
    if to.exists() and any(to.iterdir()):
        raise Trouble(f"{to} is not empty")
    to.mkdir(parents=True, exist_ok=True)
    if "functions" in parts:
        pack_functions(built / "functions", to, root)
    if "webhookctl" in parts:
        release, platforms = package_cli.Release.of(root, dict(os.environ)), package_cli.platforms_built_here()
        package_cli.pack(built / "webhookctl", to, root, release, platforms)
        if any(platform.is_linux for platform in platforms):
            # A release has these files only once, although two operating systems build it.
            package_cli.pack_common(to, root, release)
    (to / "SHA256SUMS").write_text(sums(to))


def pack_functions(built: Path, to: Path, root: Path) -> None:
    for architecture, target in TARGETS.items():
        zips = set()
        for function in FUNCTIONS:
            name = f"{function}-{architecture}"
            program = read(built / architecture / function / "bootstrap")
            # Lambda accepts a program for another processor, and then cannot start it.
            if machine(program) != MACHINES[target.split("-")[0]]:
                raise Trouble(f"{function} for {architecture} is not a program for {architecture}")
            write_zip(to / f"{name}.zip", {"bootstrap": (program, 0o755)})
            zips.add(f"{name}.zip")
            sbom = read(built / architecture / f"{function}.cdx.json").decode()
            (to / f"{name}.cdx.json").write_text(without_place(sbom, root))
        template = prebuilt((root / "template.yaml").read_text(), architecture)
        (to / f"template-{architecture}.yaml").write_text(template)
        (to / f"template-{architecture}.cfn.json").write_text(package_template.expanded(template, zips))
    shutil.copyfile(root / "infra/sources.toml", to / "sources.toml")


def prebuilt(template: str, architecture: str) -> str:
    """Returns the template with the zips in place of the source folders, and with the architecture of the zips."""
    made, times = re.subn(
        r"(BuildProperties: \{ Binary: (\S+) \}\n(?:(?!BuildProperties)[\s\S])*?CodeUri: )\.\n",
        rf"\g<1>\g<2>-{architecture}.zip\n",
        template,
    )
    made, defaults = re.subn(
        r"Default: arm64\n    AllowedValues: \[arm64, x86_64\]",
        f"Default: {architecture}\n    AllowedValues: [{architecture}]",
        made,
    )
    # Both processors are built from one binary.
    binaries = re.findall(r"BuildProperties: \{ Binary: (\S+) \}", template)
    if set(binaries) != set(FUNCTIONS) or times != len(binaries) or times != made.count("CodeUri:") or defaults != 1:
        raise Trouble("template.yaml does not name its functions or architectures as package.py expects")
    return made


def sums(folder: Path) -> str:
    """Returns the checksums in the format of `sha256sum --check`."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


# -------------------------------------------------------------------- building


def build(to: Path, cyclonedx: Path, parts: tuple[str, ...]) -> Path:
    """Builds these parts with an SBOM for each binary."""
    shutil.rmtree(to, ignore_errors=True)
    environment = os.environ | {
        # cargo-lambda and cargo-zigbuild run zig with the first python3 on PATH.
        "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
        # cargo-cyclonedx then writes an SBOM without the time of the build.
        "SOURCE_DATE_EPOCH": "315532800",
    }
    if "functions" in parts:
        for architecture, target in TARGETS.items():
            folder = to / "functions" / architecture
            run([*cargo_lambda(architecture), "--lambda-dir", folder], environment)
            sboms = {f"functions/{function}": folder / f"{function}.cdx.json" for function in FUNCTIONS}
            write_sboms(sboms, target, cyclonedx, environment)
    if "webhookctl" in parts:
        build_cli(to / "webhookctl", cyclonedx, environment)
    return to


def build_cli(to: Path, cyclonedx: Path, environment: dict[str, str]) -> None:
    platforms = package_cli.platforms_built_here()
    run(["rustup", "target", "add", *(platform.target for platform in platforms)], environment)
    for platform in platforms:
        command, its_own = package_cli.cargo_build(platform.target, environment)
        run([*command, "--config", rustflags()], its_own)
        folder = to / platform.target
        folder.mkdir(parents=True)
        shutil.copy(ROOT / f"target/{platform.target}/release/webhookctl", folder)
        sboms = {"infra/webhookctl": folder / "webhookctl.cdx.json"}
        write_sboms(sboms, platform.target, cyclonedx, environment)
    package_cli.write_texts(to, platforms)


def write_sboms(wanted: dict[str, Path], target: str, cyclonedx: Path, environment: dict[str, str]) -> None:
    """Writes the SBOMs of these crates, each to its path."""
    name = f"package-{target}.cdx"
    command = [cyclonedx, "cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", target]
    run([*command, "--override-filename", name], environment)
    for crate, to in wanted.items():
        shutil.move(ROOT / crate / f"{name}.json", to)
    # cargo-cyclonedx writes an SBOM for every member of the workspace.
    for folders in ("*", "*/*", "*/*/*"):
        for rest in ROOT.glob(f"{folders}/{name}.json"):
            rest.unlink()


def cargo_lambda(architecture: str) -> list[str]:
    command = ["cargo", "lambda", "build", "--release", "--locked", f"--{architecture.replace('_', '-')}"]
    for function in FUNCTIONS:
        command += ["--bin", function]
    return [*command, "--config", rustflags()]


def rustflags() -> str:
    # A panic message contains the path of the source file. The remapped path does not depend on this machine.
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags = [f"--remap-path-prefix={ROOT}=/mitt", f"--remap-path-prefix={cargo}=/cargo"]
    return f"build.rustflags={json.dumps(flags)}"


def run(command: list, environment: dict[str, str]) -> None:
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    except OSError as error:
        raise Trouble(f"{command[0]} cannot be run: {error.strerror}") from None
    if code != 0:
        raise Trouble(f"{' '.join(map(str, command[:3]))} failed")


if __name__ == "__main__":
    sys.exit(main())
