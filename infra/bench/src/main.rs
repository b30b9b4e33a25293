//! Measures what the functions do and what they cost.
//!
//! [`speed`] counts instructions, requests and write units, and compares times with other
//! implementations: `make bench`, `make budgets` and `make bench-profile`. [`cost`] multiplies the
//! usage of the functions by the prices of AWS: `make cost`.

mod cost;
mod http;
mod item;
mod machine;
mod page;
mod speed;
mod table;
mod webhook;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "cost [--events N] [--json] [--page FILE] [--parameter NAME=VALUE], figures FUNCTIONS VALGRIND, \
                     profile CATCHER VALGRIND, or table FUNCTIONS VALGRIND NODE-BUNDLES PYTHON [--rounds N] [--scale FILE] \
                     [--named CATCHER] [--page FILE]";

/// The text to print, and whether every target is met.
type Outcome = anyhow::Result<(String, bool)>;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its results"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // `make cost` exits with 1 if a cost exceeds its target, so an error needs another code.
    let (outcome, error_code) = match words.as_slice() {
        ["cost", options @ ..] => (cost::run(options), 2),
        words => (speed::run(words), 1),
    };
    match outcome {
        Ok((text, holds)) => {
            println!("{text}");
            ExitCode::from(u8::from(!holds))
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(error_code)
        }
    }
}

/// Returns the value of an option.
fn value<'a>(option: &str, words: &mut impl Iterator<Item = &'a str>) -> anyhow::Result<&'a str> {
    words
        .next()
        .ok_or_else(|| anyhow::anyhow!("{option} needs a value"))
}
