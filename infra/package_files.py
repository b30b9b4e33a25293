"""What the packages of the functions and of webhookctl have in common."""

import json
import struct
import zipfile
from pathlib import Path

# The earliest time that a zip can store.
EPOCH = (1980, 1, 1, 0, 0, 0)


# The number of each processor in the header of an ELF file, by the first part of the rustc target.
MACHINES = {"x86_64": 62, "aarch64": 183}


class Trouble(Exception):
    """A failure that the script reports as one sentence."""


def read(path: Path) -> bytes:
    if not path.is_file() or not path.stat().st_size:
        raise Trouble(f"{path} is missing or empty")
    return path.read_bytes()


def machine(program: bytes) -> int | None:
    """Returns the processor for which a program was compiled, as its number in ELF. None if it is not a 64-bit ELF file."""
    if program[:6] != b"\x7fELF\x02\x01" or len(program) < 64:
        return None
    return struct.unpack_from("<H", program, 18)[0]


def write_zip(to: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """Writes a zip from each file's content and permissions, with the same time for all files."""
    with zipfile.ZipFile(to, "w") as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # The value for Unix. The next line sets Unix permissions.
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)


def without_place(sbom: str, root: Path) -> str:
    """Returns the SBOM without the path of the build folder. Fails if the text is not a CycloneDX SBOM."""
    text = sbom.replace(f"file://{root}/", "file:///").replace(f"file://{root}", "file:///")
    found = json.loads(text)
    if found.get("bomFormat") != "CycloneDX" or not found.get("components"):
        raise Trouble("an SBOM is not CycloneDX, or lists no components")
    if "serialNumber" in found or str(root) in text:
        raise Trouble("an SBOM contains the time or the folder of its build, so two builds would differ")
    return text
