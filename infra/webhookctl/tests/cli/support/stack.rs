//! A stack in the test's own process, and how commands find it.

use std::path::Path;

use local::Options;
use webhookctl::target::Local;

use super::folder::Folder;

/// Starts the real template and the real functions, with the `sources.toml` of the folder.
pub(crate) fn options(folder: &Folder) -> Options {
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
    let program = Path::new(env!("CARGO_BIN_EXE_webhookctl"));
    Options {
        sources_file: Some(folder.path().join("sources.toml")),
        ..Options::new(template, program.parent().unwrap_or(program))
    }
}

/// Writes the file that describes the stack to the commands of the folder, as `dev` does.
pub(crate) fn announce(folder: &Folder, local: &Local) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.path().join(".mitt"))?;
    folder.write(".mitt/local.json", &serde_json::to_string(local)?)
}
