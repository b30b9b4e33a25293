//! Adds a source to the sources file, or removes one. The rest of the file, including its comments,
//! stays unchanged.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use shared::base::toml_error::refusal;
use shared::sources::Config;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, RawString, Table, value};

use super::to::To;
use crate::files;
use crate::output::{CliError, Exit};
use crate::target::Local;

/// The path of the sources file that `init` writes.
const OWN: &str = "sources.toml";

/// The path of the sources file in a checkout.
const USUAL: &str = "infra/sources.toml";

/// Returns the sources file of this folder: the file that `init` writes, or that of the checkout.
pub(super) fn usual() -> PathBuf {
    let own = PathBuf::from(OWN);
    if own.exists() {
        own
    } else {
        PathBuf::from(USUAL)
    }
}

/// A sources file and its content.
pub(super) struct SourcesFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A source to add.
pub(super) struct Block<'b> {
    pub(super) name: &'b str,
    pub(super) preset: &'b str,
    pub(super) variant: Option<&'b str>,
    pub(super) params: Vec<(&'b str, &'b str)>,
    /// The value of `secret_store`.
    pub(super) secret_store: Option<&'b str>,
    /// The destination; `None` only stores the events.
    pub(super) to: Option<&'b To<'b>>,
}

impl SourcesFile {
    /// Reads a sources file: the named file, the file of the running `dev`, or the file of the
    /// checkout.
    pub(super) fn read(named: Option<&Path>, local: Option<&Local>) -> anyhow::Result<Self> {
        let path = match (named, local) {
            (Some(path), _) => path.to_owned(),
            (None, Some(local)) => local.sources.clone(),
            (None, None) => usual(),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            CliError::failed(
                "sources.no_file",
                format!("{} cannot be read: {error}", path.display()),
            )
            .tip(
                "run the command in the folder of the sources file, pass --file FILE, or create a \
                 file with `webhookctl init`",
            )
        })?;
        Ok(Self { path, text })
    }

    /// Returns the text with the new source at its end, and the configuration of this text.
    pub(super) fn with(&self, block: &Block<'_>) -> anyhow::Result<(String, Config)> {
        let allowed = match block.to {
            Some(to) => to.allowed_in(&self.text),
            None => Some(self.text.clone()),
        };
        let mut text = allowed.ok_or_else(|| self.by_hand())?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
        text += &block.document().to_string();
        let config = self.checked(&text)?;
        Ok((text, config))
    }

    /// Returns an error if the file already has a source of this name.
    pub(super) fn has_no(&self, name: &str) -> Result<(), CliError> {
        let known = Config::parse_for_dev(&self.text).ok();
        if known.is_none_or(|config| config.source(name).is_none()) {
            return Ok(());
        }
        let file = self.path.display();
        Err(CliError::refused(
            "sources.exists",
            format!("{file} already has a source {name}; nothing was changed"),
        )
        .note(format!("to change the source, edit {file}"))
        .tip(format!("webhookctl sources show {name} --file {file}")))
    }

    /// Returns the text without a source.
    pub(super) fn without(&self, name: &str) -> anyhow::Result<String> {
        let (mut document, index) = self.find(name)?;
        let sources = document.get_mut("source");
        let sources = sources.and_then(Item::as_array_of_tables_mut);
        let removed = sources.ok_or_else(|| self.by_hand())?.remove(index);
        keep_comments_above(&removed, &mut document);
        let text = document.to_string();
        self.checked(&text)?;
        Ok(text)
    }

    /// Returns the text without the settings of a source that belong to its trial, and the removed
    /// lines.
    pub(super) fn promoted(&self, name: &str) -> anyhow::Result<(String, Vec<String>)> {
        let (mut document, index) = self.find(name)?;
        let sources = document.get_mut("source");
        let sources = sources.and_then(Item::as_array_of_tables_mut);
        let source = sources.and_then(|sources| sources.get_mut(index));
        let source = source.ok_or_else(|| self.by_hand())?;
        let removed = ["mode", "tee_timeout"].iter().filter_map(|key| {
            let value = source.remove(key)?;
            Some(format!("{key} = {}", value.to_string().trim()))
        });
        let removed = removed.collect();
        let text = document.to_string();
        self.checked(&text)?;
        Ok((text, removed))
    }

    /// Returns the document, and the position of a source in it.
    fn find(&self, name: &str) -> anyhow::Result<(DocumentMut, usize)> {
        let listed: toml::Table = toml::from_str(&self.text).map_err(|error| {
            anyhow!(
                "read {}: {}",
                self.path.display(),
                refusal(&error, &self.text)
            )
        })?;
        let listed = listed.get("source").and_then(toml::Value::as_array);
        let mut names = listed
            .into_iter()
            .flatten()
            .map(|source| source.get("name"));
        let index = names
            .position(|its| its.and_then(toml::Value::as_str) == Some(name))
            .ok_or_else(|| {
                CliError::not_found(
                    "sources.not_found",
                    format!("{} has no source '{name}'", self.path.display()),
                )
            })?;
        let document: DocumentMut = self.text.parse().context("read the sources file")?;
        Ok((document, index))
    }

    pub(super) fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.path.canonicalize().unwrap_or(self.path.clone());
        files::replace(&path, text, None)
    }

    fn checked(&self, text: &str) -> Result<Config, CliError> {
        Config::parse_for_dev(text).map_err(|error| {
            CliError::new(
                "sources.invalid",
                Exit::No,
                format!("{} would be invalid: {error:#}", self.path.display()),
            )
            .note("nothing was written")
        })
    }

    fn by_hand(&self) -> CliError {
        CliError::refused(
            "sources.by_hand",
            format!(
                "the CLI cannot edit {} without losing content; nothing was written",
                self.path.display()
            ),
        )
        .tip("edit the file by hand, then run `webhookctl sources check`")
    }
}

impl Block<'_> {
    /// Returns the source as TOML text of its own.
    fn document(&self) -> DocumentMut {
        let mut action = match self.to {
            Some(to) => to.action(),
            None => Table::from_iter([("kind", value("keep"))]),
        };
        action.decor_mut().set_prefix("");
        let mut source = Table::new();
        source["name"] = value(self.name);
        source["preset"] = value(self.preset);
        if let Some(variant) = self.variant {
            source["variant"] = value(variant);
        }
        if let Some(store) = self.secret_store {
            source["secret_store"] = value(store);
        }
        if !self.params.is_empty() {
            source["params"] = value(self.params.iter().copied().collect::<InlineTable>());
        }
        source["action"] = Item::ArrayOfTables([action].into_iter().collect());
        let mut document = DocumentMut::new();
        document["source"] = Item::ArrayOfTables([source].into_iter().collect::<ArrayOfTables>());
        document
    }
}

/// Keeps the comments above a removed table, and puts them before the next table. Removes only the
/// comments directly above the header, because they describe the removed table. `toml_edit` stores
/// all these comments with the table.
fn keep_comments_above(removed: &Table, document: &mut DocumentMut) {
    let above = removed.decor().prefix().and_then(RawString::as_str);
    let lines: Vec<&str> = above.unwrap_or("\n").split_inclusive('\n').collect();
    let own = |line: &&str| line.trim_start().starts_with('#');
    let others = lines.iter().rposition(|line| !own(line));
    let others = lines.iter().take(others.map_or(0, |last| last + 1));
    let kept: String = others.copied().collect();

    let mut next = None;
    for_each_table(document, &mut |table| {
        let behind = table.position().filter(|at| Some(*at) > removed.position());
        next = next.into_iter().chain(behind).min();
    });
    let Some(next) = next else {
        let below = document.trailing().as_str().unwrap_or_default();
        let trailing = match below {
            "" => kept.strip_suffix('\n').unwrap_or_default().to_owned(),
            _ => joined(&kept, below),
        };
        document.set_trailing(trailing);
        return;
    };
    for_each_table(document, &mut |table| {
        if table.position() == Some(next) {
            let decor = table.decor_mut();
            let below = decor.prefix().and_then(RawString::as_str);
            decor.set_prefix(joined(&kept, below.unwrap_or_default()));
        }
    });
}

/// Joins two texts. If there are blank lines on both sides, removes one.
fn joined(above: &str, below: &str) -> String {
    let blank = if below.starts_with('\n') { "\n" } else { "" };
    format!("{}{below}", above.strip_suffix(blank).unwrap_or(above))
}

fn for_each_table(table: &mut Table, visit: &mut dyn FnMut(&mut Table)) {
    visit(table);
    for (_, item) in table.iter_mut() {
        match item {
            Item::Table(below) => for_each_table(below, visit),
            Item::ArrayOfTables(all) => all.iter_mut().for_each(|it| for_each_table(it, visit)),
            Item::None | Item::Value(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Who sends.
schema = 1

# The shop.
[[source]]
name = \"shop\" # ours
preset = \"shopify\"
# It is kept.
[[source.action]]
kind = \"keep\"
# [source.order] would go here.

[[source]]
name = \"code\"
preset = \"github\"
action = [{ kind = \"keep\" }]

[forward]
allow_hosts = []
";

    fn file(text: &str) -> SourcesFile {
        SourcesFile {
            path: "sources.toml".into(),
            text: text.into(),
        }
    }

    fn block<'b>(name: &'b str, preset: &'b str) -> Block<'b> {
        Block {
            name,
            preset,
            variant: None,
            params: Vec::new(),
            secret_store: None,
            to: None,
        }
    }

    fn refused<T>(result: anyhow::Result<T>) -> &'static str {
        let error = result.err().expect("the edit is rejected");
        error.downcast::<CliError>().unwrap().code
    }

    #[test]
    fn a_source_is_added_behind_all_that_is_there() {
        let (text, config) = file(FILE)
            .with(&Block {
                variant: Some("default"),
                secret_store: Some("secrets-manager"),
                ..block("pay", "stripe")
            })
            .unwrap();
        let added = "\n[[source]]\nname = \"pay\"\npreset = \"stripe\"\nvariant = \"default\"\n\
                     secret_store = \"secrets-manager\"\n[[source.action]]\nkind = \"keep\"\n";
        assert_eq!(text, format!("{FILE}{added}"));
        assert!(config.source("pay").is_some());
        // Removing the source restores the original text.
        assert_eq!(file(&text).without("pay").unwrap(), FILE);
    }

    #[test]
    fn a_source_goes_with_its_comment_and_leaves_those_of_others() {
        let text = file(FILE).without("shop").unwrap();
        let expected = "\
# Who sends.
schema = 1

# [source.order] would go here.

[[source]]
name = \"code\"
preset = \"github\"
action = [{ kind = \"keep\" }]

[forward]
allow_hosts = []
";
        assert_eq!(text, expected);
        let text = file(FILE).without("code").unwrap();
        assert!(
            text.ends_with("would go here.\n\n[forward]\nallow_hosts = []\n"),
            "{text}"
        );
        assert_eq!(refused(file(FILE).without("cod")), "sources.not_found");
    }

    #[test]
    fn what_would_be_wrong_is_not_written() {
        let file_ = file(FILE);
        assert_eq!(
            refused(file_.with(&block("shop", "shopify"))),
            "sources.invalid"
        );
        assert_eq!(
            refused(file_.with(&block("x", "no-such"))),
            "sources.invalid"
        );
        assert_eq!(
            refused(file_.with(&block("A\"\n[x]", "github"))),
            "sources.invalid"
        );
        let inline = "schema = 1\nsource = [{ name = \"a\", preset = \"github\", action = [{ kind = \"keep\" }] }]\n";
        assert_eq!(refused(file(inline).without("a")), "sources.by_hand");
        let tricky = "schema = 1\n[[source]]\nname = \"a\"\npreset = \"github\"\nparams = { api = '''\n[[source]]\n''' }\naction = [{ kind = \"keep\" }]\n[[source]]\nname = \"b\"\npreset = \"github\"\naction = [{ kind = \"keep\" }]\n";
        if Config::parse(tricky).is_ok() {
            assert_ne!(refused(file(tricky).without("b")), "sources.not_found");
        }
    }

    #[test]
    fn every_source_of_the_built_in_file_can_be_taken_out() {
        let built_in = file(shared::sources::EMBEDDED);
        let config = Config::parse(&built_in.text).unwrap();
        for source in config.sources() {
            let text = built_in.without(&source.name).unwrap();
            assert!(Config::parse(&text).unwrap().source(&source.name).is_none());
        }
    }
}
