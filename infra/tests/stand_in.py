"""Makes a finished build of stand-ins: files in place of the binaries, the SBOMs and the man pages of a release."""

import json
import struct

from package import FUNCTIONS, ROOT, TARGETS
from package_cli import COMPLETIONS, PLATFORMS
from package_files import MACHINES

SBOM = {"bomFormat": "CycloneDX", "components": [{"bom-ref": f"path+file://{ROOT}/shared#0.1.0"}]}
SAYS = b"webhookctl stand-in\n"
# write(1, SAYS); exit(0)
CODE = {
    "x86_64": bytes.fromhex("b801000000 bf01000000 488d3510000000 ba14000000 0f05 b83c000000 31ff 0f05"),
    "aarch64": struct.pack(
        "<8I", 0xD2800808, 0xD2800020, 0x100000C1, 0xD2800282, 0xD4000001, 0xD2800BA8, 0xD2800000, 0xD4000001
    ),
}


def write(folder):
    """Writes the build into a new folder."""
    for architecture in TARGETS:
        for function in FUNCTIONS:
            binary = folder / "functions" / architecture / function / "bootstrap"
            binary.parent.mkdir(parents=True)
            code = f"{function} for {architecture} ".encode() * 5000
            binary.write_bytes(elf(MACHINES[TARGETS[architecture].split("-")[0]], code))
            (binary.parents[1] / f"{function}.cdx.json").write_text(json.dumps(SBOM))
    for platform in PLATFORMS:
        cli = folder / "webhookctl" / platform.target
        cli.mkdir(parents=True)
        (cli / "webhookctl").write_bytes(program(platform))
        (cli / "webhookctl.cdx.json").write_text(json.dumps(SBOM))
    for name in ["man/webhookctl.1", "man/webhookctl-dev.1", *(f"completions/{name}" for name in COMPLETIONS.values())]:
        text = folder / "webhookctl" / name
        text.parent.mkdir(exist_ok=True)
        text.write_text(f"the text of {name}\n")
    return folder


def program(platform):
    """Returns a program that runs on the platform and prints SAYS."""
    if not platform.is_linux:
        return b"#!/bin/sh\necho webhookctl stand-in\n"
    processor = platform.target.split("-")[0]
    return elf(MACHINES[processor], CODE[processor] + SAYS)


def elf(machine, code, kind=1):
    """Returns an ELF file with one segment of this kind: 1 is loaded, 3 is the path of a dynamic loader."""
    base, size = 0x400000, 64 + 56 + len(code)
    about = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    head = b"\x7fELF\2\1\1" + bytes(9) + about
    return head + struct.pack("<IIQQQQQQ", kind, 5, 0, base, base, size, size, 0x10000) + code
