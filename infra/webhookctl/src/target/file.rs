//! Reads the context files of the user and of the project. A project file can add contexts and
//! protect them, but it cannot remove protection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use etcetera::BaseStrategy as _;
use serde::Deserialize;
use shared::base::env::env_var;
use shared::base::toml_error::refusal;

use super::Names;
use crate::output::CliError;

/// The name of the context file in the folder of a project.
const PROJECT: &str = ".webhookctl.toml";

/// The contents of all context files.
#[derive(Debug, Default)]
pub struct Contexts {
    /// The context that is used if none is selected.
    pub default: Option<String>,
    pub all: BTreeMap<String, Context>,
    /// The file for new contexts; it may not exist yet.
    user_file: Option<PathBuf>,
    /// The files that were read.
    pub read: Vec<PathBuf>,
}

/// A named deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    pub names: Names,
    pub stack: Option<String>,
    pub region: Option<String>,
    pub profile: Option<String>,
    /// Its AWS account.
    pub account: Option<String>,
    /// Its sources file, if it does not use the built-in one.
    pub sources: Option<PathBuf>,
    /// Whether the operator must confirm the number of rejected requests before a command accepts
    /// them. A replay needs a confirmation in every context.
    pub protected: bool,
    /// Whether commands refuse all changes.
    pub read_only: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: Option<String>,
    #[serde(default)]
    context: BTreeMap<String, FileContext>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FileContext {
    stack: Option<String>,
    region: Option<String>,
    profile: Option<String>,
    account: Option<String>,
    sources: Option<PathBuf>,
    protected: bool,
    read_only: bool,
    // Each name is a field here, because `flatten` would accept unknown keys.
    url: Option<String>,
    table: Option<String>,
    bucket: Option<String>,
    queue_url: Option<String>,
    backlog_queue_url: Option<String>,
    long_queue_url: Option<String>,
    work_dead_letters_url: Option<String>,
    spill_queue_url: Option<String>,
    ops_dead_letters_url: Option<String>,
    secrets_path: Option<String>,
    secrets_manager_prefix: Option<String>,
    catcher: Option<String>,
    processor: Option<String>,
    long_processor: Option<String>,
    backup_sync: Option<String>,
    version: Option<String>,
}

impl Contexts {
    /// Reads the file of this user, and the file of the project that contains this folder.
    pub fn read() -> anyhow::Result<Self> {
        // Without a home folder there is no user file.
        let at_home = || {
            let home = etcetera::base_strategy::Xdg::new().ok()?;
            Some(home.config_dir().join("webhookctl/config.toml"))
        };
        let given = env_var("WEBHOOKCTL_CONFIG").map(PathBuf::from);
        let user = given.or_else(at_home);
        let here = std::env::current_dir().context("find the current folder")?;
        let project = here
            .ancestors()
            .map(|folder| folder.join(PROJECT))
            .find(|file| file.exists());
        Self::of(user, project)
    }

    fn of(user: Option<PathBuf>, project: Option<PathBuf>) -> anyhow::Result<Self> {
        let mut contexts = Self {
            user_file: user.clone(),
            ..Self::default()
        };
        for path in project.into_iter().chain(user) {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            };
            contexts.add(&text, &path)?;
            contexts.read.push(path);
        }
        Ok(contexts)
    }

    /// Adds the settings of a file. Settings of files that were read earlier take precedence.
    fn add(&mut self, text: &str, path: &Path) -> Result<(), CliError> {
        let file: File = toml::from_str(text).map_err(|error| refused(&error, text, path))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        self.default = self.default.take().or(file.default);
        for (name, context) in file.context {
            check_name(&name).map_err(|error| unnamed(error, &name, text, path))?;
            let below = context.read(folder);
            let merged = match self.all.remove(&name) {
                Some(above) => above.over(below),
                None => below,
            };
            self.all.insert(name, merged);
        }
        Ok(())
    }

    /// Returns the file for new contexts.
    pub(crate) fn user_file(&self) -> Result<&Path, CliError> {
        self.user_file.as_deref().ok_or_else(|| {
            CliError::usage(
                "context.no_home",
                "there is no home folder for the context file",
            )
            .tip("set WEBHOOKCTL_CONFIG to the path of a file")
        })
    }

    /// Returns the context of this name.
    pub fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.all.get(name).ok_or_else(|| self.unknown(name))
    }

    /// Returns whether a context can have this name.
    pub(crate) fn check_new_name(name: &str) -> Result<(), CliError> {
        check_name(name)
    }

    fn unknown(&self, name: &str) -> CliError {
        let mut known: Vec<&str> = self.all.keys().map(String::as_str).collect();
        known.push("local");
        if self.default.as_deref() == Some(name) {
            // The value may be a key, so the error message does not contain it.
            let message = "the default context of the file does not exist";
            return CliError::usage("context.unknown", message)
                .note(format!("contexts: {}", known.join(", ")))
                .tip("webhookctl context use NAME");
        }
        let message = format!("unknown context '{name}'");
        CliError::usage("context.unknown", message)
            .note(format!("contexts: {}", known.join(", ")))
            .tip(format!(
                "webhookctl context add {name} --stack STACK --region REGION"
            ))
            .did_you_mean(name, known)
    }

    /// Returns whether the table belongs to a protected context. A command can also select the
    /// table without this context.
    pub fn protects(&self, table: &str, region: &str) -> bool {
        self.all.values().any(|context| {
            context.protected
                && context.names.table.as_deref() == Some(table)
                && context.region.as_deref().is_none_or(|its| its == region)
        })
    }
}

impl FileContext {
    fn read(self, folder: &Path) -> Context {
        Context {
            names: Names {
                url: self.url,
                table: self.table,
                bucket: self.bucket,
                queue_url: self.queue_url,
                backlog_queue_url: self.backlog_queue_url,
                long_queue_url: self.long_queue_url,
                work_dead_letters_url: self.work_dead_letters_url,
                spill_queue_url: self.spill_queue_url,
                ops_dead_letters_url: self.ops_dead_letters_url,
                secrets_path: self.secrets_path,
                secrets_manager_prefix: self.secrets_manager_prefix,
                catcher: self.catcher,
                processor: self.processor,
                long_processor: self.long_processor,
                backup_sync: self.backup_sync,
                version: self.version,
            }
            .without_empty(),
            stack: self.stack,
            region: self.region,
            profile: self.profile,
            account: self.account,
            sources: self.sources.map(|file| folder.join(file)),
            protected: self.protected,
            read_only: self.read_only,
        }
    }
}

impl Context {
    /// Merges two contexts. The values of `self` take precedence. The result is protected if one of
    /// the contexts is protected.
    fn over(self, below: Self) -> Self {
        Self {
            names: self.names.or(&below.names),
            stack: self.stack.or(below.stack),
            region: self.region.or(below.region),
            profile: self.profile.or(below.profile),
            account: self.account.or(below.account),
            sources: self.sources.or(below.sources),
            protected: self.protected || below.protected,
            read_only: self.read_only || below.read_only,
        }
    }
}

/// Accepts only names that need no quotes in TOML or a shell.
fn check_name(name: &str) -> Result<(), CliError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name == "local" {
        let message = "`local` is reserved for the running dev";
        return Err(CliError::usage("context.name", message));
    }
    if name.is_empty() || !name.chars().all(legal) {
        // The name may be a key that was pasted to the wrong place, so the error message does not
        // contain it.
        let message = "invalid context name";
        let error = CliError::usage("context.name", message);
        return Err(error.tip("use letters, digits, - and _"));
    }
    Ok(())
}

/// Returns an error with the position in the file.
fn unnamed(error: CliError, name: &str, text: &str, path: &Path) -> CliError {
    let line = text.lines().position(|line| line.contains(name));
    let place = path.display();
    error.note(match line {
        Some(line) => format!("{place}, line {}", line + 1),
        None => place.to_string(),
    })
}

/// Returns the error of a TOML file: the line, the cause, and a suggestion.
fn refused(error: &toml::de::Error, text: &str, path: &Path) -> CliError {
    let place = path.display();
    let why = refusal(error, text);
    let message = match error.span() {
        Some(_) => format!("{place}, {why}"),
        None => format!("{place}: {why}"),
    };
    let said = error.message();
    let ours = CliError::usage("context.file", message);
    // The message has the form "unknown field `regoin`, expected one of `stack`, `region`, …".
    let mut quoted = said.split('`').skip(1).step_by(2);
    match (said.starts_with("unknown field"), quoted.next()) {
        (true, Some(wrong)) => ours.did_you_mean(wrong, quoted),
        _ => ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    const USER: &str = r#"
default = "prod"
[context.prod]
stack = "mitt-prod"
region = "eu-west-1"
profile = "prod-oncall"
protected = true
table = "mitt-prod-Inbox-1ABC"
"#;

    fn both(project: &str) -> Contexts {
        let mut contexts = Contexts::default();
        contexts
            .add(project, Path::new("/project/.webhookctl.toml"))
            .unwrap();
        contexts.add(USER, Path::new("/home/config.toml")).unwrap();
        contexts
    }

    #[test]
    fn the_project_comes_before_the_user() {
        let contexts = both(
            "default = \"staging\"\n[context.prod]\nprofile = \"me\"\nsources = \"sources.toml\"\n\
             [context.staging]\nstack = \"mitt-staging\"\n",
        );
        assert_eq!(contexts.default.as_deref(), Some("staging"));
        let prod = contexts.get("prod").unwrap();
        assert_eq!(prod.profile.as_deref(), Some("me"));
        assert_eq!(prod.region.as_deref(), Some("eu-west-1"));
        assert_eq!(
            prod.sources.as_deref(),
            Some(Path::new("/project/sources.toml"))
        );
    }

    #[test]
    fn the_project_cannot_undo_protection() {
        let contexts = both("[context.prod]\nprotected = false\nread_only = false\n");
        assert!(contexts.get("prod").unwrap().protected);
        // A second context for the same table does not remove its protection.
        let aside = both("[context.aside]\ntable = \"mitt-prod-Inbox-1ABC\"\n");
        assert!(aside.protects("mitt-prod-Inbox-1ABC", "eu-west-1"));
        assert!(!aside.protects("mitt-prod-Inbox-1ABC", "us-east-1"));
        assert!(!aside.protects("mitt-staging-Inbox-2", "eu-west-1"));
    }

    #[test]
    fn the_project_can_protect() {
        let contexts = both("[context.prod]\nread_only = true\n");
        assert!(contexts.get("prod").unwrap().read_only);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let text = "[context.prod]\nstack = \"a\"\nregoin = \"eu-west-1\"\n";
        let error = Contexts::default()
            .add(text, Path::new("c.toml"))
            .unwrap_err();
        assert!(error.message.starts_with("c.toml, line 3: "), "{error}");
        assert!(error.message.contains("regoin"), "{error}");
        assert_eq!(error.tip.as_deref(), Some("did you mean 'region'?"));
        assert_eq!(error.exit, crate::output::Exit::Usage);
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_repeated() {
        const KEY: &str = "sk_live_51H8xQzR+x/y";
        for (text, place) in [
            (
                "[context.prod]\nprotected = \"KEY\"\n",
                "line 2: protected: ",
            ),
            ("[context.prod]\nstack = KEY\n", "line 2: stack: "),
            ("[context.prod]\n\"KEY\" = true\n", "line 2: "),
            ("[context.prod]\nKEY\n", "line 2: "),
            ("[context.\"KEY\"]\nstack = \"a\"\n", "c.toml, line 1"),
        ] {
            let text = text.replace("KEY", KEY);
            let added = Contexts::default().add(&text, Path::new("c.toml"));
            let told = added.unwrap_err().render(Format::Json, false);
            assert!(!told.contains("51H8"), "{text}: {told}");
            assert!(told.contains(place), "{text}: {told}");
        }
        let contexts = both(&format!("default = \"{KEY}\"\n"));
        let told = contexts.get(KEY).unwrap_err().render(Format::Json, false);
        assert!(!told.contains("51H8"), "{told}");
        assert!(told.contains("contexts: prod, local"), "{told}");
    }

    #[test]
    fn an_unknown_context_is_answered_with_the_known_ones() {
        let contexts = both("");
        let error = contexts.get("prdo").unwrap_err();
        assert_eq!(error.tip.as_deref(), Some("did you mean 'prod'?"));
        assert_eq!(error.note.as_deref(), Some("contexts: prod, local"));
        for name in ["local", "", "a b", "a.b"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
