//! Creates the AWS clients that only some commands need.

use std::sync::LazyLock;

use anyhow::{Context as _, ensure};
use aws_credential_types::Credentials;
use local::Clients;
use local::names::{ACCESS_KEY, REGION, SECRET_KEY};
use shared::aws::secrets::{Managed, Secrets};
use shared::aws::{Aws, CallPolicy};
use shared::base::env::env_var;
use shared::inbox::Inbox as Door;
use shared::inbox::ledger::Ledger;
use shared::inbox::queue::Queue;

use super::file::{Context, Contexts};
use super::{Chosen, Deployment, Local, ManagedSecret, Names, TargetOptions, resolve};
use crate::meter;
use crate::output::CliError;

/// Returns the AWS configuration for the inbox that the options select.
pub fn aws(target: &TargetOptions, patience: CallPolicy) -> anyhow::Result<Aws> {
    if let Ok(Chosen::Deployed(deployed)) = Chosen::find(target) {
        return Ok(deployed.aws(patience)?);
    }
    Ok(aws_for("none", &Context::default(), target, patience)?)
}

/// Returns the AWS configuration for a context that may not be stored yet.
pub(super) fn aws_for(
    name: &str,
    context: &Context,
    target: &TargetOptions,
    patience: CallPolicy,
) -> Result<Aws, CliError> {
    let profile = resolve::profile(target, context);
    let region = resolve::region(target, context, profile.as_ref());
    resolve::aws(name, region, profile, target.endpoint_url.clone(), patience)
}

impl Deployment {
    /// Returns the names of the inbox's resources.
    pub fn names(&self) -> &Names {
        match (&self.local, &self.deployed) {
            (Some(local), _) => &local.names,
            (None, Some(deployed)) => &deployed.names,
            (None, None) => &NO_NAMES,
        }
    }

    pub fn dynamodb(&self) -> anyhow::Result<aws_sdk_dynamodb::Client> {
        let client = self.client(|clients| clients.dynamodb, Aws::dynamodb)?;
        Ok(meter::dynamodb(&client))
    }

    pub fn sqs(&self) -> anyhow::Result<aws_sdk_sqs::Client> {
        let client = self.client(|clients| clients.sqs, Aws::sqs)?;
        Ok(meter::sqs(&client))
    }

    pub fn ssm(&self) -> anyhow::Result<aws_sdk_ssm::Client> {
        let client = self.client(|clients| clients.ssm, Aws::ssm)?;
        Ok(meter::ssm(&client))
    }

    pub fn s3(&self) -> anyhow::Result<aws_sdk_s3::Client> {
        let client = self.client(|clients| clients.s3, Aws::s3)?;
        Ok(meter::s3(&client))
    }

    /// Returns a Lambda client with the timeouts of `patience`.
    pub fn lambda(&self, patience: CallPolicy) -> anyhow::Result<aws_sdk_lambda::Client> {
        let aws = match &self.local {
            None => self.aws(patience)?,
            Some(local) => local.aws(local.lambda.as_deref().unwrap_or_default(), patience)?,
        };
        Ok(aws_sdk_lambda::Client::new(&aws.sdk_config("LAMBDA")))
    }

    /// Returns the AWS configuration of a deployment. Returns an error for the local stack.
    pub fn aws(&self, patience: CallPolicy) -> anyhow::Result<Aws> {
        let deployed = self.deployed.as_ref();
        let deployed =
            deployed.context("the local stack is not in AWS; select a deployment with -c NAME")?;
        Ok(deployed.aws(patience)?)
    }

    /// Returns the secrets of one kind: `ingress`, `egress` or `provider-api`.
    pub fn secrets(&self, kind: &str) -> anyhow::Result<Secrets> {
        let path = self
            .names()
            .secrets(kind)
            .ok_or_else(|| self.unnamed("secrets_path", "SecretsPath", "the secrets path"))?;
        let secrets = Secrets::new(self.ssm()?, path);
        Ok(if kind == "ingress" {
            secrets.with_managed(self.managed())
        } else {
            secrets
        })
    }

    /// Returns the secrets of sources that are stored in Secrets Manager.
    pub fn managed(&self) -> Managed {
        let prefix = self.names().secrets_manager_prefix.as_deref();
        Managed::new(self.config.managed_secrets(), prefix)
    }

    /// Returns the secret of this name in Secrets Manager, for commands that change it.
    pub fn managed_secret(&self, id: String) -> anyhow::Result<ManagedSecret> {
        let aws = match &self.local {
            None => self.aws(CallPolicy::LONG)?,
            Some(local) => local.aws(&local.secrets_manager, CallPolicy::LONG)?,
        };
        Ok(ManagedSecret::new(&aws, id))
    }

    /// Returns the ledger of a deployment with another bucket for large bodies.
    pub fn ledger_with(&self, bucket: &str) -> anyhow::Result<Ledger> {
        let table = self.names().table.clone().unwrap_or_default();
        let bodies = Some((self.s3()?, bucket.to_owned()));
        Ok(Ledger::new(self.dynamodb()?, table, bodies).with_sources(&self.config))
    }

    /// Returns the work queue.
    pub fn queue(&self) -> anyhow::Result<Queue> {
        let names = self.names();
        let url = names.queue_url.as_deref();
        let url = url.ok_or_else(|| self.unnamed("queue_url", "QueueUrl", "the work queue"))?;
        let queue = Queue::new(self.sqs()?, url);
        Ok(queue.with_backlog(names.backlog_queue_url.clone()))
    }

    /// Returns the inbox for commands that add events to it.
    pub fn door(&self) -> anyhow::Result<Door> {
        if self.names().bucket.is_none() {
            return Err(self
                .unnamed("bucket", "BodyBucket", "the body bucket")
                .into());
        }
        Ok(Door {
            ledger: self.ledger.clone(),
            queue: self.queue()?,
        })
    }

    /// Returns whether the operator must confirm the number of rejected requests before a command
    /// accepts them. A replay needs a confirmation in every context.
    pub fn is_protected(&self) -> bool {
        self.deployed.as_ref().is_some_and(|it| it.protected)
    }

    /// Returns an error if the inbox is read-only. Every command that changes something calls this
    /// first. `what` is a verb phrase for the error message, after "cannot".
    pub fn may_write(&self, what: &str) -> Result<(), CliError> {
        let by_environment = env_var("WEBHOOKCTL_READ_ONLY").is_some_and(|it| it != "0");
        let by_context = self.deployed.as_ref().is_some_and(|it| it.read_only);
        let why = match (by_environment, by_context) {
            (false, false) => return Ok(()),
            (true, _) => "WEBHOOKCTL_READ_ONLY is set".to_owned(),
            (false, true) => format!("context {} has read_only = true", self.name),
        };
        let message = format!(
            "{} is read-only: cannot {what}; nothing was changed",
            self.name
        );
        let error = CliError::refused("context.read_only", message).note(why);
        Err(if by_environment {
            error.tip("unset WEBHOOKCTL_READ_ONLY")
        } else {
            error
        })
    }

    fn unnamed(&self, word: &str, output: &str, what: &str) -> CliError {
        let message = format!("{} does not name {what}", self.name);
        CliError::usage("context.no_names", message)
            .note(format!(
                "the name is `{word}` in the context, and output {output} of the stack"
            ))
            .tip("webhookctl context add NAME --stack STACK")
    }

    fn client<C>(
        &self,
        local: impl FnOnce(Clients) -> C,
        deployed: impl FnOnce(&Aws) -> C,
    ) -> anyhow::Result<C> {
        match &self.local {
            Some(stack) => Ok(local(stack.endpoints().clients())),
            None => Ok(deployed(&self.aws(CallPolicy::LONG)?)),
        }
    }
}

impl Local {
    /// Returns the AWS configuration for the emulated service at `url`.
    fn aws(&self, url: &str, patience: CallPolicy) -> anyhow::Result<Aws> {
        let pid = self.pid;
        ensure!(
            !url.is_empty(),
            "the running dev (pid {pid}) is an older version; restart it"
        );
        let keys = Credentials::from_keys(ACCESS_KEY, SECRET_KEY, None);
        let (region, url) = (REGION.to_owned(), Some(url.to_owned()));
        Ok(Aws::new(region, keys, url, patience))
    }
}

static NO_NAMES: LazyLock<Names> = LazyLock::new(Names::default);

impl Contexts {
    /// Returns the AWS configuration for the context of this name, which may be new.
    pub(crate) fn aws(&self, name: &str, target: &TargetOptions) -> Result<Aws, CliError> {
        let nothing = Context::default();
        let context = self.all.get(name).unwrap_or(&nothing);
        aws_for(name, context, target, CallPolicy::LONG)
    }
}
