"""Makes the files of a release: zips of the functions, templates that name the zips, SBOMs and checksums.

    .venv/check/bin/python infra/package.py [--built FOLDER] [--to FOLDER]

Without --built the script builds first, as `sam build` does, with the same tools. The same binaries always give the
same bytes: a zip contains only `bootstrap`, dated 1980 and executable, for every user, machine and time.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".venv/check/bin"
FUNCTIONS = ("backup-sync", "catcher", "processor")
# The rustc target for each of Lambda's architecture names.
TARGETS = {"arm64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}
# The earliest time that a zip can store.
EPOCH = (1980, 1, 1, 0, 0, 0)


class Trouble(Exception):
    """A failure that the script reports as one sentence."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the zips, templates, SBOMs and checksums of a release.")
    parser.add_argument("--built", type=Path, help="a finished build: ARCHITECTURE/FUNCTION/bootstrap and .cdx.json")
    parser.add_argument("--to", type=Path, default=ROOT / "target/package", help="an empty or new folder")
    parser.add_argument("--cyclonedx", type=Path, default=Path("cargo-cyclonedx"), help="the tool that writes SBOMs")
    options = parser.parse_args()
    try:
        built = options.built or build(ROOT / "target/package-build", options.cyclonedx)
        pack(built, options.to, ROOT)
    except Trouble as trouble:
        print(f"package: {trouble}", file=sys.stderr)
        return 1
    print((options.to / "SHA256SUMS").read_text(), end="")
    return 0


# -------------------------------------------------------------------- packing


def pack(built: Path, to: Path, root: Path) -> None:
    """Writes the package of these binaries into an empty or new folder."""
    if to.exists() and any(to.iterdir()):
        raise Trouble(f"{to} is not empty")
    to.mkdir(parents=True, exist_ok=True)
    for architecture in TARGETS:
        for function in FUNCTIONS:
            name = f"{function}-{architecture}"
            zip_bootstrap(read(built / architecture / function / "bootstrap"), to / f"{name}.zip")
            sbom = read(built / architecture / f"{function}.cdx.json").decode()
            (to / f"{name}.cdx.json").write_text(without_place(sbom, root))
        template = (root / "template.yaml").read_text()
        (to / f"template-{architecture}.yaml").write_text(prebuilt(template, architecture))
    shutil.copyfile(root / "infra/sources.toml", to / "sources.toml")
    (to / "SHA256SUMS").write_text(sums(to))


def read(path: Path) -> bytes:
    if not path.is_file() or not path.stat().st_size:
        raise Trouble(f"{path} is missing or empty")
    return path.read_bytes()


def zip_bootstrap(binary: bytes, to: Path) -> None:
    entry = zipfile.ZipInfo("bootstrap", EPOCH)
    entry.create_system = 3  # The value for Unix. The next line sets Unix permissions.
    entry.external_attr = 0o100755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(to, "w") as archive:
        archive.writestr(entry, binary, compresslevel=9)


def without_place(sbom: str, root: Path) -> str:
    """Returns the SBOM without the path of the build folder. Fails if the text is not a CycloneDX SBOM."""
    text = sbom.replace(f"file://{root}/", "file:///").replace(f"file://{root}", "file:///")
    found = json.loads(text)
    if found.get("bomFormat") != "CycloneDX" or not found.get("components"):
        raise Trouble("an SBOM is not CycloneDX, or lists no components")
    if "serialNumber" in found or str(root) in text:
        raise Trouble("an SBOM contains the time or the folder of its build, so two builds would differ")
    return text


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


def build(to: Path, cyclonedx: Path) -> Path:
    """Builds the functions and their SBOMs for each architecture."""
    shutil.rmtree(to, ignore_errors=True)
    environment = os.environ | {
        # cargo-lambda runs zig with the first python3 on PATH.
        "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}",
        # cargo-cyclonedx then writes an SBOM without the time of the build.
        "SOURCE_DATE_EPOCH": "315532800",
    }
    for architecture, target in TARGETS.items():
        run([*cargo_lambda(architecture), "--lambda-dir", to / architecture], environment)
        command = [cyclonedx, "cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", target]
        run([*command, "--override-filename", f"package-{architecture}.cdx"], environment)
        for function in FUNCTIONS:
            made = ROOT / f"functions/{function}/package-{architecture}.cdx.json"
            shutil.move(made, to / architecture / f"{function}.cdx.json")
        # cargo-cyclonedx writes an SBOM for every member of the workspace.
        for folders in ("*", "*/*"):
            for rest in ROOT.glob(f"{folders}/package-{architecture}.cdx.json"):
                rest.unlink()
    return to


def cargo_lambda(architecture: str) -> list[str]:
    command = ["cargo", "lambda", "build", "--release", "--locked", f"--{architecture.replace('_', '-')}"]
    for function in FUNCTIONS:
        command += ["--bin", function]
    # A panic message contains the path of the source file. The remapped path does not depend on this machine.
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    flags = [f"--remap-path-prefix={ROOT}=/mitt", f"--remap-path-prefix={cargo}=/cargo"]
    return [*command, "--config", f"build.rustflags={json.dumps(flags)}"]


def run(command: list, environment: dict[str, str]) -> None:
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    except OSError as error:
        raise Trouble(f"{command[0]} cannot be run: {error.strerror}") from None
    if code != 0:
        raise Trouble(f"{' '.join(map(str, command[:3]))} failed")


if __name__ == "__main__":
    sys.exit(main())
