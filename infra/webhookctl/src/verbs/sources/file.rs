//! The sources file, changed by one source and by nothing else.
//!
//! Text is added or cut out, so that comments and order stay. What came of it is read again and
//! compared: it must say what the file said, and the one source more or less.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use shared::base::toml_error::refusal;
use shared::sources::Config;
use toml::{Table, Value};

use crate::output::{CliError, Exit};
use crate::target::Local;

/// Where the sources are in a checkout.
const USUAL: &str = "infra/sources.toml";

/// A sources file as it was read.
pub(super) struct SourcesFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A source that is to be added.
pub(super) struct Block<'b> {
    pub(super) name: &'b str,
    pub(super) preset: &'b str,
    pub(super) variant: Option<&'b str>,
    pub(super) params: Vec<(&'b str, &'b str)>,
    /// What the file says of where the secret is kept.
    pub(super) secret_store: Option<&'b str>,
}

impl SourcesFile {
    /// The file that is named, the one that the running `dev` reads, or that of the checkout.
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
            .tip("run it where the sources are, or name them: --file FILE")
        })?;
        Ok(Self { path, text })
    }

    /// The text with one source more, and what it says.
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

    /// Puts another text in its place, whole or not at all.
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
                format!("{} would be refused: {error:#}", self.path.display()),
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

/// A string of TOML: JSON writes the same, but for a character that no setting needs.
/// <https://toml.io/en/v1.0.0#string>
fn quoted(text: &str) -> anyhow::Result<String> {
    serde_json::to_string(text).context("write a string")
}

fn sources(table: &mut Table) -> anyhow::Result<&mut Vec<Value>> {
    table
        .entry("source")
        .or_insert_with(|| Value::Array(Vec::new()))
        .as_array_mut()
        .context("`source` is no list")
}

/// Without the lines of a source: from its head, and the comment right above, to the last line of
/// its own. What is written below that belongs to what follows.
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
    // Of the blank lines around it one is left.
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

/// Whether a line begins what is not of the same source.
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
            "{} is written in a way that cannot be changed here; nothing was written",
            path.display()
        ),
    )
    .tip("change it by hand, and webhookctl sources check")
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
        let error = result.err().expect("it is refused");
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
        // What stood there is as it was when it is taken out again.
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
