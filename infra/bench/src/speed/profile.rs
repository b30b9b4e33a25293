//! Breaks down the catcher's instructions, size and memory by owner.
//!
//! Callgrind counts the instructions of each function without its callees. A release has no
//! function names, so the measurement uses the same program with symbols. If the linker has inlined
//! a function, its instructions count for the function that contains it.

mod owner;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use self::owner::{OTHER, owner, owner_of};
use crate::speed::count::{WARM, rounds, under};
use crate::speed::functions::Bench;
use crate::speed::runtime::Running;
use crate::speed::stats::figure;
use crate::speed::stores::Stores;
use crate::speed::work::catch;
use crate::table::Table;

/// Quantities by owner.
type Shares = BTreeMap<&'static str, f64>;

/// Returns the report as text. `program` is the catcher with its symbols.
pub(crate) fn text(bench: &Bench, program: &Path, valgrind: &str) -> anyhow::Result<String> {
    let run = |invocations| executed(bench, program, valgrind, invocations);
    let (none, first, many) = (run(0)?, run(1)?, run(1 + WARM)?);
    let first_alone = minus(&first, &none, 1.0);
    let each = minus(&many, &first, rounds(WARM));
    let stages = ["start", "first webhook", "each further one"];
    let instructions = table(
        "instructions, millions",
        &stages,
        &[none, first_alone, each],
    );
    let code = table("executable, MB", &["size"], &[code(program)?]);
    let memory = table(
        "memory after some webhooks, MB",
        &["resident"],
        &[memory(bench, program)?],
    );
    let faults = faults(bench, program)?;
    Ok(format!("{instructions}\n{code}\n{memory}\n{faults}"))
}

/// Returns a table with the largest row first and the sums last.
fn table(what: &str, columns: &[&str], shares: &[Shares]) -> String {
    let mut table = Table::new([what].into_iter().chain(columns.iter().copied()));
    let mut owners: Vec<(&str, f64)> = Vec::new();
    for (owner, cost) in shares.iter().flatten() {
        match owners.iter_mut().find(|(known, _)| known == owner) {
            Some((_, sum)) => *sum += cost,
            None => owners.push((owner, *cost)),
        }
    }
    owners.sort_by(|one, other| other.1.total_cmp(&one.1));
    let cell = |value: f64| figure(value / 1e6);
    for (owner, _) in owners {
        let of = |shares: &Shares| cell(shares.get(owner).copied().unwrap_or(0.0));
        table.named(owner, shares.iter().map(of));
    }
    let sum = |shares: &Shares| cell(shares.values().sum());
    table.named("all", shares.iter().map(sum));
    table.to_string()
}

/// Returns the instructions of each owner from the start to the end of the process.
fn executed(
    bench: &Bench,
    program: &Path,
    valgrind: &str,
    invocations: u64,
) -> anyhow::Result<Shares> {
    let stores = Stores::start()?;
    let command = vec![program.display().to_string()];
    let program = bench.program("catcher", command, &stores)?;
    let out = bench.file("callgrind.out");
    let options = format!(
        "--tool=callgrind --compress-strings=no --compress-pos=no --callgrind-out-file={}",
        out.display()
    );
    let mut running = Running::start(&under(program, valgrind, &options))?;
    for number in 0..invocations {
        catch(&mut running, number)?;
    }
    running.end()?;
    let profile = std::fs::read_to_string(&out).context("read the output of callgrind")?;
    Ok(by_owner(&profile))
}

/// Sums up a profile. <https://valgrind.org/docs/manual/cl-format.html>
fn by_owner(profile: &str) -> Shares {
    let mut shares = Shares::new();
    let (mut object, mut owner) = ("", OTHER);
    let mut of_callee = false;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            object = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            owner = owner_of(object, name);
        } else if line.starts_with("calls=") {
            // The next line is the cost of the callee, which also has its own lines.
            of_callee = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) && !std::mem::take(&mut of_callee)
        {
            let cost = line
                .split(' ')
                .nth(1)
                .and_then(|cost| cost.parse::<f64>().ok());
            *shares.entry(owner).or_default() += cost.unwrap_or(0.0);
        }
    }
    shares
}

/// Returns the bytes of the executable by owner: its code by owner, and the rest by section.
fn code(program: &Path) -> anyhow::Result<Shares> {
    let symbols = said(
        Command::new("nm")
            .args(["--demangle", "--print-size", "--defined-only"])
            .arg(program),
    )?;
    let mut shares = Shares::new();
    for line in symbols.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some(_), Some(size), Some(kind), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        if kind.eq_ignore_ascii_case("t") || kind.eq_ignore_ascii_case("w") {
            *shares.entry(owner(name)).or_default() += bytes(size, 16);
        }
    }
    let sections = said(Command::new("size").args(["--format=sysv"]).arg(program))?;
    let named: f64 = shares.values().sum();
    for line in sections.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(size)) = (words.next(), words.next()) else {
            continue;
        };
        let owner = match name {
            ".text" => {
                *shares.entry(OTHER).or_default() += bytes(size, 10) - named;
                continue;
            }
            ".rodata" => "constants and texts",
            ".eh_frame" | ".eh_frame_hdr" | ".gcc_except_table" => "tables for unwinding a panic",
            ".data" | ".data.rel.ro" | ".rela.dyn" | ".got" | ".relr.dyn" => {
                "tables of functions and their relocations"
            }
            _ => continue,
        };
        *shares.entry(owner).or_default() += bytes(size, 10);
    }
    Ok(shares)
}

fn bytes(text: &str, radix: u32) -> f64 {
    rounds(u64::from_str_radix(text, radix).unwrap_or(0))
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the resident memory by type.
fn memory(bench: &Bench, program: &Path) -> anyhow::Result<Shares> {
    let stores = Stores::start()?;
    let command = vec![program.display().to_string()];
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut running = Running::start(&bench.program("catcher", command, &stores)?)?;
    for number in 0..=WARM {
        catch(&mut running, number)?;
    }
    Ok(resident(&running.mappings()?, &name))
}

/// Returns the number of page faults. At each one, the kernel provides a page of memory or of the
/// executable.
fn faults(bench: &Bench, program: &Path) -> anyhow::Result<String> {
    let stores = Stores::start()?;
    let command = vec![program.display().to_string()];
    let mut running = Running::start(&bench.program("catcher", command, &stores)?)?;
    let start = running.page_faults()?;
    catch(&mut running, 0)?;
    let first = running.page_faults()? - start;
    let mut table = Table::new(["", "start", "first webhook"]);
    table.named(
        "page faults",
        [start, first].map(|faults| faults.to_string()),
    );
    Ok(table.to_string())
}

/// Parses `/proc/PID/smaps`.
fn resident(mappings: &str, program: &str) -> Shares {
    let mut shares = Shares::new();
    let mut owner = OTHER;
    for line in mappings.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Rss:", kilobytes, _] => {
                let kilobytes: f64 = kilobytes.parse().unwrap_or(0.0);
                *shares.entry(owner).or_default() += kilobytes * 1024.0;
            }
            [range, mode, _, _, _, rest @ ..] if range.contains('-') => {
                owner = match (*mode, rest.first()) {
                    ("r-xp", Some(file)) if file.ends_with(program) => {
                        "loaded code of the executable"
                    }
                    (_, Some(file)) if file.ends_with(program) => {
                        "constants and tables of the executable"
                    }
                    (_, Some(file)) if file.starts_with('/') => "libc and other libraries",
                    _ => "heap, stack and zeroed memory",
                };
            }
            _ => {}
        }
    }
    shares
}

fn minus(more: &Shares, less: &Shares, times: f64) -> Shares {
    let of = |owner: &str| less.get(owner).copied().unwrap_or(0.0);
    let rest = more
        .iter()
        .map(|(owner, cost)| (*owner, (cost - of(owner)) / times));
    rest.collect()
}

#[cfg(test)]
mod tests {
    use super::owner::{C, STANDARD};
    use super::*;

    const PROFILE: &str = "\
version: 1
positions: line
events: Ir

ob=/var/task/catcher
fl=/src/lib.rs
fn=<alloc::vec::Vec<aws_smithy_types::Layer> as core::clone::Clone>::clone
0 100
cfn=malloc
cob=/lib/libc.so.6
calls=3 0
0 5000
0 11
fn=core::fmt::write
0 7

ob=/lib/libc.so.6
fn=malloc
0 5000
summary: 5118
";

    #[test]
    fn what_a_function_executes_itself_is_its_owners() {
        let shares = by_owner(PROFILE);
        let expected = [("AWS SDK", 111.0), (STANDARD, 7.0), (C, 5000.0)];
        assert_eq!(shares, Shares::from(expected));
    }

    #[test]
    fn memory_is_told_apart_by_what_is_mapped() {
        let mappings = "\
55e0-55e1 r--p 00000000 08:01 12 /var/task/catcher
Rss: 100 kB
55e1-55e9 r-xp 00001000 08:01 12 /var/task/catcher
Rss: 2000 kB
55f0-55f9 rw-p 00000000 00:00 0 [heap]
Rss: 1000 kB
7f00-7f01 r-xp 00000000 08:01 13 /lib/libc.so.6
Rss: 500 kB
";
        let shares = resident(mappings, "catcher");
        assert_eq!(shares.len(), 4);
        let all: f64 = shares.values().sum();
        assert!((all - 3600.0 * 1024.0).abs() < 0.5, "{all}");
    }
}
