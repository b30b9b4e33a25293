//! Finds the programs of the functions: the zips of a release, or built programs.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive};

use crate::cli::FunctionName;
use crate::output::CliError;

/// The program in a zip. Lambda requires this name.
const BOOTSTRAP: &str = "bootstrap";

/// Lambda's limit for an unpacked function, in bytes.
const MAX_UNPACKED: u64 = 250 * 1024 * 1024;

/// Returns a folder with the programs of the functions, except those that another tool runs.
/// `given` is the folder that the user named; the default is the folder of this program. Zips are
/// unpacked below `state`.
pub(super) fn find(
    given: Option<&Path>,
    elsewhere: &[FunctionName],
    state: &Path,
) -> anyhow::Result<PathBuf> {
    let needed = &needed(elsewhere)[..];
    let folder = match given {
        Some(folder) => folder.to_owned(),
        None => own_folder()?,
    };
    let here = Machine::this();
    if needed.iter().all(|name| folder.join(name).is_file()) {
        for name in needed {
            check_built(&folder.join(name), &here)?;
        }
        return Ok(folder);
    }
    let zips: Vec<_> = needed
        .iter()
        .map(|name| (*name, folder.join(zip_name(name, here.architecture))))
        .collect();
    if let Some((name, missing)) = zips.iter().find(|(_, zip)| !zip.is_file()) {
        let some = zips.iter().any(|(_, zip)| zip.is_file());
        let zip = some.then_some(missing);
        return Err(not_found(&folder, name, needed, zip, &here).into());
    }
    let unpacked = state.join("functions");
    fs::create_dir_all(&unpacked)
        .with_context(|| format!("create the folder {}", unpacked.display()))?;
    for (name, zip) in &zips {
        let program = bootstrap(zip)?;
        if Machine::of(&program).as_ref() != Some(&here) {
            return Err(other_machine(zip, Machine::of(&program), &here).into());
        }
        let to = unpacked.join(name);
        put(&to, &program).with_context(|| format!("write {}", to.display()))?;
    }
    Ok(unpacked)
}

/// Returns the names of the programs that `dev` runs.
fn needed(elsewhere: &[FunctionName]) -> Vec<&'static str> {
    [
        ("catcher", Some(FunctionName::Catcher)),
        // The function for long actions has the same program, and no other tool runs it.
        ("processor", None),
        ("backup-sync", Some(FunctionName::BackupSync)),
    ]
    .into_iter()
    .filter(|(_, function)| !function.is_some_and(|it| elsewhere.contains(&it)))
    .map(|(name, _)| name)
    .collect()
}

fn own_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("find this program")?;
    Ok(program.parent().unwrap_or(Path::new(".")).to_owned())
}

fn zip_name(function: &str, architecture: &str) -> String {
    format!("{function}-{architecture}.zip")
}

/// Explains why the folder has neither all programs nor all zips.
fn not_found(
    folder: &Path,
    name: &str,
    needed: &[&str],
    zip: Option<&PathBuf>,
    here: &Machine,
) -> CliError {
    let shown = folder.display();
    if let Some(zip) = zip {
        return CliError::failed("dev.not_built", format!("{} is missing", zip.display()))
            .tip("download all function zips of the same release");
    }
    let other = ["x86_64", "arm64"]
        .into_iter()
        .find(|other| folder.join(zip_name(name, other)).is_file());
    if let Some(other) = other {
        let message =
            format!("the function zips in {shown} are for {other}; this machine is {here}");
        let wanted = zip_name(name, here.architecture);
        return CliError::failed("dev.functions", message).tip(format!(
            "download {wanted} and the other zips for this machine"
        ));
    }
    let built = needed.iter().find(|name| !folder.join(name).is_file());
    let name = built.copied().unwrap_or(name);
    let message = format!("the binary of the function {name} is missing in {shown}");
    CliError::failed("dev.not_built", message).tip(
        "run `cargo build --workspace`, or pass the folder of a release's function zips with \
         --functions DIR",
    )
}

/// Checks a program that was not unpacked from a zip. A file that is no ELF file can be a program
/// of another operating system, which this check does not know.
fn check_built(program: &Path, here: &Machine) -> anyhow::Result<()> {
    let read = || {
        let file = File::open(program)?;
        let mut head = Vec::new();
        let mode = file.metadata()?.permissions().mode();
        file.take(64).read_to_end(&mut head)?;
        Ok::<_, std::io::Error>((head, mode))
    };
    let (head, mode) = read().with_context(|| format!("read {}", program.display()))?;
    let found = Machine::of(&head);
    if found.as_ref().is_some_and(|found| found != here) {
        return Err(other_machine(program, found, here).into());
    }
    if mode & 0o111 == 0 {
        let shown = program.display();
        let message = format!("{shown} is not executable");
        return Err(CliError::failed("dev.functions", message)
            .tip(format!("chmod +x {shown}"))
            .into());
    }
    Ok(())
}

fn other_machine(file: &Path, found: Option<Machine>, here: &Machine) -> CliError {
    let shown = file.display();
    match found {
        Some(found) => {
            let message = format!("{shown} is for {found}; this machine is {here}");
            CliError::failed("dev.functions", message)
                .tip("use the functions for this machine, or run `cargo build --workspace`")
        }
        None => CliError::failed(
            "dev.functions",
            format!("{shown} contains no Linux program"),
        )
        .tip("download the zip again, and compare it with SHA256SUMS"),
    }
}

/// Returns the program in a zip.
fn bootstrap(zip: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = zip.display();
    let bytes = fs::read(zip).with_context(|| format!("read {shown}"))?;
    let message = match read_entry(&bytes, BOOTSTRAP) {
        Ok(Some(program)) if program.len() as u64 <= MAX_UNPACKED => return Ok(program),
        Ok(Some(_)) => format!("the program in {shown} is larger than 250 MB"),
        Ok(None) => format!("{shown} contains no {BOOTSTRAP}"),
        Err(error) => format!("{shown} is not a readable zip: {error}"),
    };
    Err(CliError::failed("dev.functions", message)
        .tip("download the zip again, and compare it with SHA256SUMS")
        .into())
}

/// Returns the entry of a zip, or `None` if the zip does not have it. Reads at most one byte more
/// than [`MAX_UNPACKED`].
fn read_entry(zip: &[u8], name: &str) -> Result<Option<Vec<u8>>, rawzip::Error> {
    let archive = ZipArchive::from_slice(zip)?;
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry()? {
        let path = entry.file_path();
        let path: &[u8] = path.as_ref();
        if path != name.as_bytes() {
            continue;
        }
        let (method, entry) = (entry.compression_method(), entry.wayfinder());
        let entry = archive.get_entry(entry)?;
        let data = entry.data();
        let mut program = Vec::new();
        let limit = MAX_UNPACKED + 1;
        // The reader compares size and checksum when it reaches the end of the entry.
        if method == CompressionMethod::STORE {
            let reader = entry.verifying_reader(data);
            reader.take(limit).read_to_end(&mut program)?;
        } else {
            let reader = entry.verifying_reader(DeflateDecoder::new(data));
            reader.take(limit).read_to_end(&mut program)?;
        }
        return Ok(Some(program));
    }
    Ok(None)
}

/// Replaces the program by a rename. A running process keeps the old file, and a write to that file
/// would fail.
fn put(to: &Path, program: &[u8]) -> std::io::Result<()> {
    let draft = to.with_extension("draft");
    fs::write(&draft, program)?;
    fs::set_permissions(&draft, Permissions::from_mode(0o755))?;
    fs::rename(&draft, to)
}

/// An operating system and an architecture, with Lambda's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Machine {
    system: &'static str,
    architecture: &'static str,
}

impl Machine {
    fn this() -> Self {
        Self {
            system: std::env::consts::OS,
            architecture: match std::env::consts::ARCH {
                "aarch64" => "arm64",
                other => other,
            },
        }
    }

    /// Reads the header of an ELF file, the format of programs for Linux.
    fn of(program: &[u8]) -> Option<Self> {
        if !program.starts_with(b"\x7fELF") {
            return None;
        }
        let architecture = match program.get(18..20)? {
            [0x3e, 0] => "x86_64",
            [0xb7, 0] => "arm64",
            _ => "another architecture",
        };
        Some(Self {
            system: "linux",
            architecture,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.architecture, self.system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zip that `infra/package.py` wrote. Its `bootstrap` is `\x7fELF` and a thousand times `A`.
    const RELEASED: &str = "\
        504b030414000000080000002100dbedc5d50e000000ec03000009000000626f6f747374726170ab77f571731c\
        05a360140c7b0000504b0102140314000000080000002100dbedc5d50e000000ec030000090000000000000000\
        000000ed8100000000626f6f747374726170504b0506000000000100010037000000350000000000";

    fn released() -> Vec<u8> {
        hex::decode(RELEASED).unwrap()
    }

    #[test]
    fn a_released_zip_is_read() {
        let program = read_entry(&released(), BOOTSTRAP).unwrap().unwrap();
        assert_eq!(program, [b"\x7fELF".as_slice(), &[b'A'; 1000]].concat());
        assert!(read_entry(&released(), "other").unwrap().is_none());
    }

    #[test]
    fn no_damaged_zip_is_read_as_another_program() {
        let sound = released();
        let program = read_entry(&sound, BOOTSTRAP).unwrap();
        for place in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[place] ^= 0x55;
            // The zip contains some values twice, and some that do not matter here.
            if let Ok(found @ Some(_)) = read_entry(&damaged, BOOTSTRAP) {
                assert_eq!(found, program, "byte {place}");
            }
        }
        for end in 0..sound.len() {
            assert!(read_entry(&sound[..end], BOOTSTRAP).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn the_header_says_for_which_machine_a_program_is() {
        let elf = |machine: [u8; 2]| [b"\x7fELF".as_slice(), &[0; 14], &machine].concat();
        let of = |program: &[u8]| Machine::of(program).map(|found| found.architecture);
        assert_eq!(of(&elf([0x3e, 0])), Some("x86_64"));
        assert_eq!(of(&elf([0xb7, 0])), Some("arm64"));
        assert_eq!(of(&elf([0xf3, 0])), Some("another architecture"));
        assert_eq!(of(b"\x7fELF"), None);
        assert_eq!(of(b"#!/bin/sh\n"), None);
    }
}
