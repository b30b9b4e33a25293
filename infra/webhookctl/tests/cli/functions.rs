//! `dev --functions` with the function zips of a release, as an installed program runs it: without
//! the repository, and without the functions beside the program.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::folder::{Folder, told};
use anyhow::{Context, ensure};
use rawzip::{CompressionMethod, ZipArchiveWriter};
use testkit::programs;

const FUNCTIONS: [&str; 3] = ["catcher", "processor", "backup-sync"];

/// The machine types of ELF files, with the names of the zips.
const MACHINES: [(&str, u8); 2] = [("x86_64", 0x3e), ("arm64", 0xb7)];

/// Returns the name of this machine's architecture, and the name of the other one.
fn architectures() -> (&'static str, &'static str) {
    match std::env::consts::ARCH {
        "x86_64" => ("x86_64", "arm64"),
        _ => ("arm64", "x86_64"),
    }
}

/// Writes a zip with these files.
fn write_zip(to: &Path, files: &[(&str, &[u8])]) -> anyhow::Result<()> {
    let mut archive = ZipArchiveWriter::new(File::create(to)?);
    for (name, data) in files {
        let file = archive.new_file(name);
        let (mut entry, config) = file.compression_method(CompressionMethod::STORE).start()?;
        let mut writer = config.wrap(&mut entry);
        writer.write_all(data)?;
        let (_, sums) = writer.finish()?;
        entry.finish(sums)?;
    }
    archive.finish()?;
    Ok(())
}

/// Returns the start of an ELF file for this architecture.
fn elf(architecture: &str) -> Vec<u8> {
    let machine = MACHINES.iter().find(|(name, _)| *name == architecture);
    let machine = machine.map_or(0, |(_, machine)| *machine);
    let mut head = b"\x7fELF\x02\x01\x01".to_vec();
    head.resize(18, 0);
    head.extend([machine, 0]);
    head
}

/// Writes the zips of all functions. Each contains the same program.
fn write_zips(folder: &Path, architecture: &str, program: &[u8]) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for name in FUNCTIONS {
        let zip = folder.join(format!("{name}-{architecture}.zip"));
        write_zip(&zip, &[("bootstrap", program)])?;
    }
    Ok(())
}

/// Copies the program into an empty folder, as an installation does.
fn installed(folder: &Folder) -> anyhow::Result<PathBuf> {
    let bin = folder.path().join("bin");
    fs::create_dir(&bin)?;
    let program = bin.join("webhookctl");
    fs::copy(env!("CARGO_BIN_EXE_webhookctl"), &program).context("copy webhookctl")?;
    Ok(program)
}

/// Runs a program in the folder `empty`.
fn run(folder: &Folder, program: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let empty = folder.path().join("empty");
    fs::create_dir_all(&empty)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&empty)
        .env("WEBHOOKCTL_CONFIG", folder.path().join("none.toml"))
        .env("NO_COLOR", "1");
    Ok(command.output()?)
}

#[test]
fn the_demo_runs_from_the_zips_of_a_release() -> anyhow::Result<()> {
    let folder = Folder::new("zips")?;
    let (here, _) = architectures();
    let release = folder.path().join("release");
    fs::create_dir(&release)?;
    for name in FUNCTIONS {
        let program = fs::read(programs().join(name))?;
        // A user may have added the sources, as the page on deployments says.
        let files: [(&str, &[u8]); 2] =
            [("sources.toml", b"schema = 1\n"), ("bootstrap", &program)];
        write_zip(&release.join(format!("{name}-{here}.zip")), &files)?;
    }
    let demo = [
        "dev",
        "--demo",
        "--once",
        "--port",
        "0",
        "--functions",
        "../release",
    ];

    let output = run(&folder, &installed(&folder)?, &demo)?;

    ensure!(output.status.success(), "{}", told(&output));
    let unpacked = folder.path().join("empty/.mitt/functions");
    for name in FUNCTIONS {
        let mode = fs::metadata(unpacked.join(name))?.permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
    Ok(())
}

#[test]
fn an_installed_program_asks_for_the_functions() -> anyhow::Result<()> {
    let folder = Folder::new("alone")?;

    let output = run(&folder, &installed(&folder)?, &["dev", "--port", "0"])?;

    assert_eq!(output.status.code(), Some(1));
    let said = told(&output);
    for words in [
        "the binary of the function catcher is missing",
        "[dev.not_built]",
        "--functions DIR",
    ] {
        assert!(said.contains(words), "{said}");
    }
    Ok(())
}

/// Runs `dev` with the folder `release`, which must fail. Returns the output.
fn refused(folder: &Folder) -> anyhow::Result<String> {
    let arguments = [
        "dev",
        "--once",
        "--demo",
        "--port",
        "0",
        "--functions",
        "release",
    ];
    let (code, said) = folder.refused(&arguments)?;
    ensure!(code == Some(1), "{said}");
    Ok(said)
}

#[test]
fn functions_of_another_architecture_are_named() -> anyhow::Result<()> {
    let folder = Folder::new("other")?;
    let (here, other) = architectures();
    let release = folder.path().join("release");
    write_zips(&release, other, &elf(other))?;
    let said = refused(&folder)?;
    assert!(said.contains("[dev.functions]"), "{said}");
    assert!(
        said.contains(&format!("are for {other}; this machine is {here}")),
        "{said}"
    );

    // A zip with this machine's name contains a program for another one.
    write_zips(&release, here, &elf(other))?;
    let said = refused(&folder)?;
    assert!(said.contains("[dev.functions]"), "{said}");
    let words = format!("catcher-{here}.zip is for {other} (linux)");
    assert!(said.contains(&words), "{said}");

    // So does a folder with programs.
    for name in FUNCTIONS {
        fs::write(release.join(name), elf(other))?;
    }
    let said = refused(&folder)?;
    assert!(
        said.contains(&format!("release/catcher is for {other} (linux)")),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_missing_or_damaged_zip_is_named() -> anyhow::Result<()> {
    let folder = Folder::new("damaged")?;
    let (here, _) = architectures();
    let release = folder.path().join("release");
    write_zips(&release, here, &elf(here))?;
    let name = format!("processor-{here}.zip");
    let zip = release.join(&name);

    fs::remove_file(&zip)?;
    let said = refused(&folder)?;
    assert!(
        said.contains(&format!("release/{name} is missing [dev.not_built]")),
        "{said}"
    );

    write_zip(&zip, &[("sources.toml", b"schema = 1\n")])?;
    let said = refused(&folder)?;
    assert!(
        said.contains(&format!("{name} contains no bootstrap [dev.functions]")),
        "{said}"
    );

    write_zip(&zip, &[("bootstrap", b"#!/bin/sh\n")])?;
    let said = refused(&folder)?;
    assert!(
        said.contains(&format!("{name} contains no Linux program [dev.functions]")),
        "{said}"
    );

    fs::write(&zip, b"not a zip")?;
    let said = refused(&folder)?;
    assert!(
        said.contains(&format!("{name} is not a readable zip")),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_program_without_permission_to_run_is_named() -> anyhow::Result<()> {
    let folder = Folder::new("mode")?;
    let (here, _) = architectures();
    let release = folder.path().join("release");
    fs::create_dir(&release)?;
    for name in FUNCTIONS {
        fs::write(release.join(name), elf(here))?;
        fs::set_permissions(release.join(name), Permissions::from_mode(0o755))?;
    }
    fs::set_permissions(release.join("processor"), Permissions::from_mode(0o644))?;

    let said = refused(&folder)?;

    assert!(
        said.contains("release/processor is not executable [dev.functions]"),
        "{said}"
    );
    assert!(said.contains("tip: chmod +x release/processor"), "{said}");
    Ok(())
}
