//! Checks which modules of `shared` and of `webhookctl` import each other.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules in each layer of `shared`, from the lowest layer to the highest. A module imports
/// only modules of lower layers, and its own submodules.
const LAYERS: [&[&str]; 6] = [
    &["base"],
    &["webhook"],
    &["sources", "aws"],
    &["inbox"],
    &["delivery", "monitoring"],
    &["services"],
];

/// A module, and the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn a_layer_imports_only_lower_layers() {
    let layer = |module: &str| {
        let found = LAYERS.iter().position(|layer| layer.contains(&module));
        found.unwrap_or_else(|| panic!("module {module} is missing from LAYERS"))
    };
    let imports = imports(&root("shared/src"), 1);
    assert_eq!(imports.len(), LAYERS.concat().len(), "{imports:?}");
    for (module, imported) in &imports {
        for other in imported {
            assert!(layer(other) < layer(module), "{module} imports {other}");
        }
    }
}

#[test]
fn modules_of_shared_have_no_import_cycles() {
    let imports = imports(&root("shared/src"), 2);
    assert!(imports.len() > 35, "{imports:?}");
    assert_eq!(circle(&imports), None);
}

#[test]
fn no_modules_of_the_cli_import_each_other() {
    let imports = imports(&root("infra/webhookctl/src"), 1);
    assert!(imports.len() > 15, "{imports:?}");
    assert_eq!(circle(&imports), None);
}

#[test]
fn a_circle_is_found() {
    let imports = |lines: &[(&str, &[&str])]| {
        let lines = lines.iter().map(|(module, imported)| {
            let imported = imported.iter().map(|name| (*name).to_owned());
            ((*module).to_owned(), imported.collect())
        });
        lines.collect::<Imports>()
    };
    let tree = imports(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(circle(&tree), None);
    let ring = imports(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
    assert_eq!(circle(&ring), Some(vec!["b".to_owned(), "c".to_owned()]));
}

fn root(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder)
}

/// Returns the imports of all files in a folder, without the imports of tests. `depth` is the
/// number of path parts in the name of a module.
fn imports(source: &Path, depth: usize) -> Imports {
    let mut found = Imports::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inner = path.strip_prefix(source).unwrap().with_extension("");
            let parts: Vec<_> = inner.iter().map(|part| part.to_str().unwrap()).collect();
            let is_root = ["lib", "main"].contains(&parts[0]);
            if path.extension().is_none_or(|it| it != "rs")
                || is_root
                || parts.ends_with(&["tests"])
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default();
            let module = parts[..parts.len().min(depth)].join("::");
            let imported = imported(text, depth).filter(|other| *other != module);
            found.entry(module.clone()).or_default().extend(imported);
        }
    }
    let modules: BTreeSet<_> = found.keys().cloned().collect();
    for (module, imported) in &mut found {
        // A name that is not a module is defined in the file of its first part.
        let top = |name: &str| name.split("::").next().unwrap_or_default().to_owned();
        let known = imported.iter().map(|name| {
            let is_module = modules.contains(name);
            if is_module { name.clone() } else { top(name) }
        });
        *imported = known.filter(|other| modules.contains(other)).collect();
        // The file of a top-level module declares its submodules, which is not an import.
        let is_own = |other: &str| top(other) == *module || *other == top(module);
        imported.retain(|other| other != module && !is_own(other));
    }
    found
}

/// Returns the modules of the `crate::` paths in a file. Ignores comments.
fn imported(text: &str, depth: usize) -> impl Iterator<Item = String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<_> = code.collect();
    let paths = code.iter().flat_map(|line| line.split("crate::").skip(1));
    let paths: Vec<_> = paths
        .map(|path| {
            let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let path = &path[..end.unwrap_or(path.len())];
            let is_module = |part: &&str| part.starts_with(|c: char| c.is_ascii_lowercase());
            let parts: Vec<_> = path.split("::").take_while(is_module).take(depth).collect();
            parts.join("::")
        })
        .collect();
    paths.into_iter()
}

/// Returns the modules of an import cycle, if there is one. Repeatedly removes the modules that
/// import no module, and the modules that no module imports. The remaining modules form a cycle.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut left = imports.clone();
    loop {
        let before = left.len();
        let names: BTreeSet<_> = left.keys().cloned().collect();
        let wanted: BTreeSet<_> = left.values().flatten().cloned().collect();
        left.retain(|name, imported| {
            imported.retain(|other| names.contains(other));
            !imported.is_empty() && wanted.contains(name)
        });
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            return Some(left.into_keys().collect());
        }
    }
}
