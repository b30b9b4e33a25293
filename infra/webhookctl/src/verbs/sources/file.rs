//! Adds a source to the sources file, or removes one, without other changes.
//!
//! The edit works on the text, so that comments and order stay. The result is parsed again: it must
//! equal the old content plus or minus the one source.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use shared::base::toml_error::refusal;
use shared::sources::Config;
use toml::{Table, Value};

use crate::output::{CliError, Exit};
use crate::target::Local;

/// The sources file in a checkout.
const USUAL: &str = "infra/sources.toml";

/// A sources file as it was read.
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
}

impl SourcesFile {
    /// Reads the named file, the file of the running `dev`, or the file of the checkout.
    pub(super) fn read(named: Option<&Path>, local: Option<&Local>) -> anyhow::Result<Self> {
        let path = match (named, local) {
            (Some(path), _) => path.to_owned(),
            (None, Some(local)) => local.sources.clone(),
            (None, None) => PathBuf::from(USUAL),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| {
            CliError::failed(
                "sources.no_file",
                format!("{} cannot be read: {error}", path.display()),
            )
            .tip("run the command in the folder of the sources file, or pass --file FILE")
        })?;
        Ok(Self { path, text })
    }

    /// The text with the added source, and its configuration.
    pub(super) fn with(&self, block: &Block<'_>) -> anyhow::Result<(String, Config)> {
        let mut text = self.text.clone();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
        text += &block.text()?;
        let config = self.checked(&text)?;
        let mut expected = self.table(&self.text)?;
        sources(&mut expected)?.push(block.value());
        self.same(&expected, &text)?;
        Ok((text, config))
    }

    /// The text without a source.
    pub(super) fn without(&self, name: &str) -> anyhow::Result<String> {
        let mut expected = self.table(&self.text)?;
        let all = sources(&mut expected)?;
        let named = |source: &Value| source.get("name").and_then(Value::as_str) == Some(name);
        let index = all.iter().position(named).ok_or_else(|| {
            CliError::new(
                "sources.not_found",
                Exit::NotFound,
                format!("{} has no source '{name}'", self.path.display()),
            )
        })?;
        all.remove(index);
        if all.is_empty() {
            expected.remove("source");
        }
        let text = cut(&self.text, index).with_context(|| by_hand(&self.path))?;
        self.checked(&text)?;
        self.same(&expected, &text)?;
        Ok(text)
    }

    /// Replaces the file by a rename, so that a failed write leaves the old file intact.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.path.canonicalize().unwrap_or(self.path.clone());
        let draft = path.with_extension("toml.draft");
        let put = || {
            std::fs::write(&draft, text)?;
            std::fs::set_permissions(&draft, std::fs::metadata(&path)?.permissions())?;
            std::fs::rename(&draft, &path)
        };
        put().with_context(|| format!("write {}", path.display()))
    }

    fn checked(&self, text: &str) -> Result<Config, CliError> {
        Config::parse(text).map_err(|error| {
            CliError::new(
                "sources.invalid",
                Exit::No,
                format!("{} would be invalid: {error:#}", self.path.display()),
            )
            .note("nothing was written")
        })
    }

    fn table(&self, text: &str) -> anyhow::Result<Table> {
        let table = toml::from_str(text);
        table.map_err(|error| anyhow!("read {}: {}", self.path.display(), refusal(&error, text)))
    }

    fn same(&self, expected: &Table, text: &str) -> anyhow::Result<()> {
        let said = self.table(text)?;
        ensure!(said == *expected, by_hand(&self.path));
        Ok(())
    }
}

impl Block<'_> {
    fn text(&self) -> anyhow::Result<String> {
        let line = |name: &str, value: &str| {
            Ok::<_, anyhow::Error>(format!("{name} = {}\n", quoted(value)?))
        };
        let mut text = "[[source]]\n".to_owned();
        text += &line("name", self.name)?;
        text += &line("preset", self.preset)?;
        if let Some(variant) = self.variant {
            text += &line("variant", variant)?;
        }
        if let Some(store) = self.secret_store {
            text += &line("secret_store", store)?;
        }
        if !self.params.is_empty() {
            let params = self.params.iter();
            let params =
                params.map(|(name, value)| Ok(format!("{} = {}", quoted(name)?, quoted(value)?)));
            let params: Vec<String> = params.collect::<anyhow::Result<_>>()?;
            let _ = writeln!(text, "params = {{ {} }}", params.join(", "));
        }
        text += "[[source.action]]\nkind = \"keep\"\n";
        Ok(text)
    }

    fn value(&self) -> Value {
        let text = |text: &str| Value::String(text.to_owned());
        let keep: Table = [("kind".to_owned(), text("keep"))].into_iter().collect();
        let mut source: Table = [
            ("name".to_owned(), text(self.name)),
            ("preset".to_owned(), text(self.preset)),
            ("action".to_owned(), Value::Array(vec![Value::Table(keep)])),
        ]
        .into_iter()
        .collect();
        if let Some(variant) = self.variant {
            source.insert("variant".to_owned(), text(variant));
        }
        if let Some(store) = self.secret_store {
            source.insert("secret_store".to_owned(), text(store));
        }
        if !self.params.is_empty() {
            let params = self.params.iter();
            let params = params.map(|(name, value)| ((*name).to_owned(), text(value)));
            source.insert("params".to_owned(), Value::Table(params.collect()));
        }
        Value::Table(source)
    }
}

/// A TOML string. JSON escapes strings the same way, except for a character that no setting needs.
/// <https://toml.io/en/v1.0.0#string>
fn quoted(text: &str) -> anyhow::Result<String> {
    serde_json::to_string(text).context("quote a string")
}

fn sources(table: &mut Table) -> anyhow::Result<&mut Vec<Value>> {
    table
        .entry("source")
        .or_insert_with(|| Value::Array(Vec::new()))
        .as_array_mut()
        .context("`source` is not a list")
}

/// Removes the lines of a source: from the comment right above its header to its last line that is
/// neither blank nor a comment. Later comments belong to the next block.
fn cut(text: &str, index: usize) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut heads = lines.iter().enumerate().filter(|(_, line)| is_head(line));
    let (head, _) = heads.nth(index)?;
    let own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let below = lines.get(head + 1..)?;
    let length = below.iter().position(|line| begins_other(line));
    let block = below.get(..length.unwrap_or(below.len()))?;
    let last = block.iter().rposition(own).map_or(head, |at| head + 1 + at);
    let above = lines.get(..head)?;
    let comments = above.iter().rev();
    let comments = comments.take_while(|line| line.trim_start().starts_with('#'));
    let mut first = head - comments.count();
    // Keeps one of the blank lines around the source.
    let blank = |at: usize| lines.get(at).is_none_or(|line| line.trim().is_empty());
    if first > 0 && blank(first - 1) && blank(last + 1) {
        first -= 1;
    }
    let rest = lines.get(..first)?.iter().chain(lines.get(last + 1..)?);
    Some(rest.copied().collect())
}

fn is_head(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default();
    let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    bare == "[[source]]"
}

/// Whether a line begins a table that does not belong to the same source.
fn begins_other(line: &str) -> bool {
    let line = line.trim_start();
    let bare: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    line.starts_with('[') && !bare.starts_with("[source.") && !bare.starts_with("[[source.")
}

fn by_hand(path: &Path) -> CliError {
    CliError::new(
        "sources.by_hand",
        Exit::Refused,
        format!(
            "the CLI cannot edit {} without losing content; nothing was written",
            path.display()
        ),
    )
    .tip("edit the file by hand, then run `webhookctl sources check`")
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
