//! Embeds the presets and the sources into the library. The presets become JSON, which the functions
//! parse several times faster than TOML when they start.

use std::{env, fmt::Write as _, fs, path::Path};

#[expect(
    clippy::disallowed_methods,
    reason = "Cargo passes its directories in environment variables"
)]
fn main() {
    // Read at run time, because two checkouts can share a target directory, and so this program.
    let root = env::var("CARGO_MANIFEST_DIR").expect("Cargo sets CARGO_MANIFEST_DIR");
    let presets = Path::new(&root).join("presets");
    let sources = Path::new(&root).join("../infra/sources.toml");
    println!("cargo::rerun-if-changed={}", presets.display());
    println!("cargo::rerun-if-changed={}", sources.display());

    let mut files: Vec<_> = fs::read_dir(&presets)
        .expect("shared/presets is a directory")
        .map(|entry| entry.expect("the entries of the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "toml"))
        .collect();
    files.sort();

    let mut code = String::from("static EMBEDDED: &[Embedded] = &[\n");
    for file in files {
        let text = fs::read_to_string(&file).expect("a preset is UTF-8");
        let preset: toml::Table =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let id = file.file_stem().and_then(|stem| stem.to_str());
        let id = id.expect("the file name of a preset is UTF-8");
        let json = serde_json::to_string(&preset).expect("a table is JSON");
        let (aliases, params) = (texts(preset.get("aliases")), named(preset.get("params")));
        writeln!(
            code,
            "    Embedded {{ id: {id:?}, aliases: &{aliases:?}, params: &{params:?}, json: {json:?} }},"
        )
        .expect("a write to a string does not fail");
    }
    code.push_str("];\n");
    let out = env::var("OUT_DIR").expect("Cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("presets.rs"), code).expect("OUT_DIR can be written");
}

fn texts(value: Option<&toml::Value>) -> Vec<&str> {
    let values = value.and_then(toml::Value::as_array).into_iter().flatten();
    values.filter_map(toml::Value::as_str).collect()
}

fn named(value: Option<&toml::Value>) -> Vec<(&str, &str)> {
    let values = value.and_then(toml::Value::as_table).into_iter().flatten();
    values
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect()
}
