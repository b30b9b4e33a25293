//! Selects the inbox of a command. The order of precedence is: flags, environment, project file,
//! user file.

use std::path::PathBuf;

use shared::aws::{Aws, CallPolicy, https};
use shared::base::env::env_var;

use super::credentials::{Operator, Profile, region_of_profile};
use super::file::{Context, Contexts};
use super::{FILE, Local, Names, TargetOptions};
use crate::output::CliError;
use crate::output::aws::Place;

/// The inbox that the options and the files select.
#[derive(Debug, Clone)]
pub enum Chosen {
    /// The running `dev`.
    Local(Box<Local>),
    Deployed(Box<Deployed>),
}

/// A deployment, and how to reach it.
#[derive(Debug, Clone)]
pub struct Deployed {
    /// The name of the context, or of the table if there is no context.
    pub name: String,
    pub names: Names,
    pub stack: Option<String>,
    pub region: Option<String>,
    /// The Region of the context, if the environment or a flag overrides it.
    pub other_region: Option<String>,
    pub profile: Option<Profile>,
    pub endpoint_url: Option<String>,
    /// The AWS account that the context expects.
    pub account: Option<String>,
    pub sources: Option<PathBuf>,
    pub protected: bool,
    pub read_only: bool,
}

impl Chosen {
    pub fn find(target: &TargetOptions) -> anyhow::Result<Self> {
        if target.context.as_deref() == Some("local") {
            return match Local::find()? {
                Some(local) => Ok(Self::Local(Box::new(local))),
                None => Err(no_local("no local stack is running in this folder").into()),
            };
        }
        let contexts = Contexts::read()?;
        let named = match (&target.context, &target.table) {
            (Some(name), _) => Some(name),
            (None, Some(_)) => None,
            (None, None) => contexts.default.as_ref(),
        };
        if named.is_some_and(|name| name == "local") || named.is_none() && target.table.is_none() {
            return match Local::find()? {
                Some(local) => Ok(Self::Local(Box::new(local))),
                None => Err(nothing(&contexts).into()),
            };
        }
        let context = match named {
            Some(name) => Some((name.as_str(), contexts.get(name)?)),
            None => None,
        };
        let deployed = Deployed::of(context, target, &contexts)?;
        Ok(Self::Deployed(Box::new(deployed)))
    }

    /// Returns whether the options or the files select an inbox other than a local `dev`.
    pub fn is_named(target: &TargetOptions) -> anyhow::Result<bool> {
        if target.context.is_some() || target.table.is_some() {
            return Ok(true);
        }
        let default = Contexts::read()?.default;
        Ok(default.is_some_and(|name| name != "local"))
    }
}

impl Deployed {
    fn of(
        context: Option<(&str, &Context)>,
        target: &TargetOptions,
        contexts: &Contexts,
    ) -> Result<Self, CliError> {
        let nothing = Context::default();
        let (name, said) = context.unwrap_or(("", &nothing));
        let given = Names {
            table: target.table.clone(),
            ..Names::default()
        };
        if let (Some(given), Some(its)) = (&given.table, &said.names.table)
            && given != its
        {
            let message =
                format!("context {name} has the table {its}, but --table or MITT_TABLE is {given}");
            return Err(CliError::usage("context.two_tables", message)
                .tip("unset MITT_TABLE, or leave out --table"));
        }
        let names = given.or(&said.names);
        let Some(table) = names.table.clone() else {
            let message = format!("context {name} does not name its table");
            let error = CliError::usage("context.no_names", message);
            return Err(match &said.stack {
                Some(stack) => error
                    .note(format!("its stack {stack} has the resource names"))
                    .tip(format!("webhookctl context add {name} --refresh")),
                None => error.tip(format!("webhookctl context add {name} --stack STACK")),
            });
        };
        let profile = profile(target, said);
        let region = region(target, said, profile.as_ref());
        let of_table = contexts.protects(&table, region.as_deref().unwrap_or_default());
        Ok(Self {
            name: if name.is_empty() {
                table
            } else {
                name.to_owned()
            },
            names,
            stack: said.stack.clone(),
            other_region: said
                .region
                .clone()
                .filter(|its| Some(its) != region.as_ref()),
            region,
            profile,
            endpoint_url: target.endpoint_url.clone(),
            account: said.account.clone(),
            sources: said.sources.clone(),
            protected: said.protected || of_table,
            read_only: said.read_only,
        })
    }

    /// Returns the AWS configuration. Sends no request.
    pub fn aws(&self, patience: CallPolicy) -> Result<Aws, CliError> {
        aws(
            &self.name,
            self.region.clone(),
            self.profile.clone(),
            self.endpoint_url.clone(),
            patience,
        )
    }

    /// Returns the target of the requests, for error messages.
    pub fn place(&self) -> Place {
        Place {
            context: Some(self.name.clone()),
            region: self.region.clone(),
            table: self.names.table.clone(),
            endpoint_url: self.endpoint_url.clone(),
            other_region: self.other_region.clone(),
        }
    }
}

/// Returns the AWS configuration for a context that may not exist yet.
pub(super) fn aws(
    context: &str,
    region: Option<String>,
    profile: Option<Profile>,
    endpoint_url: Option<String>,
    patience: CallPolicy,
) -> Result<Aws, CliError> {
    let Some(region) = region else {
        let error = CliError::usage("usage.region", "the AWS Region is not set");
        return Err(error.tip("pass --region REGION, or set AWS_REGION"));
    };
    let nobody = aws_credential_types::Credentials::new("", "", None, None, "none");
    let operator = Operator {
        context: context.to_owned(),
        profile,
        region: region.clone(),
    };
    let aws = Aws::over(https(), region, nobody, endpoint_url, patience);
    Ok(aws.acting_as(operator.credentials()))
}

/// Returns the profile of the flag. Without the flag, returns the profile of the context, unless
/// the environment names one.
pub(super) fn profile(target: &TargetOptions, said: &Context) -> Option<Profile> {
    let by_flag = target.profile.clone().map(Profile::Flag);
    by_flag.or_else(|| {
        let environment = env_var("AWS_PROFILE").is_some();
        let its = said.profile.clone().filter(|_| !environment);
        its.map(Profile::Context)
    })
}

pub(super) fn region(
    target: &TargetOptions,
    said: &Context,
    profile: Option<&Profile>,
) -> Option<String> {
    let nearer = target.region.clone().or_else(|| said.region.clone());
    let nearer = nearer.or_else(|| env_var("AWS_DEFAULT_REGION"));
    nearer.or_else(|| region_of_profile(profile.map(Profile::name)))
}

fn no_local(message: &str) -> CliError {
    CliError::failed("context.none", message)
        .note(format!("checked: --table, MITT_TABLE, {FILE}"))
        .tip("webhookctl dev")
}

fn nothing(contexts: &Contexts) -> CliError {
    let error = no_local("no inbox is selected, and no local stack is running in this folder");
    let known: Vec<&str> = contexts.all.keys().map(String::as_str).collect();
    if known.is_empty() {
        return error.tip("run webhookctl dev, or webhookctl context add NAME --stack STACK");
    }
    error.tip(format!("pass -c NAME, one of: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn target(arguments: &[&str]) -> TargetOptions {
        let line = [&["webhookctl"], arguments, &["inbox", "list"]].concat();
        let mut target = Cli::try_parse_from(line).unwrap().global.target;
        // The environment of the test process can also set these options.
        for (option, value) in [
            ("--table", &mut target.table),
            ("--region", &mut target.region),
            ("--endpoint-url", &mut target.endpoint_url),
        ] {
            value.take_if(|_| !arguments.contains(&option));
        }
        target
    }

    fn prod() -> Context {
        Context {
            names: Names {
                table: Some("mitt-prod".to_owned()),
                ..Names::default()
            },
            region: Some("eu-west-1".to_owned()),
            profile: Some("oncall".to_owned()),
            protected: true,
            ..Context::default()
        }
    }

    fn chosen(arguments: &[&str]) -> Result<Deployed, CliError> {
        Deployed::of(
            Some(("prod", &prod())),
            &target(arguments),
            &Contexts::default(),
        )
    }

    #[test]
    fn a_flag_comes_before_what_the_context_says() {
        let said = chosen(&[]).unwrap();
        assert_eq!(said.region.as_deref(), Some("eu-west-1"));
        assert_eq!(said.other_region, None);
        assert!(said.protected);
        let given = chosen(&["--region", "eu-central-1", "--profile", "me"]).unwrap();
        assert_eq!(given.region.as_deref(), Some("eu-central-1"));
        assert_eq!(given.other_region.as_deref(), Some("eu-west-1"));
        assert_eq!(given.profile, Some(Profile::Flag("me".to_owned())));
        assert!(given.protected, "still");
    }

    #[test]
    fn two_tables_are_not_one_context() {
        let error = chosen(&["--table", "mitt-staging"]).unwrap_err();
        assert_eq!(error.code, "context.two_tables");
        assert!(chosen(&["--table", "mitt-prod"]).is_ok());
    }

    #[test]
    fn a_stack_that_nobody_asked_yet_says_what_to_do() {
        let context = Context {
            stack: Some("mitt-prod".to_owned()),
            ..Context::default()
        };
        let error = Deployed::of(Some(("prod", &context)), &target(&[]), &Contexts::default());
        let tip = error.unwrap_err().tip.unwrap();
        assert_eq!(tip.as_ref(), "webhookctl context add prod --refresh");
    }

    #[test]
    fn the_table_of_a_protected_context_is_protected_by_any_name() {
        let mut contexts = Contexts::default();
        contexts.all.insert("prod".to_owned(), prod());
        let bare = target(&["--table", "mitt-prod", "--region", "eu-west-1"]);
        assert!(Deployed::of(None, &bare, &contexts).unwrap().protected);
        let other = target(&["--table", "mitt-staging", "--region", "eu-west-1"]);
        assert!(!Deployed::of(None, &other, &contexts).unwrap().protected);
    }
}
