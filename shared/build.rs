//! Embeds the presets and the sources into the library.

use std::{env, fmt::Write as _, fs, path::Path};

#[expect(
    clippy::disallowed_methods,
    reason = "Cargo passes the output directory in an environment variable"
)]
fn main() {
    let root = env!("CARGO_MANIFEST_DIR");
    let presets = Path::new(root).join("presets");
    let sources = Path::new(root).join("../infra/sources.toml");
    println!("cargo::rerun-if-changed={}", presets.display());
    println!("cargo::rerun-if-changed={}", sources.display());

    let mut files: Vec<_> = fs::read_dir(&presets)
        .expect("shared/presets is a directory")
        .map(|entry| entry.expect("the entries of the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();

    let mut code = String::from("static EMBEDDED: &[(&str, &str)] = &[\n");
    for file in files {
        let id = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("the file name of a preset is UTF-8");
        writeln!(code, "    ({id:?}, include_str!({:?})),", file.display())
            .expect("a write to a string does not fail");
    }
    code.push_str("];\n");
    let out = env::var("OUT_DIR").expect("Cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("presets.rs"), code).expect("OUT_DIR can be written");
}
